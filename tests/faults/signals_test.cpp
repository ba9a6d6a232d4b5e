// What every signal does, with and without a terminal: the rows of the manual's SIGNALS table.
#include <sys/wait.h>

#include "os/child.hpp"
#include "support/catch.hpp"
#include "support/run_lk.hpp"

using support::Place;
using support::Run;
using support::wait_until;

namespace {

// A command that counts in files what reaches it, and ends by itself when `stop` appears. `read` keeps sh in a builtin,
// so that a trap runs at once.
const std::string counting = R"(
  for s in HUP INT QUIT TERM USR1 USR2 WINCH CONT; do trap "echo $s >>got" $s; done
  echo $$ >pid
  while [ ! -e stop ]; do sleep 0.02 & wait $!; done
  exit 7
)";

std::string lines(int count, const std::string& text) {
  std::string all;
  for (int i = 0; i < count; ++i) {
    all += text + "\n";
  }
  return all;
}

void finish(const Place& place, Run& run) {
  Run(place.shell("touch stop")).status();
  CHECK(run.status() == 7);
  CHECK(place.is_free("k"));
}

}  // namespace

TEST_CASE("without a terminal each signal is forwarded exactly once, and lk goes on holding") {
  for (const auto& [number, name] : {std::pair{SIGHUP, "HUP"},
                                     {SIGINT, "INT"},
                                     {SIGQUIT, "QUIT"},
                                     {SIGTERM, "TERM"},
                                     {SIGUSR1, "USR1"},
                                     {SIGUSR2, "USR2"},
                                     {SIGWINCH, "WINCH"}}) {
    INFO(name);
    const Place place;
    Run run(place.exec({}, counting));
    REQUIRE(wait_until([&] { return !place.read("pid").empty(); }));
    run.send(number);
    REQUIRE(wait_until([&] { return !place.read("got").empty(); }));
    CHECK(place.status_of({"status", "k"}) == 0);
    run.send(number);
    REQUIRE(wait_until([&] { return place.read("got").size() > lines(1, name).size(); }));
    CHECK(place.read("got") == lines(2, name));
    finish(place, run);
    CHECK(place.read("got") == lines(2, name));
  }
}

TEST_CASE("without a terminal a signal to lk's whole group reaches the command once") {
  const Place place;
  Run run(place.exec({}, counting));
  REQUIRE(wait_until([&] { return !place.read("pid").empty(); }));
  run.send_to_group(SIGTERM);
  REQUIRE(wait_until([&] { return !place.read("got").empty(); }));
  finish(place, run);
  CHECK(place.read("got") == "TERM\n");
}

TEST_CASE("without a terminal the command leads a group of its own, and grandchildren get the signal too") {
  const Place place;
  Run run(place.exec(
      {},
      "sh -c 'trap \"echo grandchild >>got; exit\" TERM; echo >ready; while :; do sleep 0.02 & wait $!; done' & "
      "echo $$ >pid; wait"));
  REQUIRE(wait_until([&] { return place.has("ready") && !place.read("pid").empty(); }));
  run.send(SIGTERM);
  CHECK(run.status() == 128 + SIGTERM);
  CHECK(wait_until([&] { return place.read("got") == "grandchild\n"; }));
  CHECK(place.is_free("k"));
}

TEST_CASE("a stopped command can be continued through lk") {
  const Place place;
  Run run(place.exec({}, counting));
  REQUIRE(wait_until([&] { return !place.read("pid").empty(); }));
  const auto state = [&] {
    const std::string stat = support::content_of("/proc/" + std::to_string(std::stoi(place.read("pid"))) + "/stat");
    return stat.substr(stat.rfind(')') + 2, 1);
  };
  run.send(SIGTSTP);
  REQUIRE(wait_until([&] { return state() == "T"; }));
  CHECK(place.status_of({"status", "k"}) == 0);
  run.send(SIGCONT);
  REQUIRE(wait_until([&] { return state() != "T"; }));
  finish(place, run);
}

