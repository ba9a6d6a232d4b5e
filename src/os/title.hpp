// What ps shows of this process.
#pragma once

#include <string_view>

namespace os {

// First in main: the kernel reads the command line where main's words lie.
void know_command_line(int argc, char** argv) noexcept;
// Replaces name (of at most 15 bytes) and command line, cut to the room that the old command line had. For a process
// that is not to be hit by what is aimed at its parent (pkill -f).
void set_title(const char* name, std::string_view command_line) noexcept;

}  // namespace os
