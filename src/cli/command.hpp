// What a subcommand is: one file exports one Command value, commands.cpp lists it.
#pragma once

#include <memory>
#include <string_view>

namespace cli {

class Options;

// What a command is given besides its options.
struct Call {
  // The words after the first "--", ended by a null pointer as execvp(3) wants them; empty where there was none. They
  // are those of main's argv.
  char* const* words;
};

// The options of one call, and what is done with them.
class Action {
public:
  virtual ~Action() = default;
  // The exit status. Throws Ending.
  virtual int run(const Call& call) = 0;
};

struct Command {
  std::string_view name;
  std::string_view summary;  // after the name in `lk help`, without a full stop
  std::string_view usage;    // after `lk NAME`
  std::string_view example;  // the last line of its help
  // The words after the first "--" are a command to run; elsewhere they are ordinary words that no dash turns into
  // options.
  bool runs_words = false;
  std::unique_ptr<Action> (*declare)(Options& options);
};

}  // namespace cli
