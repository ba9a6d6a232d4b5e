// THE list of stores under test.
#include "contract/benches.hpp"

#include <stdexcept>
#include <utility>

#include "contract/redis_world.hpp"
#include "core/store_url.hpp"
#include "stores/memory/store.hpp"
#include "stores/sqlite/store.hpp"
#include "support/fake_clock.hpp"
#include "support/temp_folder.hpp"

namespace contract {

namespace {

class FakeTimeWorld : public World {
public:
  void advance(core::Millis by) override { m_clock.advance(by); }
  core::WallTime wall() const override { return m_clock.wall(); }
  void step_wall(core::Millis by) override { m_clock.step_wall(by); }

protected:
  support::FakeClock m_clock;
};

class MemoryWorld : public FakeTimeWorld {
public:
  explicit MemoryWorld(stores::memory::Ways ways = {}) : m_state(stores::memory::new_state(ways)) {}
  std::unique_ptr<core::Store> open() override { return stores::memory::open(m_state, m_clock); }

private:
  std::shared_ptr<stores::memory::MemoryState> m_state;
};

class SqliteWorld : public FakeTimeWorld {
public:
  std::unique_ptr<core::Store> open() override {
    const auto url = core::StoreUrl::parse("sqlite:" + (m_folder.path() / "locks.db").string());
    core::StoreOptions options;
    options.durable = false;
    auto store = stores::sqlite::open(url.value(), options, m_clock);
    if (!store) {
      throw std::runtime_error(store.error().detail);
    }
    return std::move(*store);
  }

private:
  support::TempFolder m_folder;
};

template <class W>
std::unique_ptr<World> make() {
  return std::make_unique<W>();
}

Bench named(std::string name, std::function<std::unique_ptr<World>()> maker) {
  Bench bench;
  bench.name = std::move(name);
  bench.make = std::move(maker);
  return bench;
}

Bench redis() {
  Bench bench = named("redis", make<RedisWorld>);
  bench.renews_expired = false;
  bench.one_fence_for_all_keys = false;
  // Expiry is by the server's wall clock: a step of it ends grants early or late.
  bench.wall_can_be_stepped = false;
  bench.head_notices_within = core::Millis(1000);
  return bench;
}

}  // namespace

const std::vector<Bench>& benches() {
  static const std::vector<Bench> all{
      named("memory", make<MemoryWorld>),
      named("sqlite", make<SqliteWorld>),
      redis(),
  };
  return all;
}

Bench reference_for(const Bench& other) {
  const stores::memory::Ways ways{other.renews_expired, other.one_fence_for_all_keys};
  Bench bench = other;
  bench.name = "memory for " + other.name;
  bench.make = [ways] { return std::make_unique<MemoryWorld>(ways); };
  return bench;
}

}  // namespace contract
