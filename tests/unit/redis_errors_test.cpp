// What Redis servers of many versions say, as trouble and in sentences.
#include <cerrno>
#include <string>
#include <string_view>

#include "core/store_url.hpp"
#include "stores/redis/errors.hpp"
#include "support/catch.hpp"

using Catch::Matchers::ContainsSubstring;
using core::StoreError;
using core::Trouble;
using stores::redis::Address;

namespace {

Address address(std::string_view url) { return *Address::parse(*core::StoreUrl::parse(url)); }

}  // namespace

TEST_CASE("redis errors: each cause has its trouble and names its word") {
  struct Case {
    std::string_view error;
    Trouble what;
    std::string_view says;
  };
  const auto each = GENERATE(
      Case{"NOAUTH Authentication required.", Trouble::refused, "NOAUTH"},
      Case{"WRONGPASS invalid username-password pair or user is disabled.", Trouble::refused, "WRONGPASS"},
      Case{"ERR invalid password", Trouble::refused, "WRONGPASS"},
      Case{"ERR AUTH failed: wrong username or password", Trouble::refused, "WRONGPASS"},
      Case{"ERR AUTH <password> called without any password configured for the default user. Are you sure your "
           "configuration is "
           "correct?",
           Trouble::refused,
           "no password set"},
      Case{"ERR Client sent AUTH, but no password is set", Trouble::refused, "no password set"},
      Case{"ERR wrong number of arguments for 'auth' command", Trouble::refused, "Redis before 6.0"},
      Case{"ERR operation not permitted", Trouble::refused, "wants a password"},
      Case{"NOPERM this user has no permissions to run the 'evalsha' command", Trouble::refused, "EVALSHA (NOPERM)"},
      Case{"ERR ACL failure in script: User lk has no permissions to run the 'hset' command script: 0f1e, on "
           "@user_script:9.",
           Trouble::refused,
           "HSET (NOPERM)"},
      Case{"NOPERM this user has no permissions to run the 'eval' command or its subcommand",
           Trouble::refused,
           "EVAL (NOPERM)"},
      Case{"NOPERM User deploy has no permissions to run the 'script|load' command",
           Trouble::refused,
           "SCRIPT|LOAD (NOPERM)"},
      Case{"NOPERM this user has no permissions to access one of the keys used as arguments",
           Trouble::refused,
           "the keys"},
      Case{"NOPERM No permissions to access a key", Trouble::refused, "the keys"},
      Case{"NOPERM User u has no permissions to access the 'lk:a' key", Trouble::refused, "the key lk:a (NOPERM)"},
      Case{"NOPERM No permissions to access a channel", Trouble::refused, "the channels"},
      Case{"NOPERM ACL failure in script: User u has no permissions to run the 'del' command script: 71fa, on "
           "@user_script:1.",
           Trouble::refused,
           "DEL (NOPERM)"},
      Case{"ERR The user executing the script can't run this command or subcommand script: 71fa, on @user_script:1.",
           Trouble::refused,
           "a command of lk's scripts (NOPERM)"},
      Case{"ERR The user executing the script can't access at least one of the keys mentioned in the command arguments "
           "script: 71fa",
           Trouble::refused,
           "the keys"},
      Case{"ERR Error running script (call to f_71fa): @user_script:1: The user executing the script can't run this "
           "command or "
           "subcommand",
           Trouble::refused,
           "a command of lk's scripts (NOPERM)"},
      Case{"READONLY You can't write against a read only replica.", Trouble::unreachable, "READONLY"},
      Case{"READONLY You can't write against a read only replica. script: 71fa, on @user_script:1.",
           Trouble::unreachable,
           "READONLY"},
      Case{"ERR Error running script (call to f_71fa): @user_script:1: -READONLY You can't write against a read only "
           "replica.",
           Trouble::unreachable,
           "READONLY"},
      Case{"LOADING Redis is loading the dataset in memory", Trouble::unreachable, "LOADING"},
      Case{"MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.",
           Trouble::unreachable,
           "MASTERDOWN"},
      Case{"CLUSTERDOWN Hash slot not served", Trouble::unreachable, "CLUSTERDOWN"},
      Case{"TRYAGAIN Multiple keys request during rehashing of slot", Trouble::unreachable, "TRYAGAIN"},
      Case{"BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE.",
           Trouble::unreachable,
           "BUSY"},
      Case{"MISCONF Redis is configured to save RDB snapshots, but it's currently unable to persist to disk.",
           Trouble::unreachable,
           "MISCONF"},
      Case{"NOREPLICAS Not enough good replicas to write.", Trouble::unreachable, "NOREPLICAS"},
      Case{"OOM command not allowed when used memory > 'maxmemory'.", Trouble::full, "OOM"},
      Case{"ERR Error running script (call to f_71fa): @user_script:1: @user_script: 1: -OOM command not allowed when "
           "used memory",
           Trouble::full,
           "OOM"},
      Case{"WRONGTYPE Operation against a key holding the wrong kind of value script: 71fa, on @user_script:1.",
           Trouble::corrupt,
           "data of another type"},
      Case{"ERR Error running script (call to f_71fa): @user_script:21: WRONGTYPE Operation against a key holding the "
           "wrong kind of value",
           Trouble::corrupt,
           "data of another type"},
      Case{"ERR Error running script (call to f_71fa): @user_script:1: -", Trouble::unreachable, "with an error: "},
      Case{"MOVED 3999 127.0.0.1:6381", Trouble::misconfigured, "Redis Cluster (MOVED)"},
      Case{"ASK 3999 127.0.0.1:6381", Trouble::misconfigured, "Redis Cluster (ASK)"},
      Case{
          "CROSSSLOT Keys in request don't hash to the same slot", Trouble::misconfigured, "Redis Cluster (CROSSSLOT)"},
      Case{"ERR SELECT is not allowed in cluster mode", Trouble::misconfigured, "leave the db out"},
      Case{"ERR DB index is out of range", Trouble::misconfigured, "has no db 7"},
      Case{"ERR invalid DB index", Trouble::misconfigured, "has no db 7"},
      Case{"ERR max number of clients reached", Trouble::unreachable, "max number of clients"},
      Case{"ERR max number of clients + cluster connections reached", Trouble::unreachable, "max number of clients"},
      Case{"DENIED Redis is running in protected mode because protected mode is enabled and no password is set for the "
           "default user. "
           "In this mode connections are only accepted from the loopback interface.",
           Trouble::refused,
           "DENIED Redis is running in protected mode because protected mode is enabled and no password is set for the "
           "default user)"},
      Case{"ERR unknown command 'EVALSHA', with args beginning with: '71fa' '1' ", Trouble::refused, "EVALSHA"},
      Case{"ERR unknown command `EVAL`, with args beginning with: `return 1`, ", Trouble::refused, "EVAL"},
      Case{"ERR unknown command", Trouble::refused, "a command"},
      Case{"ERR something new", Trouble::unreachable, "answered with an error: ERR something new"},
      Case{"", Trouble::unreachable, "answered with an error: "});
  CAPTURE(each.error);
  const StoreError error =
      stores::redis::translate(each.error, address("redis://deploy:hunter2@db1:7000/7?op_timeout=1"));
  CHECK(error.what == each.what);
  CHECK_THAT(error.detail, ContainsSubstring(std::string(each.says)));
  CHECK_THAT(error.detail, ContainsSubstring("redis://db1:7000/7"));
  CHECK(error.detail.find("hunter2") == std::string::npos);
  CHECK(error.detail.back() != '.');
}

