// Escaping: nothing that a terminal obeys or hides gets through, all else does.
#include <random>
#include <string>
#include <string_view>

#include "core/text.hpp"
#include "support/catch.hpp"

using core::decode_utf8;
using core::escaped;

namespace {

std::string encode(char32_t c) {
  std::string out;
  if (c < 0x80) {
    out += static_cast<char>(c);
  } else if (c < 0x800) {
    out += static_cast<char>(0xc0U | (c >> 6));
    out += static_cast<char>(0x80U | (c & 0x3fU));
  } else if (c < 0x10000) {
    out += static_cast<char>(0xe0U | (c >> 12));
    out += static_cast<char>(0x80U | ((c >> 6) & 0x3fU));
    out += static_cast<char>(0x80U | (c & 0x3fU));
  } else {
    out += static_cast<char>(0xf0U | (c >> 18));
    out += static_cast<char>(0x80U | ((c >> 12) & 0x3fU));
    out += static_cast<char>(0x80U | ((c >> 6) & 0x3fU));
    out += static_cast<char>(0x80U | (c & 0x3fU));
  }
  return out;
}

}  // namespace

TEST_CASE("ordinary text passes unescaped") {
  const auto text = GENERATE(as<std::string>{},
                             "",
                             "invoice:42",
                             "a b",
                             "\"quoted\" 'too'",
                             "größe",
                             "日本語",
                             "🔒",
                             "٦٠",
                             "❤️",
                             "$(rm -rf)",
                             "é",
                             "~");
  CHECK(escaped(text) == text);
}

TEST_CASE("control bytes are spelled out") {
  CHECK(escaped("a\nHELD other") == "a\\nHELD other");
  CHECK(escaped("\x1b[31m") == "\\e[31m");
  CHECK(escaped("\t") == "\\t");
  CHECK(escaped("\r") == "\\x0d");
  CHECK(escaped(std::string_view("a\0b", 3)) == "a\\x00b");
  CHECK(escaped("\x7f") == "\\x7f");
  CHECK(escaped("\b\a") == "\\x08\\x07");
}

TEST_CASE("a backslash is doubled, so that no text looks like an escape that it is not") {
  CHECK(escaped("a\\nb") == "a\\\\nb");
  CHECK(escaped("a\\nb") != escaped("a\nb"));
}

TEST_CASE("bytes that are not UTF-8 are spelled out one by one") {
  CHECK(escaped("\xff") == "\\xff");
  CHECK(escaped("a\xc3") == "a\\xc3");
  CHECK(escaped("\xc3(") == "\\xc3(");
  CHECK(escaped("\xc0\xaf") == "\\xc0\\xaf");                    // overlong '/'
  CHECK(escaped("\xe0\x80\xaf") == "\\xe0\\x80\\xaf");           // overlong '/'
  CHECK(escaped("\xed\xa0\x80") == "\\xed\\xa0\\x80");           // a surrogate
  CHECK(escaped("\xf4\x90\x80\x80") == "\\xf4\\x90\\x80\\x80");  // above U+10FFFF
  CHECK(escaped("\x9b"
                "31m") ==
        "\\x9b"
        "31m");  // CSI of an eight-bit terminal
  CHECK(escaped("\x80ok") == "\\x80ok");
}

TEST_CASE("characters that hide or reorder their neighbours are spelled out") {
  CHECK(escaped("\u0085") == "\\u{0085}");
  CHECK(escaped("\u009b31m") == "\\u{009b}31m");
  CHECK(escaped("a\u2028b") == "a\\u{2028}b");
  CHECK(escaped("\u2029") == "\\u{2029}");
  CHECK(escaped("\u202egnp.exe") == "\\u{202e}gnp.exe");
  CHECK(escaped("\u2066x\u2069") == "\\u{2066}x\\u{2069}");
  CHECK(escaped("\u200f") == "\\u{200f}");
  CHECK(escaped("a\u200bb") == "a\\u{200b}b");
  CHECK(escaped("\ufeff") == "\\u{feff}");
  CHECK(escaped("\u00ad") == "\\u{00ad}");
  CHECK(escaped("\U000e0041") == "\\u{e0041}");
  CHECK(escaped("\u061c") == "\\u{061c}");
}

TEST_CASE("every code point is decoded to itself, and every neighbour of UTF-8 to nothing") {
  for (char32_t c = 0; c <= 0x10ffff; ++c) {
    const std::string text = encode(c);
    char32_t decoded = 0xffffffff;
    const std::size_t length = decode_utf8(text + "x", decoded);
    if (c >= 0xd800 && c <= 0xdfff) {
      if (length != 0) {
        FAIL("a surrogate was decoded: " << static_cast<unsigned>(c));
      }
    } else if (length != text.size() || decoded != c) {
      FAIL("wrong: " << static_cast<unsigned>(c));
    }
    if (text.size() > 1) {
      char32_t none = 0;
      if (decode_utf8(std::string_view(text).substr(0, text.size() - 1), none) != 0) {
        FAIL("a cut sequence was decoded: " << static_cast<unsigned>(c));
      }
    }
  }
  char32_t none = 0;
  CHECK(decode_utf8("", none) == 0);
}

TEST_CASE("C0, DEL and C1 are the control characters") {
  for (char32_t c = 0; c < 0x200; ++c) {
    const bool expected = c <= 0x1f || (c >= 0x7f && c <= 0x9f);
    CAPTURE(static_cast<unsigned>(c));
    REQUIRE(core::is_control(c) == expected);
  }
}

TEST_CASE("escaped text is one line of visible UTF-8, whatever the bytes") {
  std::mt19937_64 random(99);
  for (int i = 0; i < 20'000; ++i) {
    std::string bytes;
    const int pieces = std::uniform_int_distribution<int>(0, 8)(random);
    for (int p = 0; p < pieces; ++p) {
      if (random() % 2 == 0) {
        bytes += static_cast<char>(random() & 0xffU);
      } else {
        bytes += encode(static_cast<char32_t>(random() % (random() % 2 == 0 ? 0x3000U : 0x110000U)));
      }
    }
    const std::string out = escaped(bytes);
    std::string_view rest = out;
    while (!rest.empty()) {
      char32_t c = 0;
      const std::size_t length = decode_utf8(rest, c);
      CAPTURE(i);
      if (length == 0 || core::is_control(c) || (c >= 0x2028 && c <= 0x202e) || (c >= 0x2066 && c <= 0x2069)) {
        FAIL("unsafe output");
      }
      rest.remove_prefix(length);
    }
    // An escape never makes two texts alike: what was already safe stays as it was.
    REQUIRE((out == bytes || out.size() > bytes.size()));
  }
}
