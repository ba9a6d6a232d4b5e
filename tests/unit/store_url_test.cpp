// Store addresses: how they are taken apart, and that no password is ever shown.
#include <random>
#include <string>
#include <string_view>

#include "core/store_url.hpp"
#include "support/catch.hpp"

using Catch::Matchers::ContainsSubstring;
using core::StoreUrl;

namespace {

std::string redacted(std::string_view text) {
  const auto url = StoreUrl::parse(text);
  REQUIRE(url);
  return url->redacted();
}

}  // namespace

TEST_CASE("a plain path with a slash is SQLite's") {
  const auto text = GENERATE(as<std::string>{},
                             "/var/lib/lk/locks.db",
                             "./locks.db",
                             "../locks.db",
                             "data/locks.db",
                             "./~/x",
                             "./a:b.db",
                             "/a:b/c",
                             "./redis://h",
                             "/",
                             "/with space/@/%41?x=1#y",
                             "/caf\xe9.db");
  const auto url = StoreUrl::parse(text);
  REQUIRE(url);
  CHECK(url->scheme() == "sqlite");
  CHECK(url->rest() == text);
}

TEST_CASE("sqlite: takes any path") {
  const auto path = GENERATE(as<std::string>{}, "locks.db", "/a/b", "./c", "a:b", "//two", "///three", "redis://h");
  const auto url = StoreUrl::parse("sqlite:" + path);
  REQUIRE(url);
  CHECK(url->scheme() == "sqlite");
  CHECK(url->rest() == path);
}

TEST_CASE("any other scheme needs two slashes; what follows is left to the store") {
  struct Case {
    std::string_view text;
    std::string_view scheme;
    std::string_view rest;
  };
  const auto good = GENERATE(Case{"redis://host", "redis", "//host"},
                             Case{"rediss://u:p@h:1/2", "rediss", "//u:p@h:1/2"},
                             Case{"redis+unix:///run/r.sock?db=1", "redis+unix", "///run/r.sock?db=1"},
                             Case{"x-9.y://[::1]:6379", "x-9.y", "//[::1]:6379"},
                             Case{"REDIS://Host", "redis", "//Host"});
  CAPTURE(good.text);
  const auto url = StoreUrl::parse(good.text);
  REQUIRE(url);
  CHECK(url->scheme() == good.scheme);
  CHECK(url->rest() == good.rest);
}

TEST_CASE("a mistyped address never becomes a file on this machine") {
  const auto text = GENERATE(as<std::string>{},
                             "",
                             " ",
                             "redis",
                             "locks.db",
                             "host:6379",
                             "redis:host/0",
                             "redis:/host",
                             "redis:",
                             "redis:/",
                             "redis://",
                             "sqlite:",
                             "://host",
                             "9p://host/x",
                             "red is://host",
                             "a:b/c",
                             "-x://h");
  CAPTURE(text);
  const auto url = StoreUrl::parse(text);
  REQUIRE_FALSE(url);
  CHECK_THAT(url.error(), ContainsSubstring("must be a path with a slash"));
  CHECK_THAT(url.error(), ContainsSubstring("sqlite:PATH"));
}

TEST_CASE("a path that looks like an address or a home folder is refused") {
  for (const char* const text :
       {"redis//host:6379/0", "redis.example.com/0", "Rediss/x", "~/locks.db", "~ops/locks.db"}) {
    CAPTURE(text);
    CHECK_FALSE(StoreUrl::parse(text));
  }
  CHECK(StoreUrl::parse("./redis/locks.db"));
  CHECK(StoreUrl::parse("./~/locks.db"));
}

TEST_CASE("control characters are refused") {
  CHECK_FALSE(StoreUrl::parse(std::string_view("/tmp/a\0b", 8)));
  CHECK_FALSE(StoreUrl::parse("/tmp/a\nb"));
  CHECK_FALSE(StoreUrl::parse("redis://h\r\nFLUSHALL"));
  CHECK_FALSE(StoreUrl::parse("sqlite:a\x7f"));
}

TEST_CASE("the error never repeats the text, which may hold a password") {
  const auto text =
      GENERATE(as<std::string>{}, "redis:u:hunter2@h/0", "hunter2", "u:hunter2@host", "redis://u:hunter2@h\n");
  const auto url = StoreUrl::parse(text);
  REQUIRE_FALSE(url);
  CHECK(url.error().find("hunter2") == std::string::npos);
}

TEST_CASE("a path is shown as it is") {
  CHECK(redacted("/a/b.db") == "sqlite:/a/b.db");
  CHECK(redacted("sqlite:x@y:z?password=1") == "sqlite:x@y:z?password=1");
}

