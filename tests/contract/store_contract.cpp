// The promises of core/store.hpp, each told as stories over every store.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <string>
#include <thread>
#include <vector>

#include "contract/scene.hpp"
#include "os/process.hpp"

using contract::Asker;
using contract::key;
using contract::Millis;
using contract::Scene;
using contract::value;
using core::Eviction;
using core::Release;
using core::Renewal;

namespace {

const core::Held& holder_of(const core::Occupant& by) {
  REQUIRE(std::holds_alternative<core::Held>(by));
  return std::get<core::Held>(by);
}

const core::Promised& promise_of(const core::Occupant& by) {
  REQUIRE(std::holds_alternative<core::Promised>(by));
  return std::get<core::Promised>(by);
}

bool same(const core::Who& a, const core::Who& b) {
  return a.host == b.host && a.user == b.user && a.pid == b.pid && a.command == b.command && a.note == b.note;
}

}  // namespace

// --- 1: one verb is one atomic step ---------------------------------------------------------------------------------

EVERY_STORE("of many that ask at the same moment exactly one is granted") {
  constexpr std::size_t locks = 150;
  constexpr std::size_t askers = 6;
  std::vector<std::atomic<int>> granted(locks);
  std::vector<std::atomic<int>> refused(locks);
  std::vector<Asker> all;
  for (std::size_t i = 0; i < askers; ++i) {
    all.push_back(at.asker("owner-" + std::to_string(i)));
    all.back().ask.patience = Millis(0);
  }
  std::atomic<std::size_t> ready{0};
  std::vector<std::thread> threads;
  for (Asker& asker : all) {
    threads.emplace_back([&] {
      ++ready;
      while (ready < askers) {
        std::this_thread::yield();
      }
      for (std::size_t lock = 0; lock < locks; ++lock) {
        asker.ask.claim.key = key("lock-" + std::to_string(lock));
        const auto answer = asker.store().acquire(asker.ask);
        granted[lock] += answer && std::holds_alternative<core::Granted>(*answer) ? 1 : 0;
        refused[lock] += answer && std::holds_alternative<core::Busy>(*answer) ? 1 : 0;
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  for (std::size_t lock = 0; lock < locks; ++lock) {
    CAPTURE(lock);
    REQUIRE(granted[lock] == 1);
    REQUIRE(refused[lock] == askers - 1);
  }
  CHECK(value(at.onlooker().list(core::Glob::everything())).size() == locks);
}

EVERY_STORE("of many that join the line at the same moment each has a place of its own") {
  auto holder = at.asker("holder");
  holder.gets();
  constexpr int askers = 6;
  std::vector<Asker> all;
  for (int i = 0; i < askers; ++i) {
    all.push_back(at.asker("owner-" + std::to_string(i)));
  }
  std::vector<std::size_t> ahead(askers, 999);
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < askers; ++i) {
    threads.emplace_back([&, i] {
      const auto answer = all[i].store().acquire(all[i].ask);
      if (answer && std::holds_alternative<core::Queued>(*answer)) {
        ahead[i] = std::get<core::Queued>(*answer).ahead;
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  std::sort(ahead.begin(), ahead.end());
  CHECK(ahead == std::vector<std::size_t>{0, 1, 2, 3, 4, 5});
}

// --- 2: no verb waits -----------------------------------------------------------------------------------------------

EVERY_STORE("no verb waits for a lock that is held") {
  auto holder = at.asker("holder");
  auto other = at.asker("other");
  holder.gets();
  const auto began = std::chrono::steady_clock::now();
  other.is_refused_at_once();
  other.waits();
  CHECK(other.renews() == Renewal::not_mine);
  CHECK(other.releases().what == Release::left_line);
  CHECK(at.status().by);
  CHECK(std::chrono::steady_clock::now() - began < std::chrono::seconds(2));
}

// --- 3: who is who --------------------------------------------------------------------------------------------------

EVERY_STORE("a free lock is granted, and nobody else gets it then") {
  auto a = at.asker("a");
  auto b = at.asker("b");
  CHECK_FALSE(a.gets().again);
  CHECK(holder_of(b.is_refused_at_once().by).owner == a.claim().owner);
  CHECK(at.holder() == "a");
}

EVERY_STORE("asking again after a lost reply is the same grant with the same fence") {
  auto a = at.asker("a");
  const auto first = a.gets();
  at.pass(at.s(1));
  const auto second = a.gets();
  CHECK(second.again);
  CHECK(second.fence == first.fence);
  CHECK(at.held().fence == first.fence);
}

EVERY_STORE("asking again restarts the ttl") {
  auto a = at.asker("a");
  auto b = at.asker("b");
  a.ask.ttl = at.s(10);
  a.gets();
  at.pass(at.s(7));
  a.gets();
  CHECK(at.near(at.held().left, at.s(10)));
  at.pass(at.s(7));
  b.is_refused_at_once();
  at.pass(at.s(3));
  b.gets();
}

EVERY_STORE("the same claim is known on another connection") {
  auto a = at.asker("a");
  const auto first = a.gets();
  auto twin = at.asker("a");
  twin.ask.claim = a.claim();
  CHECK(twin.gets().again);
  CHECK(twin.gets().fence == first.fence);
  CHECK(twin.renews() == Renewal::renewed);
  CHECK(twin.releases().what == Release::released);
  CHECK(a.releases().what == Release::not_held);
}

EVERY_STORE("the same owner with another ask id is another asker") {
  auto a = at.asker("worker-7");
  auto b = at.asker("worker-7");
  a.gets();
  b.is_refused_at_once();
  CHECK(b.renews() == Renewal::not_mine);
  CHECK(b.releases().what == Release::not_mine);
  CHECK(b.waits().ahead == 0);
  CHECK(a.gets().again);
  a.releases();
  CHECK_FALSE(b.gets().again);
}

EVERY_STORE("two claims of one owner have two places in the line") {
  auto holder = at.asker("holder");
  auto a = at.asker("worker-7");
  auto b = at.asker("worker-7");
  holder.gets();
  CHECK(a.waits().ahead == 0);
  CHECK(b.waits().ahead == 1);
  CHECK(a.waits().ahead == 0);
  CHECK(at.status().waiting == 2);
}

EVERY_STORE("the same ask id with another owner is another asker") {
  auto a = at.asker("a");
  auto b = at.asker("b");
  b.ask.claim.ask = a.claim().ask;
  a.gets();
  b.is_refused_at_once();
  CHECK(b.renews() == Renewal::not_mine);
  CHECK(b.releases().what == Release::not_mine);
  CHECK(at.holder() == "a");
}

EVERY_STORE("the same ask id with another owner has a place of its own") {
  auto holder = at.asker("holder");
  auto a = at.asker("a");
  auto b = at.asker("b");
  b.ask.claim.ask = a.claim().ask;
  holder.gets();
  CHECK(a.waits().ahead == 0);
  CHECK(b.waits().ahead == 1);
  holder.releases();
  CHECK(b.waits().ahead == 1);
  CHECK(b.releases().what == Release::left_line);
  CHECK(at.status().waiting == 1);
  a.gets();
}

EVERY_STORE("owners are compared byte for byte") {
  auto a = at.asker("Worker");
  a.gets();
  for (const std::string owner :
       {"worker", "Worker ", " Worker", "Worke", "Workerx", "W%", "W_rker", "Wörker", "'Worker'"}) {
    auto other = at.asker(owner);
    other.ask.claim.ask = a.claim().ask;
    CAPTURE(owner);
    CHECK(other.renews() == Renewal::not_mine);
    CHECK(other.releases().what == Release::not_mine);
  }
  CHECK(a.renews() == Renewal::renewed);
}

EVERY_STORE("two spellings of a key are two locks") {
  std::vector<Asker> all;
  for (const std::string text : {"k",   "K",  "k ", " k",     "kk",      "k*",  "k%", "k_", "'k'", "k\"",
                                 "{k}", "k}", "k:", "\u00e9", "e\u0301", "k/k", "🔒",  "1",  "01",  "1.0"}) {
    all.push_back(at.asker("a", key(text)));
    CAPTURE(text);
    CHECK_FALSE(all.back().gets().again);
  }
  all.push_back(at.asker("a", key(std::string(512, 'k'))));
  CHECK_FALSE(all.back().gets().again);
  for (Asker& asker : all) {
    CAPTURE(asker.claim().key.text());
    CHECK(at.status(asker.claim().key).key == asker.claim().key);
    CHECK(asker.releases().what == Release::released);
    CHECK_FALSE(at.status(asker.claim().key).by);
  }
}

EVERY_STORE("a claim whose grant ended gets a new grant, not the old one") {
  auto a = at.asker("a");
  a.ask.ttl = at.s(10);
  const auto first = a.gets();
  at.pass(at.s(10));
  const auto second = a.gets();
  CHECK_FALSE(second.again);
  CHECK(second.fence > first.fence);
}

EVERY_STORE("the zero ask id stands for any ask of that owner") {
  auto a = at.asker("worker-7");
  a.gets();
  at.pass(at.s(30));
  CHECK(value(at.onlooker().renew(a.any_ask_of_owner(), at.s(60), std::nullopt)) == Renewal::renewed);
  CHECK(at.near(at.held().left, at.s(60)));
  CHECK(value(at.onlooker().release(a.any_ask_of_owner(), std::nullopt)).what == Release::released);
  CHECK(a.renews() == Renewal::gone);
}

EVERY_STORE("the zero ask id of another owner stands for nothing of mine") {
  auto a = at.asker("a");
  auto b = at.asker("b");
  a.gets();
  CHECK(value(at.onlooker().renew(b.any_ask_of_owner(), at.s(60), std::nullopt)) == Renewal::not_mine);
  CHECK(value(at.onlooker().release(b.any_ask_of_owner(), std::nullopt)).what == Release::not_mine);
  CHECK(value(at.onlooker().leave(b.any_ask_of_owner(), at.s(1))).what == Release::not_mine);
  CHECK(at.holder() == "a");
}

// --- 4: fences ------------------------------------------------------------------------------------------------------

EVERY_STORE("the fence rises with every grant of a key") {
  auto a = at.asker("a");
  auto b = at.asker("b");
  core::Fence last;
  for (int i = 0; i < 20; ++i) {
    Asker& next = i % 2 == 0 ? a : b;
    const auto granted = next.gets();
    CHECK_FALSE(granted.again);
    REQUIRE(granted.fence > last);
    last = granted.fence;
    next.releases();
  }
}

EVERY_STORE("a fence starts from the store's clock in microseconds and fits 53 bits") {
  const auto before = at.world->wall().time_since_epoch().count();
  auto a = at.asker("a");
  const auto fence = a.gets().fence.value;
  CHECK(fence >= before - std::chrono::microseconds(at.bench.slack).count());
  CHECK(fence <= at.world->wall().time_since_epoch().count() + std::chrono::microseconds(at.bench.slack).count() + 1);
  CHECK(fence < (std::int64_t{1} << 53));
  a.releases();
  at.pass(at.s(5));
  CHECK(a.gets().fence.value >=
        fence + std::chrono::microseconds(at.s(5)).count() - std::chrono::microseconds(at.bench.slack).count());
}

EVERY_STORE("the fence rises although the wall clock went back") {
  if (!at.bench.wall_can_be_stepped) {
    return;
  }
  auto a = at.asker("a");
  const auto first = a.gets().fence;
  a.releases();
  at.world->step_wall(-std::chrono::hours(24));
  const auto second = a.gets().fence;
  CHECK(second > first);
  a.releases();
  CHECK(a.gets().fence > second);
}

EVERY_STORE("a step of the wall clock ends no grant and lapses no place") {
  if (!at.bench.wall_can_be_stepped) {
    return;
  }
  for (const auto step : {std::chrono::hours(24), -std::chrono::hours(48)}) {
    auto a = at.asker("a");
    auto b = at.asker("b");
    a.gets();
    b.waits();
    at.world->step_wall(step);
    CHECK(at.near(at.held().left, at.s(60)));
    CHECK(at.near(at.held().held_for, at.s(0)));
    CHECK(at.status().waiting == 1);
    CHECK(b.waits().ahead == 0);
    at.pass(at.s(10));
    CHECK(a.renews() == Renewal::renewed);
    at.pass(at.s(10));
    CHECK(at.near(at.held().left, at.s(50)));
    a.releases();
    b.releases();
  }
}

EVERY_STORE("fences are unique across keys") {
  if (!at.bench.one_fence_for_all_keys) {
    return;
  }
  core::Fence last;
  for (int i = 0; i < 20; ++i) {
    auto asker = at.asker("a", key("key-" + std::to_string(i)));
    const auto fence = asker.gets().fence;
    REQUIRE(fence > last);
    last = fence;
  }
}

EVERY_STORE("neither renewing nor being refused moves a fence") {
  auto a = at.asker("a");
  auto b = at.asker("b");
  const auto fence = a.gets().fence;
  at.pass(at.s(1));
  a.renews();
  b.is_refused_at_once();
  b.waits();
  CHECK(at.held().fence == fence);
  CHECK(holder_of(b.waits().by).fence == fence);
}

// --- 5: the line ----------------------------------------------------------------------------------------------------

EVERY_STORE("waiters are granted in the order in which they came") {
  auto holder = at.asker("holder");
  holder.gets();
  std::vector<Asker> line;
  for (int i = 0; i < 12; ++i) {
    line.push_back(at.asker("waiter-" + std::to_string(i)));
    CHECK(line.back().waits().ahead == static_cast<std::size_t>(i));
  }
  // Asking again, in whatever order, moves nobody.
  for (std::size_t i = line.size(); i-- > 0;) {
    CHECK(line[i].waits().ahead == i);
  }
  holder.releases();
  for (std::size_t next = 0; next < line.size(); ++next) {
    for (std::size_t i = line.size() - 1; i > next; --i) {
      CHECK(line[i].waits().ahead == i - next);
    }
    line[next].gets();
    CHECK(at.status().waiting == line.size() - next - 1);
    line[next].releases();
  }
  CHECK_FALSE(at.status().by);
}

EVERY_STORE("a newcomer cannot barge past the line") {
  auto holder = at.asker("holder");
  auto head = at.asker("head");
  auto newcomer = at.asker("newcomer");
  holder.gets();
  head.waits();
  holder.releases();
  const auto busy = newcomer.is_refused_at_once();
  CHECK(same(promise_of(busy.by).who, head.ask.who));
  CHECK_FALSE(busy.line_full);
  const auto place = newcomer.waits();
  CHECK(place.ahead == 1);
  CHECK(same(promise_of(place.by).who, head.ask.who));
  head.gets();
}

EVERY_STORE("the old holder cannot barge past the line either") {
  auto holder = at.asker("holder");
  auto head = at.asker("head");
  holder.gets();
  head.waits();
  holder.releases();
  CHECK(holder.waits().ahead == 1);
  head.gets();
}

EVERY_STORE("an expired lock belongs to the head of the line") {
  auto holder = at.asker("holder");
  auto head = at.asker("head");
  auto newcomer = at.asker("newcomer");
  holder.ask.ttl = at.s(10);
  holder.gets();
  head.waits();
  at.pass(at.s(10));
  promise_of(newcomer.is_refused_at_once().by);
  CHECK(holder.waits().ahead == 1);
  CHECK_FALSE(head.gets().again);
}

EVERY_STORE("a lock is held to the very end of its ttl and no longer") {
  auto a = at.asker("a");
  auto b = at.asker("b");
  a.ask.ttl = at.s(10);
  b.ask.ttl = at.s(1);  // the asker's ttl decides nothing
  a.gets();
  at.pass(at.s(10) - std::max(Millis(1), at.bench.slack));
  b.is_refused_at_once();
  at.pass(std::max(Millis(1), at.bench.slack));
  b.gets();
}

EVERY_STORE("a silent waiter loses its place after patience") {
  auto holder = at.asker("holder");
  auto silent = at.asker("silent");
  auto next = at.asker("next");
  holder.gets();
  silent.waits();
  CHECK(next.waits().ahead == 1);
  at.pass(at.s(14));
  CHECK(next.waits().ahead == 1);
  at.pass(at.s(1));
  CHECK(next.waits().ahead == 0);
  CHECK(silent.waits().ahead == 1);
}

EVERY_STORE("a silent head does not keep a free lock for longer than its patience") {
  auto holder = at.asker("holder");
  auto silent = at.asker("silent");
  auto newcomer = at.asker("newcomer");
  holder.gets();
  silent.waits();
  at.pass(at.s(5));
  holder.releases();
  at.pass(at.s(9));
  newcomer.is_refused_at_once();
  at.pass(at.s(1));
  newcomer.gets();
  CHECK(holder_of(silent.is_refused_at_once().by).owner == newcomer.claim().owner);
}

EVERY_STORE("a waiter that comes back too late joins at the end, even if nobody asked meanwhile") {
  auto holder = at.asker("holder");
  auto late = at.asker("late");
  auto next = at.asker("next");
  holder.gets();
  late.waits();
  at.pass(at.s(10));
  next.waits();
  at.pass(at.s(5));
  CHECK(at.status().waiting == 1);
  CHECK(late.waits().ahead == 1);
  CHECK(next.waits().ahead == 0);
}

EVERY_STORE("a waiter in the middle that comes back too late joins at the end") {
  auto holder = at.asker("holder");
  auto head = at.asker("head");
  auto late = at.asker("late");
  auto last = at.asker("last");
  holder.gets();
  head.waits();
  late.waits();
  last.waits();
  at.pass(at.s(10));
  head.waits();
  last.waits();
  at.pass(at.s(5));
  CHECK(late.waits().ahead == 2);
  CHECK(last.waits().ahead == 1);
}

EVERY_STORE("a waiter that keeps asking keeps its place") {
  auto holder = at.asker("holder");
  auto head = at.asker("head");
  holder.ask.ttl = at.s(1000);
  head.ask.patience = at.s(5);
  holder.gets();
  head.waits();
  for (int i = 0; i < 10; ++i) {
    at.pass(at.s(4));
    CHECK(head.waits().ahead == 0);
    CHECK(at.asker("newcomer").is_refused_at_once().ask_again_in > Millis(0));
  }
  const auto line = at.status().line;
  REQUIRE(line.size() == 1);
  CHECK(line[0].waiting_for >= at.s(40) - at.bench.slack);
}

EVERY_STORE("a place that lapsed is no place to leave") {
  auto holder = at.asker("holder");
  auto head = at.asker("head");
  auto silent = at.asker("silent");
  auto last = at.asker("last");
  silent.ask.patience = at.s(5);
  holder.gets();
  head.waits();
  silent.waits();
  last.waits();
  at.pass(at.s(5));
  CHECK(silent.releases().what == Release::not_mine);
  CHECK(last.waits().ahead == 1);
}

EVERY_STORE("a waiter's own patience counts, not another's") {
  auto holder = at.asker("holder");
  auto patient = at.asker("patient");
  auto other = at.asker("other");
  patient.ask.patience = at.s(40);
  other.ask.patience = at.s(5);
  holder.gets();
  patient.waits();
  other.waits();
  at.pass(at.s(5));
  CHECK(at.status().waiting == 1);
  at.pass(at.s(34));
  CHECK(other.waits().ahead == 1);
  at.pass(at.s(1));
  CHECK(other.waits().ahead == 0);
}

EVERY_STORE("who has no patience gets no place") {
  auto holder = at.asker("holder");
  auto one_try = at.asker("one-try");
  holder.gets();
  const auto busy = one_try.is_refused_at_once();
  CHECK_FALSE(busy.line_full);
  CHECK(at.status().waiting == 0);
  holder.releases();
  at.asker("other").gets();
}

EVERY_STORE("one try of a claim that waits leaves its place alone") {
  auto holder = at.asker("holder");
  auto a = at.asker("a");
  auto b = at.asker("b");
  holder.gets();
  a.waits();
  b.waits();
  a.ask.patience = Millis(0);
  CHECK(a.waits().ahead == 0);
  CHECK(at.status().waiting == 2);
  at.pass(at.s(14));
  CHECK(b.waits().ahead == 1);
  at.pass(at.s(1));
  CHECK(b.waits().ahead == 0);
}

EVERY_STORE("who was granted has left the line") {
  auto holder = at.asker("holder");
  auto head = at.asker("head");
  holder.gets();
  head.waits();
  holder.releases();
  head.gets();
  CHECK(at.status().waiting == 0);
  CHECK(head.releases().what == Release::released);
  CHECK(head.releases().what == Release::not_held);
}

EVERY_STORE("lines of different keys do not mix") {
  auto holder_k = at.asker("holder", key("k"));
  auto holder_l = at.asker("holder", key("l"));
  auto wait_k = at.asker("waiter", key("k"));
  auto wait_l = at.asker("other", key("l"));
  holder_k.gets();
  holder_l.gets();
  CHECK(wait_k.waits().ahead == 0);
  CHECK(wait_l.waits().ahead == 0);
  holder_l.releases();
  CHECK(wait_k.waits().ahead == 0);
  wait_l.gets();
  CHECK(at.holder(key("k")) == "holder");
}

EVERY_STORE("the line takes no more than max_waiting") {
  auto holder = at.asker("holder");
  auto first = at.asker("first");
  auto second = at.asker("second");
  auto third = at.asker("third");
  first.ask.max_waiting = 1;
  second.ask.max_waiting = 1;
  third.ask.max_waiting = 2;
  holder.gets();
  CHECK(first.waits().ahead == 0);
  const auto busy = second.is_refused();
  CHECK(busy.line_full);
  CHECK(holder_of(busy.by).owner == holder.claim().owner);
  CHECK(third.waits().ahead == 1);
  // Who is in line already is not judged again.
  CHECK(first.waits().ahead == 0);
  CHECK(third.waits().ahead == 1);
  CHECK(at.status().waiting == 2);
  first.releases();
  second.is_refused();
  third.releases();
  CHECK(second.waits().ahead == 0);
}

EVERY_STORE("max_waiting 0 never waits, but takes a free lock") {
  auto a = at.asker("a");
  auto b = at.asker("b");
  a.ask.max_waiting = 0;
  b.ask.max_waiting = 0;
  a.gets();
  CHECK(b.is_refused().line_full);
  CHECK(at.status().waiting == 0);
  a.releases();
  b.gets();
}

EVERY_STORE("a place that lapsed does not count for max_waiting") {
  auto holder = at.asker("holder");
  auto silent = at.asker("silent");
  auto next = at.asker("next");
  next.ask.max_waiting = 1;
  holder.gets();
  silent.waits();
  at.pass(at.s(14));
  CHECK(next.is_refused().line_full);
  at.pass(at.s(1));
  CHECK(next.waits().ahead == 0);
}

EVERY_STORE("a full line in front of a free lock is still full") {
  auto holder = at.asker("holder");
  auto head = at.asker("head");
  auto next = at.asker("next");
  next.ask.max_waiting = 1;
  holder.gets();
  head.waits();
  holder.releases();
  const auto busy = next.is_refused();
  CHECK(busy.line_full);
  CHECK(same(promise_of(busy.by).who, head.ask.who));
}

// --- 6: release -----------------------------------------------------------------------------------------------------

EVERY_STORE("a released lock is free at once, and releasing it again says so") {
  auto a = at.asker("a");
  a.gets();
  const auto released = a.releases();
  CHECK(released.what == Release::released);
  CHECK_FALSE(released.by);
  CHECK_FALSE(released.expired_for);
  CHECK_FALSE(at.status().by);
  CHECK(a.releases().what == Release::not_held);
  at.asker("b").gets();
}

EVERY_STORE("releasing what nobody ever held changes nothing") {
  auto a = at.asker("a");
  const auto released = a.releases();
  CHECK(released.what == Release::not_held);
  CHECK_FALSE(released.by);
  CHECK(a.leaves(at.s(1)).what == Release::not_held);
  CHECK(value(at.onlooker().list(core::Glob::everything())).empty());
}

EVERY_STORE("release frees nothing but the claim's own") {
  auto a = at.asker("a");
  auto other_key = at.asker("a", key("l"));
  auto b = at.asker("b");
  auto c = at.asker("c");
  a.gets();
  other_key.ask.claim.ask = a.claim().ask;
  other_key.gets();
  c.waits();
  const auto released = b.releases();
  CHECK(released.what == Release::not_mine);
  REQUIRE(released.by);
  CHECK(holder_of(*released.by).owner == a.claim().owner);
  CHECK(same(holder_of(*released.by).who, a.ask.who));
  CHECK(at.holder() == "a");
  a.releases();
  CHECK(at.holder(key("l")) == "a");
  CHECK(at.status().waiting == 1);
  CHECK(b.releases().what == Release::not_held);
  c.gets();
}

EVERY_STORE("the old holder frees nothing after a takeover") {
  auto a = at.asker("a");
  auto b = at.asker("b");
  a.ask.ttl = at.s(10);
  a.gets();
  at.pass(at.s(10));
  b.gets();
  const auto released = a.releases();
  CHECK(released.what == Release::not_mine);
  REQUIRE(released.by);
  CHECK(holder_of(*released.by).owner == b.claim().owner);
  CHECK(at.holder() == "b");
}

EVERY_STORE("releasing after the end says since when it is over") {
  if (!at.bench.renews_expired) {
    return;
  }
  auto a = at.asker("a");
  a.ask.ttl = at.s(10);
  a.gets();
  at.pass(at.s(13));
  const auto released = a.releases();
  CHECK(released.what == Release::expired);
  CHECK(at.near(released.expired_for, at.s(3)));
  CHECK(a.releases().what == Release::not_held);
  CHECK(a.renews() == Renewal::gone);
}

EVERY_STORE("another's release leaves an expired grant alone") {
  auto a = at.asker("a");
  auto b = at.asker("b");
  a.ask.ttl = at.s(10);
  a.gets();
  at.pass(at.s(10));
  const auto released = b.releases();
  CHECK(released.what == Release::not_held);
  CHECK_FALSE(released.by);
  CHECK(a.renews() == (at.bench.renews_expired ? Renewal::renewed : Renewal::gone));
}

EVERY_STORE("a waiter that releases leaves the line and nothing else") {
  auto holder = at.asker("holder");
  auto a = at.asker("a");
  auto b = at.asker("b");
  auto c = at.asker("c");
  holder.gets();
  a.waits();
  b.waits();
  c.waits();
  const auto left = b.releases();
  CHECK(left.what == Release::left_line);
  CHECK_FALSE(left.by);
  CHECK(at.holder() == "holder");
  CHECK(a.waits().ahead == 0);
  CHECK(c.waits().ahead == 1);
  CHECK(b.releases().what == Release::not_mine);
  CHECK(b.waits().ahead == 2);
}

EVERY_STORE("the head that leaves a free lock leaves it to the next") {
  auto holder = at.asker("holder");
  auto head = at.asker("head");
  auto next = at.asker("next");
  holder.gets();
  head.waits();
  next.waits();
  holder.releases();
  CHECK(head.releases().what == Release::left_line);
  next.gets();
}

EVERY_STORE("the zero ask id frees the owner's grant and leaves its waiting claims alone") {
  auto a = at.asker("worker-7");
  auto b = at.asker("worker-7");
  a.gets();
  b.waits();
  CHECK(value(at.onlooker().release(a.any_ask_of_owner(), std::nullopt)).what == Release::released);
  CHECK(at.status().waiting == 1);
  CHECK_FALSE(b.gets().again);
}

EVERY_STORE("the zero ask id takes an owner that only waits out of the line") {
  auto holder = at.asker("holder");
  auto a = at.asker("worker-7");
  auto other = at.asker("other");
  holder.gets();
  a.waits();
  other.waits();
  CHECK(value(at.onlooker().release(a.any_ask_of_owner(), std::nullopt)).what == Release::left_line);
  CHECK(other.waits().ahead == 0);
  CHECK(at.holder() == "holder");
}

EVERY_STORE("release with a fence frees only that grant") {
  auto a = at.asker("a");
  const auto first = a.gets().fence;
  a.releases();
  const auto second = a.gets().fence;
  const auto refused = a.releases(first);
  CHECK(refused.what == Release::not_mine);
  REQUIRE(refused.by);
  CHECK(holder_of(*refused.by).fence == second);
  CHECK(value(at.onlooker().release(a.any_ask_of_owner(), first)).what == Release::not_mine);
  CHECK(at.holder() == "a");
  CHECK(a.releases(second).what == Release::released);
  CHECK_FALSE(at.status().by);
}

EVERY_STORE("release with a fence takes nobody out of the line") {
  auto holder = at.asker("holder");
  auto a = at.asker("a");
  const auto fence = holder.gets().fence;
  a.waits();
  CHECK(a.releases(fence).what == Release::not_mine);
  CHECK(at.status().waiting == 1);
  CHECK(a.waits().ahead == 0);
}

EVERY_STORE("a claim with an expired grant and a place leaves nothing of either behind") {
  auto a = at.asker("a");
  auto head = at.asker("head");
  auto onlooker = at.asker("onlooker");
  a.ask.ttl = at.s(10);
  a.gets();
  head.waits();
  at.pass(at.s(10));
  CHECK(a.waits().ahead == 1);
  a.releases();
  CHECK(at.status().waiting == 1);
  CHECK(a.releases().what == Release::not_held);
  head.gets();
  head.releases();
  onlooker.gets();
}

// --- leave ----------------------------------------------------------------------------------------------------------

EVERY_STORE("a grant that is left ends when it was told to, later or sooner") {
  for (const int seconds : {3, 15}) {
    CAPTURE(seconds);
    auto a = at.asker("a");
    auto b = at.asker("b");
    a.ask.ttl = at.s(10);
    a.gets();
    const auto left = a.leaves(at.s(seconds));
    CHECK(left.what == Release::released);
    CHECK_FALSE(left.by);
    CHECK(at.near(at.held().left, at.s(seconds)));
    at.pass(at.s(seconds - 1));
    b.is_refused_at_once();
    at.pass(at.s(1));
    b.gets();
    b.releases();
  }
}

EVERY_STORE("everybody sees of an exec's grant whether it was left, until the next one") {
  auto a = at.asker("a");
  a.ask.durable = false;
  a.ask.keepers = core::Keepers{os::own_realm(), os::own_process()};
  a.gets();
  CHECK_FALSE(at.held().command_ended);
  CHECK(a.leaves(at.s(5)).what == Release::released);
  CHECK(a.leaves(at.s(3)).what == Release::released);
  CHECK(at.held().command_ended);
  CHECK_FALSE(at.held().durable);
  CHECK(holder_of(at.asker("b").is_refused_at_once().by).command_ended);
  const auto all = contract::value(at.onlooker().list(core::Glob::everything()));
  REQUIRE(all.size() == 1);
  CHECK(holder_of(*all.front().by).command_ended);
  at.pass(at.s(3));
  a.gets();
  CHECK_FALSE(at.held().command_ended);
}

EVERY_STORE("a grant that is left at once is gone") {
  auto a = at.asker("a");
  auto head = at.waiter_after(a);
  CHECK(a.leaves(Millis(0)).what == Release::released);
  CHECK(a.renews() == Renewal::gone);
  CHECK(a.releases().what == Release::not_held);
  head.gets();
}

EVERY_STORE("only what is one's own can be left") {
  auto a = at.asker("a");
  auto b = at.asker("b");
  a.gets();
  const auto refused = b.leaves(at.s(1));
  CHECK(refused.what == Release::not_mine);
  REQUIRE(refused.by);
  CHECK(holder_of(*refused.by).owner == a.claim().owner);
  CHECK(at.near(at.held().left, at.s(60)));
  b.waits();
  CHECK(b.leaves(at.s(1)).what == Release::left_line);
  CHECK(at.status().waiting == 0);
  CHECK(at.near(at.held().left, at.s(60)));
}

EVERY_STORE("a grant that ended cannot be left any more") {
  auto a = at.asker("a");
  a.ask.ttl = at.s(10);
  a.gets();
  at.pass(at.s(10));
  CHECK(a.leaves(at.s(30)).what == (at.bench.renews_expired ? Release::expired : Release::not_held));
  CHECK_FALSE(at.status().by);
  CHECK(a.renews() == Renewal::gone);
  at.asker("b").gets();
}

EVERY_STORE("the line waits for the end of a grant that was left, and no longer") {
  auto a = at.asker("a");
  auto head = at.waiter_after(a);
  const auto before = head.waits();
  CHECK(a.leaves(at.s(5)).what == Release::released);
  // Whether it rings or not: the head asks in time.
  CHECK((head.has_rung() || before.ask_again_in <= at.s(5)));
  at.pass(at.s(5));
  head.gets();
}

// --- 7: renew -------------------------------------------------------------------------------------------------------

EVERY_STORE("the holder renews for as long as it likes") {
  auto a = at.asker("a");
  auto b = at.asker("b");
  a.ask.ttl = at.s(6);
  a.gets();
  for (int i = 0; i < 10; ++i) {
    at.pass(at.s(5));
    CHECK(a.renews() == Renewal::renewed);
    CHECK(at.near(at.held().left, at.s(6)));
    b.is_refused_at_once();
  }
  CHECK(at.held().held_for >= at.s(50) - at.bench.slack);
  at.pass(at.s(6));
  b.gets();
}

EVERY_STORE("renewing never shortens") {
  auto a = at.asker("a");
  auto b = at.asker("b");
  a.ask.ttl = at.s(10);
  a.gets();
  CHECK(a.renews(at.s(1)) == Renewal::renewed);
  CHECK(at.near(at.held().left, at.s(10)));
  at.pass(at.s(9));
  b.is_refused_at_once();
  CHECK(a.renews(at.s(20)) == Renewal::renewed);
  CHECK(at.near(at.held().left, at.s(20)));
  // Longer than the ttl of the grant, and yet held to its end.
  at.pass(at.s(19));
  b.is_refused_at_once();
  CHECK(at.holder() == "a");
  at.pass(at.s(1));
  b.gets();
}

EVERY_STORE("the old holder cannot renew after a takeover") {
  auto a = at.asker("a");
  auto b = at.asker("b");
  a.ask.ttl = at.s(10);
  a.gets();
  at.pass(at.s(10));
  b.gets();
  CHECK(a.renews() == Renewal::not_mine);
  CHECK(at.holder() == "b");
  CHECK(at.near(at.held().left, at.s(60)));
  b.releases();
  CHECK(a.renews() == Renewal::gone);
  CHECK_FALSE(at.status().by);
}

EVERY_STORE("nobody renews what nobody holds") {
  auto a = at.asker("a");
  CHECK(a.renews() == Renewal::gone);
  CHECK_FALSE(at.status().by);
  a.gets();
  a.releases();
  CHECK(a.renews() == Renewal::gone);
  CHECK_FALSE(at.status().by);
}

EVERY_STORE("a waiter cannot renew") {
  auto holder = at.asker("holder");
  auto a = at.asker("a");
  holder.ask.ttl = at.s(10);
  holder.gets();
  a.waits();
  CHECK(a.renews() == Renewal::not_mine);
  at.pass(at.s(10));
  CHECK(a.renews() == Renewal::gone);
  CHECK(at.holder() == "");
  a.gets();
}

EVERY_STORE("a grant that ended is renewed only where the store says so") {
  auto a = at.asker("a");
  auto b = at.asker("b");
  a.ask.ttl = at.s(10);
  const auto fence = a.gets().fence;
  at.pass(at.s(13));
  CHECK_FALSE(at.status().by);
  if (!at.bench.renews_expired) {
    CHECK(a.renews() == Renewal::gone);
    b.gets();
    return;
  }
  CHECK(a.renews() == Renewal::renewed);
  CHECK(at.held().fence == fence);
  CHECK(at.near(at.held().left, at.s(10)));
  b.is_refused_at_once();
  CHECK(a.gets().again);
}

EVERY_STORE("a grant that ended is not renewed in front of a line") {
  auto a = at.asker("a");
  auto head = at.asker("head");
  a.ask.ttl = at.s(10);
  a.gets();
  head.waits();
  at.pass(at.s(10));
  CHECK(a.renews() == Renewal::gone);
  CHECK_FALSE(head.gets().again);
  CHECK(a.renews() == Renewal::not_mine);
}

EVERY_STORE("a line whose waiters all lapsed does not keep a claim from renewing") {
  if (!at.bench.renews_expired) {
    return;
  }
  auto a = at.asker("a");
  auto silent = at.asker("silent");
  a.ask.ttl = at.s(10);
  a.gets();
  silent.ask.patience = at.s(5);
  silent.waits();
  at.pass(at.s(10));
  CHECK(a.renews() == Renewal::renewed);
  CHECK(at.holder() == "a");
}

EVERY_STORE("a renewed grant keeps its line") {
  auto a = at.asker("a");
  auto head = at.asker("head");
  a.gets();
  head.waits();
  at.pass(at.s(10));
  CHECK(a.renews() == Renewal::renewed);
  CHECK(head.waits().ahead == 0);
  CHECK(at.near(holder_of(head.waits().by).left, at.s(60)));
}

// --- 8: when to ask again -------------------------------------------------------------------------------------------

EVERY_STORE("the head is told to ask before the holder's end and before its own place lapses") {
  auto holder = at.asker("holder");
  auto head = at.asker("head");
  holder.ask.ttl = at.s(10);
  holder.gets();
  for (const int seconds : {1, 2, 15, 600}) {
    CAPTURE(seconds);
    head.ask.patience = at.s(seconds);
    const auto place = head.waits();
    CHECK(place.ask_again_in > Millis(0));
    CHECK(place.ask_again_in <= at.s(seconds) / 2);
    CHECK(place.ask_again_in <= at.bench.head_notices_within);
  }
  at.pass(at.s(10) - Millis(7));
  CHECK(head.waits().ask_again_in <= Millis(7) + at.bench.slack);
  CHECK(head.waits().ask_again_in > Millis(0));
}

EVERY_STORE("everybody in line is told to ask before its own place lapses") {
  auto holder = at.asker("holder");
  holder.gets();
  std::vector<Asker> line;
  for (int i = 0; i < 5; ++i) {
    line.push_back(at.asker("waiter-" + std::to_string(i)));
    line.back().ask.patience = at.s(1);
    const auto place = line.back().waits();
    CAPTURE(i);
    CHECK(place.ask_again_in > Millis(0));
    CHECK(place.ask_again_in <= at.s(1) / 2);
  }
}

EVERY_STORE("the second in line looks after a dead head") {
  auto holder = at.asker("holder");
  holder.gets();
  at.asker("head").waits();
  auto second = at.asker("second");
  second.ask.patience = at.s(600);
  CHECK(second.waits().ask_again_in <= at.bench.second_notices_within);
}

EVERY_STORE("who is refused is told when asking may help") {
  auto holder = at.asker("holder");
  auto other = at.asker("other");
  holder.ask.ttl = at.s(10);
  holder.gets();
  const auto busy = other.is_refused_at_once();
  CHECK(busy.ask_again_in > Millis(0));
  CHECK(busy.ask_again_in <= at.s(10));
  at.pass(at.s(10) - Millis(7));
  CHECK(other.is_refused_at_once().ask_again_in <= Millis(7) + at.bench.slack);
}

EVERY_STORE("a head that asks when told gets an expired lock at once") {
  auto holder = at.asker("holder");
  auto head = at.asker("head");
  holder.ask.ttl = at.s(10);
  holder.gets();
  Millis waited{0};
  while (true) {
    const auto answer = head.asks();
    if (std::holds_alternative<core::Granted>(answer)) {
      break;
    }
    const Millis pause = std::get<core::Queued>(answer).ask_again_in;
    REQUIRE(pause > Millis(0));
    at.pass(pause);
    waited += pause;
    REQUIRE(waited <= at.s(10) + at.bench.slack);
  }
  CHECK(waited >= at.s(10) - at.bench.slack);
}

EVERY_STORE("the second that asks when told gets the lock when holder and head are both dead") {
  auto holder = at.asker("holder");
  auto head = at.asker("head");
  auto second = at.asker("second");
  holder.ask.ttl = at.s(10);
  holder.gets();
  head.listens();
  head.waits();
  head.dies();
  Millis waited{0};
  while (true) {
    const auto answer = second.asks();
    if (std::holds_alternative<core::Granted>(answer)) {
      break;
    }
    const Millis pause = std::get<core::Queued>(answer).ask_again_in;
    at.pass(pause);
    waited += pause;
    REQUIRE(waited <= at.s(10) + at.bench.second_notices_within + at.bench.slack);
  }
}

// --- 9: bells -------------------------------------------------------------------------------------------------------

EVERY_STORE("a release rings the head of the line and nobody else") {
  auto holder = at.asker("holder");
  holder.gets();
  auto head = at.waiter("head");
  auto second = at.waiter("second");
  auto third = at.waiter("third");
  CHECK_FALSE(head.has_rung());
  holder.releases();
  CHECK(head.rings_within(std::chrono::seconds(2)));
  CHECK_FALSE(second.has_rung());
  CHECK_FALSE(third.has_rung());
  head.drains();
  CHECK_FALSE(head.has_rung());
  head.gets();
  second.drains();
  head.releases();
  CHECK(second.rings_within(std::chrono::seconds(2)));
  CHECK_FALSE(third.has_rung());
  CHECK_FALSE(head.has_rung());
}

EVERY_STORE("asking, renewing and looking ring nobody") {
  auto holder = at.asker("holder");
  holder.gets();
  auto head = at.waiter("head");
  auto second = at.waiter("second");
  holder.renews();
  holder.gets();
  second.waits();
  at.asker("other").is_refused_at_once();
  at.asker("other").releases();
  at.status();
  value(at.onlooker().list(core::Glob::everything()));
  CHECK_FALSE(head.has_rung());
  CHECK_FALSE(second.has_rung());
}

EVERY_STORE("a bell that was hung before the first ask misses no release") {
  auto holder = at.asker("holder");
  auto head = at.asker("head");
  holder.gets();
  head.listens();
  CHECK_FALSE(head.has_rung());
  head.waits();
  holder.releases();
  CHECK(head.rings_within(std::chrono::seconds(2)));
}

EVERY_STORE("only the bell of that key rings") {
  auto holder = at.asker("holder", key("l"));
  holder.gets();
  auto holder_k = at.asker("holder");
  holder_k.gets();
  auto head = at.waiter("head");
  holder.releases();
  CHECK_FALSE(head.has_rung());
}

EVERY_STORE("an eviction rings the head of the line") {
  auto holder = at.asker("holder");
  holder.gets();
  auto head = at.waiter("head");
  CHECK(value(at.onlooker().evict(key("k"), at.held())) == Eviction::evicted);
  CHECK(head.rings_within(std::chrono::seconds(2)));
}

EVERY_STORE("the head that leaves a free lock rings the next") {
  auto holder = at.asker("holder");
  holder.gets();
  auto head = at.waiter("head");
  auto second = at.waiter("second");
  holder.releases();
  head.releases();
  CHECK(second.rings_within(std::chrono::seconds(2)));
}

EVERY_STORE("who becomes the head by a grant is rung, or asks as often as a head anyway") {
  auto holder = at.asker("holder");
  holder.gets();
  auto first = at.waiter("first");
  auto second = at.waiter("second");
  auto third = at.waiter("third");
  const Millis pause_of_second = second.waits().ask_again_in;
  const Millis pause_of_third = third.waits().ask_again_in;
  holder.releases();
  first.gets();
  first.store().tidy();
  CHECK((pause_of_second <= at.bench.head_notices_within || second.rings_within(std::chrono::seconds(1))));
  first.releases();
  second.gets();
  second.store().tidy();
  CHECK((pause_of_third <= at.bench.head_notices_within || third.rings_within(std::chrono::seconds(1))));
}

EVERY_STORE("who becomes the head because another left is rung, or asks as often as a head anyway") {
  auto holder = at.asker("holder");
  holder.gets();
  auto first = at.waiter("first");
  auto second = at.waiter("second");
  const Millis pause = second.waits().ask_again_in;
  first.releases();
  CHECK((pause <= at.bench.head_notices_within || second.rings_within(std::chrono::seconds(1))));
}

EVERY_STORE("a dead bell is dropped at once by whoever rings it") {
  auto holder = at.asker("holder");
  holder.gets();
  auto dead = at.waiter("dead");
  auto dead_too = at.waiter("dead-too");
  auto next = at.waiter("next");
  dead.dies();
  dead_too.dies();
  holder.releases();
  CHECK(next.rings_within(std::chrono::seconds(2)));
  CHECK(at.status().waiting == 1);
  next.gets();
}

EVERY_STORE("a dead bell is dropped at once by the next one that asks, when nobody rang") {
  auto holder = at.asker("holder");
  holder.ask.ttl = at.s(10);
  holder.gets();
  auto dead = at.waiter("dead");
  auto next = at.waiter("next");
  dead.dies();
  at.pass(at.s(10));
  next.gets();
  CHECK(at.status().waiting == 0);
}

EVERY_STORE("a dead head does not keep one try from a free lock") {
  auto holder = at.asker("holder");
  holder.ask.ttl = at.s(10);
  holder.gets();
  auto dead = at.waiter("dead");
  dead.dies();
  at.pass(at.s(10));
  auto newcomer = at.asker("newcomer");
  newcomer.ask.patience = Millis(0);
  newcomer.gets();
}

EVERY_STORE("a living head is rung by whoever finds its lock free") {
  auto holder = at.asker("holder");
  holder.ask.ttl = at.s(10);
  holder.gets();
  auto head = at.waiter("head");
  auto second = at.waiter("second");
  at.pass(at.s(10));
  CHECK_FALSE(head.has_rung());
  second.waits();
  CHECK(head.rings_within(std::chrono::seconds(2)));
  CHECK_FALSE(second.has_rung());
  head.gets();
}

EVERY_STORE("a place without a bell is never dropped by a ring") {
  auto holder = at.asker("holder");
  auto bell_less = at.asker("bell-less");
  holder.gets();
  bell_less.waits();
  auto next = at.waiter("next");
  holder.releases();
  CHECK_FALSE(next.has_rung());
  CHECK(next.waits().ahead == 1);
  at.asker("newcomer").is_refused_at_once();
  CHECK(at.status().waiting == 2);
  bell_less.gets();
}

EVERY_STORE("a bell may be hung again after the first is gone") {
  auto holder = at.asker("holder");
  holder.gets();
  auto head = at.waiter("head");
  head.dies();
  head.listens();
  CHECK(head.waits().ahead == 0);
  holder.releases();
  CHECK(head.rings_within(std::chrono::seconds(2)));
  head.gets();
}

// --- evict ----------------------------------------------------------------------------------------------------------

EVERY_STORE("force removes the holder that was seen") {
  auto a = at.asker("a");
  a.gets();
  CHECK(value(at.onlooker().evict(key("k"), at.held())) == Eviction::evicted);
  CHECK_FALSE(at.status().by);
  CHECK(a.renews() == Renewal::gone);
  CHECK(a.releases().what == Release::not_held);
  at.asker("b").gets();
}

EVERY_STORE("force never removes a newer holder than the one that was seen") {
  auto a = at.asker("a");
  auto b = at.asker("b");
  a.gets();
  const auto seen = at.held();
  a.releases();
  b.gets();
  CHECK(value(at.onlooker().evict(key("k"), seen)) == Eviction::changed);
  CHECK(at.holder() == "b");
  b.releases();
  a.gets();  // the same claim, another grant
  CHECK(value(at.onlooker().evict(key("k"), seen)) == Eviction::changed);
  CHECK(at.holder() == "a");
}

EVERY_STORE("force compares owner, ask and fence of what was seen") {
  auto a = at.asker("a");
  a.gets();
  auto seen = at.held();
  seen.owner = core::Owner::stored("b");
  CHECK(value(at.onlooker().evict(key("k"), seen)) == Eviction::changed);
  seen = at.held();
  seen.ask.value ^= 1;
  CHECK(value(at.onlooker().evict(key("k"), seen)) == Eviction::changed);
  seen = at.held();
  --seen.fence->value;
  CHECK(value(at.onlooker().evict(key("k"), seen)) == Eviction::changed);
  CHECK(value(at.onlooker().evict(key("k"), core::Foreign{"hash", a.claim().owner.bytes(), std::nullopt})) ==
        Eviction::changed);
  CHECK(at.holder() == "a");
  CHECK(value(at.onlooker().evict(key("k"), at.held())) == Eviction::evicted);
}

EVERY_STORE("a renewal does not make the holder another one for force") {
  auto a = at.asker("a");
  a.gets();
  const auto seen = at.held();
  at.pass(at.s(30));
  a.renews();
  CHECK(value(at.onlooker().evict(key("k"), seen)) == Eviction::evicted);
}

EVERY_STORE("force on a free lock says so and touches no line") {
  auto a = at.asker("a");
  auto head = at.asker("head");
  a.gets();
  const auto seen = at.held();
  head.waits();
  a.releases();
  CHECK(value(at.onlooker().evict(key("k"), seen)) == Eviction::free);
  const auto promised = at.status().by;
  REQUIRE(promised);
  CHECK(value(at.onlooker().evict(key("k"), *promised)) == Eviction::free);
  CHECK(at.status().waiting == 1);
  head.gets();
  CHECK(value(at.onlooker().evict(key("k"), *promised)) == Eviction::changed);
  CHECK(at.holder() == "head");
}

EVERY_STORE("force on an expired lock finds it free") {
  auto a = at.asker("a");
  a.ask.ttl = at.s(10);
  a.gets();
  const auto seen = at.held();
  at.pass(at.s(10));
  CHECK(value(at.onlooker().evict(key("k"), seen)) == Eviction::free);
}

EVERY_STORE("force leaves other keys alone") {
  auto a = at.asker("a");
  auto l = at.asker("a", key("l"));
  a.gets();
  l.gets();
  CHECK(value(at.onlooker().evict(key("k"), at.held())) == Eviction::evicted);
  CHECK(at.holder(key("l")) == "a");
}

// --- 10 and showing: durations, who, lines --------------------------------------------------------------------------

EVERY_STORE("status shows the holder as it introduced itself, for how long and how much longer") {
  auto a = at.asker("owner with 'quotes' \" and \\ %s");
  a.ask.who = {"web3.example", "deploy", 4312, "rsync --with'quote", "v1.9 \n\x1b[31m ü \xff"};
  a.ask.ttl = at.s(60);
  const auto fence = a.gets().fence;
  const auto wall = at.world->wall();
  at.pass(at.s(19));
  const auto state = at.status();
  CHECK(state.key == key("k"));
  CHECK(state.waiting == 0);
  CHECK(state.line.empty());
  const auto held = at.held();
  CHECK(held.owner == a.claim().owner);
  CHECK(held.ask == a.claim().ask);
  CHECK(held.fence == fence);
  CHECK(same(held.who, a.ask.who));
  CHECK(held.durable);
  CHECK(at.near(held.held_for, at.s(19)));
  CHECK(at.near(held.left, at.s(41)));
  REQUIRE(held.since);
  CHECK(std::chrono::abs(*held.since - wall) <= at.bench.slack);
  CHECK(same(holder_of(at.asker("b").is_refused_at_once().by).who, a.ask.who));
}

EVERY_STORE("status tells a durable grant from one that dies with the machine") {
  auto a = at.asker("a");
  a.ask.durable = false;
  a.gets();
  CHECK_FALSE(at.held().durable);
  a.releases();
  a.ask.durable = true;
  a.gets();
  CHECK(at.held().durable);
}

EVERY_STORE("status of a key that nobody ever used is free") {
  const auto state = at.status(key("never"));
  CHECK(state.key == key("never"));
  CHECK_FALSE(state.by);
  CHECK(state.waiting == 0);
  CHECK(state.line.empty());
}

EVERY_STORE("an expired holder is shown by nobody") {
  auto a = at.asker("a");
  a.ask.ttl = at.s(10);
  a.gets();
  at.pass(at.s(10));
  CHECK_FALSE(at.status().by);
  CHECK(value(at.onlooker().list(core::Glob::everything())).empty());
}

EVERY_STORE("a free lock with a line is shown as promised to the head") {
  auto holder = at.asker("holder");
  auto head = at.asker("head");
  auto second = at.asker("second");
  holder.gets();
  head.waits();
  at.pass(at.s(2));
  second.waits();
  holder.releases();
  at.pass(at.s(1));
  const auto state = at.status();
  REQUIRE(state.by);
  CHECK(same(promise_of(*state.by).who, head.ask.who));
  CHECK(at.near(promise_of(*state.by).waiting_for, at.s(3)));
  CHECK(state.waiting == 2);
  const auto listed = value(at.onlooker().list(core::Glob::everything()));
  REQUIRE(listed.size() == 1);
  REQUIRE(listed[0].by);
  CHECK(same(promise_of(*listed[0].by).who, head.ask.who));
  CHECK(listed[0].waiting == 2);
}

EVERY_STORE("status shows the line in its order, each with its age and how long it means to wait") {
  auto holder = at.asker("holder");
  auto first = at.asker("first");
  auto second = at.asker("second");
  holder.gets();
  first.ask.wait_left = at.s(30);
  first.waits();
  const auto wall = at.world->wall();
  at.pass(at.s(5));
  second.waits();
  first.ask.wait_left = at.s(25);
  first.waits();
  at.pass(at.s(2));
  const auto state = at.status();
  CHECK(holder_of(*state.by).owner == holder.claim().owner);
  CHECK(state.waiting == 2);
  REQUIRE(state.line.size() == 2);
  CHECK(state.line[0].owner == first.claim().owner);
  CHECK(state.line[0].ask == first.claim().ask);
  CHECK(same(state.line[0].who, first.ask.who));
  CHECK(at.near(state.line[0].waiting_for, at.s(7)));
  CHECK(at.near(state.line[0].wait_left, at.s(23)));
  REQUIRE(state.line[0].since);
  CHECK(std::chrono::abs(*state.line[0].since - wall) <= at.bench.slack);
  CHECK(state.line[1].owner == second.claim().owner);
  CHECK(at.near(state.line[1].waiting_for, at.s(2)));
  CHECK_FALSE(state.line[1].wait_left);
}

EVERY_STORE("looking changes nothing") {
  auto holder = at.asker("holder");
  holder.ask.ttl = at.s(10);
  const auto fence = holder.gets().fence;
  auto silent = at.waiter("silent");
  for (int i = 0; i < 9; ++i) {
    at.pass(at.s(1));
    at.status();
    value(at.onlooker().list(core::Glob::everything()));
  }
  CHECK(at.held().fence == fence);
  CHECK(at.near(at.held().left, at.s(1)));
  at.pass(at.s(6));
  CHECK_FALSE(at.status().by);
  CHECK(at.status().waiting == 0);
  CHECK(at.status().line.empty());
  CHECK(value(at.onlooker().list(core::Glob::everything())).empty());
  CHECK(holder.renews() == (at.bench.renews_expired ? Renewal::renewed : Renewal::gone));
}

EVERY_STORE("list shows held and waited-for locks in key order") {
  std::vector<Asker> all;
  for (const std::string text : {"b", "a:2", "a:10", "a", "ä", "B", "z", "~"}) {
    all.push_back(at.asker("owner-of-" + text, key(text)));
    all.back().gets();
  }
  auto waiter = at.asker("waiter", key("b"));
  waiter.waits();
  auto other_waiter = at.asker("waiter", key("z"));
  other_waiter.waits();
  all[6].releases();
  all[7].releases();
  std::vector<std::string> keys;
  for (const auto& state : value(at.onlooker().list(core::Glob::everything()))) {
    keys.push_back(state.key.text());
    CHECK(state.by);
    CHECK(state.line.empty());
    CHECK(state.waiting == (state.key == key("b") || state.key == key("z") ? 1 : 0));
    if (state.key != key("z")) {
      CHECK(holder_of(*state.by).owner.bytes() == "owner-of-" + state.key.text());
      CHECK(at.near(holder_of(*state.by).left, at.s(60)));
    }
  }
  CHECK(keys == std::vector<std::string>{"B", "a", "a:10", "a:2", "b", "z", "ä"});
}

EVERY_STORE("list shows only what matches the pattern") {
  std::vector<Asker> all;
  for (const std::string text :
       {"invoice:1", "invoice:2", "invoice:10", "invoice*", "other", "Invoice:1", "in[v]oice"}) {
    all.push_back(at.asker("a", key(text)));
    all.back().gets();
  }
  const auto keys = [&](const std::string& pattern) {
    std::string found;
    for (const auto& state : value(at.onlooker().list(core::Glob(pattern)))) {
      found += state.key.text() + " ";
    }
    return found;
  };
  CHECK(keys("invoice:*") == "invoice:1 invoice:10 invoice:2 ");
  CHECK(keys("invoice:?") == "invoice:1 invoice:2 ");
  CHECK(keys("[iI]nvoice:1") == "Invoice:1 invoice:1 ");
  CHECK(keys("invoice\\*") == "invoice* ");
  CHECK(keys("in\\[v]oice") == "in[v]oice ");
  CHECK(keys("other") == "other ");
  CHECK(keys("nothing*") == "");
  CHECK(keys("") == "");
}

EVERY_STORE("the longest names, notes and ttl are kept whole") {
  auto a = at.asker(std::string(512, 'o'), key(std::string(512, 'k')));
  a.ask.ttl = core::longest_duration;
  a.ask.who.note = std::string(20'000, 'n');
  a.gets();
  const auto held = at.held(a.claim().key);
  CHECK(held.owner == a.claim().owner);
  CHECK(held.who.note == a.ask.who.note);
  CHECK(at.near(held.left, core::longest_duration));
  CHECK(a.renews(core::longest_duration) == Renewal::renewed);
  CHECK(a.releases().what == Release::released);
}

EVERY_STORE("a store says where it is, and tidying it changes nothing") {
  auto a = at.asker("a");
  auto head = at.asker("head");
  a.gets();
  head.waits();
  at.onlooker().tidy();
  CHECK_FALSE(at.onlooker().address().empty());
  CHECK(at.onlooker().address() == a.store().address());
  CHECK(at.holder() == "a");
  CHECK(head.waits().ahead == 0);
}
