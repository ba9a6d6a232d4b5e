// Splitting the line, finding the command, and the one catch ladder.
#include "cli/run.hpp"

#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <new>
#include <string>
#include <system_error>
#include <vector>

#include <fmt/format.h>

#include "cli/commands.hpp"
#include "cli/common_options.hpp"
#include "cli/ending.hpp"
#include "cli/exit_code.hpp"
#include "cli/open_store.hpp"
#include "cli/options.hpp"
#include "cli/output.hpp"
#include "cli/report.hpp"
#include "core/text.hpp"

namespace cli {

namespace {

// The words up to the first "--", and what follows it.
struct Line {
  std::vector<std::string> words;
  bool has_dashes = false;
  char* const* rest = nullptr;
};

Line split(int argc, char** argv) {
  Line line;
  int i = 1;
  for (; i < argc && std::strcmp(argv[i], "--") != 0; ++i) {
    line.words.emplace_back(argv[i]);
  }
  line.has_dashes = i < argc;
  line.rest = argv + (line.has_dashes ? i + 1 : argc);
  return line;
}

// Where the command's name is among the words; their number where it is missing. Options may come before it.
std::size_t find_name(const std::vector<std::string>& words, bool& help, bool& version) {
  std::size_t at = 0;
  if (words.empty() || words.front().empty() || words.front()[0] != '-') {
    return at;
  }
  Options options;
  CommonOptions common;
  common.declare(options);
  options.flag("--version", "", version);
  for (; at < words.size() && words[at].size() > 1 && words[at][0] == '-'; ++at) {
    help = help || words[at] == "-h" || words[at] == "--help";
    version = version || words[at] == "--version";
    if (help || version) {
      break;
    }
    if (options.takes_next(words[at])) {
      ++at;
    }
  }
  return std::min(at, words.size());
}

int run_line(int argc, char** argv) {
  Line line = split(argc, argv);
  blank_passwords(argc, argv);

  bool help = false;
  bool version = false;
  const std::size_t at = find_name(line.words, help, version);
  if (help || version) {
    let_writes_fail();
    print(help ? general_help(terminal_columns(STDOUT_FILENO)) : fmt::format("lk {}\n", LK_VERSION));
    return to_int(ExitCode::ok);
  }
  if (at == line.words.size()) {
    if (argc <= 1) {
      offer_stderr(general_help(terminal_columns(STDERR_FILENO)));
      return to_int(ExitCode::usage);
    }
    throw usage_error("no command: lk help lists them");
  }
  const Command& command = find_command(line.words[at]);
  line.words.erase(line.words.begin() + static_cast<std::ptrdiff_t>(at));

  Options options;
  const auto action = command.declare(options);
  try {
    options.parse(line.words);
    if (!options.help_asked() && !command.runs_words) {
      for (char* const* word = line.rest; *word != nullptr; ++word) {
        options.take_word(*word);
      }
    }
  } catch (const UnexpectedWord& unexpected) {
    if (!command.runs_words) {
      throw;
    }
    const std::string word = core::escaped(unexpected.word());
    throw usage_error(line.has_dashes
                          ? fmt::format("unexpected word '{}': the command begins after --", word)
                          : fmt::format("-- is missing before the command: lk {} … -- {} …", command.name, word));
  }
  if (options.help_asked()) {
    let_writes_fail();
    print(help_of(command, terminal_columns(STDOUT_FILENO)));
    return to_int(ExitCode::ok);
  }
  if (!command.runs_words) {
    // For exec os::Signals does this: the command must get what lk was started with.
    let_writes_fail();
  }
  return action->run(Call{line.rest});
}

int end_with(ExitCode code, const char* sentence) {
  let_writes_fail();
  say(sentence);
  return to_int(code);
}

}  // namespace

namespace {

int run_to_end(int argc, char** argv) {
  try {
    return run_line(argc, argv);
  } catch (const Ending& ending) {
    return end_with(ending.code(), ending.what());
  } catch (const std::bad_alloc&) {
    return end_with(ExitCode::system, "out of memory");
  } catch (const std::system_error& error) {
    return end_with(ExitCode::system, error.what());
  } catch (const std::exception& error) {
    return end_with(ExitCode::bug, fmt::format("this is a bug in lk: {}", error.what()).c_str());
  }
}

}  // namespace

int run(int argc, char** argv) {
  const int status = run_to_end(argc, argv);
  finish_stderr();
  return status;
}

}  // namespace cli
