// Waiting for a lock: every way in which it ends, and what is left behind.
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "hold/waiting.hpp"
#include "stores/memory/store.hpp"
#include "support/catch.hpp"
#include "support/fake_clock.hpp"
#include "support/fake_sleeper.hpp"
#include "support/flaky_store.hpp"

using core::Millis;
using core::Trouble;
using hold::Failed;
using hold::Outcome;
using hold::Refused;
using hold::Stopped;
using hold::Woke;
using hold::Won;
using namespace std::chrono_literals;

namespace {

class Notes : public hold::Progress {
public:
  void queued(const core::Queued& place, Millis waited) override {
    places.push_back(place.ahead);
    last = waited;
  }
  void trouble(const core::StoreError& error, Millis waited) override {
    troubles.push_back(error.detail);
    last = waited;
  }
  std::vector<std::size_t> places;
  std::vector<std::string> troubles;
  Millis last{-1};
};

core::Ask ask_of(const std::string& owner, std::uint64_t ask, Millis ttl = 60s) {
  core::Ask asked{{core::Key::stored("k"), core::Owner::stored(owner), {ask}}, ttl};
  asked.who.note = owner;
  return asked;
}

// "me" waits; "other" is another process.
struct Scene {
  support::FakeClock clock;
  std::shared_ptr<stores::memory::MemoryState> state = stores::memory::new_state();
  std::unique_ptr<core::Store> real = stores::memory::open(state, clock);
  std::unique_ptr<core::Store> others = stores::memory::open(state, clock);
  support::FlakyStore store{*real};
  support::FakeSleeper sleeper{clock};
  core::Limits limits;
  std::function<core::Keepers()> keepers;
  Notes notes;
  core::Ask me = ask_of("me", 1);
  core::Ask other = ask_of("other", 2);
  core::Instant start = clock.now();

  Outcome wait(std::optional<Millis> at_most) {
    return hold::wait_for(store, limits, clock, sleeper, notes, hold::Wait{me, at_most, keepers});
  }
  core::Fence other_gets() { return std::get<core::Granted>(others->acquire(other).value()).fence; }
  void other_releases() { others->release(other.claim, std::nullopt).value(); }
  core::LockState status() { return others->status(me.claim.key).value(); }
  std::string holder() {
    const auto now = status();
    const auto* held = now.by ? std::get_if<core::Held>(&*now.by) : nullptr;
    return held != nullptr ? held->owner.bytes() : "";
  }
  Millis passed() const { return std::chrono::duration_cast<Millis>(clock.now() - start); }
};

template <class T>
T is(const Outcome& outcome) {
  INFO("outcome " << outcome.index());
  REQUIRE(std::holds_alternative<T>(outcome));
  return std::get<T>(outcome);
}

std::string holder_in(const core::Occupant& by) {
  REQUIRE(std::holds_alternative<core::Held>(by));
  return std::get<core::Held>(by).owner.bytes();
}

}  // namespace

// --- one try --------------------------------------------------------------------------------------------------------

TEST_CASE("a free lock is won at once") {
  Scene at;
  const auto at_most = GENERATE(std::optional<Millis>(0ms), std::optional<Millis>(5s), std::optional<Millis>());
  const auto won = is<Won>(at.wait(at_most));
  CHECK(won.fence == std::get<core::Held>(*at.status().by).fence);
  CHECK(won.sent == at.start);
  CHECK(won.waited == 0ms);
  CHECK(at.holder() == "me");
  CHECK(at.sleeper.sleeps().empty());
}

TEST_CASE("one try is refused at once and leaves no place in the line") {
  Scene at;
  at.other_gets();
  const auto refused = is<Refused>(at.wait(0ms));
  CHECK(holder_in(refused.by) == "other");
  CHECK_FALSE(refused.line_full);
  CHECK(refused.waited == 0ms);
  CHECK(at.status().waiting == 0);
  CHECK(at.sleeper.sleeps().empty());
  CHECK(at.store.verbs() == std::vector<std::string>{"acquire"});
}

TEST_CASE("the processes of who waits are found out once, for a place in the line alone") {
  Scene at;
  int found = 0;
  at.keepers = [&found] {
    ++found;
    return core::Keepers{};
  };
  is<Won>(at.wait(5s));
  CHECK(found == 0);
  at.real->release(at.me.claim, std::nullopt).value();
  at.other_gets();
  is<Refused>(at.wait(0ms));
  CHECK(found == 0);
  is<Refused>(at.wait(5s));
  CHECK(found == 1);
}

