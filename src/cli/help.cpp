// lk help: what `lk --help` and `lk COMMAND --help` print; on a terminal the manual page of a command, where it is
// there.
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstddef>
#include <string>
#include <vector>

#include "cli/commands.hpp"
#include "cli/ending.hpp"
#include "cli/options.hpp"
#include "cli/output.hpp"
#include "os/fd.hpp"

namespace cli {

namespace {

// What man(1) says with these words, without its complaints; empty where it fails.
std::string answer_of_man(std::vector<char*> words) {
  std::array<int, 2> pair{};
  if (::pipe2(pair.data(), O_CLOEXEC) != 0) {
    return {};
  }
  const os::Fd from(pair[0]);
  os::Fd into(pair[1]);
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  ::posix_spawn_file_actions_adddup2(&actions, into.get(), STDOUT_FILENO);
  ::posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
  words.push_back(nullptr);
  pid_t man = 0;
  const int error = ::posix_spawnp(&man, words.front(), &actions, nullptr, words.data(), environ);
  ::posix_spawn_file_actions_destroy(&actions);
  if (error != 0) {
    return {};
  }
  into.reset();
  std::string answer;
  std::array<char, 4096> buffer;
  for (ssize_t got = 1; got != 0;) {
    got = ::read(from.get(), buffer.data(), buffer.size());
    if (got > 0) {
      answer.append(buffer.data(), static_cast<std::size_t>(got));
    } else if (got < 0 && errno != EINTR) {
      break;
    }
  }
  int status = 0;
  while (::waitpid(man, &status, 0) < 0 && errno == EINTR) {
  }
  return WIFEXITED(status) && WEXITSTATUS(status) == 0 ? answer : std::string();
}

// Becomes man(1), or returns where that has no such page.
void show_page(std::string page) {
  std::string program = "man";
  std::string where = "-w";
  // What minimal systems have in man's place says something as well, and succeeds: only a file counts.
  const std::string answer = answer_of_man({program.data(), where.data(), page.data()});
  const std::string path = answer.substr(0, answer.find('\n'));
  if (::access(path.c_str(), R_OK) != 0) {
    return;
  }
  // lk ignores it, and man and its pager must not.
  ::signal(SIGPIPE, SIG_DFL);
  ::signal(SIGXFSZ, SIG_DFL);
  std::array<char*, 3> words{program.data(), page.data(), nullptr};
  ::execvp(words.front(), words.data());
  let_writes_fail();
}

class Help : public Action {
public:
  explicit Help(Options& options) { options.words("COMMAND", "one of the commands that lk help lists", m_names); }

  int run(const Call&) override {
    if (m_names.size() > 1) {
      throw usage_error("help takes one command at most");
    }
    if (m_names.empty()) {
      print(general_help(terminal_columns(STDOUT_FILENO)));
      return to_int(ExitCode::ok);
    }
    const Command& command = find_command(m_names.front());
    if (::isatty(STDOUT_FILENO) == 1) {
      show_page("lk-" + std::string(command.name));
    }
    print(help_of(command, terminal_columns(STDOUT_FILENO)));
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
