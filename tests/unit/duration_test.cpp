// Durations: every spelling that is taken, every one that is not, and what people are shown.
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "core/duration.hpp"
#include "support/catch.hpp"

using core::Millis;
using core::parse_duration;
using core::to_text;

namespace {

void refused(std::string_view text, const std::string& part = "must be a duration like 30, 1.5s, 5m or 1h30m") {
  CAPTURE(text);
  const auto parsed = parse_duration(text);
  REQUIRE_FALSE(parsed);
  CHECK_THAT(parsed.error(), Catch::Matchers::ContainsSubstring(part));
  // Whatever is wrong, the clause shows a value that is right.
  CHECK_THAT(parsed.error(), Catch::Matchers::ContainsSubstring("1.5s"));
}

}  // namespace

TEST_CASE("a duration is read to the millisecond") {
  struct Case {
    std::string_view text;
    Millis::rep millis;
  };
  const auto good = GENERATE(
      // A bare number is seconds.
      Case{"0", 0},
      Case{"1", 1000},
      Case{"60", 60'000},
      Case{"0.5", 500},
      Case{"1.5", 1500},
      Case{"00", 0},
      Case{"007", 7000},
      Case{"0.250", 250},
      Case{"1.500000000000000000000000", 1500},
      // One unit.
      Case{"0s", 0},
      Case{"0ms", 0},
      Case{"1s", 1000},
      Case{"60s", 60'000},
      Case{"500ms", 500},
      Case{"5m", 300'000},
      Case{"2h", 7'200'000},
      Case{"1d", 86'400'000},
      Case{"90m", 5'400'000},
      Case{"1.0ms", 1},
      // A fraction of the last unit.
      Case{"1.5h", 5'400'000},
      Case{"1.5s", 1500},
      Case{"0.1m", 6000},
      Case{"0.0009765625d", 84'375},
      Case{"1h0.5m", 3'630'000},
      // Falling units.
      Case{"1h30m", 5'400'000},
      Case{"1d1h1m1s1ms", 90'061'001},
      Case{"2d5ms", 172'800'005},
      // The longest.
      Case{"366d", 31'622'400'000},
      Case{"31622400", 31'622'400'000},
      Case{"365d24h", 31'622'400'000});
  CAPTURE(good.text);
  const auto parsed = parse_duration(good.text);
  REQUIRE(parsed);
  CHECK(parsed->count() == good.millis);
}

TEST_CASE("what is no duration is refused with a good value") {
  const auto bad = GENERATE(as<std::string_view>{},
                            "",
                            " ",
                            ".5",
                            "1.",
                            "1.s",
                            ".",
                            "1w",
                            "1e3",
                            "1e30",
                            "0x10",
                            "1 h",
                            " 60",
                            "60 ",
                            "60x",
                            "m",
                            "ms",
                            "1h-30m",
                            "1m1m",
                            "٦٠",
                            "-1",
                            "-5m",
                            "-0",
                            "+5",
                            "1y",
                            "1M",
                            "1S",
                            "1us",
                            "1µs",
                            "1min",
                            "1sec",
                            "1,5",
                            "1.5.5",
                            "1h30",
                            "30m1h",
                            "1s1m",
                            "1ms1s",
                            "1.5h30m",
                            "1.0h30m",
                            "1_000",
                            "1'000",
                            "inf",
                            "nan",
                            "forever",
                            "5m\n",
                            "\n5m",
                            "1h 30m",
                            "1h,30m",
                            "１");
  refused(bad);
}

TEST_CASE("a NUL or a control byte does not end a duration early") {
  refused(std::string_view("5m\0", 3));
  refused(std::string_view("5\0m", 3));
  refused(std::string_view("\0", 1));
  refused("5\x1b[0m");
  refused("5\xff");
}

TEST_CASE("a duration beyond 366 days is refused before it can overflow") {
  const auto bad = GENERATE(as<std::string>{},
                            "9223372036854775807",
                            "9223372036854776",
                            "99999999999d",
                            "18446744073709551616",
                            "18446744073709551617",
                            "4294967296",
                            "9223372036854775",
                            "367d",
                            "366d1ms",
                            "366d0.001s",
                            "366.5d",
                            "31622401",
                            "31622400.001",
                            "31622400001ms",
                            "1d9999999999999999999ms",
                            std::string(100'000, '9'));
  refused(bad, "must be at most 366 days");
}

TEST_CASE("a fraction that is no whole number of milliseconds is refused, not rounded") {
  const auto bad = GENERATE(as<std::string>{},
                            "0.0001",
                            "0.5ms",
                            "1.5ms",
                            "0.00001s",
                            "0.00001m",
                            "0.3333333333333h",
                            "0.00048828125d",
                            "1.00000000000000000000001",
                            "0." + std::string(100'000, '3'));
  refused(bad, "must be a whole number of milliseconds");
}

TEST_CASE("people are shown the two largest units that matter, rounded down") {
  struct Case {
    Millis duration;
    std::string_view text;
  };
  const auto shown = GENERATE(Case{Millis(0), "0s"},
                              Case{Millis(1), "1ms"},
                              Case{Millis(250), "250ms"},
                              Case{Millis(999), "999ms"},
                              Case{Millis(1000), "1s"},
                              Case{Millis(1500), "1.5s"},
                              Case{Millis(1599), "1.5s"},
                              Case{Millis(9999), "9.9s"},
                              Case{Millis(10'000), "10s"},
                              Case{Millis(41'900), "41s"},
                              Case{Millis(59'999), "59s"},
                              Case{Millis(60'000), "1m"},
                              Case{Millis(192'000), "3m12s"},
                              Case{Millis(3'599'999), "59m59s"},
                              Case{Millis(3'600'000), "1h"},
                              Case{Millis(3'605'000), "1h"},
                              Case{Millis(5'400'000), "1h30m"},
                              Case{Millis(86'400'000), "1d"},
                              Case{Millis(187'200'000), "2d4h"},
                              Case{Millis(187'259'999), "2d4h"},
                              Case{core::longest_duration, "366d"},
                              Case{Millis(-5), "0s"},
                              Case{Millis::min(), "0s"},
                              Case{Millis::max(), "106751991167d7h"});
  CHECK(to_text(shown.duration) == shown.text);
}

TEST_CASE("what people are shown can be typed again and is never longer than the truth") {
  std::mt19937_64 random(20240607);
  for (int i = 0; i < 20'000; ++i) {
    // All orders of magnitude alike.
    const int bits = std::uniform_int_distribution<int>(0, 34)(random);
    const Millis duration(std::min(std::uniform_int_distribution<Millis::rep>(0, Millis::rep{1} << bits)(random),
                                   core::longest_duration.count()));
    const std::string text = to_text(duration);
    CAPTURE(duration.count(), text);
    const auto back = parse_duration(text);
    REQUIRE(back);
    REQUIRE(*back <= duration);
    REQUIRE(duration - *back <= duration / 10);
  }
}

TEST_CASE("random text is a duration in range or an error, and spelling it in milliseconds agrees") {
  std::mt19937_64 random(7);
  const std::string_view alphabet = "0123456789.smhd -+e\xd9\xa0";
  int good = 0;
  for (int i = 0; i < 100'000; ++i) {
    std::string text(std::uniform_int_distribution<std::size_t>(0, 9)(random), ' ');
    for (char& c : text) {
      c = alphabet[std::uniform_int_distribution<std::size_t>(0, alphabet.size() - 1)(random)];
    }
    const auto parsed = parse_duration(text);
    if (!parsed) {
      continue;
    }
    ++good;
    CAPTURE(text);
    REQUIRE(*parsed >= Millis(0));
    REQUIRE(*parsed <= core::longest_duration);
    REQUIRE(parse_duration(std::to_string(parsed->count()) + "ms") == *parsed);
  }
  CHECK(good > 1000);
}
