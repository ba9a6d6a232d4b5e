// One page of memory holds the time.
#include "contract/redis_world.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <new>
#include <stdexcept>
#include <system_error>
#include <utility>

#include <fmt/format.h>

#include "core/store_url.hpp"
#include "os/fd.hpp"
#include "stores/redis/store.hpp"

namespace contract {

namespace {

using Micros = std::atomic<std::int64_t>;
static_assert(Micros::is_always_lock_free);

SteppedServer& shared_server() {
  static SteppedServer server;
  return server;
}

std::string new_prefix() {
  static int worlds = 0;
  return fmt::format("world-{}:", ++worlds);
}

}  // namespace

SteppedServer::SteppedServer(support::RedisOptions options) {
  const std::string path = (m_folder.path() / "clock").string();
  const os::Fd file(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  if (!file || ::ftruncate(file.get(), sizeof(Micros)) != 0) {
    throw std::system_error(errno, std::generic_category(), path);
  }
  m_page = ::mmap(nullptr, sizeof(Micros), PROT_READ | PROT_WRITE, MAP_SHARED, file.get(), 0);
  if (m_page == MAP_FAILED) {
    throw std::system_error(errno, std::generic_category(), path);
  }
  new (m_page) Micros(0);
  const core::WallTime wall = support::FakeClock().wall();
  set(wall);
  options.environment.insert(options.environment.end(), {"LD_PRELOAD=" LK_SERVER_CLOCK, "SERVER_CLOCK=" + path});
  m_server = std::make_unique<support::RedisServer>(std::move(options));
  const std::string shows = m_server->cli({"TIME"});
  const auto seconds = std::chrono::floor<std::chrono::seconds>(wall.time_since_epoch()).count();
  if (shows.rfind(std::to_string(seconds) + "\n", 0) != 0) {
    throw std::runtime_error("redis-server does not take its time from the test, it says " + shows);
  }
}

SteppedServer::~SteppedServer() {
  m_server.reset();
  ::munmap(m_page, sizeof(Micros));
}

void SteppedServer::set(core::WallTime wall) noexcept {
  static_cast<Micros*>(m_page)->store(wall.time_since_epoch().count());
}

RedisWorld::RedisWorld() : RedisWorld(shared_server(), new_prefix()) {}

RedisWorld::RedisWorld(SteppedServer& server, std::string prefix, std::string url)
    : m_server(server),
      m_prefix(std::move(prefix)),
      m_url(url.empty() ? server.server().socket_url() : std::move(url)) {
  m_server.set(m_clock.wall());
}

std::unique_ptr<core::Store> RedisWorld::open() {
  core::StoreOptions options;
  options.prefix = m_prefix;
  auto store = stores::redis::open(core::StoreUrl::parse(m_url).value(), options, m_clock);
  if (!store) {
    throw std::runtime_error(store.error().detail);
  }
  return std::move(*store);
}

void RedisWorld::advance(core::Millis by) {
  m_clock.advance(by);
  m_server.set(m_clock.wall());
}

void RedisWorld::step_wall(core::Millis by) {
  m_clock.step_wall(by);
  m_server.set(m_clock.wall());
}

}  // namespace contract
