// Getting a lock: ask, sleep until asking again is worth it, ask again. What acquire, block and exec have in common.
#pragma once

#include <functional>
#include <optional>
#include <variant>

#include "core/clock.hpp"
#include "core/store.hpp"

namespace hold {

// Why a sleep ended. In rising priority: where two things happened at once, the later one is told.
enum class Woke { time, ring, hangup, signal };

// The only thing that waits. A test gives one that moves a fake clock instead.
class Sleeper {
public:
  virtual ~Sleeper() = default;
  virtual Woke sleep_until(core::Instant until, const core::Watch* bell) = 0;
};

// What a person may want to know meanwhile. Called at most once per ask.
class Progress {
public:
  virtual ~Progress() = default;
  virtual void queued(const core::Queued& /*place*/, core::Millis /*waited*/) {}
  virtual void trouble(const core::StoreError& /*error*/, core::Millis /*waited*/) {}
};

struct Wait {
  core::Ask ask;                        // patience, wait_left and keepers are filled in here
  std::optional<core::Millis> at_most;  // 0: one try, no place in the line; nullopt: for ever
  // Who waits, for the place in the line. A grant at the first try needs none: while its child is not known it counts
  // as alive anyway, and to find them out takes 90 us.
  std::function<core::Keepers()> keepers = nullptr;
};

struct Won {
  core::Fence fence;
  core::Instant sent;  // before the request that was granted left: the lease counts from here
  core::Millis waited{0};
};
struct Refused {
  core::Occupant by;
  bool line_full = false;
  core::Millis waited{0};
};
struct Failed {
  core::StoreError error;
  // A request left that may have been carried out, and taking it back failed as well: the lock may be held by our claim
  // until it ends by itself.
  bool maybe_granted = false;
  core::Millis waited{0};
};
struct Stopped {
  Woke why;  // signal or hangup; the line has been left, and nothing is held
  core::Millis waited{0};
};
using Outcome = std::variant<Won, Refused, Failed, Stopped>;

// Ends with Won; or, having left the line, with Refused once `at_most` is over, with Failed on trouble that waiting
// does not mend (or that lasted to the end: the trouble is reported then, not "held"), with Stopped on a signal. A
// grant that arrives after `at_most` is given back: nothing is won after its deadline.
//
// `limits` are those the store was opened with: they are tightened so that no ask outlives `at_most` and leaving after
// a signal takes 300 ms at most, and are as they were on return.
Outcome wait_for(core::Store& store, core::Limits& limits, const core::Clock& clock, Sleeper& sleeper,
                 Progress& progress, const Wait& wait);

}  // namespace hold
