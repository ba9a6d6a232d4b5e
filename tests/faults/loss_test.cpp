// Losing the lock, and losing lk, its guardian or its child: what is stopped, by whom, and when the lock is free.
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

#include <fmt/format.h>

#include "support/catch.hpp"
#include "support/run_lk.hpp"

using namespace std::chrono_literals;
using support::Place;
using support::Run;
using support::wait_until;

namespace {

pid_t pid_in(const Place& place, const std::string& name) {
  REQUIRE(wait_until([&] { return !place.read(name).empty() && place.read(name).back() == '\n'; }));
  return std::stoi(place.read(name));
}

// The row goes away behind lk's back.
void delete_row(const Place& place) { REQUIRE(Run(place.shell("$LK release --key k --force --yes -q")).status() == 0); }

const std::string stubborn = R"(trap '' TERM; echo $$ >pid; while :; do sleep 0.05; done)";
// Runs lk with a stderr that takes nothing any more: a full pipe that nobody reads.
support::Start deaf(const Place& place, const std::string& words) {
  return place.shell(R"(exec python3 -c '
import os, subprocess, sys
reader, writer = os.pipe()
os.set_blocking(writer, False)
try:
    while True:
        os.write(writer, b"x" * 4096)
except BlockingIOError:
    os.set_blocking(writer, True)
sys.exit(subprocess.run([os.environ["LK"]] + sys.argv[1:], stderr=writer).returncode)' )" +
                     words);
}

const std::string polite =
    R"(trap 'echo TERM >>got; exit 0' TERM; echo $$ >pid; while :; do sleep 0.02 & wait $!; done)";

// From then on lk sleeps until it renews: a stop of it keeps nobody out of the database.
bool store_knows(const Place& place, pid_t child) {
  const std::string count = fmt::format("SELECT count(*) FROM holder WHERE child_pid = {}", child);
  return wait_until(
      [&] { return Run(place.shell(fmt::format("test $(sqlite3 locks.db '{}') = 1", count))).status() == 0; });
}

}  // namespace

TEST_CASE(
    "a lock that was removed is noticed at the next renewal, the whole family is dead within kill-after, and the "
    "status is 79") {
  const Place place;
  Run run(place.exec({"--ttl", "2"}, "trap '' TERM; sh -c 'echo $$ >grandchild; sleep 60' & echo $$ >pid; wait"));
  const pid_t child = pid_in(place, "pid");
  const pid_t grandchild = pid_in(place, "grandchild");
  delete_row(place);
  // Renewal after ttl/3, KILL after ttl/4.
  CHECK(run.status(3s) == 79);
  CHECK_FALSE(support::process_runs(child));
  CHECK_FALSE(support::process_runs(grandchild));
  CHECK(run.err().find("lost k: it is gone") != std::string::npos);
}

TEST_CASE("a command that ends with 0 on the TERM of a loss still gives 79") {
  const Place place;
  Run run(place.exec({"--ttl", "1"}, polite));
  pid_in(place, "pid");
  delete_row(place);
  CHECK(run.status(3s) == 79);
  CHECK(place.read("got") == "TERM\n");
}

TEST_CASE("a lock that was lost before the first renewal is noticed at the release") {
  const Place place;
  Run run(place.exec({"--ttl", "60"}, "echo $$ >pid; while [ ! -e stop ]; do sleep 0.02; done"));
  pid_in(place, "pid");
  delete_row(place);
  Run(place.shell("touch stop")).status();
  CHECK(run.status() == 79);
}

TEST_CASE("a lock that another took is noticed, and the other keeps it") {
  const Place place;
  Run run(place.exec({"--ttl", "1"}, stubborn));
  const pid_t child = pid_in(place, "pid");
  // In one step: between a release and an acquire there could be a renewal. Without a guardian nobody takes the next
  // one for dead.
  REQUIRE(Run(place.shell("sqlite3 locks.db \"UPDATE holder SET owner = 'next', ask = ask + 1, ttl = 60000, expires = "
                          "expires + 59000000, guardian_pid = NULL\""))
              .status() == 0);
  CHECK(run.status(3s) == 79);
  CHECK_FALSE(support::process_runs(child));
  CHECK(run.err().find("another holder has it now") != std::string::npos);
  CHECK(place.status_of({"release", "--key", "k", "--owner", "next"}) == 0);
}

TEST_CASE("with --on-lost kill gives no grace") {
  const Place place;
  Run run(place.exec({"--ttl", "1", "--on-lost", "kill"}, polite));
  pid_in(place, "pid");
  delete_row(place);
  CHECK(run.status(3s) == 79);
  CHECK_FALSE(place.has("got"));
}

