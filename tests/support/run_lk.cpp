// fork, exec, forkpty and polling.
#include "support/run_lk.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <pty.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <thread>

#include "os/child.hpp"
#include "os/process.hpp"
#include "support/catch.hpp"

namespace support {

namespace {

std::string lk_path() {
  const char* const path = std::getenv("LK");
  return path != nullptr ? path : "lk";
}

std::string first_line(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

}  // namespace

bool wait_until(const std::function<bool()>& condition, std::chrono::milliseconds at_most) {
  const auto end = std::chrono::steady_clock::now() + at_most;
  while (!condition()) {
    if (std::chrono::steady_clock::now() >= end) {
      return condition();
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return true;
}

std::string content_of(const std::string& path) {
  std::ifstream file(path);
  std::stringstream all;
  all << file.rdbuf();
  return all.str();
}

bool process_runs(pid_t pid) { return pid > 0 && ::kill(pid, 0) == 0 && !os::certainly_gone(os::process_of(pid)); }

Run::Run(const Start& start) : m_folder(start.folder) {
  std::vector<std::string> words = start.shell.value_or(start.words);
  if (!start.shell) {
    words.insert(words.begin(), lk_path());
  }
  std::vector<std::string> environment{
      "PATH=" + std::string(std::getenv("PATH")), "LK=" + lk_path(), "HOME=" + start.folder};
  for (const auto& [name, value] : start.environment) {
    environment.push_back(name + "=" + value);
  }
  std::vector<char*> arguments;
  for (std::string& word : words) {
    arguments.push_back(word.data());
  }
  arguments.push_back(nullptr);
  std::vector<char*> variables;
  for (std::string& entry : environment) {
    variables.push_back(entry.data());
  }
  variables.push_back(nullptr);

  // A signal that is sent right after the fork must find lk's dispositions, not those of this program.
  sigset_t every;
  sigset_t before;
  sigfillset(&every);
  ::sigprocmask(SIG_SETMASK, &every, &before);
  int terminal = -1;
  m_pid = start.terminal ? ::forkpty(&terminal, nullptr, nullptr, nullptr) : ::fork();
  REQUIRE(m_pid >= 0);
  if (m_pid == 0) {
    for (int number = 1; number < NSIG; ++number) {
      ::signal(number, SIG_DFL);
    }
    for (const int number : start.ignored) {
      ::signal(number, SIG_IGN);
    }
    sigset_t none;
    sigemptyset(&none);
    ::sigprocmask(SIG_SETMASK, &none, nullptr);
    if (::chdir(start.folder.c_str()) != 0) {
      ::_exit(99);
    }
    if (!start.terminal) {
      ::setsid();
      ::dup2(::open("/dev/null", O_RDONLY), 0);
      ::dup2(::open("out", O_WRONLY | O_CREAT | O_APPEND, 0600), 1);
      ::dup2(::open("err", O_WRONLY | O_CREAT | O_APPEND, 0600), 2);
    }
    ::close_range(3, ~0U, 0);
    ::execvpe(arguments[0], arguments.data(), variables.data());
    ::_exit(98);
  }
  ::sigprocmask(SIG_SETMASK, &before, nullptr);
  m_terminal.reset(terminal);
}

Run::~Run() {
  if (!m_status && m_pid > 0) {
    std::vector<pid_t> all = os::descendants(m_pid);
    all.push_back(m_pid);
    for (const pid_t pid : all) {
      ::kill(pid, SIGKILL);
    }
    ::waitpid(m_pid, nullptr, 0);
  }
}

void Run::send(int signal) const noexcept { ::kill(m_pid, signal); }

void Run::send_to_group(int signal) const noexcept { ::kill(-m_pid, signal); }

bool Run::ended() {
  if (m_status) {
    return true;
  }
  if (m_terminal) {
    screen();  // a full terminal would keep it from ending
  }
  int status = 0;
  if (::waitpid(m_pid, &status, WNOHANG) == m_pid) {
    m_status = status;
  }
  return m_status.has_value();
}

int Run::wait(std::chrono::milliseconds at_most) {
  const bool done = wait_until([this] { return ended(); }, at_most);
  INFO("stderr: " << err() << m_screen);
  REQUIRE(done);
  return *m_status;
}

int Run::status(std::chrono::milliseconds at_most) {
  const int status = wait(at_most);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

std::string Run::out() const { return content_of(m_folder + "/out"); }

std::string Run::err() const { return content_of(m_folder + "/err"); }

void Run::type(const std::string& keys) const {
  REQUIRE(::write(m_terminal.get(), keys.data(), keys.size()) == static_cast<ssize_t>(keys.size()));
}

const std::string& Run::screen() {
  pollfd shown{m_terminal.get(), POLLIN, 0};
  char buffer[4096];
  while (m_terminal && ::poll(&shown, 1, 0) == 1 && (shown.revents & POLLIN) != 0) {
    const ssize_t got = ::read(m_terminal.get(), buffer, sizeof buffer);
    if (got <= 0) {
      break;
    }
    m_screen.append(buffer, static_cast<std::size_t>(got));
  }
  return m_screen;
}

bool Run::screen_shows(const std::string& text, std::chrono::milliseconds at_most) {
  return wait_until([&] { return screen().find(text) != std::string::npos; }, at_most);
}

Place::Place() {
  std::string name = (std::filesystem::temp_directory_path() / "lk-test-XXXXXX").string();
  REQUIRE(::mkdtemp(name.data()) != nullptr);
  m_folder = name;
}

Place::~Place() {
  std::error_code ignored;
  std::filesystem::remove_all(m_folder, ignored);
}

bool Place::has(const std::string& name) const { return std::filesystem::exists(path(name)); }

Start Place::lk(std::vector<std::string> words) const {
  Start start;
  start.words = std::move(words);
  start.environment["LK_STORE"] = path("locks.db");
  start.folder = m_folder;
  return start;
}

Start Place::exec(std::vector<std::string> options, const std::string& script) const {
  std::vector<std::string> words{"exec", "--key", "k"};
  words.insert(words.end(), options.begin(), options.end());
  words.insert(words.end(), {"--", "sh", "-c", script});
  return lk(std::move(words));
}

Start Place::shell(const std::string& script) const {
  Start start = lk({});
  start.shell = {"sh", "-c", script};
  return start;
}

int Place::status_of(std::vector<std::string> words) const {
  const std::string aside = path("aside");
  ::mkdir(aside.c_str(), 0700);
  Start start = lk(std::move(words));
  start.folder = aside;
  return Run(start).status();
}

std::string Place::output_of(std::vector<std::string> words) const {
  std::filesystem::remove_all(path("aside"));
  status_of(std::move(words));
  return content_of(path("aside/out"));
}

pid_t guardian_of(pid_t lk) {
  for (const pid_t pid : os::descendants(lk)) {
    if (os::parent_of(pid) == lk && first_line("/proc/" + std::to_string(pid) + "/comm") == "lock-guardian") {
      return pid;
    }
  }
  return 0;
}

pid_t child_of(pid_t lk) {
  for (const pid_t pid : os::descendants(lk)) {
    const std::string name = first_line("/proc/" + std::to_string(pid) + "/comm");
    if (os::parent_of(pid) == lk && name != "lock-guardian" && name != "lk") {
      return pid;
    }
  }
  return 0;
}

}  // namespace support
