// What Redis promises besides the contract: round trips, traces, slots, other lock libraries, other people's data,
// ACLs.
#include <poll.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "contract/redis_world.hpp"
#include "contract/scene.hpp"
#include "core/store_url.hpp"
#include "os/real_clock.hpp"
#include "stores/redis/address.hpp"
#include "stores/redis/keys.hpp"
#include "stores/redis/store.hpp"
#include "stores/redis/wire.hpp"
#include "support/run_lk.hpp"

using Catch::Matchers::ContainsSubstring;
using contract::Asker;
using contract::key;
using contract::Millis;
using contract::value;
using core::Eviction;
using core::Release;
using core::Renewal;
using core::Trouble;
using stores::redis::Reply;
using stores::redis::Wire;
using support::wait_until;
using namespace std::chrono_literals;

namespace {

using Words = std::vector<std::string_view>;

Wire wire_to(const support::RedisServer& server) {
  return {*stores::redis::Address::parse(*core::StoreUrl::parse(server.socket_url())), nullptr};
}

Reply ask(Wire& wire, const Words& words) {
  wire.begin();
  auto reply = value(wire.call(words));
  INFO(words[0] << ": " << reply.text);
  REQUIRE(reply.kind != Reply::Kind::error);
  return reply;
}

// A server of its own, its clock in the test's hand; lk's processes, and one that is any other client.
class Redis {
public:
  explicit Redis(const std::string& prefix = "lk:", support::RedisOptions options = {})
      : stepped(std::move(options)),
        server(stepped.server()),
        world(stepped, prefix),
        m_onlooker(world.open()),
        m_stranger(wire_to(server)) {}

  Asker asker(const std::string& owner, const std::string& key_text = "k") {
    return {world, key(key_text), owner, 60s, 15s};
  }
  core::Store& onlooker() { return *m_onlooker; }
  core::LockState status(const std::string& of = "k") { return value(m_onlooker->status(key(of))); }
  std::optional<core::Occupant> by(const std::string& of = "k") { return status(of).by; }
  core::Held held(const std::string& of = "k") {
    const auto by = this->by(of);
    REQUIRE(by);
    REQUIRE(std::holds_alternative<core::Held>(*by));
    return std::get<core::Held>(*by);
  }
  core::Foreign foreign(const std::string& of = "k") {
    const auto by = this->by(of);
    REQUIRE(by);
    REQUIRE(std::holds_alternative<core::Foreign>(*by));
    return std::get<core::Foreign>(*by);
  }
  core::Released releases(const std::string& owner, const std::string& of = "k") {
    return value(m_onlooker->release({key(of), core::Owner::stored(owner), {}}, std::nullopt));
  }
  Eviction evict(const core::Occupant& seen, const std::string& of = "k") {
    return value(m_onlooker->evict(key(of), seen));
  }
  std::string listed(const std::string& pattern = "*") {
    std::string keys;
    for (const auto& state : value(m_onlooker->list(core::Glob(pattern)))) {
      keys += state.key.text() + " ";
    }
    return keys;
  }

  // What another client does.
  Reply stranger(const Words& words) { return ask(m_stranger, words); }
  std::int64_t number(const Words& words) { return stranger(words).integer; }
  bool exists(std::string_view name) { return number({"EXISTS", name}) == 1; }
  std::vector<std::string> names() {
    std::vector<std::string> all;
    for (const Reply& name : stranger({"KEYS", "*"}).elements) {
      all.push_back(name.text);
    }
    std::sort(all.begin(), all.end());
    return all;
  }
  std::string stats_of(const std::string& command) {
    const std::string all = stranger({"INFO", "commandstats"}).text;
    const std::size_t start = all.find("cmdstat_" + command + ":");
    return start == std::string::npos ? "" : all.substr(start, all.find('\r', start) - start);
  }

  contract::SteppedServer stepped;
  support::RedisServer& server;
  contract::RedisWorld world;

private:
  std::unique_ptr<core::Store> m_onlooker;
  Wire m_stranger;
};

// Every command that clients send; what scripts do is not one.
class Monitor {
public:
  explicit Monitor(const support::RedisServer& server) : m_server(server), m_wire(wire_to(server)) {
    ask(m_wire, {"MONITOR"});
  }
  // Since the last time.
  std::vector<std::string> commands() {
    const std::string mark = fmt::format("mark-{}", ++m_marks);
    m_server.cli({"ECHO", mark});
    std::vector<std::string> seen;
    REQUIRE(wait_until([&] {
      while (const auto line = value(m_wire.read_push())) {
        if (line->text.find(mark) != std::string::npos) {
          return true;
        }
        if (line->text.find(" lua] ") == std::string::npos) {
          const std::size_t start = line->text.find("] \"") + 3;
          seen.push_back(line->text.substr(start, line->text.find('"', start) - start));
        }
      }
      return false;
    }));
    return seen;
  }

private:
  const support::RedisServer& m_server;
  Wire m_wire;
  int m_marks = 0;
};

template <class T>
core::StoreError trouble(const core::Result<T>& result) {
  REQUIRE_FALSE(result);
  return result.error();
}

const core::Held& holder_of(const core::Occupant& by) {
  REQUIRE(std::holds_alternative<core::Held>(by));
  return std::get<core::Held>(by);
}

}  // namespace

// --- what a verb costs ----------------------------------------------------------------------------------------------