TEST_CASE("with --on-lost warn lets the command end by itself, says so once, and still gives 79") {
  const Place place;
  Run run(place.exec({"--ttl", "1", "--on-lost", "warn"},
                     "echo $$ >pid; while [ ! -e stop ]; do sleep 0.02; done; echo whole >end"));
  pid_in(place, "pid");
  delete_row(place);
  REQUIRE(wait_until([&] { return run.err().find("lost k") != std::string::npos; }));
  Run(place.shell("sleep 1.2; touch stop")).status();
  CHECK(run.status() == 79);
  CHECK(place.read("end") == "whole\n");
  CHECK(run.err().find("lost k", run.err().find("lost k") + 1) == std::string::npos);
}

TEST_CASE("a database file that is removed or replaced under a holder is a loss at its next renewal") {
  for (const std::string how : {"rm -f locks.db locks.db-wal locks.db-shm",
                                "mv locks.db elsewhere.db",
                                "cp locks.db copy.db; mv copy.db locks.db",
                                "rm -f locks.db-wal locks.db-shm",
                                "rm -f locks.db-wal",
                                "truncate -s 0 locks.db locks.db-wal",
                                ": >locks.db"}) {
    INFO(how);
    const Place place;
    Run run(place.exec({"--ttl", "1"}, stubborn));
    const pid_t child = pid_in(place, "pid");
    Run(place.shell(how)).status();
    CHECK(run.status(3s) == 79);
    CHECK_FALSE(support::process_runs(child));
  }
}

TEST_CASE("a link on the way to the file that leads elsewhere is a loss at the next renewal") {
  const Place place;
  REQUIRE(Run(place.shell("mkdir a b; ln -s a now")).status() == 0);
  support::Start start = place.exec({"--ttl", "1"}, stubborn);
  start.environment["LK_STORE"] = place.path("now/locks.db");
  Run run(start);
  pid_in(place, "pid");
  REQUIRE(Run(place.shell("ln -sfn b now")).status() == 0);
  CHECK(run.status(3s) == 79);
}

TEST_CASE("a store that is locked by somebody else for good ends in TERM before the deadline, and 79") {
  const Place place;
  Run run(place.exec({"--ttl", "1"}, polite));
  pid_in(place, "pid");
  Run blocker(
      place.shell("exec python3 -c \"import sqlite3,time; c=sqlite3.connect('locks.db',isolation_level=None); "
                  "c.execute('BEGIN IMMEDIATE'); open('blocked','w').close(); time.sleep(60)\""));
  REQUIRE(wait_until([&] { return place.has("blocked"); }));
  CHECK(run.status(5s) == 79);
  CHECK(place.read("got") == "TERM\n");
  CHECK(run.err().find("no renewal in time") != std::string::npos);
}

TEST_CASE(
    "lk alone stopped past the deadline: the guardian kills the command in time, and lk says 79 when it wakes up") {
  const Place place;
  Run run(place.exec({"--ttl", "1"}, stubborn));
  const pid_t child = pid_in(place, "pid");
  REQUIRE(store_knows(place, child));
  run.send(SIGSTOP);
  const auto stopped = std::chrono::steady_clock::now();
  REQUIRE(wait_until([&] { return !support::process_runs(child); }, 3s));
  CHECK(std::chrono::steady_clock::now() - stopped < 1s);
  CHECK(wait_until(
      [&] {
        return place.status_of({"acquire", "--key", "k", "--owner", "next", "--ttl", "60", "-q"}) == 0;
      },
      2s));
  run.send(SIGCONT);
  CHECK(run.status() == 79);
  CHECK(place.status_of({"release", "--key", "k", "--owner", "next"}) == 0);
}

TEST_CASE(
    "all of them stopped past the deadline: nothing of the old command goes on for longer than a moment after CONT") {
  const Place place;
  Run run(place.exec({"--ttl", "1"}, "echo $$ >pid; while :; do date +%s%N >>beats; sleep 0.01; done"));
  const pid_t child = pid_in(place, "pid");
  const pid_t guardian = support::guardian_of(run.pid());
  REQUIRE(guardian != 0);
  REQUIRE(store_knows(place, child));
  for (const pid_t pid : {run.pid(), guardian}) {
    ::kill(pid, SIGSTOP);
  }
  ::kill(-child, SIGSTOP);
  REQUIRE(wait_until(
      [&] {
        return place.status_of({"acquire", "--key", "k", "--owner", "next", "--ttl", "60", "-q"}) == 0;
      },
      5s));
  for (const pid_t pid : {guardian, run.pid()}) {
    ::kill(pid, SIGCONT);
  }
  CHECK(run.status() == 79);
  CHECK_FALSE(support::process_runs(child));
  CHECK(place.status_of({"release", "--key", "k", "--owner", "next"}) == 0);
}

