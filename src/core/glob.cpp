// Shell patterns over keys: the matcher.
#include "core/glob.hpp"

#include <cstddef>

#include "core/text.hpp"

namespace core {

namespace {

// Above every code point: a byte that is no UTF-8 stands for itself alone.
constexpr char32_t broken_byte = 0x110000;

char32_t take(std::string_view& text) {
  char32_t code_point = 0;
  std::size_t length = decode_utf8(text, code_point);
  if (length == 0) {
    code_point = broken_byte + static_cast<unsigned char>(text.front());
    length = 1;
  }
  text.remove_prefix(length);
  return code_point;
}

char32_t take_literal(std::string_view& pattern) {
  const char32_t c = take(pattern);
  return c == '\\' && !pattern.empty() ? take(pattern) : c;
}

enum class InSet { yes, no, no_set };

// `pattern` starts after a '['. Where the set has no end, the '[' is an ordinary character and nothing is taken.
InSet match_set(std::string_view& pattern, char32_t c) {
  std::string_view rest = pattern;
  const bool negated = !rest.empty() && (rest.front() == '!' || rest.front() == '^');
  if (negated) {
    rest.remove_prefix(1);
  }
  bool found = false;
  for (bool first = true; !rest.empty(); first = false) {
    if (rest.front() == ']' && !first) {
      rest.remove_prefix(1);
      pattern = rest;
      return found != negated ? InSet::yes : InSet::no;
    }
    const char32_t low = take_literal(rest);
    char32_t high = low;
    if (rest.size() >= 2 && rest[0] == '-' && rest[1] != ']') {
      rest.remove_prefix(1);
      high = take_literal(rest);
    }
    found = found || (low <= c && c <= high);
  }
  return InSet::no_set;
}

// Whether the first element of the pattern matches the first character of the text; both are taken.
bool match_one(std::string_view& pattern, std::string_view& text) {
  const char32_t c = take(text);
  if (pattern.front() == '?') {
    pattern.remove_prefix(1);
    return true;
  }
  if (pattern.front() == '[') {
    pattern.remove_prefix(1);
    const InSet in_set = match_set(pattern, c);
    return in_set == InSet::no_set ? c == '[' : in_set == InSet::yes;
  }
  return take_literal(pattern) == c;
}

}  // namespace

bool Glob::matches(std::string_view text) const {
  std::string_view pattern = m_pattern;
  // Where to go on when the match fails: after the last star, with one more character of the text under it. Earlier
  // stars need no second chance.
  bool star = false;
  std::string_view after_star;
  std::string_view under_star;
  while (true) {
    if (!pattern.empty() && pattern.front() == '*') {
      pattern.remove_prefix(1);
      star = true;
      after_star = pattern;
      under_star = text;
      continue;
    }
    if (text.empty() && pattern.empty()) {
      return true;
    }
    if (!text.empty() && !pattern.empty() && match_one(pattern, text)) {
      continue;
    }
    if (!star || under_star.empty()) {
      return false;
    }
    take(under_star);
    pattern = after_star;
    text = under_star;
  }
}

bool Glob::is_pattern(std::string_view text) { return text.find_first_of("*?[\\") != std::string_view::npos; }

}  // namespace core
