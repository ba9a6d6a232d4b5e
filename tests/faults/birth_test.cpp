// The moments around a command's birth, and the ways in which it cannot be born.
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <random>
#include <thread>

#include "os/child.hpp"
#include "os/real_clock.hpp"
#include "os/signals.hpp"
#include "support/catch.hpp"
#include "support/run_lk.hpp"

using namespace std::chrono_literals;
using support::Place;
using support::Run;
using support::wait_until;

TEST_CASE("a signal at any moment of the birth leaves no lock behind and no command that nobody holds for") {
  std::mt19937 random(std::random_device{}());
  const Place place;
  for (int round = 0; round < 150; ++round) {
    const int number = round % 2 == 0 ? SIGINT : SIGTERM;
    Run run(place.lk({"exec", "--key", "k", "--ttl", "600", "--", "true"}));
    std::this_thread::sleep_for(std::chrono::microseconds(std::uniform_int_distribution<int>(0, 8'000)(random)));
    run.send(number);
    const int status = run.status();
    CHECK((status == 0 || status == 128 + number));
    CHECK(place.is_free("k"));
  }
}

TEST_CASE("what cannot be executed gives 126 or 127, one line, and a free lock") {
  const Place place;
  std::ofstream(place.path("plain")) << "echo hello\n";
  const auto status = [&](const std::string& command) {
    std::filesystem::remove(place.path("err"));
    Run run(place.lk({"exec", "--key", "k", "--ttl", "600", "--", command}));
    const int ended = run.status();
    CHECK(place.is_free("k"));
    return ended;
  };
  CHECK(status("/no/such/command") == 127);
  CHECK(status("no-such-command") == 127);
  CHECK(status(place.path("plain")) == 126);
  CHECK(status(place.folder()) == 126);
  CHECK(place.read("err") == "lk: cannot run " + place.folder() + ": Permission denied; k is released\n");
}

TEST_CASE("a script without #! is run by sh, as a shell would") {
  const Place place;
  std::ofstream(place.path("script")) << "echo \"$1\" >said; exit 4\n";
  std::filesystem::permissions(place.path("script"), std::filesystem::perms::owner_all);
  CHECK(Run(place.lk({"exec", "--key", "k", "--", "./script", "a b"})).status() == 4);
  CHECK(place.read("said") == "a b\n");
}

TEST_CASE("an environment too large for execve gives 126 and a free lock") {
  const Place place;
  support::Start start = place.shell(
      "exec bash -c 'ulimit -s 1024; export BIG=$(head -c 120000 /dev/zero | tr \"\\0\" x); "
      "exec $LK exec --key k --ttl 600 -- true $(head -c 140000 /dev/zero | tr \"\\0\" \"a \")'");
  const int status = Run(start).status();
  // 126 from lk, or from the shell, where that could not even start lk.
  CHECK((status == 126 || status == 0));
  CHECK(place.is_free("k"));
}

TEST_CASE("where no process can be made, lk says so with 71 and leaves no lock") {
  if (::geteuid() != 0) {
    WARN("needs root: a limit on processes does not bind the test's own user otherwise");
    return;
  }
  const Place place;
  std::filesystem::permissions(place.folder(), std::filesystem::perms::all);
  for (const std::string limit : {"1", "2"}) {
    support::Start start = place.shell(
        "exec env ASAN_OPTIONS=detect_leaks=0 setpriv --reuid 54321 --regid 54321 --clear-groups prlimit --nproc=" +
        limit + " $LK exec --key k --ttl 600 -- true");
    Run run(start);
    const int status = run.status();
    INFO("nproc " << limit << ": " << status << " " << run.err());
    CHECK((status == 71 || status == 0));
    if (limit == "1") {
      CHECK(status == 71);
    }
    std::filesystem::remove(place.path("err"));
  }
  CHECK(place.is_free("k"));
}

TEST_CASE("closed stdin, stdout and stderr stay closed for the command and never become the store's files") {
  const Place place;
  Run run(place.shell(
      "$LK exec --key k -- sh -c 'ls -l /proc/self/fd >fds 2>&1; ls -l /proc/$PPID/fd >lk-fds 2>&1' <&- >&- 2>&-"));
  CHECK(run.status() == 0);
  std::ifstream fds(place.path("lk-fds"));
  std::string line;
  int standard = 0;
  while (std::getline(fds, line)) {
    for (const std::string number : {" 0 -> ", " 1 -> ", " 2 -> "}) {
      if (line.find(number) != std::string::npos) {
        ++standard;
        INFO(line);
        CHECK(line.find("/dev/null") != std::string::npos);
      }
    }
  }
  CHECK(standard == 3);
  CHECK(place.is_free("k"));
}

TEST_CASE("arguments that are not UTF-8 and a megabyte of environment reach the command as they are") {
  const Place place;
  support::Start start = place.lk({"exec",
                                   "--key",
                                   "k",
                                   "--",
                                   "printf",
                                   "%s|",
                                   "a\xff\xfe"
                                   "b",
                                   "",
                                   "two\nlines",
                                   "$HOME"});
  for (int i = 0; i < 10; ++i) {
    start.environment["BIG" + std::to_string(i)] = std::string(100'000, 'x');
  }
  Run run(start);
  CHECK(run.status() == 0);
  CHECK(run.out() ==
        "a\xff\xfe"
        "b||two\nlines|$HOME|");
}

TEST_CASE("as pid 1 lk buries what it inherits, forwards TERM, and ends with the command's status") {
  if (::geteuid() != 0) {
    WARN("needs root for a pid namespace");
    return;
  }
  const Place place;
  Run reaping(place.shell(
      "exec unshare --pid --fork --kill-child --mount-proc $LK exec --key k -- sh -c "
      "'for i in 1 2 3 4 5; do (sleep 0.1 &) ; done; sleep 0.5; ps -eo stat | grep -c Z >zombies; exit 7'"));
  CHECK(reaping.status() == 7);
  CHECK(place.read("zombies") == "0\n");

  Run ending(place.shell(
      "exec unshare --pid --fork --kill-child --mount-proc $LK exec --key k -- sh -c 'echo >ready; sleep 309'"));
  REQUIRE(wait_until([&] { return place.has("ready"); }));
  // unshare's only child.
  pid_t lk = 0;
  std::ifstream("/proc/" + std::to_string(ending.pid()) + "/task/" + std::to_string(ending.pid()) + "/children") >> lk;
  REQUIRE(lk != 0);
  ::kill(lk, SIGTERM);
  CHECK(ending.status(5s) == 128 + SIGTERM);
  CHECK(place.is_free("k"));
}

TEST_CASE("a child that is born past its latest moment executes nothing") {
  const Place place;
  // In a process of its own: Signals is for the life of one.
  const pid_t tester = ::fork();
  REQUIRE(tester >= 0);
  if (tester == 0) {
    const os::Signals signals;
    const os::RealClock clock;
    std::string program = "/usr/bin/touch";
    std::string late = place.path("late");
    std::string early = place.path("early");
    const std::array<char*, 3> late_words{program.data(), late.data(), nullptr};
    const std::array<char*, 3> early_words{program.data(), early.data(), nullptr};
    std::atomic<pid_t> born{0};
    const auto too_late = os::spawn(late_words.data(), environ, signals, true, born, clock, clock.now());
    const bool told = !too_late && too_late.error().what == os::SpawnFailure::What::too_late && born == 0;
    const auto in_time = os::spawn(early_words.data(), environ, signals, true, born, clock, clock.now() + 60s);
    const bool ran = in_time && os::collect(in_time->pid).status == 0;
    ::_exit((told ? 0 : 1) + (ran ? 0 : 2));
  }
  int status = 0;
  REQUIRE(::waitpid(tester, &status, 0) == tester);
  CHECK(status == 0);
  CHECK(place.has("early"));
  CHECK_FALSE(place.has("late"));
}