TEST_CASE(
    "kill -9 of lk: the guardian sends TERM once, waits for the command, and gives the lock back long before the ttl") {
  const Place place;
  Run run(place.exec(
      {"--ttl", "60"},
      "trap 'echo TERM >>got; sleep 0.2; exit 0' TERM; echo $$ >pid; while :; do sleep 0.02 & wait $!; done"));
  const pid_t child = pid_in(place, "pid");
  run.send(SIGKILL);
  run.wait();
  REQUIRE(wait_until([&] { return place.has("got"); }, 2s));
  const bool was_free = place.is_free("k");
  if (support::process_runs(child)) {
    CHECK_FALSE(was_free);
  }
  CHECK(wait_until([&] { return place.is_free("k"); }, 3s));
  CHECK_FALSE(support::process_runs(child));
  CHECK(place.read("got") == "TERM\n");
}

TEST_CASE(
    "kill -9 of lk over a command that ignores TERM: KILL after kill-after, grandchildren included, then the lock is "
    "free") {
  const Place place;
  Run run(place.exec({"--ttl", "60", "--kill-after", "500ms"},
                     "trap '' TERM; sh -c 'echo $$ >grandchild; sleep 60' & echo $$ >pid; wait"));
  const pid_t child = pid_in(place, "pid");
  const pid_t grandchild = pid_in(place, "grandchild");
  run.send(SIGKILL);
  run.wait();
  CHECK(wait_until([&] { return place.is_free("k"); }, 3s));
  CHECK_FALSE(support::process_runs(child));
  CHECK_FALSE(support::process_runs(grandchild));
}

TEST_CASE("kill -9 of lk on a terminal reaches what the command started before the lock is free") {
  const Place place;
  support::Start start = place.shell(
      "$LK exec --key k --ttl 60 -- sh -c 'sh -c \"echo \\$\\$ >grandchild; sleep 60; true\"; true' & echo $! >lk; "
      "wait; read x");
  start.terminal = true;
  Run run(start);
  const pid_t grandchild = pid_in(place, "grandchild");
  ::kill(pid_in(place, "lk"), SIGKILL);
  REQUIRE(wait_until([&] { return place.is_free("k"); }, 10s));
  CHECK_FALSE(support::process_runs(grandchild));
}

TEST_CASE("kill -9 of lk keeps --min-hold") {
  const Place place;
  Run run(place.exec({"--ttl", "60", "--min-hold", "3"}, polite));
  const pid_t child = pid_in(place, "pid");
  run.send(SIGKILL);
  REQUIRE(wait_until([&] { return !support::process_runs(child); }, 3s));
  const auto ended = std::chrono::steady_clock::now();
  CHECK_FALSE(place.is_free("k"));
  CHECK(wait_until([&] { return place.is_free("k"); }, 5s));
  CHECK(std::chrono::steady_clock::now() - ended > 1s);
}

TEST_CASE("a guardian that dies is replaced, and the new one does its work") {
  const Place place;
  Run run(place.exec({"--ttl", "60"}, polite));
  const pid_t child = pid_in(place, "pid");
  const pid_t first = support::guardian_of(run.pid());
  REQUIRE(first != 0);
  ::kill(first, SIGKILL);
  pid_t second = 0;
  REQUIRE(wait_until([&] {
    second = support::guardian_of(run.pid());
    return second != 0 && second != first;
  }));
  // Its keeper's number is in the row once the renewal that follows is done.
  REQUIRE(wait_until([&] {
    return place.output_of({"status"}).find("held") != std::string::npos &&
           Run(place.shell("test \"$(sqlite3 locks.db 'SELECT guardian_pid FROM holder')\" = " +
                           std::to_string(second)))
                   .status() == 0;
  }));
  run.send(SIGKILL);
  CHECK(wait_until([&] { return place.is_free("k"); }, 3s));
  CHECK_FALSE(support::process_runs(child));
  CHECK(place.read("got") == "TERM\n");
}

