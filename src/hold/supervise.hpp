// Holding a lock while a command runs: the thin loop around the machine.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "core/clock.hpp"
#include "core/lease.hpp"
#include "core/store.hpp"
#include "hold/guardian.hpp"
#include "hold/machine.hpp"
#include "hold/waiting.hpp"
#include "os/signals.hpp"

namespace hold {

// What the user should hear while it happens. Called from the loop; must not throw.
class Narrator {
public:
  virtual ~Narrator() = default;
  virtual void lost(Loss /*why*/, const std::optional<core::StoreError>& /*last_trouble*/) {}
  // Only the release found out: the command had ended already.
  virtual void found_lost(Loss /*why*/) {}
  // The command ended while the lock was held, but the lock's time ended before it could be given back.
  virtual void released_late() {}
  virtual void renewal_failed(const core::StoreError& /*error*/) {}
  // TERM or KILL could not be sent: the command runs as another user.
  virtual void out_of_reach() {}
  // The store could not be told. `guardian_tries_on`: until the grant's end; else the grant stays until then.
  virtual void not_released(const core::StoreError& /*error*/, bool /*guardian_tries_on*/) {}
  // The guardian died, and no new one can be made for now (errno); it is tried again. Told once.
  virtual void no_guardian(int /*error*/) {}
};

struct Command {
  char* const* words;        // ended by a null pointer
  char* const* environment;  // likewise
  bool own_group;            // no terminal: it leads a process group of its own
};

struct Duty {
  core::Claim claim;
  core::Terms terms;
  OnLost on_lost = OnLost::term;
  core::Millis min_hold{0};
};

struct Ended {
  // Not started: the grant came too late, a signal came first, or it could not be executed.
  enum class Start { started, too_late, signalled, no_process, not_executable } start = Start::started;
  int error = 0;   // errno of no_process and not_executable
  int signal = 0;  // of signalled
  int status = 0;  // as waitpid(2) gives it
  std::optional<Loss> lost;
  bool unsupervised = false;  // lk itself failed; the command was killed, and `error` says why (errno)
  bool released = false;      // nothing of ours is in the store any more
  core::Millis held{0};
};

// From a grant to its end. `won` is the grant, `guardian` was forked before it was asked for; on return it has been
// dismissed, or outlives us, and is left to its owner.
Ended supervise(core::Store& store, core::Limits& limits, const core::Clock& clock, os::Signals& signals,
                SharedPage& page, std::optional<Guardian>& guardian, const OpenStore& open_store, const Won& won,
                const Duty& duty, const Command& command, Narrator& narrator);

}  // namespace hold
