// kill -9 and SIGSTOP at random moments: never two commands at once, never an orphan, never a lock beyond its time.
#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <random>
#include <set>
#include <thread>

#include "os/child.hpp"
#include "os/fd.hpp"
#include "os/process.hpp"
#include "support/catch.hpp"
#include "support/run_lk.hpp"

using namespace std::chrono_literals;
using support::Place;
using support::Run;
using support::wait_until;

namespace {

int rounds() {
  const char* const wanted = std::getenv("LK_ROUNDS");
  return wanted != nullptr ? std::atoi(wanted) : 150;
}

support::Start probing(const Place& place, std::vector<std::string> options, std::vector<std::string> how) {
  std::vector<std::string> words{"exec", "--key", "k", "--ttl", "1", "--wait", "20", "-q"};
  words.insert(words.end(), options.begin(), options.end());
  words.insert(words.end(), {"--", LK_PROBE, place.path("inside"), place.path("overlap")});
  words.insert(words.end(), how.begin(), how.end());
  return place.lk(std::move(words));
}

// Whether somebody holds SQLite's write lock (WAL_WRITE_LOCK, byte 120 of the index): stopped in that moment, he keeps
// everybody from writing.
bool is_being_written(const std::string& database) {
  const os::Fd index(::open((database + "-shm").c_str(), O_RDWR | O_CLOEXEC));
  struct flock lock {};
  lock.l_type = F_WRLCK;
  lock.l_start = 120;
  lock.l_len = 1;
  return ::fcntl(index.get(), F_GETLK, &lock) != 0 || lock.l_type != F_UNLCK;
}

// Everything lk started and has not buried, itself included.
std::set<pid_t> family_of(pid_t lk) {
  const std::vector<pid_t> below = os::descendants(lk);
  std::set<pid_t> all(below.begin(), below.end());
  all.insert(lk);
  return all;
}

}  // namespace

TEST_CASE("whoever is killed at whatever moment, the next command runs alone and in time, and nothing is left over") {
  const auto seed = std::random_device{}();
  std::mt19937 random(seed);
  INFO("seed " << seed);
  const Place place;
  const auto below = [&random](int limit) { return std::uniform_int_distribution<int>(0, limit - 1)(random); };
  for (int round = 0; round < rounds(); ++round) {
    // Bits: lk, guardian, child. Both of lk and guardian under a command that ignores TERM is the one case nobody is
    // left for.
    const int victims = 1 + below(7);
    const bool stubborn = below(2) == 0 && (victims & 3) != 3;
    const bool in_birth = below(2) == 0;
    INFO("round " << round << " victims " << victims << (stubborn ? " stubborn" : "") << (in_birth ? " in birth" : ""));
    Run first(probing(place, {}, stubborn ? std::vector<std::string>{"stubborn"} : std::vector<std::string>{}));
    if (in_birth) {
      std::this_thread::sleep_for(std::chrono::microseconds(below(12'000)));
    } else {
      REQUIRE(wait_until([&] { return support::child_of(first.pid()) != 0; }));
    }
    const std::set<pid_t> family = family_of(first.pid());
    const pid_t guardian = support::guardian_of(first.pid());
    const pid_t child = support::child_of(first.pid());
    for (const auto& [bit, pid] : {std::pair{1, first.pid()}, {2, guardian}, {4, child}}) {
      if ((victims & bit) != 0 && pid > 0) {
        ::kill(pid, SIGKILL);
      }
    }
    if ((victims & 1) == 0 && ((victims & 4) == 0 || child == 0)) {
      // lk and its command go on. A guardian that was killed has to be replaced before lk dies.
      if ((victims & 2) != 0 && guardian > 0) {
        REQUIRE(wait_until([&] {
          const pid_t now = support::guardian_of(first.pid());
          return now != guardian && now != 0;
        }));
      }
      first.send(SIGKILL);
    }
    const auto killed = std::chrono::steady_clock::now();
    Run next(probing(place, {}, {"once"}));
    REQUIRE(next.status(20s) == 0);
    // The ttl at most (a child that was being born), with its own time for start and end.
    CHECK(std::chrono::steady_clock::now() - killed < 1s + 2s);
    CHECK_FALSE(place.has("overlap"));
    for (const pid_t pid : family) {
      INFO("left over: " << pid);
      CHECK(wait_until([pid] { return !support::process_runs(pid); }, 3s));
    }
  }
}

TEST_CASE(
    "lk stopped past its ttl, alone or with its guardian: never two commands at once for longer than the guardian "
    "sleeps") {
  const Place place;
  for (int round = 0; round < std::max(1, rounds() / 100); ++round) {
    Run first(probing(place, {}, {}));
    REQUIRE(wait_until([&] { return support::child_of(first.pid()) != 0; }));
    REQUIRE(wait_until([&] {
      first.send(SIGSTOP);
      REQUIRE(wait_until([&] { return os::is_stopped({first.pid(), 0}); }));
      const bool may_stay = !is_being_written(place.path("locks.db"));
      if (!may_stay) {
        first.send(SIGCONT);
      }
      return may_stay;
    }));
    Run next(probing(place, {}, {"once"}));
    CHECK(next.status(10s) == 0);
    first.send(SIGCONT);
    CHECK(first.status(5s) == 79);
    CHECK_FALSE(place.has("overlap"));
  }
}