TEST_CASE("redis: every verb costs one round trip") {
  Redis redis;
  auto a = redis.asker("a");
  auto b = redis.asker("b");
  const auto everything = [&](const std::function<void(const char*)>& after) {
    a.gets();
    after("acquire: granted");
    a.gets();
    after("acquire: granted again");
    a.renews();
    after("renew");
    b.is_refused_at_once();
    after("acquire: busy");
    b.waits();
    after("acquire: queued");
    redis.status();
    after("status");
    b.releases();
    after("release: left the line");
    a.leaves(30s);
    after("leave");
    a.releases();
    after("release: released");
    a.releases();
    after("release: not held");
    a.renews();
    after("renew: gone");
    a.gets();
    const core::Held seen = redis.held();
    after(nullptr);
    redis.evict(seen);
    after("evict");
  };
  // From here on everybody is connected, and the server knows the scripts.
  everything([](const char*) {});

  Monitor monitor(redis.server);
  everything([&](const char* what) {
    const auto commands = monitor.commands();
    if (what != nullptr) {
      CAPTURE(what);
      CHECK(commands == std::vector<std::string>{"EVALSHA"});
    }
  });
  b.listens();
  CHECK(monitor.commands() == std::vector<std::string>{"SUBSCRIBE"});
}

TEST_CASE("redis: acquire and release are two round trips, connecting one more where it must introduce itself") {
  Redis redis;
  redis.asker("warm").gets();
  redis.releases("warm");
  Monitor monitor(redis.server);
  {
    auto a = redis.asker("a");
    a.gets();
    a.releases();
  }
  CHECK(monitor.commands() == std::vector<std::string>{"EVALSHA", "EVALSHA"});

  contract::RedisWorld in_db_3(redis.stepped, "lk:", redis.server.socket_url() + "?db=3");
  auto b = Asker(in_db_3, key("k"), "b", 60s, 15s);
  b.gets();
  b.releases();
  CHECK(monitor.commands() == std::vector<std::string>{"SELECT", "EVALSHA", "EVALSHA"});
}

TEST_CASE("redis: a server that has forgotten the scripts is sent them again") {
  Redis redis;
  auto a = redis.asker("a");
  a.gets();
  redis.stranger({"SCRIPT", "FLUSH"});
  Monitor monitor(redis.server);
  CHECK(a.renews() == Renewal::renewed);
  CHECK(monitor.commands() == std::vector<std::string>{"EVALSHA", "EVAL"});
  CHECK(a.renews() == Renewal::renewed);
  CHECK(monitor.commands() == std::vector<std::string>{"EVALSHA"});
}

TEST_CASE("redis: the release of an exec's grant is one request, also on a server that is new") {
  Redis redis;
  auto a = redis.asker("a");
  a.ask.durable = false;
  redis.stranger({"SCRIPT", "FLUSH"});
  Monitor monitor(redis.server);
  a.gets();
  CHECK(monitor.commands() == std::vector<std::string>{"EVALSHA", "EVAL", "SCRIPT", "SCRIPT"});
  a.releases();
  CHECK(monitor.commands() == std::vector<std::string>{"EVALSHA"});
}

// --- what it leaves behind ------------------------------------------------------------------------------------------

TEST_CASE("redis: nothing that lk writes is without an end, whatever happened") {
  Redis redis(GENERATE(as<std::string>(), "lk:", "lk:{t}", "lock:"));
  auto a = redis.asker("a");
  auto b = redis.asker("b");
  auto c = redis.asker("c");
  const auto all_end = [&](const char* after) {
    CAPTURE(after);
    CHECK_FALSE(redis.names().empty());
    for (const std::string& name : redis.names()) {
      CAPTURE(name);
      CHECK(redis.number({"PTTL", name}) > 0);
    }
  };
  a.gets();
  all_end("granted");
  a.gets();
  all_end("granted again");
  a.renews(3600s);
  all_end("renewed");
  b.is_refused_at_once();
  all_end("refused");
  b.listens();
  b.waits();
  all_end("queued");
  c.ask.patience = 3600s;
  c.waits();
  b.waits();
  all_end("queued again");
  b.dies();
  a.leaves(5s);
  all_end("left, a dead head dropped");
  redis.world.advance(5s);
  a.is_refused_at_once();
  all_end("ended");
  c.gets();
  all_end("granted to the head");
  redis.evict(redis.held());
  all_end("evicted");
  a.gets();
  b.waits();
  a.releases();
  all_end("released");
  b.releases();
  all_end("left the line");

  redis.world.advance(3600s + 600s);
  CHECK(redis.names().empty());
}

