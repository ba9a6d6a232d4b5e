// Keys and owners: what is taken as it is, and what is refused with a reason.
#include <random>
#include <string>
#include <string_view>

#include "core/names.hpp"
#include "core/text.hpp"
#include "support/catch.hpp"

using Catch::Matchers::ContainsSubstring;
using core::Key;
using core::Owner;

namespace {

std::string key_error(std::string_view text) {
  const auto key = Key::parse(text);
  return key ? "" : key.error();
}

std::string owner_error(std::string_view text) {
  const auto owner = Owner::parse(text);
  return owner ? "" : owner.error();
}

}  // namespace

TEST_CASE("a key is kept byte for byte") {
  const auto text = GENERATE(as<std::string>{},
                             "invoice:42",
                             " ",
                             "  padded  ",
                             "-",
                             "-x",
                             "--ttl",
                             "--",
                             "a/b/c",
                             "größe",
                             "Größe",
                             "🔒",
                             "*",
                             "..",
                             "'\"\\",
                             "invoice:",
                             std::string(512, 'k'));
  const auto key = Key::parse(text);
  REQUIRE(key);
  CHECK(key->text() == text);
}

TEST_CASE("two spellings are two keys") {
  CHECK(Key::parse("\u00e9") != Key::parse("e\u0301"));
  CHECK(Key::parse("A") != Key::parse("a"));
  CHECK(Key::parse("a") != Key::parse("a "));
  CHECK(*Key::parse("a") < *Key::parse("b"));
}

TEST_CASE("an empty key is refused") { CHECK(key_error("") == "must not be empty"); }

TEST_CASE("a key longer than 512 bytes is refused, counted in bytes") {
  CHECK(key_error(std::string(513, 'k')) == "must be at most 512 bytes long, not 513");
  CHECK(key_error(std::string(100'000, 'k')) == "must be at most 512 bytes long, not 100000");
  std::string umlauts;
  for (int i = 0; i < 256; ++i) {
    umlauts += "ü";
  }
  CHECK(key_error(umlauts) == "");
  CHECK_THAT(key_error(umlauts + "x"), ContainsSubstring("512 bytes"));
}

TEST_CASE("a key that is not UTF-8 is refused") {
  const auto text =
      GENERATE(as<std::string>{}, "\xff", "a\xc3", "\xc0\xaf", "\xed\xa0\x80", "caf\xe9", "\xf5\x80\x80\x80");
  CHECK_THAT(key_error(text), ContainsSubstring("must be UTF-8"));
  CHECK_THAT(key_error("caf\xe9"), ContainsSubstring("byte 4"));
}

TEST_CASE("a key with a control character is refused, and the clause shows it escaped") {
  CHECK_THAT(key_error("a\nb"), ContainsSubstring("must not contain control characters") && ContainsSubstring("\\n"));
  CHECK_THAT(key_error("\x1b[31m"), ContainsSubstring("\\e"));
  CHECK_THAT(key_error(std::string_view("a\0b", 3)), ContainsSubstring("\\x00"));
  CHECK_THAT(key_error("\x7f"), ContainsSubstring("control"));
  CHECK_THAT(key_error("\r"), ContainsSubstring("control"));
  CHECK_THAT(key_error("a\u0085"), ContainsSubstring("control"));
  CHECK(key_error("a\nb").find('\n') == std::string::npos);
}

TEST_CASE("a key that a store holds already is not judged") {
  CHECK(Key::stored("").text().empty());
  CHECK(Key::stored("a\n\xff").text() == "a\n\xff");
}

TEST_CASE("an owner is one line of UTF-8, up to 512 bytes") {
  CHECK(Owner::parse("worker-7")->bytes() == "worker-7");
  CHECK(Owner::parse(std::string(512, 'o')));
  CHECK(owner_error("") == "must not be empty");
  CHECK_THAT(owner_error(std::string(513, 'o')), ContainsSubstring("512 bytes"));
  CHECK_THAT(owner_error("a\n"), ContainsSubstring("control"));
  CHECK_THAT(owner_error("\xff"), ContainsSubstring("UTF-8"));
  CHECK(Owner::stored("any\n\xff").bytes() == "any\n\xff");
}

TEST_CASE("random bytes are a key exactly if they are short UTF-8 without controls") {
  std::mt19937_64 random(5);
  int good = 0;
  for (int i = 0; i < 30'000; ++i) {
    std::string bytes(random() % 4, ' ');
    for (char& c : bytes) {
      c = static_cast<char>(random() % 3 == 0 ? random() & 0xffU : 'a' + random() % 26);
    }
    bool expected = !bytes.empty();
    for (std::string_view rest = bytes; !rest.empty();) {
      char32_t c = 0;
      const std::size_t length = core::decode_utf8(rest, c);
      expected = expected && length > 0 && !core::is_control(c);
      rest.remove_prefix(std::max<std::size_t>(length, 1));
    }
    const auto key = Key::parse(bytes);
    CAPTURE(core::escaped(bytes));
    REQUIRE(key.has_value() == expected);
    good += expected ? 1 : 0;
    if (!key) {
      REQUIRE(core::escaped(key.error()).size() <= key.error().size() * 2);
      REQUIRE(key.error().rfind("must ", 0) == 0);
    }
  }
  CHECK(good > 5'000);
}

TEST_CASE("the zero ask id is any ask") {
  CHECK(core::AskId{}.any());
  CHECK_FALSE(core::AskId{1}.any());
}
