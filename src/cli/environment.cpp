// getenv(3), and the list in LK_HELD.
#include "cli/environment.hpp"

#include <cstdlib>

namespace cli {

std::optional<std::string> variable(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr ? std::nullopt : std::optional<std::string>(value);
}

bool held_by_ancestor(std::string_view owner) {
  const char* const value = std::getenv("LK_HELD");
  std::string_view held = value == nullptr ? "" : value;
  while (!held.empty()) {
    const std::size_t end = held.find('\n');
    if (held.substr(0, end) == owner) {
      return true;
    }
    held.remove_prefix(end == std::string_view::npos ? held.size() : end + 1);
  }
  return false;
}

}  // namespace cli
