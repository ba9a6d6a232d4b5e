// lk help: what `lk --help` and `lk COMMAND --help` print.
#include <string>
#include <vector>

#include "cli/commands.hpp"
#include "cli/ending.hpp"
#include "cli/options.hpp"
#include "cli/output.hpp"

namespace cli {

namespace {

class Help : public Action {
public:
  explicit Help(Options& options) { options.words("COMMAND", "one of the commands that lk help lists", m_names); }

  int run(const Call&) override {
    if (m_names.size() > 1) {
      throw usage_error("help takes one command at most");
    }
    print(m_names.empty() ? general_help() : help_of(find_command(m_names.front())));
    return to_int(ExitCode::ok);
  }

private:
  std::vector<std::string> m_names;
};

}  // namespace

const Command help_command{
    "help",
    "Explain lk, or one of its commands",
    "[COMMAND]",
    "lk help exec",
    false,
    [](Options& options) -> std::unique_ptr<Action> { return std::make_unique<Help>(options); },
};

}  // namespace cli
