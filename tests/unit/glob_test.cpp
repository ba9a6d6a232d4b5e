// Shell patterns over keys.
#include <random>
#include <string>
#include <string_view>

#include "core/glob.hpp"
#include "support/catch.hpp"

using core::Glob;

namespace {

bool matches(std::string pattern, std::string_view text) { return Glob(std::move(pattern)).matches(text); }

}  // namespace

TEST_CASE("a pattern without special characters matches itself alone") {
  CHECK(matches("invoice:42", "invoice:42"));
  CHECK_FALSE(matches("invoice:42", "invoice:421"));
  CHECK_FALSE(matches("invoice:42", "invoice:4"));
  CHECK_FALSE(matches("invoice:42", "Invoice:42"));
  CHECK(matches("", ""));
  CHECK_FALSE(matches("", "a"));
  CHECK_FALSE(matches("a", ""));
}

TEST_CASE("a star matches any text, also none and also slashes") {
  CHECK(matches("*", ""));
  CHECK(Glob::everything().matches("any:thing/at all\n"));
  CHECK(matches("invoice:*", "invoice:42"));
  CHECK(matches("invoice:*", "invoice:"));
  CHECK_FALSE(matches("invoice:*", "xinvoice:42"));
  CHECK(matches("*:42", "a:b:42"));
  CHECK_FALSE(matches("*:42", "a:42:b"));
  CHECK(matches("a*b*c", "a/b/b/c"));
  CHECK_FALSE(matches("a*b*c", "a/c/b"));
  CHECK(matches("**a**", "a"));
  CHECK(matches("*ab", "aab"));
  CHECK(matches("*abac*", "ababac"));
}

TEST_CASE("a question mark matches one character, however many bytes it has") {
  CHECK(matches("?", "a"));
  CHECK(matches("?", "ü"));
  CHECK(matches("?", "🔒"));
  CHECK(matches("?", "\xff"));
  CHECK_FALSE(matches("?", ""));
  CHECK_FALSE(matches("?", "ab"));
  CHECK(matches("??", "\xff\xfe"));
  CHECK(matches("*?", "ü"));
  CHECK_FALSE(matches("*??", "ü"));
}

TEST_CASE("a set matches one of its characters") {
  CHECK(matches("[abc]", "b"));
  CHECK_FALSE(matches("[abc]", "d"));
  CHECK_FALSE(matches("[abc]", ""));
  CHECK(matches("v[0-9]", "v7"));
  CHECK_FALSE(matches("v[0-9]", "v"));
  CHECK_FALSE(matches("v[0-9]", "va"));
  CHECK(matches("[a-cx-z]", "y"));
  CHECK(matches("[ä-ü]", "ö"));
  CHECK(matches("[!x]", "y"));
  CHECK_FALSE(matches("[!x]", "x"));
  CHECK(matches("[^x]", "y"));
  CHECK_FALSE(matches("[^x]", "x"));
  CHECK(matches("[x!]", "!"));
  CHECK(matches("[]a]", "]"));
  CHECK(matches("[!]a]", "b"));
  CHECK_FALSE(matches("[!]a]", "]"));
  CHECK(matches("[a-]", "-"));
  CHECK(matches("[-a]", "-"));
  CHECK(matches("[\\]]", "]"));
  CHECK(matches("[\\!]", "!"));
  CHECK(matches("[a\\-c]", "-"));
  CHECK_FALSE(matches("[a\\-c]", "b"));
  CHECK(matches("*[0-9]x", "a1b2x"));
  CHECK_FALSE(matches("*[!ü]b", "üb"));
}

TEST_CASE("a bracket without its end is an ordinary character") {
  CHECK(matches("[", "["));
  CHECK(matches("a[b", "a[b"));
  CHECK(matches("[]", "[]"));
  CHECK(matches("[!", "[!"));
  CHECK_FALSE(matches("[a", "a"));
}

TEST_CASE("a backslash makes the next character literal") {
  CHECK(matches("\\*", "*"));
  CHECK_FALSE(matches("\\*", "a"));
  CHECK(matches("\\?\\[\\\\", "?[\\"));
  CHECK(matches("\\a", "a"));
  CHECK(matches("a\\", "a\\"));
}

TEST_CASE("only text with a special character is a pattern") {
  CHECK_FALSE(Glob::is_pattern("invoice:42"));
  CHECK_FALSE(Glob::is_pattern(""));
  CHECK_FALSE(Glob::is_pattern("a]b!"));
  CHECK(Glob::is_pattern("invoice:*"));
  CHECK(Glob::is_pattern("a?"));
  CHECK(Glob::is_pattern("[ab]"));
  CHECK(Glob::is_pattern("a\\b"));
}

TEST_CASE("many stars do not make matching slow") {
  std::string pattern;
  for (int i = 0; i < 200; ++i) {
    pattern += "*a";
  }
  CHECK_FALSE(matches(pattern + "b", std::string(512, 'a')));
}

TEST_CASE("a key with its special characters quoted matches itself and nothing else") {
  std::mt19937_64 random(11);
  const std::string_view alphabet = "ab*?[]!^-\\\xc3\xa4";
  const auto any_text = [&] {
    std::string text(random() % 6, ' ');
    for (char& c : text) {
      c = alphabet[random() % alphabet.size()];
    }
    return text;
  };
  for (int i = 0; i < 30'000; ++i) {
    const std::string text = any_text();
    const std::string other = any_text();
    std::string quoted;
    for (const char c : text) {
      if (std::string_view("*?[\\").find(c) != std::string_view::npos) {
        quoted += '\\';
      }
      quoted += c;
    }
    CAPTURE(text, other);
    REQUIRE(matches(quoted, text));
    REQUIRE(matches(quoted, other) == (text == other));
    // Anything is a pattern: no crash, and a star on both sides only widens it.
    const bool narrow = matches(other, text);
    if (other.find_first_of("[\\") == std::string::npos && narrow) {
      REQUIRE(matches("*" + other + "*", text));
    }
  }
}