TEST_CASE("a guardian that cannot be replaced at once is replaced as soon as that is possible") {
#ifdef __SANITIZE_ADDRESS__
  // Its check of a caught exception opens a pipe, and takes a failure for a broken object.
  WARN("not under the sanitizers, which need descriptors themselves");
  return;
#endif
  const Place place;
  Run run(place.exec({"--ttl", "60"}, polite));
  const pid_t child = pid_in(place, "pid");
  REQUIRE(support::guardian_of(run.pid()) != 0);
  rlimit before{};
  REQUIRE(::prlimit(run.pid(), RLIMIT_NOFILE, nullptr, &before) == 0);
  const rlimit none{4, before.rlim_max};
  REQUIRE(::prlimit(run.pid(), RLIMIT_NOFILE, &none, nullptr) == 0);
  ::kill(support::guardian_of(run.pid()), SIGKILL);
  REQUIRE(wait_until([&] { return run.err().find("no new one can be started") != std::string::npos; }));
  CHECK(support::guardian_of(run.pid()) == 0);
  CHECK(support::process_runs(child));
  REQUIRE(::prlimit(run.pid(), RLIMIT_NOFILE, &before, nullptr) == 0);
  REQUIRE(wait_until([&] { return support::guardian_of(run.pid()) != 0; }));
  run.send(SIGKILL);
  CHECK(wait_until([&] { return place.is_free("k"); }, 3s));
  CHECK_FALSE(support::process_runs(child));
  CHECK(run.err().find("no new one", run.err().find("no new one") + 1) == std::string::npos);
}

TEST_CASE("lk, guardian and command killed together: the lock is free at once") {
  const Place place;
  Run run(place.exec({"--ttl", "600"}, "echo $$ >pid; exec sleep 600"));
  const pid_t child = pid_in(place, "pid");
  const pid_t guardian = support::guardian_of(run.pid());
  REQUIRE(guardian != 0);
  REQUIRE(wait_until([&] {
    return Run(place.shell("test -n \"$(sqlite3 locks.db 'SELECT child_pid FROM holder')\"")).status() == 0;
  }));
  for (const pid_t pid : {run.pid(), guardian, child}) {
    ::kill(pid, SIGKILL);
  }
  run.wait();
  CHECK(wait_until([&] { return place.is_free("k"); }, 2s));
}

TEST_CASE("lk and guardian killed together: the kernel tells the command, and until it is dead the lock is held") {
  const Place place;
  Run run(place.exec({"--ttl", "600"}, polite));
  const pid_t child = pid_in(place, "pid");
  const pid_t guardian = support::guardian_of(run.pid());
  REQUIRE(guardian != 0);
  REQUIRE(wait_until([&] {
    return Run(place.shell("test -n \"$(sqlite3 locks.db 'SELECT child_pid FROM holder')\"")).status() == 0;
  }));
  ::kill(run.pid(), SIGKILL);
  ::kill(guardian, SIGKILL);
  REQUIRE(wait_until([&] { return !support::process_runs(child); }, 2s));
  CHECK(place.read("got") == "TERM\n");
  CHECK(wait_until([&] { return place.is_free("k"); }, 2s));
}

TEST_CASE("a waiter that is killed leaves neither a place in the line nor a bell") {
  const Place place;
  Run holder(place.exec({}, "echo $$ >pid; sleep 60"));
  pid_in(place, "pid");
  Run waiter(place.exec({"--wait", "forever"}, "true"));
  REQUIRE(wait_until([&] {
    return place.output_of({"status", "k", "--json"}).find("\"waiting\":1") != std::string::npos;
  }));
  CHECK_FALSE(std::filesystem::is_empty(place.path("locks.db-bells")));
  waiter.send(SIGKILL);
  waiter.wait();
  CHECK(wait_until([&] {
    return place.output_of({"status", "k", "--json"}).find("\"waiting\":0") != std::string::npos;
  }));
  CHECK(wait_until([&] { return std::filesystem::is_empty(place.path("locks.db-bells")); }));
}

TEST_CASE(
    "the guardian holds none of the command's descriptors and lives in its own session in / before any deadline") {
  const Place place;
  Run run(place.shell("exec 9>nine; exec $LK exec --key k --ttl 1 -- sh -c 'echo $$ >pid; sleep 60'"));
  pid_in(place, "pid");
  const pid_t guardian = support::guardian_of(run.pid());
  REQUIRE(guardian != 0);
  REQUIRE(wait_until([&] { return ::getsid(guardian) == guardian; }));
  const std::string proc = "/proc/" + std::to_string(guardian);
  CHECK(wait_until([&] { return std::filesystem::read_symlink(proc + "/cwd") == "/"; }));
  // Not to be hit by a pkill -f that means lk or the command.
  CHECK(support::content_of(proc + "/cmdline").find("exec") == std::string::npos);
  CHECK(support::content_of(proc + "/cmdline").substr(0, 14) == "lock-guardian ");
  for (const auto& entry : std::filesystem::directory_iterator(proc + "/fd")) {
    std::error_code gone;
    const std::string target = std::filesystem::read_symlink(entry.path(), gone);
    INFO(entry.path() << " -> " << target);
    CHECK(target.find(place.folder()) == std::string::npos);
  }
}

