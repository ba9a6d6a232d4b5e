// The arithmetic of a lease that is renewed: when to renew, when to stop the command, when it must be dead.
#pragma once

#include <optional>
#include <string>

#include <tl/expected.hpp>

#include "core/clock.hpp"
#include "core/duration.hpp"

namespace core {

inline constexpr Millis shortest_ttl = Millis(100);
inline constexpr Millis shortest_exec_ttl = Millis(1000);

// What is kept between lk's own deadline and the end of the grant in the store, for clocks that run unlike each other
// and for the time that a KILL needs: 2 % of the ttl, at least 100 ms.
Millis margin(Millis ttl);
// A third of the ttl, at most 10 s: two renewals may fail before the command is stopped.
Millis renew_interval(Millis ttl);
// min(5 s, ttl/4).
Millis default_kill_after(Millis ttl);

// The terms under which exec holds a lock.
struct Terms {
  Millis ttl;
  Millis kill_after;
};

// kill_after + margin must fit into half the ttl, or a command would be stopped before a renewal could be tried twice.
// The error is a clause that fits after "--kill-after".
tl::expected<Terms, std::string> make_terms(Millis ttl, std::optional<Millis> kill_after);

// The lease that a confirmed request started. `sent` is the time before that request left.
struct Lease {
  Terms terms;
  Instant sent;

  Instant renew_at() const { return sent + renew_interval(terms.ttl); }
  // Where the store got the request at once; later otherwise.
  Instant end() const { return sent + terms.ttl; }
  Instant deadline() const { return end() - margin(terms.ttl); }
  // The last moment at which TERM still leaves kill_after before the deadline.
  Instant stop_at() const { return deadline() - terms.kill_after; }
};

}  // namespace core
