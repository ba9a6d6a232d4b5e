// The machine of exec: every cell of its table, with a fake time and no process.
#include "hold/machine.hpp"
#include "support/catch.hpp"

using namespace std::chrono_literals;
using core::Instant;
using core::Lease;
using core::Terms;
using hold::Action;
using hold::Loss;
using hold::Machine;
using hold::OnLost;

namespace {

const Instant start = Instant(1000s);
// ttl 60 s: renewed every 10 s, margin 1.2 s, so the deadline is at 58.8 s and TERM at 53.8 s.
const Terms terms{60s, 5s};

Machine machine(OnLost on_lost = OnLost::term) { return Machine(Lease{terms, start}, on_lost); }

// "renew forward:15 terminate kill tell:unconfirmed give-back"
std::string text(const std::vector<Action>& actions) {
  std::string all;
  for (const Action& action : actions) {
    std::string one;
    if (std::holds_alternative<hold::Renew>(action)) {
      one = "renew";
    } else if (const auto* const forward = std::get_if<hold::Forward>(&action)) {
      one = "forward:" + std::to_string(forward->number);
    } else if (std::holds_alternative<hold::Terminate>(action)) {
      one = "terminate";
    } else if (std::holds_alternative<hold::Kill>(action)) {
      one = "kill";
    } else if (const auto* const loss = std::get_if<hold::TellLoss>(&action)) {
      one = loss->why == Loss::gone ? "tell:gone" : loss->why == Loss::not_mine ? "tell:not-mine" : "tell:unconfirmed";
    } else {
      one = "give-back";
    }
    all += (all.empty() ? "" : " ") + one;
  }
  return all;
}

}  // namespace

TEST_CASE("nothing happens before the first renewal is due") {
  Machine held = machine();
  CHECK(held.next() == start + 10s);
  CHECK(text(held.step(hold::Tick{}, start + 9999ms)) == "");
  CHECK(text(held.step(hold::Tick{}, start + 10s)) == "renew");
}

TEST_CASE("a confirmed renewal moves the deadline and the next renewal") {
  Machine held = machine();
  held.step(hold::Tick{}, start + 10s);
  CHECK(text(held.step(hold::Renewed{start + 10s}, start + 10100ms)) == "");
  CHECK(held.deadline() == start + 68800ms);
  CHECK(held.next() == start + 20s);
  CHECK_FALSE(held.lost());
}

TEST_CASE("the deadline counts from before the renewal left, not from its answer") {
  Machine held = machine();
  held.step(hold::Tick{}, start + 10s);
  held.step(hold::Renewed{start + 10s}, start + 14s);
  CHECK(held.deadline() == start + 10s + 60s - 1200ms);
}

TEST_CASE("a failed renewal is tried again, and the command runs on") {
  Machine held = machine();
  held.step(hold::Tick{}, start + 10s);
  CHECK(text(held.step(hold::RenewFailed{500ms}, start + 12s)) == "");
  CHECK(held.next() == start + 12500ms);
  CHECK(text(held.step(hold::Tick{}, start + 12500ms)) == "renew");
  CHECK(text(held.step(hold::Renewed{start + 12500ms}, start + 12600ms)) == "");
  CHECK_FALSE(held.lost());
}

TEST_CASE("unconfirmed renewals end in TERM kill_after before the deadline and KILL at it") {
  Machine held = machine();
  held.step(hold::Tick{}, start + 10s);
  held.step(hold::RenewFailed{100s}, start + 11s);
  CHECK(held.next() == start + 53800ms);
  CHECK(text(held.step(hold::Tick{}, start + 53799ms)) == "");
  CHECK(text(held.step(hold::Tick{}, start + 53800ms)) == "terminate tell:unconfirmed");
  CHECK(held.next() == start + 58800ms);
  CHECK(text(held.step(hold::Tick{}, start + 58799ms)) == "");
  CHECK(text(held.step(hold::Tick{}, start + 58800ms)) == "kill");
  CHECK(held.lost() == Loss::unconfirmed);
}

TEST_CASE("while stopping it goes on renewing, but a loss that is told stays") {
  Machine held = machine();
  held.step(hold::Tick{}, start + 10s);
  held.step(hold::RenewFailed{43800ms}, start + 10s);
  CHECK(text(held.step(hold::Tick{}, start + 53800ms)) == "terminate tell:unconfirmed renew");
  CHECK(text(held.step(hold::Renewed{start + 53800ms}, start + 53900ms)) == "");
  CHECK(held.lost() == Loss::unconfirmed);
  CHECK(text(held.step(hold::Tick{}, start + 58800ms)) == "kill");
}

TEST_CASE("a refused renewal stops the command at once and kills it after kill_after") {
  for (const auto& [why, told] : {std::pair{core::Renewal::gone, "terminate tell:gone"},
                                  std::pair{core::Renewal::not_mine, "terminate tell:not-mine"}}) {
    Machine held = machine();
    held.step(hold::Tick{}, start + 10s);
    CHECK(text(held.step(hold::RenewRefused{why}, start + 10100ms)) == told);
    CHECK(held.next() == start + 15100ms);
    CHECK(held.kill_at() == start + 15100ms);
    CHECK(text(held.step(hold::Tick{}, start + 15100ms)) == "kill");
    CHECK_FALSE(held.next());
    CHECK_FALSE(held.kill_at());
  }
}

