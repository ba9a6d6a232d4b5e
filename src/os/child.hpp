// Starting the command, and everything that is done to it by number: signals, groups, descendants, reaping.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <optional>
#include <utility>
#include <vector>

#include <tl/expected.hpp>

#include "core/clock.hpp"
#include "os/fd.hpp"
#include "os/signals.hpp"

namespace os {

struct Spawned {
  pid_t pid;
  Fd pidfd;
};

struct SpawnFailure {
  enum class What { no_process, too_late, not_executable } what;
  int error;  // errno; not of too_late
};

// Runs `words[0]` (found by PATH as execvp(3) does; a script without "#!" is run by sh) with `environment`. The child
// has the signal mask and dispositions lk was started with, and every descriptor that is not close-on-exec.
// `own_group`: it leads a process group of its own. `born` receives its pid before it executes anything, so that
// whoever shares that memory knows of it for its whole life. From `latest` on nothing is executed any more: the child
// itself looks at the clock, as this process may be stopped at any point. When this process dies the kernel sends TERM
// to a child that leads a group of its own. By vfork: this process stands still until the child has executed or failed.
tl::expected<Spawned, SpawnFailure> spawn(char* const* words, char* const* environment, const Signals& signals,
                                          bool own_group, std::atomic<pid_t>& born, const core::Clock& clock,
                                          core::Instant latest);

struct Reaped {
  pid_t pid;
  int status;  // as waitpid(2) gives it
};

// A child of ours that has ended and not been collected: until then its pid cannot name another process. Never waits.
std::optional<pid_t> peek_ended_child() noexcept;
Reaped collect(pid_t pid) noexcept;

// From here on a process below this one whose parent has died becomes a child of this one (and is to be collected),
// instead of init's. Returns the children that this process had before; nullopt where the kernel cannot tell them, and
// nothing has changed.
std::optional<std::vector<pid_t>> adopt_orphans();

// Every live process below `ancestor`, itself not included, as /proc shows it now. With `siblings`, those that
// adopt_orphans returned, also what it has brought here since: children of this process in its session, and what is
// below them.
std::vector<pid_t> descendants(pid_t ancestor, const std::optional<std::vector<pid_t>>& siblings = std::nullopt);
// The members of the group that run. A zombie does not.
std::vector<pid_t> group_members(pid_t group);

// 0 where it cannot be known.
pid_t parent_of(pid_t pid);

// Whether a terminal controls this process.
bool has_terminal() noexcept;

}  // namespace os
