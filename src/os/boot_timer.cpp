// timerfd on CLOCK_BOOTTIME.
#include "os/boot_timer.hpp"

#include <sys/timerfd.h>

#include <algorithm>
#include <cerrno>
#include <ctime>
#include <system_error>

namespace os {

BootTimer::BootTimer() : m_fd(::timerfd_create(CLOCK_BOOTTIME, TFD_CLOEXEC | TFD_NONBLOCK)) {
  if (!m_fd) {
    throw std::system_error(errno, std::generic_category(), "timerfd_create");
  }
}

void BootTimer::set(std::chrono::microseconds after) {
  // Zero would stop the timer; more than a century would overflow time_t nowhere, but nobody waits for it.
  constexpr std::chrono::microseconds shortest{1};
  constexpr std::chrono::microseconds longest = std::chrono::hours(24 * 36500);
  const auto span = std::clamp(after, shortest, longest);
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(span);
  itimerspec time{};
  time.it_value.tv_sec = seconds.count();
  time.it_value.tv_nsec = std::chrono::nanoseconds(span - seconds).count();
  ::timerfd_settime(m_fd.get(), 0, &time, nullptr);
}

void BootTimer::stop() {
  const itimerspec never{};
  ::timerfd_settime(m_fd.get(), 0, &never, nullptr);
}

}  // namespace os