TEST_CASE("a stopped command obeys the TERM that lk is sent") {
  const Place place;
  Run run(
      place.exec({}, "trap 'echo TERM >got; exit 3' TERM; echo $$ >pid; kill -STOP $$; while :; do sleep 0.02; done"));
  REQUIRE(wait_until([&] { return !place.read("pid").empty(); }));
  const pid_t child = std::stoi(place.read("pid"));
  REQUIRE(wait_until([&] {
    return support::content_of("/proc/" + std::to_string(child) + "/stat").find(" T ") != std::string::npos;
  }));
  run.send(SIGTERM);
  CHECK(run.status(std::chrono::seconds(5)) == 3);
  CHECK(place.read("got") == "TERM\n");
}

TEST_CASE("death of the command by a signal is lk's own death by it, after the release and without a core") {
  for (const int number : {SIGTERM, SIGINT, SIGQUIT, SIGKILL, SIGSEGV, SIGABRT, SIGPIPE, SIGUSR1}) {
    INFO(number);
    const Place place;
    Run run(place.exec({}, "ulimit -c unlimited; kill -" + std::to_string(number) + " $$"));
    const int status = run.wait();
    CHECK(WIFSIGNALED(status));
    CHECK(WTERMSIG(status) == number);
    CHECK_FALSE(WCOREDUMP(status));
    CHECK(place.is_free("k"));
  }
}

TEST_CASE("signals that were ignored at the start stay ignored, in lk and in the command") {
  const Place place;
  support::Start start = place.exec({}, counting);
  start.ignored = {SIGHUP, SIGINT};
  // sh cannot trap what was ignored at its start (POSIX), so `got` stays empty for HUP and INT.
  Run run(start);
  REQUIRE(wait_until([&] { return !place.read("pid").empty(); }));
  run.send(SIGHUP);
  run.send(SIGINT);
  run.send(SIGTERM);
  REQUIRE(wait_until([&] { return !place.read("got").empty(); }));
  finish(place, run);
  CHECK(place.read("got") == "TERM\n");
}

TEST_CASE("SIGCHLD ignored at the start neither loses the status nor is kept from the command") {
  const Place place;
  // Not by way of sh, which handles SIGCHLD itself.
  support::Start start = place.lk({"exec", "--key", "k", "--", "grep", "SigIgn", "/proc/self/status"});
  start.ignored = {SIGCHLD, SIGPIPE};
  CHECK(Run(start).status() == 0);
  const unsigned long long ignored = std::stoull(place.read("out").substr(8), nullptr, 16);
  CHECK((ignored & 1ULL << (SIGCHLD - 1)) != 0);
  CHECK((ignored & 1ULL << (SIGPIPE - 1)) != 0);
}

TEST_CASE("the command's signal mask and dispositions are those lk was started with") {
  const Place place;
  CHECK(Run(place.exec({}, "exec grep -E 'Sig(Blk|Ign)' /proc/self/status >with")).status() == 0);
  CHECK(Run(place.shell("exec grep -E 'Sig(Blk|Ign)' /proc/self/status >without")).status() == 0);
  CHECK(place.read("with") == place.read("without"));
}

TEST_CASE("a signal while waiting leaves the line, and lk dies of it without starting the command") {
  for (const int number : {SIGINT, SIGTERM, SIGHUP}) {
    INFO(number);
    const Place place;
    Run holder(place.exec({}, "while [ ! -e stop ]; do sleep 0.02; done"));
    REQUIRE(wait_until([&] { return !place.is_free("k"); }));
    Run waiter(place.exec({"--wait", "forever"}, "touch started"));
    REQUIRE(wait_until([&] {
      return place.output_of({"status", "k", "--json"}).find("\"waiting\": 1") != std::string::npos ||
             place.output_of({"status", "k", "--json"}).find("\"waiting\":1") != std::string::npos;
    }));
    waiter.send(number);
    const int status = waiter.wait(std::chrono::seconds(2));
    CHECK(WIFSIGNALED(status));
    CHECK(WTERMSIG(status) == number);
    const std::string after = place.output_of({"status", "k", "--json"});
    CHECK(after.find("\"waiting\":0") + after.find("\"waiting\": 0") != 2 * std::string::npos);
    Run(place.shell("touch stop")).status();
    CHECK(holder.status() == 0);
    CHECK_FALSE(place.has("started"));
    CHECK(place.is_free("k"));
  }
}

