// A clock that moves only when a test moves it.
#pragma once

#include <string>

#include "core/clock.hpp"

namespace support {

class FakeClock : public core::Clock {
public:
  // As in a time namespace: who takes one clock for the other is hours wrong.
  core::Instant now() const override { return m_now + std::chrono::hours(77); }
  core::Instant machine_now() const override { return m_now; }
  core::WallTime wall() const override { return m_wall; }
  const std::string& boot_id() const override { return m_boot_id; }

  void advance(core::BootTime::duration by) {
    m_now += by;
    m_wall += by;
  }
  // Somebody sets the wall clock; the boot clock does not notice.
  void step_wall(core::BootTime::duration by) { m_wall += by; }
  // The machine is off for `off`, then starts again.
  void reboot(core::BootTime::duration off) {
    m_now = core::Instant(std::chrono::seconds(20));
    m_wall += off;
    m_boot_id += "'";
  }
  // As another container of the same machine sees it: some give each a boot id of its own.
  void enter_container() { m_boot_id += " in a container"; }

private:
  core::Instant m_now{std::chrono::hours(100)};
  core::WallTime m_wall{std::chrono::seconds(1'700'000'000)};
  std::string m_boot_id = "boot";
};

}  // namespace support
