// The persons of the contract's stories: processes that ask, wait, hold and die, over one world.
#pragma once

#include <poll.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "contract/benches.hpp"
#include "core/store.hpp"
#include "support/catch.hpp"

namespace contract {

using core::Millis;

// The value of a verb that must not meet trouble.
template <class T>
T value(core::Result<T> result) {
  if (!result) {
    FAIL("trouble: " << result.error().detail);
  }
  return std::move(*result);
}

inline core::Key key(const std::string& text) { return core::Key::stored(text); }

inline core::AskId new_ask() {
  static std::uint64_t count = 0;
  // Spread over all 64 bits, as random ids are.
  return {++count * 0x9e3779b97f4a7c15U};
}

// One process with one claim.
class Asker {
public:
  Asker(World& world, const core::Key& key, const std::string& owner, Millis ttl, Millis patience)
      : m_store(world.open()), ask{{key, core::Owner::stored(owner), new_ask()}, ttl, patience} {
    ask.who = {"host-of-" + owner, "user-of-" + owner, 4312, "cmd-of-" + owner, "note-of-" + owner};
  }

  core::Store& store() { return *m_store; }
  const core::Claim& claim() const { return ask.claim; }
  core::Claim any_ask_of_owner() const { return {ask.claim.key, ask.claim.owner, {}}; }

  core::Answer asks() { return value(m_store->acquire(ask)); }
  core::Granted gets() { return is<core::Granted>(asks(), "granted"); }
  core::Queued waits() { return is<core::Queued>(asks(), "queued"); }
  core::Busy is_refused() { return is<core::Busy>(asks(), "busy"); }
  // One try, as a route guard makes it.
  core::Busy is_refused_at_once() {
    core::Ask once = ask;
    once.patience = Millis(0);
    return is<core::Busy>(value(m_store->acquire(once)), "busy");
  }

  core::Renewal renews() { return renews(ask.ttl); }
  core::Renewal renews(Millis ttl) { return value(m_store->renew(ask.claim, ttl, std::nullopt)); }
  core::Released releases(std::optional<core::Fence> fence = std::nullopt) {
    return value(m_store->release(ask.claim, fence));
  }
  core::Released leaves(Millis after) { return value(m_store->leave(ask.claim, after)); }

  // Hangs a bell; from then on it is heard.
  void listens() { m_bell = value(m_store->watch(ask.claim)); }
  bool has_rung() const {
    lets_the_store_catch_up();
    pollfd bell{m_bell->fd(), POLLIN, 0};
    return ::poll(&bell, 1, 0) == 1;
  }
  // Waits until it rings, where a ring takes a moment to arrive.
  bool rings_within(Millis longest) const {
    pollfd bell{m_bell->fd(), POLLIN, 0};
    return ::poll(&bell, 1, static_cast<int>(longest.count())) == 1;
  }
  void drains() { m_bell->drain(); }
  // Dies as of a kill -9: its place stays, its bell is heard no more.
  void dies() {
    m_bell.reset();
    lets_the_store_catch_up();
  }

private:
  // What came to a server before another question is done once that is answered: a ring sent, a closed bell noticed.
  void lets_the_store_catch_up() const { value(m_store->status(ask.claim.key)); }

  template <class T>
  T is(core::Answer answer, const char* wanted) {
    INFO(ask.claim.owner.bytes() << " should be " << wanted << " on " << ask.claim.key.text());
    REQUIRE(std::holds_alternative<T>(answer));
    return std::get<T>(std::move(answer));
  }

  std::unique_ptr<core::Store> m_store;
  std::unique_ptr<core::Watch> m_bell;

public:
  core::Ask ask;
};

class Scene {
public:
  explicit Scene(const Bench& bench) : bench(bench), world(bench.make()), m_onlooker(world->open()) {}

  Millis s(int seconds) const { return bench.second * seconds; }
  void pass(Millis time) { world->advance(time); }

  // ttl 60 s, patience 15 s, unless the story changes them.
  Asker asker(const std::string& owner) { return asker(owner, key("k")); }
  Asker asker(const std::string& owner, const core::Key& key) { return Asker(*world, key, owner, s(60), s(15)); }
  // One that waits in the line already, with a bell.
  Asker waiter(const std::string& owner) {
    Asker waiter = asker(owner);
    waiter.listens();
    waiter.waits();
    return waiter;
  }

  // The first of the line of a lock that `holder` has taken.
  Asker waiter_after(Asker& holder) {
    holder.gets();
    return waiter("head");
  }

  core::LockState status(const core::Key& of = key("k")) { return value(m_onlooker->status(of)); }
  core::Store& onlooker() { return *m_onlooker; }
  // The owner of the lock; empty: nobody holds it.
  std::string holder(const core::Key& of = key("k")) {
    const auto state = status(of);
    const auto* held = state.by ? std::get_if<core::Held>(&*state.by) : nullptr;
    return held != nullptr ? held->owner.bytes() : "";
  }
  core::Held held(const core::Key& of = key("k")) {
    const auto state = status(of);
    REQUIRE(state.by);
    REQUIRE(std::holds_alternative<core::Held>(*state.by));
    return std::get<core::Held>(*state.by);
  }
  // Equal, as far as a clock that runs on its own lets it be.
  bool near(std::optional<Millis> time, Millis expected) const {
    return time && *time <= expected + bench.slack && *time >= expected - bench.slack;
  }

  const Bench& bench;
  const std::unique_ptr<World> world;

private:
  std::unique_ptr<core::Store> m_onlooker;
};

}  // namespace contract

#define LK_JOIN2(a, b) a##b
#define LK_JOIN(a, b) LK_JOIN2(a, b)

// A case of the contract: told once for each store, in a fresh world named `at`.
#define EVERY_STORE(sentence)                                  \
  static void LK_JOIN(story_, __LINE__)(contract::Scene & at); \
  TEST_CASE(sentence) {                                        \
    for (const contract::Bench& bench : contract::benches()) { \
      DYNAMIC_SECTION("on " << bench.name) {                   \
        contract::Scene at(bench);                             \
        LK_JOIN(story_, __LINE__)(at);                         \
      }                                                        \
    }                                                          \
  }                                                            \
  static void LK_JOIN(story_, __LINE__)([[maybe_unused]] contract::Scene & at)
