// What SQLite does with processes that it can look at: the lock of dead keepers is free at once, not after the ttl.
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "contract/scene.hpp"
#include "core/store_url.hpp"
#include "os/process.hpp"
#include "stores/sqlite/store.hpp"

using contract::Asker;
using contract::key;
using contract::Scene;
using contract::value;
using core::Release;
using core::Renewal;

namespace {

// A process that does nothing until it is killed.
class Bystander {
public:
  Bystander() : m_pid(::fork()) {
    if (m_pid == 0) {
      while (true) {
        ::pause();
      }
    }
    REQUIRE(m_pid > 0);
    m_id = os::process_of(m_pid);
    REQUIRE(m_id.pid == m_pid);
    REQUIRE(m_id.started > 0);
  }
  ~Bystander() { dies(); }
  Bystander(const Bystander&) = delete;
  Bystander& operator=(const Bystander&) = delete;

  const core::ProcessId& id() const { return m_id; }
  void dies() {
    if (m_pid > 0) {
      ::kill(m_pid, SIGKILL);
      ::waitpid(m_pid, nullptr, 0);
      m_pid = -1;
    }
  }
  // Dead, and not yet reaped.
  void becomes_a_zombie() {
    ::kill(m_pid, SIGKILL);
    siginfo_t ignored{};
    REQUIRE(::waitid(P_PID, static_cast<id_t>(m_pid), &ignored, WEXITED | WNOWAIT) == 0);
  }

private:
  pid_t m_pid;
  core::ProcessId m_id;
};

const contract::Bench& sqlite() {
  for (const auto& bench : contract::benches()) {
    if (bench.name == "sqlite") {
      return bench;
    }
  }
  FAIL("no such bench");
  return contract::benches().front();
}

struct Family {
  Bystander lk;
  Bystander guardian;
  Bystander child;

  core::Keepers keepers() const { return {os::own_realm(), lk.id(), guardian.id(), child.id()}; }
  void dies() {
    lk.dies();
    guardian.dies();
    child.dies();
  }
};

}  // namespace

TEST_CASE("a lock whose keepers are all gone is free at once") {
  Scene at(sqlite());
  Family family;
  auto holder = at.asker("holder");
  auto other = at.asker("other");
  holder.ask.keepers = family.keepers();
  holder.gets();
  family.lk.dies();
  other.is_refused_at_once();
  family.guardian.dies();
  other.is_refused_at_once();
  CHECK(at.holder() == "holder");
  family.child.dies();
  CHECK_FALSE(at.status().by);
  CHECK(value(at.onlooker().list(core::Glob::everything())).empty());
  other.gets();
}

TEST_CASE("any keeper that lives keeps the lock") {
  Scene at(sqlite());
  const int alive = GENERATE(0, 1, 2);
  CAPTURE(alive);
  Family family;
  auto holder = at.asker("holder");
  holder.ask.keepers = family.keepers();
  holder.gets();
  for (int i = 0; i < 3; ++i) {
    if (i != alive) {
      (i == 0 ? family.lk : i == 1 ? family.guardian : family.child).dies();
    }
  }
  CHECK(at.holder() == "holder");
  at.asker("other").is_refused_at_once();
}

TEST_CASE("keepers that nobody has reaped yet are gone") {
  Scene at(sqlite());
  Family family;
  auto holder = at.asker("holder");
  holder.ask.keepers = family.keepers();
  holder.gets();
  family.lk.becomes_a_zombie();
  family.guardian.becomes_a_zombie();
  family.child.becomes_a_zombie();
  at.asker("other").gets();
}

TEST_CASE("a keeper's pid that was given to another process is gone") {
  Scene at(sqlite());
  auto me = os::own_process();
  REQUIRE(me.started > 1);
  --me.started;
  auto holder = at.asker("holder");
  holder.ask.keepers = core::Keepers{os::own_realm(), me, me, me};
  holder.gets();
  at.asker("other").gets();
}

TEST_CASE("keepers of another realm count as alive") {
  Scene at(sqlite());
  const std::string realm = GENERATE(as<std::string>{}, "pid:1,time:1", "");
  Family family;
  auto holder = at.asker("holder");
  holder.ask.keepers = family.keepers();
  holder.ask.keepers->realm = realm;
  holder.gets();
  family.dies();
  CHECK(at.holder() == "holder");
  at.asker("other").is_refused_at_once();
  at.pass(at.s(60));
  at.asker("other").gets();
}

TEST_CASE("a grant whose guardian or child is not known counts as alive") {
  Scene at(sqlite());
  Family family;
  auto holder = at.asker("holder");
  holder.ask.keepers = family.keepers();
  const bool without_guardian = GENERATE(true, false);
  (without_guardian ? holder.ask.keepers->guardian : holder.ask.keepers->child).reset();
  holder.gets();
  family.dies();
  CHECK(at.holder() == "holder");
  at.asker("other").is_refused_at_once();
}

