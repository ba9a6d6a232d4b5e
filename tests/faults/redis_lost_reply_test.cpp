// A grant whose answer is lost on the way: whoever asked either has the lock, or has given it back.
#include <chrono>
#include <cstddef>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include "support/catch.hpp"
#include "support/proxy.hpp"
#include "support/redis_server.hpp"
#include "support/run_lk.hpp"

namespace {

using namespace std::chrono_literals;
using support::Place;
using support::Run;
using support::Start;

// A server behind a proxy, and lk at that proxy. The server knows lk's scripts: what is lost is a grant, not a
// NOSCRIPT.
class Scene {
public:
  Scene() {
    const int warmed = status({"exec", "--key", "warm", "--", "true"});
    REQUIRE(warmed == 0);
  }

  Start start(std::vector<std::string> words) const {
    Start start = m_place.lk(std::move(words));
    start.environment["LK_STORE"] = m_proxy.url();
    return start;
  }
  int status(std::vector<std::string> words) const { return Run(start(std::move(words))).status(); }

  support::Proxy& proxy() noexcept { return m_proxy; }
  const Place& place() const noexcept { return m_place; }
  // As the server itself sees it.
  bool is_free() const { return m_server.cli({"EXISTS", "lk:k"}) == "0"; }

private:
  support::RedisServer m_server;
  support::Proxy m_proxy{m_server.socket()};
  Place m_place;
};

}  // namespace

TEST_CASE("lost reply: acquire and exec give back what they cannot know they have") {  // R37
  Scene scene;
  for (const std::vector<std::string>& words : {std::vector<std::string>{"acquire", "--key", "k", "--ttl", "30"},
                                                {"exec", "--key", "k", "--ttl", "30", "--", "touch", "ran"}}) {
    const std::size_t before = scene.proxy().dropped_replies();
    scene.proxy().drop_next_reply();
    Run run(scene.start(words));
    CHECK(run.status() == 69);
    CHECK(scene.proxy().dropped_replies() == before + 1);
    CHECK(run.out().empty());
    CHECK_THAT(run.err(), Catch::Matchers::StartsWith("lk: " + scene.proxy().url() + " closed the connection "));
    CHECK_THAT(run.err(), Catch::Matchers::ContainsSubstring("; k is not acquired"));
    CHECK(scene.is_free());
    CHECK_FALSE(scene.place().has("ran"));
  }
}

TEST_CASE("lost reply: one that waits asks again and has the lock at once, not after its ttl") {  // R37
  Scene scene;
  scene.proxy().drop_next_reply();
  const auto began = std::chrono::steady_clock::now();
  Run block(scene.start({"block", "--key", "k", "--ttl", "30", "--wait", "20", "--owner", "me"}));
  CHECK(block.status() == 0);
  CHECK(scene.proxy().dropped_replies() == 1);
  CHECK(block.out() == "me\n");
  CHECK(std::chrono::steady_clock::now() - began < 5s);
  CHECK(scene.status({"release", "--key", "k", "--owner", "me"}) == 0);

  scene.proxy().drop_next_reply();
  CHECK(scene.status({"exec", "--key", "k", "--wait", "20", "--", "sh", "-c", "echo ran >>ran"}) == 0);
  CHECK(scene.proxy().dropped_replies() == 2);
  CHECK(scene.place().read("ran") == "ran\n");
  CHECK(scene.is_free());
}

TEST_CASE("lost reply: a renewal or a release that was done is not taken for a loss") {  // R37
  Scene scene;
  Run exec(scene.start(
      {"exec", "--key", "k", "--ttl", "2", "--", "sh", "-c", "until [ -e go ]; do sleep 0.02; done; exit 7"}));
  REQUIRE(support::wait_until([&] { return !scene.is_free(); }));
  scene.proxy().drop_next_reply();
  REQUIRE(support::wait_until([&] { return scene.proxy().dropped_replies() == 1; }));
  // Past the end that the lost renewal would have left.
  CHECK_FALSE(support::wait_until([&] { return scene.is_free(); }, 2500ms));
  CHECK(scene.status({"status", "k"}) == 0);
  std::ofstream(scene.place().path("go")).put('\n');
  CHECK(exec.status() == 7);
  CHECK(scene.is_free());

  CHECK(scene.status({"acquire", "--key", "k", "--ttl", "30", "--owner", "me"}) == 0);
  scene.proxy().drop_next_reply();
  Run release(scene.start({"release", "--key", "k", "--owner", "me"}));
  CHECK(release.status() == 69);
  CHECK_THAT(release.err(), Catch::Matchers::EndsWith("; k may be held still\n"));
  CHECK(scene.is_free());
  Run again(scene.start({"release", "--key", "k", "--owner", "me"}));
  CHECK(again.status() == 1);
}

TEST_CASE("a release that never reached the server is made by a new guardian, long before the ttl") {
  Scene scene;
  Run exec(
      scene.start({"exec", "--key", "k", "--ttl", "60", "--", "sh", "-c", "until [ -e go ]; do sleep 0.02; done"}));
  REQUIRE(support::wait_until([&] { return !scene.is_free(); }));
  scene.proxy().stall();
  std::ofstream(scene.place().path("go")).put('\n');
  CHECK(exec.status() == 0);
  CHECK_THAT(exec.err(), Catch::Matchers::ContainsSubstring("did not answer"));
  CHECK_FALSE(scene.is_free());
  scene.proxy().cut();
  scene.proxy().pass();
  CHECK(support::wait_until([&] { return scene.is_free(); }, 10s));
}

TEST_CASE("lk killed while its release is under way: the lock is free as soon as the server has it") {
  Scene scene;
  Run exec(
      scene.start({"exec", "--key", "k", "--ttl", "60", "--", "sh", "-c", "until [ -e go ]; do sleep 0.02; done"}));
  REQUIRE(support::wait_until([&] { return !scene.is_free(); }));
  const pid_t guardian = support::guardian_of(exec.pid());
  REQUIRE(guardian != 0);
  scene.proxy().stall();
  std::ofstream(scene.place().path("go")).put('\n');
  // It ends once the request has left.
  REQUIRE(support::wait_until([&] { return !support::process_runs(guardian); }, 1s));
  exec.send(SIGKILL);
  CHECK_FALSE(scene.is_free());
  scene.proxy().pass();
  CHECK(support::wait_until([&] { return scene.is_free(); }, 2s));
}
