// What SQLite's locks are after a reboot, and what looks like a reboot and is none.
#include <chrono>
#include <stdexcept>
#include <string>
#include <utility>

#include "contract/scene.hpp"
#include "core/store_url.hpp"
#include "stores/sqlite/store.hpp"
#include "support/fake_clock.hpp"
#include "support/temp_folder.hpp"

using contract::key;
using contract::value;
using core::Renewal;
using namespace std::chrono_literals;

namespace {

// Processes with clocks of their own over one file.
class Machine : public contract::World {
public:
  std::unique_ptr<core::Store> open() override { return open(clock); }
  std::unique_ptr<core::Store> open(const core::Clock& with) {
    core::StoreOptions options;
    options.durable = false;
    const auto url = core::StoreUrl::parse("sqlite:" + (m_folder.path() / "locks.db").string());
    auto store = stores::sqlite::open(url.value(), options, with);
    if (!store) {
      throw std::runtime_error(store.error().detail);
    }
    return std::move(*store);
  }
  void advance(core::Millis by) override { clock.advance(by); }
  core::WallTime wall() const override { return clock.wall(); }
  void step_wall(core::Millis by) override { clock.step_wall(by); }

  support::FakeClock clock;

private:
  support::TempFolder m_folder;
};

contract::Asker asker(Machine& machine, const std::string& owner, bool durable, const std::string& text = "k") {
  contract::Asker asker(machine, key(text), owner, 60s, 15s);
  asker.ask.durable = durable;
  return asker;
}

std::optional<core::Held> held(core::Store& store, const std::string& text = "k") {
  const auto state = value(store.status(key(text)));
  return state.by ? std::optional(std::get<core::Held>(*state.by)) : std::nullopt;
}

}  // namespace

TEST_CASE("a durable grant goes on after a reboot, by the wall clock") {
  Machine machine;
  auto holder = asker(machine, "holder", true);
  const auto fence = holder.gets().fence;
  machine.clock.advance(10s);
  machine.clock.reboot(20s);
  const auto store = machine.open();
  // Whether a reader comes first or a writer did.
  const bool written = GENERATE(false, true);
  if (written) {
    asker(machine, "other", true).is_refused_at_once();
  }
  const auto after = held(*store);
  REQUIRE(after);
  CHECK(after->owner == holder.claim().owner);
  CHECK(after->fence == fence);
  CHECK(after->left == 30s);
  CHECK(after->held_for == 30s);
  machine.clock.advance(29s);
  asker(machine, "other", true).is_refused_at_once();
  machine.clock.advance(1s);
  CHECK_FALSE(held(*store));
  asker(machine, "other", true).gets();
}

TEST_CASE("the claim of a durable grant renews and releases it after a reboot") {
  Machine machine;
  auto holder = asker(machine, "holder", true);
  holder.gets();
  machine.clock.reboot(20s);
  CHECK(holder.renews() == Renewal::renewed);
  CHECK(held(holder.store())->left == 60s);
  CHECK(holder.releases().what == core::Release::released);
}

TEST_CASE("a durable grant whose time ran out while the machine was off is over") {
  Machine machine;
  auto holder = asker(machine, "holder", true);
  holder.gets();
  machine.clock.reboot(60s);
  const auto store = machine.open();
  CHECK_FALSE(held(*store));
  asker(machine, "other", true).gets();
}

TEST_CASE("a grant of exec dies with the machine") {
  Machine machine;
  auto holder = asker(machine, "holder", false);
  holder.gets();
  machine.clock.reboot(5s);
  const auto store = machine.open();
  CHECK_FALSE(held(*store));
  CHECK(value(store->list(core::Glob::everything())).empty());
  SECTION("for who comes next") { asker(machine, "other", true).gets(); }
  SECTION("for its own claim") { CHECK(holder.renews() == Renewal::gone); }
}

TEST_CASE("the line dies with the machine") {
  Machine machine;
  auto holder = asker(machine, "holder", true);
  auto ghost = asker(machine, "ghost", true);
  holder.gets();
  ghost.waits();
  machine.clock.reboot(1s);
  const auto store = machine.open();
  CHECK(value(store->status(key("k"))).waiting == 0);
  CHECK(asker(machine, "next", true).waits().ahead == 0);
}

TEST_CASE("a wall clock that went back across the reboot never makes a grant longer than its ttl") {
  Machine machine;
  auto holder = asker(machine, "holder", true);
  holder.gets();
  machine.clock.reboot(-24h);
  const auto store = machine.open();
  CHECK(held(*store)->left == 60s);
  asker(machine, "other", true).is_refused_at_once();
  machine.clock.advance(60s);
  CHECK_FALSE(held(*store));
  asker(machine, "other", true).gets();
}

TEST_CASE("a renewal beyond the first ttl also survives a reboot") {
  Machine machine;
  auto holder = asker(machine, "holder", true);
  holder.gets();
  CHECK(holder.renews(300s) == Renewal::renewed);
  machine.clock.reboot(100s);
  const auto store = machine.open();
  CHECK(held(*store)->left == 200s);
}

TEST_CASE("fences rise across a reboot, even if the wall clock went back") {
  Machine machine;
  auto a = asker(machine, "a", true);
  const auto before = a.gets().fence;
  a.releases();
  machine.clock.reboot(-24h);
  CHECK(asker(machine, "b", true).gets().fence > before);
}

TEST_CASE("a container with a boot id of its own is no reboot") {
  Machine machine;
  auto holder = asker(machine, "holder", false);
  auto head = asker(machine, "head", false);
  holder.gets();
  head.waits();
  support::FakeClock inside = machine.clock;
  inside.enter_container();
  const auto store = machine.open(inside);
  CHECK(held(*store)->owner == holder.claim().owner);
  CHECK(value(store->status(key("k"))).waiting == 1);
  core::Ask other{{key("k"), core::Owner::stored("inside"), contract::new_ask()}, 60s};
  CHECK(std::holds_alternative<core::Busy>(value(store->acquire(other))));
  CHECK(holder.renews() == Renewal::renewed);
  CHECK(head.waits().ahead == 0);
}

TEST_CASE("a wall clock that is set while the machine runs is no reboot") {
  Machine machine;
  auto holder = asker(machine, "holder", false);
  holder.gets();
  machine.clock.step_wall(24h);
  const auto store = machine.open();
  CHECK(held(*store)->left == 60s);
  asker(machine, "other", false).is_refused_at_once();
  machine.clock.step_wall(-48h);
  asker(machine, "other", false).is_refused_at_once();
  CHECK(holder.renews() == Renewal::renewed);
}