TEST_CASE("redis: an end on the wire is that of the grant") {
  Redis redis;
  auto a = redis.asker("a");
  a.gets();
  CHECK(redis.stranger({"TYPE", "lk:k"}).text == "string");
  CHECK(redis.stranger({"GET", "lk:k"}).text == "a");
  // Redis keeps a key through the last millisecond that PTTL counts.
  CHECK(redis.number({"PTTL", "lk:k"}) == 59'999);
  CHECK(redis.held().left == 60s);
  redis.world.advance(60s - 1ms);
  CHECK(redis.exists("lk:k"));
  CHECK(redis.held().left == 1ms);
  redis.world.advance(1ms);
  CHECK_FALSE(redis.exists("lk:k"));
}

TEST_CASE("redis: who leaves the line leaves nothing in it") {
  Redis redis;
  const stores::redis::LockKeys keys("lk:k");
  auto a = redis.asker("a");
  auto b = redis.asker("b");
  auto c = redis.asker("c");
  a.gets();
  b.waits();
  c.waits();
  CHECK(redis.number({"ZCARD", keys.line}) == 2);
  b.releases();
  CHECK(redis.number({"HLEN", keys.places}) == 3);
  a.releases();
  c.gets();
  CHECK_FALSE(redis.exists(keys.line));
  CHECK_FALSE(redis.exists(keys.places));
}

// --- names ----------------------------------------------------------------------------------------------------------

TEST_CASE("redis: the server counts the same slots, for locks and their helpers") {
  Redis redis("", {.tcp = true, .arguments = {"--cluster-enabled", "yes"}});
  for (const std::string lock :
       {"lk:k", "{a}b", "a}b{", "{}x", "{a", "}", "{{a}}", "a{}{b}", "lk:ü{🔒}", "x}y{z}w", "lk:a b\n{"}) {
    const stores::redis::LockKeys keys(lock);
    for (const std::string_view name : keys.all()) {
      CAPTURE(lock, name);
      CHECK(redis.number({"CLUSTER", "KEYSLOT", name}) == stores::redis::hash_slot(lock));
    }
  }
}

TEST_CASE("redis: every verb works on a cluster of one node, whatever braces a key has") {
  Redis redis(GENERATE(as<std::string>(), "", "lk:"), {.tcp = true, .arguments = {"--cluster-enabled", "yes"}});
  std::vector<std::string> words{"CLUSTER", "ADDSLOTS"};
  for (int slot = 0; slot < 16384; ++slot) {
    words.push_back(fmt::format("{}", slot));
  }
  redis.stranger(Words(words.begin(), words.end()));
  REQUIRE(wait_until([&] {
    redis.world.advance(1s);  // it serves two seconds after its start
    return redis.stranger({"CLUSTER", "INFO"}).text.find("cluster_state:ok") != std::string::npos;
  }));
  std::vector<Asker> holders;
  for (const std::string text : {"{a}b", "a}b{", "{}x", "plain", "a", "{a}", "{x", "}", "lock:for-python"}) {
    CAPTURE(text);
    auto a = redis.asker("a", text);
    auto b = redis.asker("b", text);
    CHECK_FALSE(a.gets().again);
    CHECK(a.gets().again);
    CHECK(a.renews() == Renewal::renewed);
    b.listens();
    CHECK(b.waits().ahead == 0);
    CHECK(redis.status(text).waiting == 1);
    CHECK(a.leaves(30s).what == Release::released);
    CHECK(a.releases().what == Release::released);
    CHECK(b.rings_within(2s));
    b.gets();
    CHECK(redis.evict(redis.held(text), text) == Eviction::evicted);
    holders.push_back(redis.asker("a", text));
    holders.back().gets();
  }
  CHECK(redis.listed() == "a a}b{ lock:for-python plain {a} {a}b {x {}x } ");
}

TEST_CASE("redis: locks without a prefix are told from an application's data and from other locks") {
  Redis redis("");
  redis.stranger({"SET", "page:1", "data"});
  redis.stranger({"HSET", "session", "user", "7"});
  redis.stranger({"SET", "{page:1}", "data"});
  std::vector<Asker> all;
  for (const std::string text : {"a", "{a}", "{a}b", "a}b", "{a}:", "page", "lk:a"}) {
    all.push_back(redis.asker("owner-of-" + text, text));
    CAPTURE(text);
    CHECK_FALSE(all.back().gets().again);
  }
  auto waiter = redis.asker("waiter", "a");
  CHECK(waiter.waits().ahead == 0);
  auto other = redis.asker("other", "{a}");
  CHECK(other.waits().ahead == 0);
  CHECK(redis.listed() == "a a}b lk:a page {a} {a}: {a}b ");
  for (Asker& holder : all) {
    CHECK(holder.gets().again);
  }
  all[0].releases();
  waiter.gets();
  CHECK(other.waits().ahead == 0);
  CHECK(redis.stranger({"GET", "page:1"}).text == "data");
  CHECK(redis.stranger({"HGET", "session", "user"}).text == "7");
}

TEST_CASE("redis: what marks lk's helpers cannot be in the name of a lock") {
  Redis redis(GENERATE(as<std::string>(), "", "lk:", "#l"));
  redis.asker("a", "{k}").gets();
  for (const std::string text : {"{k}#lk:own:meta", "k:#lk:", "#lk:meta", "k:x#lk:meta"}) {
    auto a = redis.asker("a", text);
    CAPTURE(text);
    CHECK(trouble(a.store().acquire(a.ask)).what == Trouble::misconfigured);
    CHECK(trouble(a.store().renew(a.claim(), 60s, std::nullopt)).what == Trouble::misconfigured);
    CHECK(trouble(a.store().release(a.claim(), std::nullopt)).what == Trouble::misconfigured);
    CHECK(trouble(a.store().leave(a.claim(), 1s)).what == Trouble::misconfigured);
    CHECK(trouble(a.store().status(key(text))).what == Trouble::misconfigured);
    CHECK(trouble(a.store().evict(key(text), core::Promised{})).what == Trouble::misconfigured);
    CHECK(trouble(a.store().watch(a.claim())).detail.find("#lk:") != std::string::npos);
  }
  // Prefix and key together may form the mark.
  auto a = redis.asker("a", "k:meta");
  CHECK(a.store().acquire(a.ask).has_value() != (redis.names().front().substr(0, 2) == "#l"));
}

TEST_CASE("redis: glob characters in prefix and key mean themselves") {
  const std::string prefix = GENERATE(as<std::string>(), "a*:", "a?:", "[ab]:", "a\\:", "[^x]", "[a-c]*\\?", "{a}*");
  Redis redis(prefix);
  std::vector<Asker> all;
  for (const std::string text : {"k*", "k?", "k[1]", "kk", "k\\"}) {
    all.push_back(redis.asker("a", text));
    all.back().gets();
  }
  auto waiter = redis.asker("b", "k*");
  waiter.waits();
  // What the prefix would match if it were a pattern.
  for (const std::string name : {"axx:k", "ax:k", "a:k", "b:k", "yk", "ak", "bxx?k", "{a}xk"}) {
    if (name.substr(0, prefix.size()) != prefix) {
      redis.stranger({"SET", name, "x"});
    }
  }
  CAPTURE(prefix);
  CHECK(redis.listed() == "k* k? k[1] k\\ kk ");
  CHECK(redis.listed("k\\*") == "k* ");
  all[0].releases();
  CHECK(redis.listed("k\\*") == "k* ");
  waiter.releases();
  CHECK(redis.listed() == "k? k[1] k\\ kk ");
}

// --- list beside much else ------------------------------------------------------------------------------------------

TEST_CASE("redis: list asks a large server in small steps, and never for all keys at once") {
  Redis redis;
  redis.stranger({"EVAL",
                  "for i = 1, 50000 do redis.call('SET', 'page:' .. i, 'x') end "
                  "for i = 1, 3000 do redis.call('SET', 'lk:' .. i, 'owner', 'PX', '60000') end",
                  "0"});
  redis.stranger({"CONFIG", "RESETSTAT"});
  CHECK(value(redis.onlooker().list(core::Glob::everything())).size() == 3000);
  CHECK(redis.stats_of("keys").empty());
  const auto calls = [&](const std::string& command) {
    const std::string stats = redis.stats_of(command);
    INFO(stats);
    REQUIRE_FALSE(stats.empty());
    return std::stoi(stats.substr(stats.find("calls=") + 6));
  };
  // At most 5000 names, or 200 locks, are looked at before others have their turn.
  CHECK(calls("scan") >= 11);
  CHECK(calls("evalsha") + (redis.stats_of("eval").empty() ? 0 : calls("eval")) >= 15);

  redis.stranger({"CONFIG", "RESETSTAT"});
  CHECK(value(redis.onlooker().list(core::Glob("no such lock"))).empty());
  CHECK(redis.stats_of("evalsha").empty());
}

TEST_CASE("redis: under a prefix everything is a lock, whoever made it, and large data is not read") {
  Redis redis;
  redis.stranger({"SET", "lk:by-hand", "token"});
  redis.stranger({"EVAL", "for i = 1, 1000 do redis.call('HSET', 'lk:hash', i, i) end", "0"});
  redis.stranger({"SET", "other:key", "token"});
  CHECK(redis.listed() == "by-hand hash ");
  redis.stranger({"CONFIG", "RESETSTAT"});
  redis.listed();
  redis.asker("a", "hash").is_refused_at_once();
  CHECK(redis.stats_of("dump").empty());
  redis.status("hash");
  CHECK_FALSE(redis.stats_of("dump").empty());
}

// --- fences ---------------------------------------------------------------------------------------------------------

TEST_CASE("redis: fences rise across a wipe and a restart without data") {
  Redis redis;
  auto a = redis.asker("a");
  auto b = redis.asker("b");
  const core::Fence first = a.gets().fence;
  redis.world.advance(1ms);
  redis.stranger({"FLUSHALL"});
  CHECK(a.renews() == Renewal::gone);
  const core::Fence second = b.gets().fence;
  CHECK(second > first);
  redis.world.advance(1ms);
  redis.server.kill();
  redis.server.start();
  CHECK(b.renews() == Renewal::gone);
  CHECK(a.gets().fence > second);
}

TEST_CASE("redis: fences rise although the server's clock went back") {
  Redis redis;
  auto a = redis.asker("a");
  const core::Fence first = a.gets().fence;
  const bool evicted = GENERATE(false, true);
  if (evicted) {
    redis.evict(redis.held());
  } else {
    a.releases();
  }
  redis.world.step_wall(-24h);
  const core::Fence second = a.gets().fence;
  CHECK(second > first);
  a.releases();
  CHECK(a.gets().fence > second);
  a.releases();
  // The last fence is kept for ten minutes: until then the clock may go back by as much.
  redis.world.step_wall(24h);
  const core::Fence third = a.gets().fence;
  a.releases();
  redis.world.advance(10min + 1s);
  redis.world.step_wall(-10min);
  CHECK(a.gets().fence > third);
}

// --- trouble of the server ------------------------------------------------------------------------------------------

TEST_CASE("redis: without memory nothing new is granted, and everything else goes on") {
  Redis redis;
  auto a = redis.asker("a");
  auto b = redis.asker("b");
  auto l = redis.asker("l", "lock:l");
  auto m = redis.asker("m", "m");
  const core::Fence fence = a.gets().fence;
  b.listens();
  b.waits();
  l.gets();
  m.gets();
  const bool forgets_scripts = GENERATE(false, true);
  if (forgets_scripts) {
    redis.stranger({"SCRIPT", "FLUSH"});
  }
  redis.stranger({"CONFIG", "SET", "maxmemory", "1"});

  const auto before = redis.names();
  auto c = redis.asker("c", "new");
  const auto error = trouble(c.store().acquire(c.ask));
  CHECK(error.what == Trouble::full);
  CHECK_THAT(error.detail, ContainsSubstring("OOM"));
  CHECK_FALSE(error.maybe_done);
  auto d = redis.asker("d");
  CHECK(trouble(d.store().acquire(d.ask)).what == Trouble::full);
  CHECK(redis.names() == before);

  CHECK(a.gets().again);
  redis.world.advance(10s);
  CHECK(a.renews() == Renewal::renewed);
  CHECK(redis.held().left == 60s);
  CHECK(redis.status().waiting == 1);
  CHECK(redis.listed() == "k lock:l m ");
  CHECK(d.is_refused_at_once().ask_again_in > 0ms);
  CHECK(a.leaves(30s).what == Release::released);
  CHECK(a.releases().what == Release::released);
  CHECK(b.rings_within(2s));
  CHECK(b.releases().what == Release::left_line);
  CHECK(l.releases().what == Release::released);
  CHECK(redis.evict(redis.held("m"), "m") == Eviction::evicted);

  redis.stranger({"CONFIG", "SET", "maxmemory", "0"});
  redis.world.step_wall(-1h);
  CHECK(a.gets().fence > fence);
}

TEST_CASE("redis: a user who may not ring takes and frees locks all the same") {
  Redis redis;
  redis.stranger({"ACL", "SETUSER", "lk", "on", ">pw", "~lk:*", "~{lk:*", "&*", "+@all", "-publish"});
  contract::RedisWorld world(redis.stepped, "lk:", "redis+unix://lk:pw@" + redis.server.socket());
  auto a = Asker(world, key("k"), "a", 60s, 15s);
  auto b = Asker(world, key("k"), "b", 60s, 15s);
  a.gets();
  b.listens();
  b.waits();
  CHECK(a.releases().what == Release::released);
  CHECK(redis.status().waiting == 1);
  b.gets();
  CHECK(b.releases().what == Release::released);
  CHECK_FALSE(redis.by());
}

TEST_CASE("redis: a user who may not do everything is refused before anything is done") {
  Redis redis;
  struct Case {
    std::vector<std::string> rules;
    std::string says;
  };
  const auto each = GENERATE(Case{{"~lk:*"}, "the keys that lk uses"},
                             Case{{"~lk:*", "~{lk:*", "-hset"}, "NOPERM"},
                             Case{{"~lk:*", "~{lk:*", "-pexpire"}, "NOPERM"},
                             Case{{"~lk:*", "~{lk:*", "-set"}, "NOPERM"},
                             Case{{"~lk:*", "~{lk:*", "-evalsha"}, "EVALSHA"});
  std::vector<std::string> words{"ACL", "SETUSER", "lk", "on", ">pw", "+@all"};
  words.insert(words.end(), each.rules.begin(), each.rules.end());
  redis.stranger(Words(words.begin(), words.end()));
  contract::RedisWorld world(redis.stepped, "lk:", "redis+unix://lk:pw@" + redis.server.socket());
  auto a = Asker(world, key("k"), "a", 60s, 15s);
  CAPTURE(each.says);
  const auto error = trouble(a.store().acquire(a.ask));
  CHECK(error.what == Trouble::refused);
  CHECK_THAT(error.detail, ContainsSubstring(each.says));
  CHECK_FALSE(redis.exists("lk:k"));
}

// --- bells ----------------------------------------------------------------------------------------------------------

TEST_CASE("redis: who listens to every channel does not stand for a dead waiter") {
  Redis redis;
  Wire curious = wire_to(redis.server);
  ask(curious, {"PSUBSCRIBE", "*"});
  auto a = redis.asker("a");
  auto dead = redis.asker("dead");
  auto next = redis.asker("next");
  a.gets();
  dead.listens();
  dead.waits();
  next.listens();
  next.waits();
  dead.dies();
  a.releases();
  CHECK(next.rings_within(2s));
  next.gets();
}

TEST_CASE("redis: a bell whose connection broke is hung again by the next ask") {
  Redis redis;
  auto a = redis.asker("a");
  auto b = redis.asker("b");
  a.gets();
  b.listens();
  CHECK(b.waits().ask_again_in == 1s);
  redis.stranger({"CLIENT", "KILL", "TYPE", "pubsub"});
  REQUIRE(b.rings_within(2s));
  b.drains();
  CHECK(b.waits().ask_again_in == 1ms);
  CHECK(b.waits().ask_again_in == 1s);
  CHECK_FALSE(b.has_rung());
  a.releases();
  CHECK(b.rings_within(2s));
  b.drains();
  b.gets();
  a.waits();
  CHECK(b.releases().what == Release::released);
}

TEST_CASE("redis: who becomes the head by a command's grant is rung by its first renewal alone") {
  Redis redis;
  auto holder = redis.asker("holder");
  auto command = redis.asker("command");
  auto next = redis.asker("next");
  holder.gets();
  command.ask.durable = false;
  for (Asker* const waiter : {&command, &next}) {
    waiter->listens();
    waiter->waits();
  }
  holder.releases();
  CHECK_FALSE(command.store().wants_early_renewal());
  command.gets();
  CHECK(command.store().wants_early_renewal());
  CHECK_FALSE(next.rings_within(100ms));
  CHECK(command.renews() == Renewal::renewed);
  CHECK(next.rings_within(2s));
  next.drains();
  CHECK_FALSE(command.store().wants_early_renewal());
  CHECK(command.renews() == Renewal::renewed);
  CHECK_FALSE(next.rings_within(100ms));
}

TEST_CASE("redis: who becomes the head by a grant that nothing renews is rung at once") {
  Redis redis;
  auto holder = redis.asker("holder");
  auto durable = redis.asker("durable");
  auto next = redis.asker("next");
  holder.gets();
  for (Asker* const waiter : {&durable, &next}) {
    waiter->listens();
    waiter->waits();
  }
  holder.releases();
  durable.gets();
  CHECK(next.rings_within(2s));
  CHECK_FALSE(durable.store().wants_early_renewal());
}

TEST_CASE("redis: locks, line and its order outlive a restart that keeps the data") {
  Redis redis("lk:", {.arguments = {"--appendonly", "yes"}});
  auto a = redis.asker("a");
  auto b = redis.asker("b");
  auto c = redis.asker("c");
  const core::Fence fence = a.gets().fence;
  for (Asker* const waiter : {&b, &c}) {
    waiter->listens();
    waiter->waits();
  }
  redis.server.kill();
  redis.server.start();
  REQUIRE(wait_until([&] { return redis.server.cli({"PING"}) == "PONG"; }));  // not while it loads
  CHECK(a.renews() == Renewal::renewed);
  CHECK(redis.held().fence == fence);
  for (Asker* const waiter : {&c, &b}) {
    REQUIRE(waiter->rings_within(2s));
    waiter->drains();
    waiter->waits();
  }
  CHECK(c.waits().ahead == 1);
  CHECK(b.waits().ahead == 0);
  a.releases();
  CHECK(b.rings_within(2s));
  CHECK_FALSE(c.has_rung());
}

TEST_CASE("redis: a claim that asks is never dropped for its own silent bell") {
  Redis redis;
  auto a = redis.asker("a");
  auto b = redis.asker("b");
  auto c = redis.asker("c");
  auto bell_less = redis.asker("bell-less");
  a.gets();
  for (Asker* const waiter : {&b, &c}) {
    waiter->listens();
    waiter->waits();
  }
  bell_less.waits();
  redis.stranger({"DEL", "lk:k"});
  b.dies();
  c.dies();
  c.gets();
  CHECK(bell_less.waits().ahead == 0);
}

// --- real time ------------------------------------------------------------------------------------------------------

namespace {

// The server's own clock, and time that is slept through.
class RealWorld : public contract::World {
public:
  explicit RealWorld(const support::RedisServer& server) : m_url(server.socket_url()) {}

  std::unique_ptr<core::Store> open() override {
    return value(stores::redis::open(core::StoreUrl::parse(m_url).value(), {}, m_clock));
  }
  void advance(Millis by) override { std::this_thread::sleep_for(by); }
  core::WallTime wall() const override { return m_clock.wall(); }
  void step_wall(Millis) override { FAIL("nobody sets this clock"); }

private:
  std::string m_url;
  os::RealClock m_clock;
};

}  // namespace

TEST_CASE("redis: a head that asks when told finds the lock free by the server's own clock") {
  const support::RedisServer server;
  RealWorld world(server);
  Asker holder(world, key("k"), "holder", 700ms, 15s);
  Asker head(world, key("k"), "head", 60s, 15s);
  const auto began = std::chrono::steady_clock::now();
  holder.gets();
  const Millis pause = head.waits().ask_again_in;
  CHECK(pause <= 700ms);
  world.advance(pause);
  head.gets();
  // The server counts whole milliseconds.
  CHECK(std::chrono::steady_clock::now() - began >= 699ms);
  CHECK(holder.renews() == Renewal::not_mine);
}

// --- other lock libraries -------------------------------------------------------------------------------------------

TEST_CASE("redis: other tools' locks and lk's exclude each other") {
  Redis redis("");
  auto a = redis.asker("a");
  a.gets();
  CHECK(redis.stranger({"SET", "k", "other", "PX", "1000", "NX"}).kind == Reply::Kind::nil);
  const Words compare_and_delete{
      "EVAL", "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end return 0", "1", "k"};
  const auto released_by = [&](std::string_view owner) {
    Words words = compare_and_delete;
    words.push_back(owner);
    return redis.number(words) == 1;
  };
  CHECK_FALSE(released_by("other"));
  CHECK(released_by("a"));
  CHECK(a.renews() == Renewal::gone);
  CHECK(a.releases().what == Release::not_held);

  CHECK(redis.stranger({"SET", "k", "other", "PX", "1000", "NX"}).text == "OK");
  CHECK(holder_of(a.is_refused_at_once().by).owner.bytes() == "other");
  CHECK(a.waits().ask_again_in == 1s);
  CHECK(a.renews() == Renewal::not_mine);
  redis.world.advance(1001ms);
  a.gets();
}

TEST_CASE("redis: a foreign string is a holder without a fence, whatever bytes it has and whether it ends or not") {
  Redis redis;
  const std::string owner =
      GENERATE(as<std::string>(), "token", "", std::string("\x00\xff\n\r{}\x80", 7), "ü 🔒", std::string(100'000, 'x'));
  const bool ends = GENERATE(false, true);
  const Words set{"SET", "lk:k", owner};
  const Words set_with_end{"SET", "lk:k", owner, "PX", "20000"};
  redis.stranger(ends ? set_with_end : set);
  const auto left = ends ? std::optional<Millis>(20'001ms) : std::nullopt;

  const core::Held held = redis.held();
  CHECK(held.owner.bytes() == owner);
  CHECK_FALSE(held.fence);
  CHECK_FALSE(held.held_for);
  CHECK_FALSE(held.since);
  CHECK(held.left == left);
  CHECK(held.who.host.empty());
  CHECK(redis.listed() == "k ");

  auto a = redis.asker("a");
  const auto busy = a.is_refused_at_once();
  CHECK(holder_of(busy.by).owner.bytes() == owner);
  CHECK(busy.ask_again_in == left.value_or(1s));
  CHECK(a.waits().ask_again_in == 1s);
  CHECK(a.renews() == Renewal::not_mine);
  const auto refused = redis.releases("other");
  CHECK(refused.what == Release::not_mine);
  CHECK(holder_of(*refused.by).owner.bytes() == owner);

  SECTION("its owner renews and frees it") {
    const core::Claim claim{key("k"), core::Owner::stored(owner), {}};
    CHECK(value(redis.onlooker().renew(claim, 60s, std::nullopt)) == Renewal::renewed);
    CHECK(redis.held().left == (ends ? std::optional<Millis>(60s) : std::nullopt));
    CHECK(redis.releases(owner).what == Release::released);
    CHECK_FALSE(redis.exists("lk:k"));
    a.gets();
  }
  SECTION("force frees it") {
    CHECK(redis.evict(held) == Eviction::evicted);
    CHECK_FALSE(redis.exists("lk:k"));
  }
  SECTION("force removes nothing newer") {
    redis.stranger({"SET", "lk:k", owner + "2"});
    CHECK(redis.evict(held) == Eviction::changed);
    CHECK(redis.exists("lk:k"));
  }
}

TEST_CASE("redis: force tells lk's grant from another tool's lock with the same owner") {
  Redis redis;
  auto a = redis.asker("worker-7");
  redis.stranger({"SET", "lk:k", "worker-7"});
  const core::Held foreign = redis.held();
  redis.stranger({"DEL", "lk:k"});
  a.gets();
  const core::Held ours = redis.held();
  CHECK(redis.evict(foreign) == Eviction::changed);
  a.releases();
  redis.stranger({"SET", "lk:k", "worker-7"});
  CHECK(redis.evict(ours) == Eviction::changed);
  CHECK(redis.exists("lk:k"));
}

TEST_CASE("redis: other types are shown as what they are, excluded, and freed by force alone") {
  Redis redis;
  struct Case {
    std::string type;
    Words makes;
    Words changes;
  };
  const auto each =
      GENERATE(Case{"hash", {"HSET", "lk:k", "client:1", "1"}, {"HINCRBY", "lk:k", "client:1", "1"}},
               Case{"zset", {"ZADD", "lk:k", "1700000060000", "token"}, {"ZADD", "lk:k", "1700000090000", "token"}},
               Case{"list", {"RPUSH", "lk:k", "a"}, {"RPUSH", "lk:k", "b"}},
               Case{"set", {"SADD", "lk:k", "a"}, {"SADD", "lk:k", "b"}},
               Case{"stream", {"XADD", "lk:k", "1-1", "f", "v"}, {"XADD", "lk:k", "1-2", "f", "v"}});
  CAPTURE(each.type);
  redis.stranger(each.makes);
  const bool ends = GENERATE(false, true);
  if (ends) {
    redis.stranger({"PEXPIRE", "lk:k", "20000"});
  }
  const core::Foreign seen = redis.foreign();
  CHECK(seen.type == each.type);
  CHECK(seen.left == (ends ? std::optional<Millis>(20'001ms) : std::nullopt));
  CHECK(redis.listed() == "k ");

  auto a = redis.asker("a");
  const auto busy = a.is_refused_at_once();
  REQUIRE(std::holds_alternative<core::Foreign>(busy.by));
  CHECK(std::get<core::Foreign>(busy.by).type == each.type);
  CHECK(a.waits().ask_again_in == 1s);
  CHECK(a.renews() == Renewal::not_mine);
  CHECK(redis.releases("token").what == Release::not_mine);
  CHECK(redis.releases("").what == Release::not_mine);
  CHECK(value(redis.onlooker().leave({key("k"), core::Owner::stored("token"), {}}, 1s)).what == Release::not_mine);
  CHECK(redis.foreign().value == seen.value);

  SECTION("what was seen goes, and the line is told") {
    auto b = redis.asker("b");
    a.releases();
    b.listens();
    b.waits();
    CHECK(redis.evict(seen) == Eviction::evicted);
    CHECK_FALSE(redis.exists("lk:k"));
    CHECK(b.rings_within(2s));
    CHECK(redis.evict(seen) == Eviction::free);
  }
  SECTION("an end of its own is not a change") {
    redis.stranger({"PEXPIRE", "lk:k", "30000"});
    CHECK(redis.evict(seen) == Eviction::evicted);
  }
  SECTION("what has changed stays") {
    redis.stranger(each.changes);
    CHECK(redis.evict(seen) == Eviction::changed);
    CHECK(redis.foreign().type == each.type);
  }
  SECTION("another type stays") {
    redis.stranger({"DEL", "lk:k"});
    redis.stranger({"SET", "lk:k", "token"});
    CHECK(redis.evict(seen) == Eviction::changed);
    CHECK(redis.held().owner.bytes() == "token");
  }
  SECTION("what nobody looked at stays") {
    CHECK(redis.evict(busy.by) == Eviction::changed);
    CHECK(redis.evict(core::Foreign{each.type, "", std::nullopt}) == Eviction::changed);
    CHECK(redis.exists("lk:k"));
  }
}

TEST_CASE("redis: who may not look at foreign data cannot free it, and is told why") {
  Redis redis;
  redis.stranger({"HSET", "lk:k", "a", "b"});
  redis.stranger({"ACL", "SETUSER", "lk", "on", ">pw", "~lk:*", "~{lk:*", "&*", "+@all", "-dump"});
  contract::RedisWorld world(redis.stepped, "lk:", "redis+unix://lk:pw@" + redis.server.socket());
  const auto store = world.open();
  const auto by = value(store->status(key("k"))).by;
  REQUIRE(by);
  REQUIRE(std::holds_alternative<core::Foreign>(*by));
  CHECK(trouble(store->evict(key("k"), *by)).what == Trouble::refused);
  CHECK(redis.exists("lk:k"));
}

TEST_CASE("redis: a waiter frees nothing of another tool that has the same owner") {
  Redis redis;
  redis.stranger({"SET", "lk:k", "worker-7", "PX", "60000"});
  auto a = redis.asker("worker-7");
  a.waits();
  CHECK(a.renews() == Renewal::not_mine);
  CHECK(a.leaves(1s).what == Release::left_line);
  CHECK(a.leaves(1s).what == Release::not_mine);
  a.waits();
  CHECK(a.releases().what == Release::left_line);
  CHECK(a.releases().what == Release::not_mine);
  CHECK(redis.held().left == 60'001ms);
}

TEST_CASE("redis: a lock whose helpers were lost is its owner's, but no asker's any more") {
  Redis redis;
  auto a = redis.asker("a");
  a.gets();
  redis.stranger({"DEL", stores::redis::LockKeys("lk:k").meta});
  CHECK_FALSE(redis.held().fence);
  CHECK(a.renews() == Renewal::not_mine);
  CHECK(a.releases().what == Release::not_mine);
  CHECK(value(redis.onlooker().renew(a.any_ask_of_owner(), 60s, std::nullopt)) == Renewal::renewed);
  CHECK(redis.releases("a").what == Release::released);
  redis.asker("b").gets();
}

TEST_CASE("redis: of many locks the one whose helper has another type is named, with that helper") {
  const std::string prefix = GENERATE(as<std::string>(), "", "lk:");
  Redis redis(prefix);
  std::vector<Asker> holders;
  for (const std::string text : {"a", "{b}c", "d}e", "f"}) {
    holders.push_back(redis.asker("owner", text));
    holders.back().gets();
  }
  const stores::redis::LockKeys keys(prefix + "{b}c");
  const std::string helper = GENERATE_REF(keys.meta, keys.line);
  redis.stranger({"DEL", helper});
  redis.stranger({"SET", helper, "x"});
  const auto error = trouble(redis.onlooker().list(core::Glob::everything()));
  CHECK(error.what == Trouble::corrupt);
  CHECK_FALSE(error.maybe_done);
  CHECK_THAT(error.detail, ContainsSubstring("another type (string)"));
  CHECK_THAT(error.detail, ContainsSubstring("for the lock {b}c: delete the key " + helper));
  CHECK(redis.listed("[!{]*") == "a d}e f ");
  redis.stranger({"DEL", helper});
  CHECK(redis.listed() == (prefix.empty() && helper == keys.meta ? "a d}e f " : "a d}e f {b}c "));
}

TEST_CASE("redis: what lk knows of its last holder is not said of another tool's lock") {
  Redis redis;
  auto a = redis.asker("a");
  a.gets();
  redis.stranger({"SET", "lk:k", "other", "PX", "5000"});
  const core::Held held = redis.held();
  CHECK(held.owner.bytes() == "other");
  CHECK_FALSE(held.fence);
  CHECK(held.who.note.empty());
  CHECK(a.renews() == Renewal::not_mine);
  CHECK(a.releases().what == Release::not_mine);
}

TEST_CASE("redis: python-redis-lock's waiters wake when lk frees the lock") {
  // Its lock is `lock:NAME`, and it waits by BLPOP on `lock-signal:NAME`.
  const bool by_prefix = GENERATE(false, true);
  Redis redis(by_prefix ? "lock:" : "");
  const std::string key_text = by_prefix ? "job\n{1}" : "lock:job\n{1}";
  auto a = redis.asker("a", key_text);
  a.gets();

  std::optional<core::Result<Reply>> woken;
  std::thread python([&] {
    Wire wire = wire_to(redis.server);
    wire.begin();
    woken = wire.call({"BLPOP", "lock-signal:job\n{1}", "0"});
  });
  const bool blocks = wait_until([&] {
    return redis.stranger({"INFO", "clients"}).text.find("blocked_clients:1") != std::string::npos;
  });
  const bool by_force = GENERATE(false, true);
  if (by_force) {
    redis.evict(redis.held(key_text), key_text);
  } else {
    a.releases();
  }
  python.join();
  CHECK(blocks);
  REQUIRE(woken);
  CHECK(value(std::move(*woken)).elements.at(1).text == "1");

  // Nobody waits: as python-redis-lock itself leaves it, one signal for a second.
  a.gets();
  a.releases();
  a.gets();
  a.releases();
  CHECK(redis.number({"LLEN", "lock-signal:job\n{1}"}) == 1);
  CHECK(redis.number({"PTTL", "lock-signal:job\n{1}"}) == 1000);
}

TEST_CASE("redis: only locks that are called lock: leave a signal") {
  Redis redis("");
  for (const std::string text : {"k", "a lock:k", "lock", "locks:k"}) {
    auto a = redis.asker("a", text);
    a.gets();
    a.releases();
  }
  for (const std::string& name : redis.names()) {
    CHECK(name.find("lock-signal") == std::string::npos);
  }
}
