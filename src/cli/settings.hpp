// What holds where an option is not given. The command line wins over the environment.
#pragma once

#include <optional>
#include <string>

#include "cli/common_options.hpp"

namespace cli {

// A value and how an error about it begins: the option or the variable it came from.
struct Given {
  std::string value;
  std::string source;
};

struct Settings {
  std::optional<Given> store;
  std::optional<Given> prefix;
  std::optional<Given> ttl;
};

Settings settle(const CommonOptions& line, const std::optional<std::string>& ttl = std::nullopt);

}  // namespace cli
