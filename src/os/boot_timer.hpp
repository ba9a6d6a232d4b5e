// A timer on the boot clock as a descriptor: a sleep of the machine counts, so a deadline is noticed at once on resume.
#pragma once

#include <chrono>

#include "os/fd.hpp"

namespace os {

class BootTimer {
public:
  BootTimer();
  // Readable after this long (at once for zero and less), counted from now. Replaces the former time.
  void set(std::chrono::microseconds after);
  // Never readable until set again.
  void stop();
  int fd() const noexcept { return m_fd.get(); }

private:
  Fd m_fd;
};

}  // namespace os
