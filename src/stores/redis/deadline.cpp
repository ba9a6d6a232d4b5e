// One poll.
#include "stores/redis/deadline.hpp"

#include <poll.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <climits>
#include <ctime>

namespace stores::redis {

core::Instant boot_now() noexcept {
  timespec now{};
  ::clock_gettime(CLOCK_BOOTTIME, &now);
  return core::Instant(std::chrono::duration_cast<core::BootTime::duration>(std::chrono::seconds(now.tv_sec) +
                                                                            std::chrono::nanoseconds(now.tv_nsec)));
}

std::string TimeLimit::text() const { return core::to_text(std::chrono::round<core::Millis>(ends - began)); }

Ready wait_for(int fd, short events, core::Instant until, int interrupt_fd) noexcept {
  while (true) {
    const auto left = std::chrono::ceil<core::Millis>(until - boot_now()).count();
    std::array<pollfd, 2> watched{{{fd, events, 0}, {interrupt_fd, POLLIN, 0}}};
    const int ready =
        ::poll(watched.data(), watched.size(), static_cast<int>(std::clamp<decltype(left)>(left, 0, INT_MAX)));
    if (ready < 0 && errno != EINTR) {
      return Ready::late;
    }
    if (ready > 0) {
      return watched[0].revents != 0 ? Ready::yes : Ready::interrupted;
    }
    if (ready == 0 && left <= 0) {
      return Ready::late;
    }
  }
}

}  // namespace stores::redis
