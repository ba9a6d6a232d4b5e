// Time as lk counts it: the boot clock for every deadline, the wall clock only for people and across a reboot.
#pragma once

#include <chrono>
#include <string>

namespace core {

// CLOCK_BOOTTIME of the machine: it runs on while the machine sleeps and no clock step moves it.
struct BootTime {
  using duration = std::chrono::microseconds;
  using rep = duration::rep;
  using period = duration::period;
  using time_point = std::chrono::time_point<BootTime>;
  static constexpr bool is_steady = true;
};
using Instant = BootTime::time_point;
using WallTime = std::chrono::time_point<std::chrono::system_clock, std::chrono::microseconds>;

class Clock {
public:
  virtual ~Clock() = default;

  // The boot clock of this process and of those it starts. Inside a time namespace it is another one than outside.
  virtual Instant now() const = 0;
  // The machine's, whatever the time namespace: all processes of one kernel read the same time. For what is written
  // down for others; to find out costs a short command 1 % of its time.
  virtual Instant machine_now() const = 0;
  virtual WallTime wall() const = 0;
  // Names this boot of this kernel (/proc/sys/kernel/random/boot_id). Some container managers give each container
  // an id of its own, so two different ids alone do not prove a reboot.
  virtual const std::string& boot_id() const = 0;
};

}  // namespace core
