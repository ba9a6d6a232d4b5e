// CLOCK_BOOTTIME without the offset of a time namespace, CLOCK_REALTIME, and the kernel's boot id.
#include "os/real_clock.hpp"

#include <cstdio>
#include <ctime>
#include <string_view>

#include "os/namespaces.hpp"
#include "os/small_file.hpp"

namespace os {

namespace {

template <class TimePoint>
TimePoint read(clockid_t id) {
  timespec time{};
  ::clock_gettime(id, &time);
  return TimePoint(std::chrono::duration_cast<std::chrono::microseconds>(std::chrono::seconds(time.tv_sec) +
                                                                         std::chrono::nanoseconds(time.tv_nsec)));
}

// /proc/self/timens_offsets (time_namespaces(7)): one line a clock, "boottime <seconds> <nanoseconds>". Seconds may be
// negative; nanoseconds never are. The file is missing where the kernel knows no time namespaces.
core::BootTime::duration time_namespace_offset() {
  if (is_in_first_time_namespace()) {
    return core::BootTime::duration{0};
  }
  char buffer[256];
  const std::string_view text = read_small_file("/proc/self/timens_offsets", buffer);
  const std::size_t at = text.find("boottime");
  long long seconds = 0;
  long nanoseconds = 0;
  if (at == std::string_view::npos || std::sscanf(text.data() + at, "boottime %lld %ld", &seconds, &nanoseconds) != 2) {
    return core::BootTime::duration{0};
  }
  return std::chrono::duration_cast<core::BootTime::duration>(std::chrono::seconds(seconds) +
                                                              std::chrono::nanoseconds(nanoseconds));
}

}  // namespace

core::Instant RealClock::now() const { return read<core::Instant>(CLOCK_BOOTTIME); }

core::Instant RealClock::machine_now() const {
  if (!m_offset_known) {
    m_offset = time_namespace_offset();
    m_offset_known = true;
  }
  return now() - m_offset;
}

core::WallTime RealClock::wall() const { return read<core::WallTime>(CLOCK_REALTIME); }

const std::string& RealClock::boot_id() const {
  if (m_boot_id.empty()) {
    char buffer[64];
    std::string_view id = read_small_file("/proc/sys/kernel/random/boot_id", buffer);
    id = id.substr(0, id.find('\n'));
    // Without /proc the derived boot instant (wall - boot clock) alone has to tell boots apart.
    m_boot_id = id.empty() ? "unknown" : id;
  }
  return m_boot_id;
}

}  // namespace os