TEST_CASE("redis errors: what a user with a password, without one, and a password alone are told") {
  const auto says = [](std::string_view url) {
    return stores::redis::translate("WRONGPASS invalid username-password pair or user is disabled.", address(url))
        .detail;
  };
  CHECK_THAT(says("redis://deploy:x@h"), ContainsSubstring("refused this user and password"));
  CHECK_THAT(says("redis://:x@h"), ContainsSubstring("refused the password"));
  CHECK_THAT(says("redis://hunter2@h"),
             ContainsSubstring("LK_REDIS_PASSWORD") && ContainsSubstring("redis://:PASSWORD@host"));
  CHECK(says("redis://hunter2@h").find("hunter2") == std::string::npos);
}

TEST_CASE("redis errors: foreign words are escaped and cut") {
  const std::string text = "ERR \x1b[31m\n" + std::string(190, 'x') + "\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9";
  const std::string detail = stores::redis::translate(text, address("redis://h")).detail;
  CHECK_THAT(detail, ContainsSubstring("ERR \\e[31m\\n" + std::string(190, 'x') + "…"));
  CHECK(stores::redis::quotation(std::string(200, 'y')) == std::string(200, 'y'));
  CHECK(stores::redis::quotation(std::string(199, 'y') + "\xc3\xa9z") == std::string(199, 'y') + "\xc3\xa9…");
  CHECK(stores::redis::quotation(std::string(201, '\xff')).size() == 200 * 4 + 3);
}

