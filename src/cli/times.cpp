// localtime(3) and gmtime(3), spelled as RFC 3339.
#include "cli/times.hpp"

#include <chrono>
#include <cstdlib>
#include <ctime>

#include <fmt/format.h>

namespace cli {

namespace {

std::string date_and_time(const std::tm& parts) {
  return fmt::format("{:04}-{:02}-{:02}T{:02}:{:02}:{:02}",
                     parts.tm_year + 1900,
                     parts.tm_mon + 1,
                     parts.tm_mday,
                     parts.tm_hour,
                     parts.tm_min,
                     parts.tm_sec);
}

}  // namespace

std::string local_time(core::WallTime time) {
  const std::time_t seconds = std::chrono::floor<std::chrono::seconds>(time).time_since_epoch().count();
  std::tm parts{};
  ::localtime_r(&seconds, &parts);
  const long minutes = std::labs(parts.tm_gmtoff) / 60;
  return fmt::format(
      "{}{}{:02}:{:02}", date_and_time(parts), parts.tm_gmtoff < 0 ? '-' : '+', minutes / 60, minutes % 60);
}

std::string utc_time(core::WallTime time) {
  const auto whole = std::chrono::floor<std::chrono::seconds>(time);
  const std::time_t seconds = whole.time_since_epoch().count();
  std::tm parts{};
  ::gmtime_r(&seconds, &parts);
  return fmt::format(
      "{}.{:03}Z", date_and_time(parts), std::chrono::floor<std::chrono::milliseconds>(time - whole).count());
}

std::int64_t epoch_millis(core::WallTime time) {
  return std::chrono::floor<std::chrono::milliseconds>(time).time_since_epoch().count();
}

}  // namespace cli
