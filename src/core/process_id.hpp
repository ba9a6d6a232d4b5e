// One process of one boot, told from a later process that got the same pid.
#pragma once

#include <cstdint>

namespace core {

struct ProcessId {
  std::int64_t pid = 0;
  std::int64_t started = 0;  // clock ticks since boot: /proc/PID/stat, field 22
  friend bool operator==(const ProcessId&, const ProcessId&) = default;
};

}  // namespace core
