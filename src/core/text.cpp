// Bytes from outside, made safe to print.
#include "core/text.hpp"

#include <algorithm>
#include <array>

#include <fmt/format.h>

namespace core {

namespace {

struct Range {
  char32_t first;
  char32_t last;
};

// What a terminal would not show, or would let reorder its neighbours: separators, bidirectional controls, and
// Unicode's default-ignorable characters without the joiners of visible glyphs (variation selectors).
constexpr std::array<Range, 23> invisible{{
    {0x00ad, 0x00ad},    // soft hyphen
    {0x034f, 0x034f},    // combining grapheme joiner
    {0x061c, 0x061c},    // Arabic letter mark
    {0x115f, 0x1160},    // Hangul fillers
    {0x17b4, 0x17b5},    // Khmer inherent vowels
    {0x180e, 0x180e},    // Mongolian vowel separator
    {0x200b, 0x200f},    // zero width space, joiners, direction marks
    {0x2028, 0x202e},    // line and paragraph separator, embeddings and overrides
    {0x2060, 0x206f},    // word joiner, invisible operators, isolates
    {0x2800, 0x2800},    // the empty Braille cell
    {0x3164, 0x3164},    // Hangul filler
    {0xfeff, 0xfeff},    // byte order mark
    {0xffa0, 0xffa0},    // halfwidth Hangul filler
    {0xfff0, 0xfffb},    // interlinear annotation
    {0xfffe, 0xffff},    // not characters
    {0x110bd, 0x110bd},  // Kaithi number sign
    {0x110cd, 0x110cd},  // Kaithi number sign above
    {0x13430, 0x1343f},  // hieroglyph format controls
    {0x1bca0, 0x1bca3},  // shorthand format controls
    {0x1d173, 0x1d17a},  // musical format controls
    {0xe0000, 0xe00ff},  // tags
    {0xe01f0, 0xe0fff},  // reserved, ignorable
    {0x10fffe, 0x10ffff},
}};

bool is_invisible(char32_t code_point) {
  return std::any_of(invisible.begin(), invisible.end(), [&](const Range& range) {
    return code_point >= range.first && code_point <= range.last;
  });
}

}  // namespace

std::size_t decode_utf8(std::string_view text, char32_t& code_point) {
  if (text.empty()) {
    return 0;
  }
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char lead = byte(0);
  if (lead < 0x80) {
    code_point = lead;
    return 1;
  }
  std::size_t length = 0;
  char32_t value = 0;
  char32_t smallest = 0;
  if (lead >= 0xc2 && lead <= 0xdf) {
    length = 2;
    value = lead & 0x1fU;
    smallest = 0x80;
  } else if (lead >= 0xe0 && lead <= 0xef) {
    length = 3;
    value = lead & 0x0fU;
    smallest = 0x800;
  } else if (lead >= 0xf0 && lead <= 0xf4) {
    length = 4;
    value = lead & 0x07U;
    smallest = 0x10000;
  } else {
    return 0;
  }
  if (text.size() < length) {
    return 0;
  }
  for (std::size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xc0U) != 0x80U) {
      return 0;
    }
    value = (value << 6) | (byte(i) & 0x3fU);
  }
  const bool surrogate = value >= 0xd800 && value <= 0xdfff;
  if (value < smallest || value > 0x10ffff || surrogate) {
    return 0;
  }
  code_point = value;
  return length;
}

bool is_control(char32_t code_point) { return code_point < 0x20 || (code_point >= 0x7f && code_point <= 0x9f); }

std::string escaped(std::string_view bytes) {
  std::string out;
  out.reserve(bytes.size());
  while (!bytes.empty()) {
    char32_t code_point = 0;
    const std::size_t length = decode_utf8(bytes, code_point);
    if (length == 0) {
      out += fmt::format("\\x{:02x}", static_cast<unsigned char>(bytes.front()));
      bytes.remove_prefix(1);
      continue;
    }
    if (code_point == '\n') {
      out += "\\n";
    } else if (code_point == '\t') {
      out += "\\t";
    } else if (code_point == 0x1b) {
      out += "\\e";
    } else if (code_point == '\\') {
      out += "\\\\";
    } else if (code_point < 0x80 && is_control(code_point)) {
      out += fmt::format("\\x{:02x}", static_cast<unsigned>(code_point));
    } else if (is_control(code_point) || is_invisible(code_point)) {
      out += fmt::format("\\u{{{:04x}}}", static_cast<unsigned>(code_point));
    } else {
      out += bytes.substr(0, length);
    }
    bytes.remove_prefix(length);
  }
  return out;
}

}  // namespace core
