// What ps shows of this process.
#pragma once

#include <string_view>

namespace os {

// For a process that is not to be hit by what is aimed at its parent.

// The name, of at most 15 bytes, by which `pkill NAME` finds it.
void set_name(const char* name) noexcept;
// The command line, which `pkill -f` looks through; cut to the room that the old one had.
void set_command_line(std::string_view command_line) noexcept;

}  // namespace os