// --- with a terminal ------------------------------------------------------------------------------------------------

TEST_CASE("on a terminal one Ctrl-C is one SIGINT for the command, and lk outlives it") {
  const Place place;
  support::Start start = place.exec({}, counting);
  start.terminal = true;
  Run run(start);
  REQUIRE(wait_until([&] { return !place.read("pid").empty(); }));
  run.type("\x03");
  REQUIRE(wait_until([&] { return !place.read("got").empty(); }));
  CHECK(place.status_of({"status", "k"}) == 0);
  finish(place, run);
  CHECK(place.read("got") == "INT\n");
}

TEST_CASE("on a terminal Ctrl-C reaches a command that has left lk's process group") {
  const Place place;
  support::Start start = place.lk({"exec", "--key", "k", "--", "timeout", "60", "sh", "-c", "echo $$ >pid; sleep 60"});
  start.terminal = true;
  Run run(start);
  REQUIRE(wait_until([&] { return !place.read("pid").empty(); }));
  run.type("\x03");
  const int status = run.wait(std::chrono::seconds(5));
  CHECK(WIFSIGNALED(status) + WEXITSTATUS(status) != 0);
  CHECK(place.is_free("k"));
}

TEST_CASE("on a terminal a signal to lk's pid is forwarded once") {
  const Place place;
  support::Start start = place.exec({}, counting);
  start.terminal = true;
  Run run(start);
  REQUIRE(wait_until([&] { return !place.read("pid").empty(); }));
  run.send(SIGTERM);
  REQUIRE(wait_until([&] { return !place.read("got").empty(); }));
  finish(place, run);
  CHECK(place.read("got") == "TERM\n");
}

TEST_CASE("on a terminal a signal to lk's pid from its own group is forwarded, too") {
  const Place place;
  support::Start start = place.shell(
      "$LK exec --key k -- sh -c 'echo >ready; sleep 60' & until [ -e ready ]; do sleep 0.02; done; kill -TERM $!; "
      "wait $!; echo $? >status");
  start.terminal = true;
  Run run(start);
  REQUIRE(wait_until([&] { return !place.read("status").empty(); }, std::chrono::seconds(10)));
  CHECK(place.read("status") == "143\n");
  CHECK(place.is_free("k"));
}

TEST_CASE("a caller's loop stops on Ctrl-C") {
  const Place place;
  support::Start start = place.shell("");
  start.shell = {"bash", "-c", "for i in 1 2 3 4 5; do echo turn >>turns; $LK exec --key k -- sleep 60; done"};
  start.terminal = true;
  Run run(start);
  // Not by way of sh, which may miss a signal that comes between two of its commands.
  REQUIRE(wait_until([&] {
    for (const pid_t pid : os::descendants(run.pid())) {
      if (support::content_of("/proc/" + std::to_string(pid) + "/comm") == "sleep\n") {
        return true;
      }
    }
    return false;
  }));
  run.type("\x03");
  CHECK(run.status() == 128 + SIGINT);
  CHECK(place.read("turns") == "turn\n");
  CHECK(place.is_free("k"));
}

TEST_CASE("the command reads the terminal, and the terminal is as it was afterwards") {
  const Place place;
  support::Start start = place.shell(
      "stty -a >before; $LK exec --key k -- bash -c 'read -p \"name: \" x; echo \"hello $x\"; stty size >/dev/null'; "
      "echo status=$?; stty -a >after");
  start.terminal = true;
  Run run(start);
  REQUIRE(run.screen_shows("name: "));
  run.type("ada\n");
  CHECK(run.screen_shows("hello ada"));
  CHECK(run.screen_shows("status=0"));
  CHECK(run.status() == 0);
  CHECK(place.read("before") == place.read("after"));
  CHECK_FALSE(place.read("before").empty());
}

