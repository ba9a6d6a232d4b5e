// The reference store: the contract of core/store.hpp in the fewest lines, inside one process and gone with it.
#pragma once

#include <memory>

#include "core/clock.hpp"
#include "core/store.hpp"

namespace stores::memory {

// What a file or a server is for other stores: whoever shares it competes for the same locks.
class MemoryState;
// What the contract leaves to a store.
struct Ways {
  bool renews_expired = true;
  bool one_fence_for_all_keys = true;
};
std::shared_ptr<MemoryState> new_state(Ways ways = {});

// A store as one of several processes would open it. `clock` outlives it. Keepers are ignored, and grants end with the
// process whether durable or not.
std::unique_ptr<core::Store> open(std::shared_ptr<MemoryState> state, const core::Clock& clock);

}  // namespace stores::memory
