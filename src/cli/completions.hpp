// The scripts of completions/, as they are built into lk.
#pragma once

#include <array>
#include <string_view>

namespace cli {

struct CompletionScript {
  std::string_view shell;
  std::string_view text;
};

// Written by cmake/embed_completions.cmake.
extern const std::array<CompletionScript, 3> completion_scripts;

}  // namespace cli
