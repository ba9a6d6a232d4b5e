// Points in time as people and programs read them.
#pragma once

#include <cstdint>
#include <string>

#include "core/clock.hpp"

namespace cli {

// RFC 3339 in the zone of this machine, to the second: 2026-03-01T12:00:00+01:00.
std::string local_time(core::WallTime time);
// RFC 3339 in UTC, to the millisecond: 2026-03-01T11:00:00.000Z.
std::string utc_time(core::WallTime time);
std::int64_t epoch_millis(core::WallTime time);

}  // namespace cli
