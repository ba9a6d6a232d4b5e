// What the contract suite needs of a store under test: fresh worlds, as many processes as it likes, and time that it
// can move.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "core/clock.hpp"
#include "core/store.hpp"

namespace contract {

// One empty store, seen by several processes.
class World {
public:
  virtual ~World() = default;

  // The store as one more process would open it; ends before the world.
  virtual std::unique_ptr<core::Store> open() = 0;
  virtual void advance(core::Millis by) = 0;
  // The store's own wall clock, as far as it can be read from here.
  virtual core::WallTime wall() const = 0;
  // Sets that wall clock, for stores whose clock obeys.
  virtual void step_wall(core::Millis by) = 0;
};

struct Bench {
  std::string name;
  std::function<std::unique_ptr<World>()> make;

  // What a second of the suite's stories takes: a real second with a fake clock, less where time has to be slept
  // through.
  core::Millis second{1000};
  // How late the store's clock may see what the suite's clock has seen.
  core::Millis slack{0};

  // What the contract leaves to the store.
  bool renews_expired = true;          // promise 7: an expired grant that nobody followed
  bool one_fence_for_all_keys = true;  // promise 4
  bool wall_can_be_stepped = true;
  core::Millis head_notices_within{100};     // the longest ask_again_in of a head
  core::Millis second_notices_within{1000};  // and of the one behind it
};

// THE list of stores under test.
const std::vector<Bench>& benches();

// The memory store, doing as the other does where the contract leaves it to the store.
Bench reference_for(const Bench& other);

}  // namespace contract
