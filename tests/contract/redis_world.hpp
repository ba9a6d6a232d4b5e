// A Redis server whose clock the suite moves, and worlds on it that do not see each other.
#pragma once

#include <memory>
#include <string>

#include "contract/benches.hpp"
#include "core/clock.hpp"
#include "support/fake_clock.hpp"
#include "support/redis_server.hpp"
#include "support/temp_folder.hpp"

namespace contract {

// redis-server with a wall clock that stands still between the steps of the test: expiry, PTTL and TIME obey it.
class SteppedServer {
public:
  explicit SteppedServer(core::WallTime wall);
  ~SteppedServer();
  SteppedServer(const SteppedServer&) = delete;
  SteppedServer& operator=(const SteppedServer&) = delete;

  void set(core::WallTime wall) noexcept;
  support::RedisServer& server() noexcept { return *m_server; }

private:
  support::TempFolder m_folder;
  void* m_page = nullptr;
  std::unique_ptr<support::RedisServer> m_server;
};

// All worlds of one program share a server; each has a key prefix of its own.
class RedisWorld : public World {
public:
  RedisWorld();

  std::unique_ptr<core::Store> open() override;
  void advance(core::Millis by) override;
  core::WallTime wall() const override { return m_clock.wall(); }
  void step_wall(core::Millis by) override;

private:
  support::FakeClock m_clock;
  std::string m_prefix;
};

}  // namespace contract
