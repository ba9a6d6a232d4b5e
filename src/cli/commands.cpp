// THE list of subcommands, and the help that is made from it.
#include "cli/commands.hpp"

#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "cli/ending.hpp"
#include "cli/nearest.hpp"
#include "cli/options.hpp"
#include "cli/table.hpp"
#include "core/text.hpp"

namespace cli {

namespace {

struct Hint {
  std::string_view word;
  std::string_view command;
};

// What other tools call it.
constexpr std::array<Hint, 16> hints{{
    {"run", "exec"},
    {"with", "exec"},
    {"lock", "exec or acquire"},
    {"get", "acquire"},
    {"try", "acquire"},
    {"wait", "block"},
    {"extend", "renew"},
    {"refresh", "renew"},
    {"free", "release"},
    {"remove", "release"},
    {"rm", "release"},
    {"unlock", "release"},
    {"list", "status"},
    {"ls", "status"},
    {"ps", "status"},
    {"show", "status"},
}};

std::string hint_for(std::string_view typed, const std::vector<std::string_view>& names) {
  const auto* const hint = std::ranges::find(hints, typed, &Hint::word);
  return hint != hints.end() ? fmt::format(": did you mean {}?", hint->command) : did_you_mean(typed, names);
}

// What is in two columns hangs under the second, all else two blanks further right.
std::string folded_lines(std::string_view text, std::size_t columns) {
  std::string out;
  while (!text.empty()) {
    const std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(line.size() + 1);
    const std::size_t first = std::min(line.find_first_not_of(' '), line.size());
    const std::size_t gap = line.find("  ", first);
    const std::size_t hang = gap == std::string_view::npos ? first + 2 : line.find_first_not_of(' ', gap);
    out += folded(line, columns, hang) + "\n";
  }
  return out;
}

}  // namespace

const std::vector<const Command*>& commands() {
  static const std::vector<const Command*> list{
      &exec_command,
      &acquire_command,
      &block_command,
      &renew_command,
      &release_command,
      &status_command,
      &config_command,
      &completion_command,
      &help_command,
  };
  return list;
}

const Command& find_command(std::string_view name) {
  std::vector<std::string_view> names;
  for (const Command* const command : commands()) {
    if (command->name == name) {
      return *command;
    }
    names.push_back(command->name);
  }
  throw usage_error(fmt::format("unknown command '{}'{}", core::escaped(name), hint_for(name, names)));
}

std::string general_help(std::size_t columns) {
  std::string text = "lk: locks for the shell\n\n";
  for (const Command* const command : commands()) {
    text += fmt::format("  lk {:<12}{}\n", command->name, command->summary);
  }
  text +=
      "\n"
      "  lk COMMAND --help   the options of a command\n"
      "  lk --version\n"
      "\n"
      "A key is any text, like invoice:42. A duration D is like 30, 1.5s, 5m or 1h30m.\n"
      "Status: 0 done, 1 free or nothing to do, 75 held by another, 64 usage,\n"
      "69 store down, 74 output, 77 refused by the store, 78 configuration.\n"
      "\n"
      "Example: lk exec --key nightly -- rsync -a /srv /backup\n";
  return folded_lines(text, columns);
}

std::string help_of(const Command& command, std::size_t columns) {
  Options options;
  const auto action = command.declare(options);
  std::string text = fmt::format("lk {} {}\n{}.\n", command.name, command.usage, command.summary);
  text += options.listing();
  text += fmt::format("Example: {}\n", command.example);
  return folded_lines(text, columns);
}

}  // namespace cli