TEST_CASE("an address without a password is shown as it is") {
  const auto text = GENERATE(as<std::string>{},
                             "redis://host",
                             "redis://host:6379/0",
                             "redis://[::1]:6379/0",
                             "redis://:@h",
                             "redis+unix:///run/r.sock?db=1",
                             "redis+unix:///run/a@b.sock",
                             "redis://@h",
                             "rediss://h/1?db=2&tls=on#x");
  CHECK(redacted(text) == text);
}

TEST_CASE("a password is replaced and its user stays") {
  CHECK(redacted("redis://deploy:hunter2@host:6379/0") == "redis://deploy:***@host:6379/0");
  CHECK(redacted("redis://:hunter2@host") == "redis://:***@host");
  CHECK(redacted("rediss://u:a%40b%3A@h/0") == "rediss://u:***@h/0");
  CHECK(redacted("redis://u:a@b@h/0") == "redis://u:***@h/0");
  CHECK(redacted("redis://u:a:b@h") == "redis://u:***@h");
  CHECK(redacted("redis://u:a/b@h/0") == "redis://u:***@h/0");
  CHECK(redacted("redis://u:a?b#c@h") == "redis://u:***@h");
  CHECK(redacted("redis://u:p@[::1]:6379") == "redis://u:***@[::1]:6379");
  CHECK(redacted("redis+unix://u:p@/run/r.sock") == "redis+unix://u:***@/run/r.sock");
  CHECK(redacted("redis://u:p@h1,v:q@h2") == "redis://u:***@h2");
}

TEST_CASE("a lone word before the @ may be a password") { CHECK(redacted("redis://hunter2@h/0") == "redis://***@h/0"); }

TEST_CASE("query values whose key looks like a secret are replaced") {
  CHECK(redacted("redis://h?password=x&db=1") == "redis://h?password=***&db=1");
  CHECK(redacted("redis://h/0?db=1&PASS=x") == "redis://h/0?db=1&PASS=***");
  CHECK(redacted("redis://h?my_secret=a=b") == "redis://h?my_secret=***");
  CHECK(redacted("redis://h?token=a;b#c&x=y") == "redis://h?token=***&x=y");
  CHECK(redacted("redis://h?api-key=x") == "redis://h?api-key=***");
  CHECK(redacted("redis://h?%70assword=x") == "redis://h?%70assword=***");
  CHECK(redacted("redis://h?db=1;pass=x") == "redis://h?db=1;pass=***");
  CHECK(redacted("redis://h#auth=x") == "redis://h#auth=***");
  CHECK(redacted("redis://h?password=p@q").find("p@q") == std::string::npos);
  CHECK(redacted("redis://h?password=p@q").find('q') == std::string::npos);
  CHECK(redacted("redis://h?password=") == "redis://h?password=");
}

TEST_CASE("no password survives redaction, whatever bytes it is made of") {
  std::mt19937_64 random(3);
  const std::string_view alphabet = "@:/?#&;=%.[]+-";
  for (int i = 0; i < 20'000; ++i) {
    // Letters that occur nowhere else, between bytes that mean something in a URL.
    std::string password;
    const std::size_t length = 1 + random() % 8;
    for (std::size_t n = 0; n < length; ++n) {
      password += random() % 2 == 0 ? 'X' : alphabet[random() % alphabet.size()];
    }
    const std::string url = "redis://" + std::string(random() % 2 == 0 ? "" : "user") + ":" + password +
                            "@host:6379/0" + std::string(random() % 2 == 0 ? "" : "?db=1");
    CAPTURE(url);
    const auto parsed = StoreUrl::parse(url);
    REQUIRE(parsed);
    REQUIRE(parsed->redacted().find('X') == std::string::npos);
    REQUIRE_THAT(parsed->redacted(), ContainsSubstring(":***@host:6379/0"));
  }
}

TEST_CASE("random text is an address or an error, and shown twice it is the same") {
  std::mt19937_64 random(4);
  const std::string_view alphabet = "redis:/@?=&pass+x9\xff\n";
  int good = 0;
  for (int i = 0; i < 100'000; ++i) {
    std::string text(random() % 2 == 0 ? "redis:" : "");
    for (std::size_t n = random() % 16; n > 0; --n) {
      text += alphabet[random() % alphabet.size()];
    }
    const auto url = StoreUrl::parse(text);
    if (!url) {
      continue;
    }
    ++good;
    CAPTURE(text);
    const auto again = StoreUrl::parse(url->redacted());
    REQUIRE(again);
    REQUIRE(again->scheme() == url->scheme());
    REQUIRE(again->redacted() == url->redacted());
  }
  CHECK(good > 5'000);
}