TEST_CASE("a grant without keepers lives for its ttl") {
  Scene at(sqlite());
  at.asker("holder").gets();
  CHECK(at.holder() == "holder");
  at.pass(at.s(60));
  CHECK(at.holder() == "");
}

TEST_CASE("a renewal brings new keepers, or leaves those it had") {
  Scene at(sqlite());
  Family old_family;
  Family new_family;
  auto holder = at.asker("holder");
  holder.ask.keepers = old_family.keepers();
  holder.gets();
  CHECK(value(holder.store().renew(holder.claim(), at.s(60), new_family.keepers())) == Renewal::renewed);
  old_family.dies();
  CHECK(at.holder() == "holder");
  CHECK(value(holder.store().renew(holder.claim(), at.s(60), std::nullopt)) == Renewal::renewed);
  CHECK(at.holder() == "holder");
  new_family.dies();
  CHECK(at.holder() == "");
}

TEST_CASE("a lock of dead keepers goes to the head of the line") {
  Scene at(sqlite());
  Family family;
  auto holder = at.asker("holder");
  auto head = at.asker("head");
  auto newcomer = at.asker("newcomer");
  holder.ask.keepers = family.keepers();
  const auto fence = holder.gets().fence;
  head.waits();
  family.dies();
  CHECK(std::holds_alternative<core::Promised>(newcomer.is_refused_at_once().by));
  CHECK(head.gets().fence > fence);
}

TEST_CASE("who becomes the head by a command's grant is rung once all of its keepers are known") {
  Scene at(sqlite());
  Family family;
  auto holder = at.asker("holder");
  holder.gets();
  auto first = at.asker("first");
  first.ask.durable = false;
  first.listens();
  first.waits();
  auto second = at.waiter("second");
  holder.releases();
  first.gets();
  first.store().tidy();
  CHECK_FALSE(second.has_rung());
  REQUIRE(value(first.store().renew(first.claim(), at.s(60), family.keepers())) == Renewal::renewed);
  CHECK(second.rings_within(std::chrono::seconds(2)));
}

TEST_CASE("a head that nobody rings sees at its next look that the lock was given back") {
  Scene at(sqlite());
  Family family;
  auto holder = at.asker("holder");
  auto head = at.asker("head");
  holder.ask.keepers = family.keepers();
  holder.gets();
  // Once to join, once to look into the file, once to look whether anything was written.
  for (int look = 0; look < 3; ++look) {
    CHECK(head.waits().ahead == 0);
  }
  holder.releases();
  head.gets();
}

TEST_CASE("force finds a lock of dead keepers free") {
  Scene at(sqlite());
  Family family;
  auto holder = at.asker("holder");
  holder.ask.keepers = family.keepers();
  holder.gets();
  const auto seen = at.held();
  family.dies();
  CHECK(value(at.onlooker().evict(key("k"), seen)) == core::Eviction::free);
}

TEST_CASE("a command has ended once its grant was left, not while its keepers are unknown") {
  Scene at(sqlite());
  Family family;
  auto holder = at.asker("holder");
  holder.ask.durable = false;
  holder.gets();
  CHECK_FALSE(at.held().command_ended);
  REQUIRE(value(holder.store().renew(holder.claim(), at.s(60), family.keepers())) == Renewal::renewed);
  CHECK_FALSE(at.held().command_ended);
  CHECK(holder.leaves(at.s(10)).what == Release::released);
  CHECK(at.held().command_ended);
}

TEST_CASE("a grant that was left needs no keepers any more") {
  Scene at(sqlite());
  Family family;
  auto holder = at.asker("holder");
  holder.ask.keepers = family.keepers();
  holder.gets();
  CHECK(holder.leaves(at.s(10)).what == Release::released);
  family.dies();
  CHECK(at.holder() == "holder");
  at.pass(at.s(9));
  at.asker("other").is_refused_at_once();
  at.pass(at.s(1));
  at.asker("other").gets();
}

TEST_CASE("a waiter whose process is gone has no place") {
  Scene at(sqlite());
  Bystander dead;
  auto holder = at.asker("holder");
  auto ghost = at.asker("ghost");
  auto next = at.asker("next");
  ghost.ask.keepers = core::Keepers{os::own_realm(), dead.id()};
  holder.gets();
  ghost.waits();
  next.waits();
  CHECK(at.status().waiting == 2);
  dead.dies();
  CHECK(at.status().waiting == 1);
  holder.releases();
  next.gets();
}

TEST_CASE("a waiter of another realm keeps its place until its patience ends") {
  Scene at(sqlite());
  Bystander dead;
  auto holder = at.asker("holder");
  auto stranger = at.asker("stranger");
  auto next = at.asker("next");
  stranger.ask.keepers = core::Keepers{"pid:1,time:1", dead.id()};
  holder.gets();
  stranger.waits();
  dead.dies();
  CHECK(next.waits().ahead == 1);
  at.pass(at.s(15));
  CHECK(next.waits().ahead == 0);
}