TEST_CASE("the guardian ends silently when all went well") {
  const Place place;
  Run run(place.exec({}, "echo $$ >pid; while [ ! -e stop ]; do sleep 0.02; done"));
  pid_in(place, "pid");
  const pid_t guardian = support::guardian_of(run.pid());
  REQUIRE(guardian != 0);
  Run(place.shell("touch stop")).status();
  CHECK(run.status() == 0);
  CHECK_FALSE(support::process_runs(guardian));
  CHECK(run.err().empty());
}

TEST_CASE("a daemon that the command leaves behind keeps neither lk nor the lock") {
  const Place place;
  Run run(place.exec({}, "sleep 60 & echo $! >pid; exit 3"));
  CHECK(run.status(5s) == 3);
  const pid_t daemon = pid_in(place, "pid");
  CHECK(place.is_free("k"));
  CHECK(support::process_runs(daemon));
  ::kill(daemon, SIGKILL);
}

TEST_CASE("on a terminal a loss reaches the command and its descendants, and nothing else of the caller's group") {
  const Place place;
  // No job control: the caller's sleep is in the very group of lk and its command.
  support::Start start = place.shell(
      "sleep 60 & echo $! >bystander; $LK exec --key k --ttl 1 -- sh -c 'sh -c \"echo \\$\\$ >grandchild; sleep 60\" & "
      "echo $$ >pid; wait'; "
      "echo $? >status; read x");
  start.terminal = true;
  Run run(start);
  const pid_t child = pid_in(place, "pid");
  const pid_t grandchild = pid_in(place, "grandchild");
  const pid_t bystander = pid_in(place, "bystander");
  delete_row(place);
  REQUIRE(wait_until([&] { return !place.read("status").empty(); }, 5s));
  CHECK(place.read("status") == "79\n");
  CHECK_FALSE(support::process_runs(child));
  CHECK_FALSE(support::process_runs(grandchild));
  CHECK(support::process_runs(bystander));
}

TEST_CASE("on a terminal a loss also reaches what a dying process of the command starts") {
  const Place place;
  support::Start start = place.shell(
      "sleep 60 & echo $! >bystander; $LK exec --key k --ttl 1 -- sh -c '"
      R"(sh -c "trap \"sleep 60 & echo \\\$! >late; exit\" TERM; echo \$\$ >grandchild; )"
      R"(while :; do sleep 0.05; done" & echo $$ >pid; wait'; )"
      "echo $? >status; read x");
  start.terminal = true;
  Run run(start);
  pid_in(place, "pid");
  const pid_t grandchild = pid_in(place, "grandchild");
  delete_row(place);
  REQUIRE(wait_until([&] { return !place.read("status").empty(); }, 5s));
  CHECK(place.read("status") == "79\n");
  CHECK_FALSE(support::process_runs(grandchild));
  CHECK_FALSE(support::process_runs(pid_in(place, "late")));
  CHECK(support::process_runs(pid_in(place, "bystander")));
}

TEST_CASE("on a terminal a loss does not touch what lk had below it before the command was born") {
  const Place place;
  // The shell becomes lk: its sleep is lk's child then.
  support::Start start = place.shell(
      "(trap '' HUP; exec sleep 60) & echo $! >sibling; exec $LK exec --key k --ttl 1 -- sh -c 'echo $$ >pid; while :; "
      "do sleep 0.05; "
      "done'");
  start.terminal = true;
  Run run(start);
  const pid_t child = pid_in(place, "pid");
  delete_row(place);
  CHECK(run.status(5s) == 79);
  CHECK_FALSE(support::process_runs(child));
  CHECK(support::process_runs(pid_in(place, "sibling")));
  ::kill(pid_in(place, "sibling"), SIGKILL);
}

TEST_CASE("a stderr that takes nothing delays neither the end of a lost command nor a refusal") {
  const Place place;
  Run run(
      deaf(place, "exec --key k --ttl 1 -- sh -c \"trap '' TERM; echo \\$\\$ >pid; while :; do sleep 0.05; done\""));
  const pid_t child = pid_in(place, "pid");
  CHECK(Run(deaf(place, "exec --key k -- true")).status(5s) == 75);
  delete_row(place);
  CHECK(wait_until([&] { return !support::process_runs(child); }, 3s));
  CHECK(run.status(5s) == 79);
}
