// The options that every command takes that asks a store.
#pragma once

#include <optional>
#include <string>

#include "cli/options.hpp"

namespace cli {

struct CommonOptions {
  std::optional<std::string> store;
  std::optional<std::string> prefix;
  std::optional<std::string> config;
  std::string color;  // empty: not given
  bool quiet = false;
  bool verbose = false;

  // Last in a command's help. All take --color, and only those name it in their help that show something in colour.
  void declare(Options& options, bool colored = false);
};

}  // namespace cli
