// Starting lk as a shell, cron or a terminal would: default signals, captured output, and conditions to wait for.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <csignal>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "os/fd.hpp"

namespace support {

// Until `condition` holds; false after `at_most`. Looks every 5 ms.
bool wait_until(const std::function<bool()>& condition, std::chrono::milliseconds at_most = std::chrono::seconds(20));

std::string content_of(const std::string& path);
bool process_runs(pid_t pid);  // a zombie does not

struct Start {
  std::vector<std::string> words;                  // what follows `lk`
  std::map<std::string, std::string> environment;  // beside PATH; LK_STORE is a file of `folder`
  std::string folder;                              // the working directory; its files out and err get the output
  bool terminal = false;                           // under a pty of its own, as session leader's foreground group
  std::vector<int> ignored;                        // signals ignored at start
  std::optional<std::vector<std::string>> shell;   // instead of lk: this program, with LK in its environment
};

// One run of lk. What still runs at the end of a test is killed with all it started.
class Run {
public:
  explicit Run(const Start& start);
  ~Run();
  Run(const Run&) = delete;
  Run& operator=(const Run&) = delete;

  pid_t pid() const noexcept { return m_pid; }
  void send(int signal) const noexcept;
  void send_to_group(int signal) const noexcept;

  // What waitpid(2) gives, once; fails the test after `at_most`.
  int wait(std::chrono::milliseconds at_most = std::chrono::seconds(30));
  // 0-255 as a shell shows it: 128+N for death by a signal.
  int status(std::chrono::milliseconds at_most = std::chrono::seconds(30));
  bool ended();

  std::string out() const;
  std::string err() const;

  // With a terminal: what is typed, and everything that was shown so far.
  void type(const std::string& keys) const;
  const std::string& screen();
  bool screen_shows(const std::string& text, std::chrono::milliseconds at_most = std::chrono::seconds(20));
  void hang_up() { m_terminal.reset(); }

private:
  pid_t m_pid = -1;
  std::optional<int> m_status;
  std::string m_folder;
  os::Fd m_terminal;
  std::string m_screen;
};

// A fresh folder for one test, removed at its end; the store is its file locks.db.
class Place {
public:
  Place();
  ~Place();
  Place(const Place&) = delete;
  Place& operator=(const Place&) = delete;

  const std::string& folder() const noexcept { return m_folder; }
  std::string path(const std::string& name) const { return m_folder + "/" + name; }
  std::string read(const std::string& name) const { return content_of(path(name)); }
  bool has(const std::string& name) const;
  Start lk(std::vector<std::string> words) const;
  Start exec(std::vector<std::string> options,
             const std::string& script) const;  // lk exec --key k OPTIONS -- sh -c SCRIPT
  Start shell(const std::string& script) const;
  // lk with these words, to its end.
  int status_of(std::vector<std::string> words) const;
  std::string output_of(std::vector<std::string> words) const;
  bool is_free(const std::string& key) const { return status_of({"status", key}) == 1; }

private:
  std::string m_folder;
};

// The guardian of that lk; 0 where it has none.
pid_t guardian_of(pid_t lk);
// The first child of that lk that is not its guardian.
pid_t child_of(pid_t lk);

}  // namespace support
