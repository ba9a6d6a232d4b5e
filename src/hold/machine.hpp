// What exec does while its command runs, as a pure state machine: events and the time in, actions out.
#pragma once

#include <optional>
#include <variant>
#include <vector>

#include "core/clock.hpp"
#include "core/lease.hpp"
#include "core/store.hpp"

namespace hold {

enum class OnLost {
  term,  // TERM, then KILL
  kill,  // KILL at once
  warn,  // say it, and let the command run on
};

enum class Loss {
  gone,         // the store says that nobody holds the lock
  not_mine,     // the store says that another holds it
  unconfirmed,  // no renewal was confirmed in time
};

// --- events ---------------------------------------------------------------------------------------------------------

struct Tick {};  // nothing but the time
struct Renewed {
  core::Instant sent;  // before the request left
};
struct RenewFailed {
  core::Millis retry_in;
};
struct RenewRefused {
  core::Renewal why;  // gone or not_mine
};
struct Signalled {
  int number;  // one that the child has not had from the terminal
};
struct ChildEnded {};
using Event = std::variant<Tick, Renewed, RenewFailed, RenewRefused, Signalled, ChildEnded>;

// --- actions --------------------------------------------------------------------------------------------------------

struct Renew {};
struct Forward {
  int number;
};
struct Terminate {};  // TERM, and CONT so that a stopped child can obey
struct Kill {};
struct TellLoss {
  Loss why;
};
struct GiveBack {};  // the child is gone: release, or leave for --min-hold, and end
using Action = std::variant<Renew, Forward, Terminate, Kill, TellLoss, GiveBack>;

// --- the machine ----------------------------------------------------------------------------------------------------

//              running                                stopping (TERM or KILL is out)
// Tick         renewal due: Renew                     renewal due: Renew
//              deadline - kill_after: TellLoss,       grace over: Kill
//                Terminate (--on-lost term)
//              deadline: TellLoss, Kill               deadline: Kill
// Renewed      the deadline moves                     the deadline of a loss that is told does not
// RenewFailed  Renew again later                      Renew again later
// RenewRefused TellLoss, Terminate or Kill            no more renewals
// Signalled    Forward                                Forward
// ChildEnded   GiveBack                               GiveBack
//
// A loss is told once and stays: what is renewed afterwards keeps others out until the child is gone, no more.
class Machine {
public:
  Machine(core::Lease lease, OnLost on_lost);

  std::vector<Action> step(const Event& event, core::Instant now);

  // When the next Tick is due at the latest; nullopt: never.
  std::optional<core::Instant> next() const;
  // Until when the command may run if no further renewal is confirmed.
  core::Instant deadline() const { return m_lease.deadline(); }
  // Until when the store keeps others out if no further renewal is confirmed.
  core::Instant end() const { return m_lease.end(); }
  // When the KILL comes after a TERM that is out.
  std::optional<core::Instant> kill_at() const {
    return m_state == State::stopping ? std::optional(m_kill_at) : std::nullopt;
  }
  std::optional<Loss> lost() const { return m_lost; }
  bool killed() const { return m_state == State::killed; }

private:
  void lose(Loss why, std::vector<Action>& actions);
  void check_time(core::Instant now, std::vector<Action>& actions);

  enum class State { running, stopping, killed, done };

  core::Lease m_lease;
  OnLost m_on_lost;
  State m_state = State::running;
  std::optional<Loss> m_lost;
  bool m_refused = false;
  core::Instant m_renew_at;
  core::Instant m_kill_at;
};

}  // namespace hold
