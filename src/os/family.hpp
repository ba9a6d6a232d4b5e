// The command and what it started, as far as it can be reached: a process group of its own, or a child and a snapshot
// of its descendants.
#pragma once

#include <sys/types.h>

#include <optional>
#include <utility>
#include <vector>

#include "os/fd.hpp"

namespace os {

// A pid is only ever signalled while it cannot name another process: the child through its pidfd, the group while its
// leader is not reaped, a descendant through the pidfd taken with the snapshot.
class Family {
public:
  // `child` is not reaped before this object has been told to signal for the last time. `own_group`: it leads its own
  // group; the group of anybody else is never signalled. `siblings`: what adopt_orphans returned before the child was
  // born; without it what a process of the snapshot leaves behind when it dies is not found.
  Family(pid_t child, Fd pidfd, bool own_group, std::optional<std::vector<pid_t>> siblings = std::nullopt)
      : m_child(child), m_pidfd(std::move(pidfd)), m_own_group(own_group), m_siblings(std::move(siblings)) {}

  pid_t child() const noexcept { return m_child; }
  int pidfd() const noexcept { return m_pidfd.get(); }
  bool own_group() const noexcept { return m_own_group; }

  enum class Reach {
    all,
    denied,  // it runs as another user, and we are not allowed to signal it
    gone,
  };
  // To the child: to its whole group, or to it alone in a group that is not its own.
  Reach forward(int number) noexcept;
  // To everything: a group, or the child and every descendant it has now or had at an earlier call.
  Reach stop(int number);
  // TERM to everything after lk's death. The child has had its own from the kernel (spawn), unless it became another
  // user since.
  void terminate_after_lk();

  // The child itself. A zombie does not run.
  bool child_runs() const noexcept;
  // Anything that `stop` reached, or would reach now, besides the child.
  bool others_run();

private:
  void take_snapshot(const std::vector<pid_t>& pids);
  void send_to_others(int number);
  bool same_user() const;

  pid_t m_child;
  Fd m_pidfd;
  bool m_own_group;
  std::optional<std::vector<pid_t>> m_siblings;
  struct Other {
    pid_t pid;
    Fd pidfd;
  };
  std::vector<Other> m_others;  // seen below a child that leads no group
};

}  // namespace os
