// Bytes from outside, made safe to print: no control bytes, no forged lines, no broken UTF-8.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace core {

// Control characters (C0, DEL, C1), line and paragraph separators, bidirectional controls, other invisible format
// characters and bytes that are not UTF-8 become \n, \t, \e, \xHH or \u{HHHH}; a backslash becomes \\. All else passes.
std::string escaped(std::string_view bytes);

// The length in bytes of the UTF-8 sequence at the start of `text`, 0 where it is none; `code_point` receives its
// value.
std::size_t decode_utf8(std::string_view text, char32_t& code_point);

// C0, DEL and C1: the category Cc of Unicode.
bool is_control(char32_t code_point);

}  // namespace core
