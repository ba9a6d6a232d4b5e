// The kernel reads a process's command line from that process's own memory.
#include "os/title.hpp"

#include <sys/prctl.h>

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <cstring>

#include "os/small_file.hpp"

namespace os {

void set_name(const char* name) noexcept { ::prctl(PR_SET_NAME, name); }

void set_command_line(std::string_view command_line) noexcept {
  // proc(5), stat: fields 48 and 49, arg_start and arg_end; the command in parentheses is field 2.
  char buffer[1024];
  const std::string_view stat = read_small_file("/proc/self/stat", buffer);
  std::size_t at = stat.rfind(')');
  for (int field = 2; field < 48 && at != std::string_view::npos; ++field) {
    at = stat.find(' ', at + 1);
  }
  if (at == std::string_view::npos) {
    return;
  }
  std::uintptr_t start = 0;
  std::uintptr_t end = 0;
  const char* const last = stat.data() + stat.size();
  const auto [next, error] = std::from_chars(stat.data() + at + 1, last, start);
  if (error != std::errc{} || next == last || std::from_chars(next + 1, last, end).ec != std::errc{} || start == 0 ||
      end <= start) {
    return;
  }
  // NOLINTNEXTLINE(performance-no-int-to-ptr): the kernel tells an address of ours as a number.
  char* const words = reinterpret_cast<char*>(start);
  std::memset(words, 0, end - start);
  std::memcpy(words, command_line.data(), std::min(command_line.size(), end - start - 1));
}

}  // namespace os