TEST_CASE("one try that meets trouble fails at once, whatever the trouble") {
  Scene at;
  const auto what =
      GENERATE(Trouble::unreachable, Trouble::full, Trouble::refused, Trouble::misconfigured, Trouble::corrupt);
  at.store.fail_next(1, what, "no luck");
  const auto failed = is<Failed>(at.wait(0ms));
  CHECK(failed.error.what == what);
  CHECK(failed.error.detail == "no luck");
  CHECK_FALSE(failed.maybe_granted);
  CHECK(at.sleeper.sleeps().empty());
  CHECK(at.store.count("acquire") == 1);
}

TEST_CASE("one try whose reply is lost gives back what it may have got") {
  Scene at;
  at.store.only = "acquire";
  at.store.lose_replies(1);
  const auto failed = is<Failed>(at.wait(0ms));
  CHECK(failed.error.what == Trouble::timed_out);
  CHECK_FALSE(failed.maybe_granted);
  CHECK(at.holder() == "");
}

TEST_CASE("one try whose reply is lost, and that cannot be taken back, says so") {
  Scene at;
  at.store.lose_replies(1);
  at.store.after = [&](const std::string& verb) {
    if (verb == "acquire") {
      at.store.fail_from_now(Trouble::unreachable);
    }
  };
  const auto failed = is<Failed>(at.wait(0ms));
  CHECK(failed.error.what == Trouble::timed_out);
  CHECK(failed.maybe_granted);
  CHECK(at.holder() == "me");
}

// --- in line --------------------------------------------------------------------------------------------------------

