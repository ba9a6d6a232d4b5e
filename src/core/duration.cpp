// Durations as users write and read them: the parser and its inverse for people.
#include "core/duration.hpp"

#include <array>
#include <cstddef>
#include <cstdint>

#include <fmt/format.h>

namespace core {

namespace {

struct Unit {
  std::string_view name;
  std::int64_t millis;
};

constexpr std::array<Unit, 5> units{{{"d", 86'400'000}, {"h", 3'600'000}, {"m", 60'000}, {"s", 1'000}, {"ms", 1}}};
constexpr std::size_t seconds = 3;

// A day has 2^10 * 3^3 * 5^5 milliseconds: a fraction with more digits than this (trailing zeros aside) is never whole.
constexpr std::size_t most_fraction_digits = 10;

tl::unexpected<std::string> malformed() {
  return tl::make_unexpected(std::string("must be a duration like 30, 1.5s, 5m or 1h30m"));
}

bool is_digit(char c) { return c >= '0' && c <= '9'; }

std::string_view take_digits(std::string_view& text) {
  std::size_t length = 0;
  while (length < text.size() && is_digit(text[length])) {
    ++length;
  }
  const std::string_view digits = text.substr(0, length);
  text.remove_prefix(length);
  return digits;
}

// Stops growing above any number that is taken; so many of each unit still add up without overflow.
std::int64_t to_number(std::string_view digits) {
  constexpr std::int64_t ceiling = 40'000'000'000;
  std::int64_t number = 0;
  for (const char c : digits) {
    number = number * 10 + (c - '0');
    if (number > ceiling) {
      return ceiling;
    }
  }
  return number;
}

// The unit at the start of the text, from `first` on; units.size() where there is none.
std::size_t take_unit(std::string_view& text, std::size_t first) {
  std::size_t length = 0;
  while (length < text.size() && !is_digit(text[length])) {
    ++length;
  }
  for (std::size_t i = first; i < units.size(); ++i) {
    if (text.substr(0, length) == units[i].name) {
      text.remove_prefix(length);
      return i;
    }
  }
  return units.size();
}

}  // namespace

tl::expected<Millis, std::string> parse_duration(std::string_view text) {
  const std::string_view all = text;
  bool too_fine = false;
  std::int64_t total = 0;
  std::size_t first_unit = 0;
  do {
    const bool first = text.size() == all.size();
    const std::string_view whole = take_digits(text);
    if (whole.empty()) {
      return malformed();
    }
    std::string_view fraction;
    if (!text.empty() && text.front() == '.') {
      text.remove_prefix(1);
      fraction = take_digits(text);
      if (fraction.empty()) {
        return malformed();
      }
    }
    const bool has_fraction = !fraction.empty();
    std::size_t unit = seconds;
    if (!text.empty() || !first) {
      unit = take_unit(text, first_unit);
      if (unit == units.size() || (has_fraction && !text.empty())) {
        return malformed();
      }
    }
    first_unit = unit + 1;

    while (!fraction.empty() && fraction.back() == '0') {
      fraction.remove_suffix(1);
    }
    const std::int64_t millis = units[unit].millis;
    std::int64_t fraction_millis = 0;
    if (fraction.size() > most_fraction_digits) {
      too_fine = true;
    } else {
      std::int64_t scale = 1;
      for (std::size_t i = 0; i < fraction.size(); ++i) {
        scale *= 10;
      }
      const std::int64_t scaled = to_number(fraction) * millis;
      too_fine = too_fine || scaled % scale != 0;
      fraction_millis = scaled / scale;
    }
    total += to_number(whole) * millis + fraction_millis;
  } while (!text.empty());

  if (total > longest_duration.count()) {
    return tl::make_unexpected(std::string("must be at most 366 days, like 30, 1.5s, 5m or 1h30m"));
  }
  if (too_fine) {
    return tl::make_unexpected(std::string("must be a whole number of milliseconds, like 250ms, 0.25 or 1.5s"));
  }
  return Millis(total);
}

std::string to_text(Millis duration) {
  const std::int64_t total = duration.count();
  if (total <= 0) {
    return "0s";
  }
  if (total < 1'000) {
    return fmt::format("{}ms", total);
  }
  if (total < 10'000) {
    const std::int64_t tenths = total / 100;
    return tenths % 10 == 0 ? fmt::format("{}s", tenths / 10) : fmt::format("{}.{}s", tenths / 10, tenths % 10);
  }
  std::size_t largest = 0;
  while (total < units[largest].millis) {
    ++largest;
  }
  std::string text = fmt::format("{}{}", total / units[largest].millis, units[largest].name);
  if (largest < seconds) {
    const Unit& next = units[largest + 1];
    const std::int64_t rest = total % units[largest].millis / next.millis;
    if (rest > 0) {
      text += fmt::format("{}{}", rest, next.name);
    }
  }
  return text;
}

}  // namespace core
