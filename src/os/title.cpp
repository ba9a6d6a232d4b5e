// The kernel reads a process's command line from that process's own memory.
#include "os/title.hpp"

#include <sys/prctl.h>

#include <algorithm>
#include <cstring>
#include <span>

namespace os {

namespace {

// The words lie one behind the other, each with its null byte.
std::span<char> command_line_room;

}  // namespace

void know_command_line(int argc, char** argv) noexcept {
  if (argc > 0) {
    command_line_room = {argv[0], argv[argc - 1] + std::strlen(argv[argc - 1]) + 1};
  }
}

void set_title(const char* name, std::string_view command_line) noexcept {
  ::prctl(PR_SET_NAME, name);
  if (!command_line_room.empty()) {
    std::ranges::fill(command_line_room, '\0');
    std::ranges::copy(command_line.substr(0, command_line_room.size() - 1), command_line_room.begin());
  }
}

}  // namespace os
