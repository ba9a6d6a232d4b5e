// The environment variables that lk reads.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace cli {

// An empty variable is there; a missing one is not.
std::optional<std::string> variable(const char* name);

// Whether LK_HELD, the owners of all execs that this process runs under, names this one.
bool held_by_ancestor(std::string_view owner);

}  // namespace cli