TEST_CASE("redis errors: a wrong type is told from other errors, and named with its key") {
  CHECK(stores::redis::is_wrong_type("WRONGTYPE Operation against a key holding the wrong kind of value"));
  CHECK(
      stores::redis::is_wrong_type("ERR Error running script (call to f_71fa): @user_script:21: WRONGTYPE Operation "
                                   "against a key holding the wrong kind of value"));
  CHECK_FALSE(stores::redis::is_wrong_type("WRONGPASS invalid username-password pair or user is disabled."));
  CHECK_FALSE(stores::redis::is_wrong_type("ERR unknown command 'WRONGTYPE '"));
  const StoreError error =
      stores::redis::wrong_type("{lk:a\n}#lk:line", "string", "a\n", address("redis://:hunter2@h"));
  CHECK(error.what == Trouble::corrupt);
  CHECK(error.detail ==
        "redis://h:6379 has data of another type (string) where lk keeps its own for the lock a\\n: delete the key "
        "{lk:a\\n}#lk:line");
}

TEST_CASE("redis errors: only a refused connection is turned away") {
  CHECK(stores::redis::turns_away("DENIED Redis is running in protected mode"));
  CHECK(stores::redis::turns_away("ERR max number of clients reached"));
  CHECK_FALSE(stores::redis::turns_away("NOAUTH Authentication required."));
  CHECK_FALSE(stores::redis::turns_away("ERR unknown command"));
}

TEST_CASE("redis errors: the network's reasons") {
  const auto connect = [](int error) { return stores::redis::cannot_connect(error, address("redis://h:7000")); };
  CHECK(connect(ECONNREFUSED).what == Trouble::unreachable);
  CHECK_THAT(connect(ECONNREFUSED).detail, ContainsSubstring("nothing listens at redis://h:7000"));
  CHECK(connect(ENOENT).what == Trouble::unreachable);
  CHECK(connect(EACCES).what == Trouble::refused);
  CHECK(connect(EPROTOTYPE).what == Trouble::misconfigured);
  CHECK_THAT(connect(EHOSTUNREACH).detail, ContainsSubstring("No route to host"));

  const StoreError unknown = stores::redis::cannot_find(0, address("redis://nowhere:7000"));
  CHECK(unknown.what == Trouble::unreachable);
  CHECK_THAT(unknown.detail, ContainsSubstring("host nowhere") && ContainsSubstring("not known"));
  CHECK_THAT(stores::redis::cannot_find(EMFILE, address("redis://h")).detail, ContainsSubstring("Too many open files"));
}
