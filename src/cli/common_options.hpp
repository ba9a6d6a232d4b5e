// The options that every command takes that asks a store.
#pragma once

#include <optional>
#include <string>

#include "cli/options.hpp"

namespace cli {

struct CommonOptions {
  std::optional<std::string> store;
  std::optional<std::string> prefix;
  std::string color = "auto";
  bool quiet = false;
  bool verbose = false;

  // Last in a command's help.
  void declare(Options& options);
};

}  // namespace cli
