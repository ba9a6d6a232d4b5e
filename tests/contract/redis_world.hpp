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
  explicit SteppedServer(support::RedisOptions options = {});
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

class RedisWorld : public World {
public:
  // On a server that all worlds of the program share, under a key prefix of its own.
  RedisWorld();
  // `url`: instead of the server's socket.
  RedisWorld(SteppedServer& server, std::string prefix, std::string url = "");

  std::unique_ptr<core::Store> open() override;
  void advance(core::Millis by) override;
  core::WallTime wall() const override { return m_clock.wall(); }
  void step_wall(core::Millis by) override;

private:
  support::FakeClock m_clock;
  SteppedServer& m_server;
  std::string m_prefix;
  std::string m_url;
};

}  // namespace contract
