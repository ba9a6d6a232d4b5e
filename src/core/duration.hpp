// Durations as users write and read them: `90`, `1.5s`, `250ms`, `1h30m`, `2d`.
#pragma once

#include <chrono>
#include <string>
#include <string_view>

#include <tl/expected.hpp>

namespace core {

using Millis = std::chrono::milliseconds;

// The longest duration that any option takes: 366 days. Everything that lk stores stays far from overflow below it.
inline constexpr Millis longest_duration = std::chrono::hours(24 * 366);

// A bare number is seconds; units are ms, s, m, h, d, each at most once and in falling order; one fraction is allowed
// on the last number ("1.5h"). Everything else is refused: signs, blanks, exponents, hexadecimal, other scripts'
// digits, a fraction that is no whole number of milliseconds, and what is longer than `longest_duration`. The error is
// a clause that fits after the name of the option: "must be …". "0" is accepted here; whether zero makes sense is the
// option's business.
tl::expected<Millis, std::string> parse_duration(std::string_view text);

// For people: the two largest units that matter ("3m12s", "2d4h", "41s", "1.5s", "250ms", "0s"). Rounded down.
std::string to_text(Millis duration);

}  // namespace core