TEST_CASE("after a refused renewal nothing is renewed any more") {
  Machine held = machine();
  held.step(hold::Tick{}, start + 10s);
  held.step(hold::RenewRefused{core::Renewal::gone}, start + 10100ms);
  CHECK(text(held.step(hold::Tick{}, start + 14s)) == "");
  CHECK(text(held.step(hold::Tick{}, start + 200s)) == "kill");
}

TEST_CASE("past the deadline after a stop of lk, the command is killed before anything else is done") {
  Machine held = machine();
  CHECK(text(held.step(hold::Tick{}, start + 500s)) == "kill tell:unconfirmed renew");
  CHECK(held.lost() == Loss::unconfirmed);
}

TEST_CASE("a signal that arrives past the deadline is forwarded and the command is killed all the same") {
  Machine held = machine();
  CHECK(text(held.step(hold::Signalled{15}, start + 500s)) == "forward:15 kill tell:unconfirmed renew");
}

TEST_CASE("a renewal that was confirmed while lk stood still saves the command") {
  Machine held = machine();
  held.step(hold::Tick{}, start + 50s);
  CHECK(text(held.step(hold::Renewed{start + 50s}, start + 80s)) == "renew");
  CHECK_FALSE(held.lost());
}

TEST_CASE("signals are forwarded, never turned into a stop") {
  Machine held = machine();
  CHECK(text(held.step(hold::Signalled{15}, start + 1s)) == "forward:15");
  CHECK(text(held.step(hold::Signalled{15}, start + 2s)) == "forward:15");
  CHECK(held.next() == start + 10s);
  CHECK_FALSE(held.lost());
}

TEST_CASE("signals are forwarded while stopping, too") {
  Machine held = machine();
  held.step(hold::Tick{}, start + 10s);
  held.step(hold::RenewRefused{core::Renewal::gone}, start + 10s);
  CHECK(text(held.step(hold::Signalled{2}, start + 11s)) == "forward:2");
}

TEST_CASE("the child's end gives the lock back, once, in every state") {
  Machine held = machine();
  CHECK(text(held.step(hold::ChildEnded{}, start + 1s)) == "give-back");
  CHECK(text(held.step(hold::ChildEnded{}, start + 1s)) == "");
  CHECK_FALSE(held.next());

  Machine stopping = machine();
  stopping.step(hold::RenewRefused{core::Renewal::gone}, start + 10s);
  CHECK(text(stopping.step(hold::ChildEnded{}, start + 11s)) == "give-back");
  CHECK(stopping.lost() == Loss::gone);
}

TEST_CASE("with --on-lost kill kills at once where a renewal is refused, and at the deadline where none is confirmed") {
  Machine refused = machine(OnLost::kill);
  CHECK(text(refused.step(hold::RenewRefused{core::Renewal::gone}, start + 10s)) == "kill tell:gone");
  CHECK_FALSE(refused.next());

  Machine unconfirmed = machine(OnLost::kill);
  unconfirmed.step(hold::Tick{}, start + 10s);
  unconfirmed.step(hold::RenewFailed{100s}, start + 10s);
  CHECK(unconfirmed.next() == start + 58800ms);
  CHECK(text(unconfirmed.step(hold::Tick{}, start + 58799ms)) == "");
  CHECK(text(unconfirmed.step(hold::Tick{}, start + 58800ms)) == "kill tell:unconfirmed");
}

TEST_CASE("with --on-lost warn says it once and signals nothing") {
  Machine refused = machine(OnLost::warn);
  CHECK(text(refused.step(hold::RenewRefused{core::Renewal::not_mine}, start + 10s)) == "tell:not-mine");
  CHECK(text(refused.step(hold::Tick{}, start + 500s)) == "");

  Machine unconfirmed = machine(OnLost::warn);
  unconfirmed.step(hold::Tick{}, start + 10s);
  unconfirmed.step(hold::RenewFailed{48800ms}, start + 10s);
  CHECK(text(unconfirmed.step(hold::Tick{}, start + 58800ms)) == "tell:unconfirmed renew");
  CHECK(text(unconfirmed.step(hold::RenewFailed{1s}, start + 58900ms)) == "");
  CHECK(text(unconfirmed.step(hold::Tick{}, start + 59900ms)) == "renew");
}

TEST_CASE("with any ttl the command is dead before the grant can end") {
  for (const core::Millis ttl : {1000ms, 1001ms, 1999ms, 2000ms, 5000ms, 60000ms, 86400000ms}) {
    const auto given = core::make_terms(ttl, std::nullopt);
    REQUIRE(given);
    Machine held(Lease{*given, start}, OnLost::term);
    Instant now = start;
    bool killed = false;
    for (int i = 0; i < 1000 && !killed; ++i) {
      now = *held.next();
      const std::string actions = text(held.step(hold::Tick{}, now));
      if (actions.find("renew") != std::string::npos) {
        held.step(hold::RenewFailed{std::chrono::duration_cast<core::Millis>(ttl / 100)}, now);
      }
      killed = actions.find("kill") != std::string::npos;
    }
    CHECK(killed);
    CHECK(now == start + ttl - core::margin(ttl));
  }
}
