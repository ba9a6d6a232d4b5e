// /proc/PID/stat and the namespaces that make its numbers comparable.
#include "os/process.hpp"

#include <poll.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <optional>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "os/account.hpp"
#include "os/namespaces.hpp"
#include "os/small_file.hpp"

namespace os {

namespace {

struct Stat {
  char state;
  std::int64_t started;
};

// proc(5): the second field is the command in parentheses and may hold anything, also ") "; the last ')' ends it.
// The state is field 3, the start time field 22.
std::optional<Stat> read_stat(const char* path) {
  char buffer[1024];
  const std::string_view text = read_small_file(path, buffer);
  std::size_t at = text.rfind(')');
  if (at == std::string_view::npos || at + 2 >= text.size()) {
    return std::nullopt;
  }
  Stat stat{text[at + 2], 0};
  for (int field = 2; field < 22; ++field) {
    at = text.find(' ', at + 1);
    if (at == std::string_view::npos) {
      return std::nullopt;
    }
  }
  const char* const begin = text.data() + at + 1;
  const auto [end, error] = std::from_chars(begin, text.data() + text.size(), stat.started);
  if (error != std::errc{}) {
    return std::nullopt;
  }
  return stat;
}

// Inside a pid namespace without a /proc of its own, /proc/N is another process than our N.
bool proc_is_ours() {
  char link[32];
  const ssize_t length = ::readlink("/proc/self", link, sizeof link);
  if (length <= 0) {
    return false;
  }
  return std::string_view(link, static_cast<std::size_t>(length)) == fmt::format_int(::getpid()).c_str();
}

}  // namespace

core::ProcessId own_process() {
  const auto stat = read_stat("/proc/self/stat");
  return {::getpid(), stat ? stat->started : 0};
}

core::ProcessId process_of(std::int64_t pid) {
  const auto stat = read_stat(fmt::format("/proc/{}/stat", pid).c_str());
  return stat ? core::ProcessId{pid, stat->started} : core::ProcessId{};
}

std::string own_realm() {
  if (pid_namespace() == 0) {
    return {};
  }
  // Start times are shown shifted by the reader's time namespace.
  return fmt::format("pid:{},time:{}", pid_namespace(), time_namespace());
}

bool certainly_gone(const core::ProcessId& process) {
  if (process.pid <= 0) {
    return false;
  }
  if (::kill(static_cast<pid_t>(process.pid), 0) != 0 && errno == ESRCH) {
    return true;
  }
  if (process.started == 0 || !proc_is_ours()) {
    return false;
  }
  const auto stat = read_stat(fmt::format("/proc/{}/stat", process.pid).c_str());
  return stat && (stat->state == 'Z' || stat->state == 'X' || stat->started != process.started);
}

std::optional<RunningProcess> RunningProcess::find(const core::ProcessId& process) {
  if (process.pid <= 0 || process.started == 0 || !proc_is_ours()) {
    return std::nullopt;
  }
  // In this order: the number may have passed to another process before, but not after.
  Fd pidfd(static_cast<int>(::syscall(SYS_pidfd_open, static_cast<pid_t>(process.pid), 0)));
  if (!pidfd || process_of(process.pid) != process) {
    return std::nullopt;
  }
  RunningProcess found(std::move(pidfd));
  return found.runs() ? std::optional(std::move(found)) : std::nullopt;
}

bool RunningProcess::runs() const noexcept {
  pollfd ended{m_pidfd.get(), POLLIN, 0};
  return ::poll(&ended, 1, 0) == 0;
}

bool is_stopped(const core::ProcessId& process) {
  if (process.pid <= 0 || !proc_is_ours()) {
    return false;
  }
  const auto stat = read_stat(fmt::format("/proc/{}/stat", process.pid).c_str());
  return stat && stat->state == 'T' && (process.started == 0 || stat->started == process.started);
}

std::string host_name() {
  char name[256];
  if (::gethostname(name, sizeof name) != 0) {
    return "unknown";
  }
  name[sizeof name - 1] = '\0';
  return name;
}

std::string user_name() {
  const uid_t uid = ::geteuid();
  if (uid == 0) {
    return "root";
  }
  // The environment saves a look-up that may leave the machine (LDAP); a "root" that is not root came through su or
  // setpriv.
  for (const char* variable : {"LOGNAME", "USER"}) {
    const char* const name = std::getenv(variable);
    if (name != nullptr && *name != '\0' && std::string_view(name) != "root") {
      return name;
    }
  }
  auto account = local_account(uid);
  return account ? std::move(account->name) : fmt::format("uid {}", uid);
}

}  // namespace os
