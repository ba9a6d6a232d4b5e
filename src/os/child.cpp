// clone(2) as vfork with a pidfd, waitid(2), and walks through /proc.
#include "os/child.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <memory>
#include <set>
#include <string_view>

#include <fmt/format.h>

#include "os/small_file.hpp"

namespace os {

namespace {

struct Birth {
  char* const* words;
  char* const* environment;
  const Signals& signals;
  bool own_group;
  std::atomic<pid_t>& born;
  pid_t parent;
  const core::Clock& clock;
  core::Instant latest;
  int error;
  bool too_late;
};

// Shares the parent's memory until it executes: only async-signal-safe calls, no allocation. On a stack that the
// address sanitizer does not know.
[[gnu::no_sanitize_address]] int be_born(void* pointer) {
  auto& birth = *static_cast<Birth*>(pointer);
  if (birth.own_group) {
    ::setpgid(0, 0);
  }
  birth.born.store(::getpid());
  // Should lk and its guardian be killed in the same instant, the kernel is the last to tell the child. Only where a
  // group still leads to what it started: elsewhere the guardian must see the family whole before anything is
  // signalled.
  if (birth.own_group) {
    ::prctl(PR_SET_PDEATHSIG, SIGTERM);
  }
  if (::getppid() != birth.parent) {
    ::_exit(127);
  }
  birth.signals.restore_in_child();
  birth.too_late = birth.clock.now() >= birth.latest;
  if (!birth.too_late) {
    ::execvpe(birth.words[0], birth.words, birth.environment);
    birth.error = errno;
  }
  birth.born.store(0);
  ::_exit(127);
}

struct Entry {
  pid_t pid;
  pid_t parent;
  pid_t group;
  pid_t session;
  char state;
};

// proc(5): "pid (command) state ppid pgrp session …".
std::optional<Entry> read_entry(pid_t pid) {
  Entry entry{};
  entry.pid = pid;
  char buffer[512];
  const std::string_view text = read_small_file(fmt::format("/proc/{}/stat", pid).c_str(), buffer);
  const std::size_t at = text.rfind(')');
  if (at == std::string_view::npos ||
      std::sscanf(text.data() + at + 1, " %c %d %d %d", &entry.state, &entry.parent, &entry.group, &entry.session) !=
          4) {
    return std::nullopt;
  }
  return entry;
}

std::vector<pid_t> listed_processes() {
  std::vector<pid_t> pids;
  const std::unique_ptr<DIR, int (*)(DIR*)> folder(::opendir("/proc"), &::closedir);
  while (folder) {
    const dirent* const found = ::readdir(folder.get());
    if (found == nullptr) {
      break;
    }
    pid_t pid = 0;
    const std::string_view name(found->d_name);
    if (std::from_chars(name.data(), name.data() + name.size(), pid).ptr == name.data() + name.size()) {
      pids.push_back(pid);
    }
  }
  return pids;
}

// The list is older than what is then read of each: a process that forks and dies in between would hide its child.
// Listed again until there is nobody new, all that ran at the last list has been read.
std::vector<Entry> running_processes() {
  std::vector<Entry> entries;
  std::set<pid_t> known;
  for (bool anybody_new = true; anybody_new;) {
    anybody_new = false;
    for (const pid_t pid : listed_processes()) {
      if (!known.insert(pid).second) {
        continue;
      }
      anybody_new = true;
      if (const auto entry = read_entry(pid); entry && entry->state != 'Z' && entry->state != 'X') {
        entries.push_back(*entry);
      }
    }
  }
  return entries;
}

}  // namespace

tl::expected<Spawned, SpawnFailure> spawn(char* const* words, char* const* environment, const Signals& signals,
                                          bool own_group, std::atomic<pid_t>& born, const core::Clock& clock,
                                          core::Instant latest) {
  // execvpe(3) keeps the candidates for PATH and, for a script without "#!", a copy of the words on this stack.
  std::size_t words_bytes = 0;
  for (char* const* word = words; *word != nullptr; ++word) {
    words_bytes += sizeof *word;
  }
  const std::size_t size = std::size_t{256} * 1024 + 2 * words_bytes;
  void* const stack = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0);
  if (stack == MAP_FAILED) {
    return tl::unexpected(SpawnFailure{SpawnFailure::What::no_process, errno});
  }
  // No signal may run in the child while it borrows this process.
  sigset_t every;
  sigset_t before;
  sigfillset(&every);
  ::sigprocmask(SIG_SETMASK, &every, &before);
  Birth birth{words, environment, signals, own_group, born, ::getpid(), clock, latest, 0, false};
  int pidfd = -1;
  const pid_t pid = ::clone(
      &be_born, static_cast<char*>(stack) + size, CLONE_VM | CLONE_VFORK | CLONE_PIDFD | SIGCHLD, &birth, &pidfd);
  const int error = errno;
  ::sigprocmask(SIG_SETMASK, &before, nullptr);
  ::munmap(stack, size);
  if (pid < 0) {
    return tl::unexpected(SpawnFailure{SpawnFailure::What::no_process, error});
  }
  Fd handle(pidfd);
  if (birth.error != 0 || birth.too_late) {
    while (::waitpid(pid, nullptr, 0) < 0 && errno == EINTR) {
    }
    return tl::unexpected(
        SpawnFailure{birth.too_late ? SpawnFailure::What::too_late : SpawnFailure::What::not_executable, birth.error});
  }
  return Spawned{pid, std::move(handle)};
}

