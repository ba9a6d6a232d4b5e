// The arithmetic of a lease.
#include "core/lease.hpp"
#include "support/catch.hpp"

using namespace std::chrono_literals;
using Catch::Matchers::ContainsSubstring;
using core::Instant;
using core::Millis;

TEST_CASE("the margin is two percent of the ttl, at least 100 ms") {
  CHECK(core::margin(1s) == 100ms);
  CHECK(core::margin(5s) == 100ms);
  CHECK(core::margin(60s) == 1200ms);
  CHECK(core::margin(24h) == 1728s);
}

TEST_CASE("renewals come every third of the ttl, at most every 10 s") {
  CHECK(core::renew_interval(1s) == 333ms);
  CHECK(core::renew_interval(30s) == 10s);
  CHECK(core::renew_interval(60s) == 10s);
  CHECK(core::renew_interval(24h) == 10s);
}

TEST_CASE("the grace before a kill is a quarter of the ttl, at most 5 s") {
  CHECK(core::default_kill_after(1s) == 250ms);
  CHECK(core::default_kill_after(20s) == 5s);
  CHECK(core::default_kill_after(60s) == 5s);
}

TEST_CASE("grace and margin fit into half the ttl") {
  const auto terms = core::make_terms(1s, 400ms);
  REQUIRE(terms);
  CHECK(terms->ttl == 1s);
  CHECK(terms->kill_after == 400ms);
  CHECK(core::make_terms(60s, 28800ms));
  CHECK(core::make_terms(60s, 0ms)->kill_after == 0ms);

  const auto over = core::make_terms(1s, 401ms);
  REQUIRE_FALSE(over);
  CHECK_THAT(over.error(), ContainsSubstring("must be at most 400ms with a ttl of 1s"));
  CHECK_THAT(core::make_terms(60s, 28801ms).error(), ContainsSubstring("at most 28s with a ttl of 1m"));
  CHECK_THAT(core::make_terms(200ms, 10ms).error(), ContainsSubstring("use a ttl of 1s or more"));
  CHECK_THAT(core::make_terms(100ms, 10ms).error(), ContainsSubstring("use a ttl of 1s or more"));
}

TEST_CASE("every ttl that exec takes has a default grace that fits") {
  for (Millis ttl = core::shortest_exec_ttl; ttl <= core::longest_duration; ttl += 1ms + ttl / 500) {
    CAPTURE(ttl.count());
    const auto terms = core::make_terms(ttl, std::nullopt);
    REQUIRE(terms);
    REQUIRE(terms->kill_after == core::default_kill_after(ttl));
    const core::Lease lease{*terms, Instant(1s)};
    // Two renewals may fail before the command is stopped; stopped it is before its time is over.
    REQUIRE(lease.sent + core::renew_interval(ttl) == lease.renew_at());
    REQUIRE(lease.renew_at() < lease.stop_at());
    REQUIRE(lease.stop_at() + terms->kill_after == lease.deadline());
    REQUIRE(lease.deadline() + core::margin(ttl) == lease.sent + ttl);
    REQUIRE(lease.stop_at() - lease.sent >= ttl / 2);
  }
}