TEST_CASE("Ctrl-Z stops lk and the command, and fg goes on") {
  const Place place;
  support::Start start = place.shell("");
  start.shell = {"bash", "--norc", "--noprofile", "-i"};
  start.terminal = true;
  start.environment["PS1"] = "ready> ";
  start.environment["TERM"] = "dumb";
  Run run(start);
  REQUIRE(run.screen_shows("ready> "));
  run.type(
      "$LK exec --key k --ttl 60 -- sh -c 'echo begun; while [ ! -e stop ]; do sleep 0.02; done; echo en\"\"ded; exit "
      "6'\n");
  REQUIRE(run.screen_shows("begun\r\n"));
  run.type("\x1a");
  REQUIRE(run.screen_shows("Stopped"));
  Run(place.shell("touch stop")).status();
  run.type("fg\n");
  REQUIRE(run.screen_shows("ended"));
  run.type("echo status=$?\n");
  CHECK(run.screen_shows("status=6"));
  run.type("exit\n");
  run.status();
  CHECK(place.is_free("k"));
}

TEST_CASE("a command that was stopped past its deadline is dead when fg comes, and lk says 79") {
  const Place place;
  support::Start start = place.shell("");
  start.shell = {"bash", "--norc", "--noprofile", "-i"};
  start.terminal = true;
  start.environment["PS1"] = "ready> ";
  start.environment["TERM"] = "dumb";
  Run run(start);
  REQUIRE(run.screen_shows("ready> "));
  run.type("$LK exec --key k --ttl 1 -- sh -c 'echo $$ >pid; echo begun; while :; do sleep 0.02; done'\n");
  REQUIRE(run.screen_shows("begun\r\n"));
  const pid_t child = std::stoi(place.read("pid"));
  run.type("\x1a");
  REQUIRE(run.screen_shows("Stopped"));
  // The guardian kills it at the deadline, while lk itself is stopped.
  REQUIRE(wait_until([&] { return !support::process_runs(child); }, std::chrono::seconds(3)));
  CHECK(wait_until([&] { return place.status_of({"acquire", "--key", "k", "--ttl", "60", "-q"}) == 0; }));
  run.type("fg\n");
  run.type("echo status=$?\n");
  CHECK(run.screen_shows("status=79"));
  run.type("exit\n");
  run.status();
}

TEST_CASE("a terminal that hangs up ends the command and frees the lock") {
  const Place place;
  support::Start start = place.exec({}, "echo $$ >pid; sleep 308 & wait");
  start.terminal = true;
  Run run(start);
  REQUIRE(wait_until([&] { return !place.read("pid").empty(); }));
  const pid_t child = std::stoi(place.read("pid"));
  run.hang_up();
  CHECK(run.status() == 128 + SIGHUP);
  CHECK(wait_until([&] { return !support::process_runs(child); }));
  CHECK(place.is_free("k"));
}

TEST_CASE("an exec inside an exec gets a supervisor's TERM once") {
  const Place place;
  Run run(place.exec({},
                     "exec $LK exec --key inner -- sh -c '" +
                         std::string("for s in TERM; do trap \"echo $s >>got\" $s; done; echo $$ >pid; "
                                     "while [ ! -e stop ]; do sleep 0.02 & wait $!; done; exit 7") +
                         "'"));
  REQUIRE(wait_until([&] { return !place.read("pid").empty(); }));
  run.send(SIGTERM);
  REQUIRE(wait_until([&] { return !place.read("got").empty(); }));
  finish(place, run);
  CHECK(place.read("got") == "TERM\n");
  CHECK(place.is_free("inner"));
}
