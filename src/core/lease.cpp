// The arithmetic of a lease that is renewed.
#include "core/lease.hpp"

#include <algorithm>

#include <fmt/format.h>

namespace core {

Millis margin(Millis ttl) { return std::max(Millis(100), ttl / 50); }

Millis renew_interval(Millis ttl) { return std::min(ttl / 3, Millis(10'000)); }

Millis default_kill_after(Millis ttl) { return std::min(Millis(5'000), ttl / 4); }

tl::expected<Terms, std::string> make_terms(Millis ttl, std::optional<Millis> kill_after) {
  const Terms terms{ttl, kill_after.value_or(default_kill_after(ttl))};
  const Millis most = ttl / 2 - margin(ttl);
  if (terms.kill_after > most) {
    if (most <= Millis(0)) {
      return tl::make_unexpected(fmt::format("does not fit into a ttl of {}: use a ttl of 1s or more", to_text(ttl)));
    }
    return tl::make_unexpected(fmt::format(
        "must be at most {} with a ttl of {} (a renewal can then be tried twice before the command is stopped)",
        to_text(most),
        to_text(ttl)));
  }
  return terms;
}

}  // namespace core