TEST_CASE("a waiter wins at the very moment of the release, woken by its bell") {
  Scene at;
  const auto before = at.other_gets();
  at.sleeper.at(3'014ms, [&] { at.other_releases(); });
  at.store.before = [&](const std::string& verb) {
    if (verb == "watch") {
      CHECK(at.status().waiting == 0);  // a release between the first place and the bell would ring nobody
    }
  };
  const auto won = is<Won>(at.wait(10s));
  CHECK(won.waited == 3'014ms);
  CHECK(won.sent == at.start + 3'014ms);
  CHECK(won.fence > before);
  CHECK(at.holder() == "me");
  CHECK(at.status().waiting == 0);
  CHECK(at.store.count("watch") == 1);
}

TEST_CASE("a waiter without a bell wins all the same, by asking") {
  Scene at;
  at.store.only = "watch";
  at.store.fail_next(1, Trouble::refused);
  at.other_gets();
  at.sleeper.at(3'014ms, [&] { at.other_releases(); });
  const auto won = is<Won>(at.wait(10s));
  CHECK(won.waited >= 3'014ms);
  CHECK(won.waited <= 3'114ms);
}

TEST_CASE("a waiter wins at the very end of a holder that never released") {
  Scene at;
  at.other.ttl = 4'321ms;
  at.other_gets();
  CHECK(is<Won>(at.wait(10s)).waited == 4'321ms);
}

TEST_CASE("a false ring costs one ask") {
  Scene at;
  at.other_gets();
  int asked_before = 0;
  at.sleeper.at(1'010ms, [&] {
    asked_before = at.store.count("acquire");
    at.others->leave(at.other.claim, 50s).value();  // rings, and frees nothing yet
  });
  at.sleeper.at(1'011ms, [&] {
    CHECK(at.store.count("acquire") == asked_before + 1);
    at.other_releases();
  });
  CHECK(is<Won>(at.wait(10s)).waited == 1'011ms);
}

TEST_CASE("two that wait win one after the other, first come first served") {
  Scene at;
  at.other_gets();
  const auto first = ask_of("first", 3);
  auto first_in_line = first;
  first_in_line.patience = 1h;
  at.others->acquire(first_in_line).value();
  at.sleeper.at(1s, [&] { at.other_releases(); });
  at.sleeper.at(1'500ms, [&] { at.others->acquire(first_in_line).value(); });
  at.sleeper.at(2s, [&] {
    CHECK(at.holder() == "first");
    at.others->release(first.claim, std::nullopt).value();
  });
  const auto won = is<Won>(at.wait(10s));
  CHECK(won.waited >= 2s);
  CHECK(won.waited <= 3s);
  CHECK(at.notes.places.front() == 1);
}

TEST_CASE("a waiter has a place in the line for as long as it waits") {
  Scene at;
  at.other.ttl = 1h;
  at.other_gets();
  int looked = 0;
  for (int second = 1; second < 100; second += 7) {
    at.sleeper.at(std::chrono::seconds(second), [&] {
      ++looked;
      const auto line = at.status().line;
      REQUIRE(line.size() == 1);
      CHECK(line[0].owner.bytes() == "me");
      CHECK(line[0].ask == at.me.claim.ask);
      CHECK(line[0].waiting_for == at.passed());
      REQUIRE(line[0].wait_left);
      CHECK(*line[0].wait_left == 100s - at.passed());
    });
  }
  is<Refused>(at.wait(100s));
  CHECK(looked == 15);
}

TEST_CASE("whoever waits for ever is shown without an end, and waits on") {
  Scene at;
  at.other.ttl = 3h;
  at.other_gets();
  at.sleeper.at(1h, [&] {
    REQUIRE(at.status().line.size() == 1);
    CHECK_FALSE(at.status().line[0].wait_left);
  });
  at.sleeper.at(2h, [&] { at.other_releases(); });
  CHECK(is<Won>(at.wait(std::nullopt)).waited == 2h);
}

TEST_CASE("the line is left at the deadline, and the refusal says who holds the lock") {
  Scene at;
  at.other.ttl = 1h;
  at.other_gets();
  const auto at_most = GENERATE(1ms, 99ms, 100ms, 5'000ms, 61'234ms);
  const auto refused = is<Refused>(at.wait(at_most));
  CHECK(holder_in(refused.by) == "other");
  CHECK(refused.waited == at_most);
  CHECK_FALSE(refused.line_full);
  CHECK(at.passed() == at_most);
  CHECK(at.sleeper.latest() == at.start + at_most);
  CHECK(at.status().waiting == 0);
  CHECK(at.holder() == "other");
}

TEST_CASE("a release at the very deadline is too late") {
  Scene at;
  at.other_gets();
  at.sleeper.at(5s, [&] { at.other_releases(); });
  is<Refused>(at.wait(5s));
  CHECK(at.holder() == "");
  CHECK(at.status().waiting == 0);
}

TEST_CASE("a line that is full is refused at once") {
  Scene at;
  at.other_gets();
  at.me.max_waiting = 0;
  const auto refused = is<Refused>(at.wait(5s));
  CHECK(refused.line_full);
  CHECK(holder_in(refused.by) == "other");
  CHECK(refused.waited == 0ms);
  CHECK(at.status().waiting == 0);
}

TEST_CASE("a grant that arrives after the deadline is given back") {
  Scene at;
  at.other_gets();
  at.sleeper.at(500ms, [&] { at.other_releases(); });
  at.store.before = [&](const std::string& verb) {
    if (verb == "acquire" && at.passed() >= 500ms) {
      at.clock.advance(500ms);  // a slow store
    }
  };
  const auto refused = is<Refused>(at.wait(1s));
  CHECK(holder_in(refused.by) == "other");
  CHECK(at.holder() == "");
  CHECK(at.status().waiting == 0);
  CHECK(at.store.verbs().back() == "release");
}

TEST_CASE("a first answer that arrives after the deadline is given back as well") {
  Scene at;
  at.store.after = [&](const std::string& verb) {
    if (verb == "acquire") {
      at.clock.advance(2s);
    }
  };
  const auto failed = is<Failed>(at.wait(1s));
  CHECK(failed.error.what == Trouble::timed_out);
  CHECK_FALSE(failed.maybe_granted);
  CHECK(at.holder() == "");
}

TEST_CASE("a grant that arrives just before the deadline is won, and its lease counts from before it was asked for") {
  Scene at;
  at.store.after = [&](const std::string& verb) {
    if (verb == "acquire") {
      at.clock.advance(999ms);
    }
  };
  const auto won = is<Won>(at.wait(1s));
  CHECK(won.sent == at.start);
  CHECK(won.waited == 999ms);
  CHECK(at.holder() == "me");
}

TEST_CASE("a grant that took longer than its lease is asked for again, while there is time to wait") {
  Scene at;
  at.me.ttl = 1s;
  int slow = 2;
  at.store.after = [&](const std::string& verb) {
    if (verb == "acquire" && slow-- > 0) {
      at.clock.advance(2500ms);
    }
  };
  const auto won = is<Won>(at.wait(60s));
  CHECK(won.sent == at.start + 5s);
  CHECK(at.store.count("acquire") == 3);
  CHECK(at.holder() == "me");
}

TEST_CASE("a grant that took longer than its lease, and went to another meanwhile, is waited for in the line") {
  Scene at;
  at.me.ttl = 1s;
  bool slow = true;
  at.store.after = [&](const std::string& verb) {
    if (verb == "acquire" && std::exchange(slow, false)) {
      at.clock.advance(2500ms);
      at.other.ttl = 3s;
      at.other_gets();
    }
  };
  const auto won = is<Won>(at.wait(60s));
  CHECK(won.waited >= 5500ms);
  CHECK(at.holder() == "me");
}

TEST_CASE("a slow grant whose second ask meets trouble to the end is given back") {
  Scene at;
  at.me.ttl = 10s;
  at.store.only = "acquire";
  at.store.after = [&](const std::string& verb) {
    if (verb == "acquire" && at.store.count("acquire") == 1) {
      at.clock.advance(6s);
      at.store.fail_from_now(core::Trouble::unreachable);
    }
  };
  CHECK(is<Failed>(at.wait(8s)).error.what == core::Trouble::unreachable);
  CHECK(at.holder() == "");
}

// --- trouble --------------------------------------------------------------------------------------------------------

TEST_CASE("trouble that lasts to the deadline is reported, not held") {
  Scene at;
  at.other.ttl = 1h;
  at.other_gets();
  const bool queued_before = GENERATE(false, true);
  if (queued_before) {
    at.sleeper.at(2s, [&] { at.store.fail_from_now(Trouble::unreachable, "connection refused"); });
  } else {
    at.store.fail_from_now(Trouble::unreachable, "connection refused");
  }
  const auto failed = is<Failed>(at.wait(10s));
  CHECK(failed.error.what == Trouble::unreachable);
  CHECK(failed.error.detail == "connection refused");
  CHECK_FALSE(failed.maybe_granted);
  CHECK(failed.waited == 10s);
  CHECK(at.passed() == 10s);
  CHECK(at.notes.troubles.size() >= 3);
  CHECK(at.notes.troubles.front() == "connection refused");
}

TEST_CASE("trouble that passes is only a pause") {
  Scene at;
  const auto what = GENERATE(Trouble::unreachable, Trouble::timed_out, Trouble::full);
  at.store.only = "acquire";
  at.store.fail_next(4, what);
  const auto won = is<Won>(at.wait(60s));
  CHECK(won.waited > 0ms);
  CHECK(won.waited < 2s);
  CHECK(won.sent == at.clock.now());
  CHECK(at.notes.troubles.size() == 4);
  CHECK(at.holder() == "me");
}

TEST_CASE("trouble that passed is not what a later refusal reports") {
  Scene at;
  at.other.ttl = 1h;
  at.other_gets();
  at.store.only = "acquire";
  at.store.fail_next(3, Trouble::timed_out);
  CHECK(holder_in(is<Refused>(at.wait(10s)).by) == "other");
  CHECK(at.status().waiting == 0);
}

TEST_CASE("permanent trouble ends the wait at once") {
  Scene at;
  at.other_gets();
  const auto what = GENERATE(Trouble::refused, Trouble::misconfigured, Trouble::corrupt);
  at.store.only = "acquire";
  SECTION("at the first ask") {
    at.store.fail_from_now(what, "wrong password");
    const auto failed = is<Failed>(at.wait(60s));
    CHECK(failed.error.what == what);
    CHECK(failed.error.detail == "wrong password");
    CHECK(failed.waited == 0ms);
    CHECK(at.store.count("acquire") == 1);
  }
  SECTION("in the middle of the wait, and then the line is left") {
    at.sleeper.at(2s, [&] { at.store.fail_from_now(what, "wrong password"); });
    const auto failed = is<Failed>(at.wait(60s));
    CHECK(failed.error.what == what);
    CHECK(failed.waited < 2'200ms);
    CHECK(at.status().waiting == 0);
  }
  CHECK(at.holder() == "other");
}

TEST_CASE("a lost reply is asked for again by the same claim, which wins what it had won") {
  Scene at;
  at.store.only = "acquire";
  at.store.lose_replies(1);
  std::optional<core::Fence> first;
  at.store.after = [&](const std::string& verb) {
    if (verb == "acquire" && !first) {
      first = std::get<core::Held>(*at.status().by).fence;
    }
  };
  const auto won = is<Won>(at.wait(10s));
  REQUIRE(first);
  CHECK(won.fence == *first);
  CHECK(won.waited > 0ms);
  CHECK(won.sent == at.start + won.waited);
  CHECK(std::get<core::Held>(*at.status().by).left == 60s);
}

TEST_CASE("a place whose reply was lost is the same place") {
  Scene at;
  at.other_gets();
  at.store.only = "acquire";
  at.store.lose_replies(2);
  at.sleeper.at(1s, [&] {
    CHECK(at.status().waiting == 1);
    at.other_releases();
  });
  CHECK(is<Won>(at.wait(10s)).waited == 1s);
}

TEST_CASE("replies that are lost to the deadline leave nothing behind") {
  Scene at;
  at.store.only = "acquire";
  at.store.lose_replies(1'000'000);
  const auto failed = is<Failed>(at.wait(5s));
  CHECK(failed.error.what == Trouble::timed_out);
  CHECK_FALSE(failed.maybe_granted);
  CHECK(at.holder() == "");
}

TEST_CASE("replies that are lost to the deadline and cannot be taken back may have granted the lock") {
  Scene at;
  at.store.lose_replies(1'000'000);
  at.store.before = [&](const std::string& verb) {
    if (verb == "release") {
      at.store.fail_from_now(Trouble::unreachable);
    }
  };
  const auto failed = is<Failed>(at.wait(5s));
  CHECK(failed.error.what == Trouble::timed_out);
  CHECK(failed.maybe_granted);
}

TEST_CASE("an answer after lost replies says what is so") {
  Scene at;
  at.other.ttl = 1h;
  at.other_gets();
  at.store.only = "acquire";
  at.store.lose_replies(2);
  at.sleeper.at(3s, [&] {
    at.store.only = "";
    at.store.fail_from_now(Trouble::unreachable);
  });
  // It waited in line since: what was unknown is known, and what is left behind is a place, not a lock.
  const auto failed = is<Failed>(at.wait(5s));
  CHECK_FALSE(failed.maybe_granted);
}

TEST_CASE("after trouble the pauses grow, are bounded, and differ from waiter to waiter") {
  std::set<std::vector<Millis::rep>> all;
  for (int waiter = 0; waiter < 5; ++waiter) {
    Scene at;
    at.store.fail_from_now(Trouble::unreachable);
    is<Failed>(at.wait(60s));
    const auto& sleeps = at.sleeper.sleeps();
    REQUIRE(sleeps.size() >= 30);
    REQUIRE(sleeps.size() <= 100);
    CHECK(sleeps.front() >= 10ms);
    CHECK(sleeps.front() <= 100ms);
    std::vector<Millis::rep> drawn;
    for (std::size_t i = 0; i + 1 < sleeps.size(); ++i) {  // the last one is cut off by the deadline
      REQUIRE(sleeps[i] >= 10ms);
      REQUIRE(sleeps[i] <= 2s);
      drawn.push_back(sleeps[i].count());
      if (i >= 10) {
        REQUIRE(sleeps[i] >= 500ms);
      }
    }
    all.insert(drawn);
  }
  CHECK(all.size() == 5);
}

TEST_CASE("the pauses start small again after an answer") {
  Scene at;
  at.other.ttl = 1h;
  at.other_gets();
  at.store.only = "acquire";
  at.store.fail_next(8, Trouble::unreachable);
  Millis second_pause{-1};
  std::size_t asleep = 0;
  at.sleeper.at(20s, [&] {
    at.store.fail_next(1, Trouble::unreachable);
    asleep = at.sleeper.sleeps().size();
  });
  is<Refused>(at.wait(30s));
  REQUIRE(at.sleeper.sleeps().size() > asleep);
  second_pause = at.sleeper.sleeps()[asleep];
  CHECK(second_pause <= 100ms);
  CHECK(at.notes.troubles.size() == 9);
}

// --- signals and closed readers -------------------------------------------------------------------------------------

TEST_CASE("a signal ends the wait, and the place is gone") {
  Scene at;
  const auto why = GENERATE(Woke::signal, Woke::hangup);
  const auto at_most = GENERATE(std::optional<Millis>(60s), std::optional<Millis>());
  at.other.ttl = 1h;
  at.other_gets();
  at.sleeper.at(1'999ms, [&] { CHECK(at.status().waiting == 1); });
  at.sleeper.wake_at(2s, why);
  CHECK(is<Stopped>(at.wait(at_most)).why == why);
  CHECK(at.passed() == 2s);
  CHECK(at.status().waiting == 0);
  CHECK(at.holder() == "other");
}

TEST_CASE("a signal during trouble ends the wait, and what a lost reply had got is given back") {
  Scene at;
  at.store.only = "acquire";
  at.store.lose_replies(1'000'000);
  at.sleeper.wake_at(2s, Woke::signal);
  CHECK(is<Stopped>(at.wait(60s)).why == Woke::signal);
  CHECK(at.holder() == "");
}

TEST_CASE("a signal while the store is asked ends the wait, and what it may have got is given back") {
  Scene at;
  at.store.only = "acquire";
  at.store.lose_replies(1, Trouble::interrupted);
  const auto at_most = GENERATE(std::optional<Millis>(0ms), std::optional<Millis>(60s));
  CHECK(is<Stopped>(at.wait(at_most)).why == Woke::signal);
  CHECK(at.holder() == "");
  CHECK(at.store.count("acquire") == 1);
  CHECK(at.sleeper.sleeps().empty());
}

TEST_CASE("a signal ends the wait although the store is down") {
  Scene at;
  at.store.fail_from_now(Trouble::unreachable);
  at.sleeper.wake_at(2s, Woke::signal);
  is<Stopped>(at.wait(60s));
  CHECK(at.passed() == 2s);
}

// --- limits and progress --------------------------------------------------------------------------------------------

TEST_CASE("no ask outlives the deadline, and the limits are as they were afterwards") {
  Scene at;
  at.limits = core::Limits{5s, 17};
  at.other.ttl = 1h;
  at.other_gets();
  int asks = 0;
  at.store.before = [&](const std::string& verb) {
    if (verb == "acquire") {
      ++asks;
      CHECK(at.limits.interrupt_fd == 17);
      CHECK(at.limits.op_timeout <= 5s);
      CHECK(at.limits.op_timeout <= 20s - at.passed());
      CHECK(at.limits.op_timeout > 0ms);
    } else if (verb == "release") {
      CHECK(at.limits.interrupt_fd == -1);
      CHECK(at.limits.op_timeout <= 1s);
    }
  };
  is<Refused>(at.wait(20s));
  CHECK(asks > 10);
  CHECK(at.store.count("release") == 1);
  CHECK(at.limits.op_timeout == 5s);
  CHECK(at.limits.interrupt_fd == 17);
}

TEST_CASE("after a slow answer the bell has only what is left of the wait") {
  Scene at;
  at.other.ttl = 1h;
  at.other_gets();
  at.store.before = [&](const std::string& verb) {
    if (verb == "watch") {
      CHECK(at.limits.op_timeout <= 2s - at.passed());
    }
  };
  at.store.after = [&](const std::string& verb) {
    if (verb == "acquire") {
      at.clock.advance(700ms);
    }
  };
  is<Refused>(at.wait(2s));
  CHECK(at.store.count("watch") == 1);
  CHECK(at.status().waiting == 0);
}

TEST_CASE("leaving after a signal is quick and is not stopped by that very signal") {
  Scene at;
  at.limits = core::Limits{5s, 17};
  at.other_gets();
  at.store.before = [&](const std::string& verb) {
    if (verb == "release") {
      CHECK(at.limits.interrupt_fd == -1);
      CHECK(at.limits.op_timeout <= 300ms);
    }
  };
  at.sleeper.wake_at(2s, Woke::signal);
  is<Stopped>(at.wait(std::nullopt));
  CHECK(at.store.count("release") == 1);
  CHECK(at.limits.op_timeout == 5s);
  CHECK(at.limits.interrupt_fd == 17);
}

TEST_CASE("progress is told once per ask, with the place and the time") {
  Scene at;
  at.other.ttl = 1h;
  at.other_gets();
  at.store.only = "acquire";
  at.store.fail_next(2, Trouble::unreachable, "down");
  is<Refused>(at.wait(10s));
  CHECK(at.notes.troubles == std::vector<std::string>{"down", "down"});
  CHECK(at.notes.places.size() + at.notes.troubles.size() == static_cast<std::size_t>(at.store.count("acquire")));
  CHECK(at.notes.last > 9s);
  CHECK(at.notes.last <= 10s);
}
