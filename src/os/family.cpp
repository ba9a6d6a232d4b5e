// pidfd_send_signal(2) and kill(2) of a group.
#include "os/family.hpp"

#include <poll.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>

#include <fmt/format.h>

#include "os/child.hpp"

namespace os {

namespace {

int send(int pidfd, int number) noexcept {
  return static_cast<int>(::syscall(SYS_pidfd_send_signal, pidfd, number, nullptr, 0));
}

// pidfd_open(2): readable once the process has ended.
bool runs(int pidfd) noexcept {
  pollfd watched{pidfd, POLLIN, 0};
  return ::poll(&watched, 1, 0) == 0;
}

Family::Reach reach(int result) noexcept {
  return result == 0 ? Family::Reach::all : errno == EPERM ? Family::Reach::denied : Family::Reach::gone;
}

}  // namespace

Family::Reach Family::forward(int number) noexcept {
  return reach(m_own_group ? ::kill(-m_child, number) : send(m_pidfd.get(), number));
}

Family::Reach Family::stop(int number) {
  if (m_own_group) {
    return forward(number);
  }
  // Again each time: what was started since, and what forked while the last snapshot was taken.
  take_snapshot(descendants(m_child, m_siblings));
  const Reach child = forward(number);
  send_to_others(number);
  return child;
}

// The kernel forgets the parent-death signal of a process whose user changes (prctl(2)); /proc/PID belongs to that
// user.
bool Family::same_user() const {
  struct stat found {};
  return ::stat(fmt::format("/proc/{}", m_child).c_str(), &found) == 0 && found.st_uid == ::geteuid();
}

void Family::terminate_after_lk() {
  if (!m_own_group) {
    stop(SIGTERM);
    return;
  }
  std::vector<pid_t> others = group_members(m_child);
  std::erase(others, m_child);
  take_snapshot(others);
  if (!same_user()) {
    send(m_pidfd.get(), SIGTERM);
  }
  send_to_others(SIGTERM);
}

void Family::send_to_others(int number) {
  for (const Other& other : m_others) {
    send(other.pidfd.get(), number);
  }
}

void Family::take_snapshot(const std::vector<pid_t>& pids) {
  std::erase_if(m_others, [](const Other& other) { return !runs(other.pidfd.get()); });
  for (const pid_t pid : pids) {
    if (std::ranges::find(m_others, pid, &Other::pid) != m_others.end()) {
      continue;
    }
    if (Fd handle(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0))); handle) {
      m_others.push_back({pid, std::move(handle)});
    }
  }
}

bool Family::child_runs() const noexcept { return runs(m_pidfd.get()); }

bool Family::others_run() {
  if (m_own_group) {
    std::vector<pid_t> members = group_members(m_child);
    std::erase(members, m_child);
    return !members.empty();
  }
  take_snapshot(descendants(m_child, m_siblings));
  return !m_others.empty();
}

}  // namespace os
