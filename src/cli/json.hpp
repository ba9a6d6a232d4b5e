// The JSON that programs read. Names are stable; what is not known is null; times are RFC 3339 in UTC and milliseconds.
#pragma once

#include <string>
#include <vector>

#include "core/clock.hpp"
#include "core/store.hpp"

namespace cli {

// One object on one line.
std::string granted_json(const core::Claim& claim, core::Fence fence, core::Millis ttl, core::WallTime expires,
                         const std::string& store);

// An array, one lock on a line.
std::string status_json(const std::vector<core::LockState>& locks, core::WallTime now, const std::string& store);

// "held", "free", "promised" or "foreign".
const char* state_name(const core::LockState& lock);

}  // namespace cli