std::optional<pid_t> peek_ended_child() noexcept {
  siginfo_t info{};
  if (::waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) != 0 || info.si_pid == 0) {
    return std::nullopt;
  }
  return info.si_pid;
}

Reaped collect(pid_t pid) noexcept {
  Reaped reaped{pid, 0};
  while (::waitpid(pid, &reaped.status, 0) < 0 && errno == EINTR) {
  }
  return reaped;
}

std::optional<std::vector<pid_t>> adopt_orphans() {
  // proc(5): the file is there where the kernel was built with CONFIG_PROC_CHILDREN.
  std::ifstream children(fmt::format("/proc/self/task/{}/children", ::getpid()));
  if (!children || ::prctl(PR_SET_CHILD_SUBREAPER, 1) != 0) {
    return std::nullopt;
  }
  return std::vector<pid_t>(std::istream_iterator<pid_t>(children), {});
}

std::vector<pid_t> descendants(pid_t ancestor, const std::optional<std::vector<pid_t>>& siblings) {
  const std::vector<Entry> entries = running_processes();
  std::vector<pid_t> found{ancestor};
  if (siblings) {
    const pid_t self = ::getpid();
    const pid_t session = ::getsid(0);
    for (const Entry& entry : entries) {
      if (entry.parent == self && entry.session == session && entry.pid != ancestor &&
          std::ranges::find(*siblings, entry.pid) == siblings->end()) {
        found.push_back(entry.pid);
      }
    }
  }
  for (std::size_t i = 0; i < found.size(); ++i) {
    for (const Entry& entry : entries) {
      if (entry.parent == found[i] && std::ranges::find(found, entry.pid) == found.end()) {
        found.push_back(entry.pid);
      }
    }
  }
  found.erase(found.begin());
  return found;
}

std::vector<pid_t> group_members(pid_t group) {
  std::vector<pid_t> found;
  for (const Entry& entry : running_processes()) {
    if (entry.group == group) {
      found.push_back(entry.pid);
    }
  }
  return found;
}

pid_t parent_of(pid_t pid) {
  const auto entry = read_entry(pid);
  return entry ? entry->parent : 0;
}

bool has_terminal() noexcept { return static_cast<bool>(Fd(::open("/dev/tty", O_RDWR | O_CLOEXEC | O_NOCTTY))); }

}  // namespace os
