// The signals of this process: what it was started with, and the one descriptor through which it reads them from then
// on.
#pragma once

#include <csignal>
#include <optional>

#include "os/fd.hpp"

namespace os {

struct SignalArrival {
  int number;
  bool from_kernel;  // si_code > 0: the terminal sent it, to the whole foreground group
  pid_t sender;
};

// Signals stay blocked for the life of the process and arrive through `fd()`: no handler runs, nothing is interrupted,
// and a signal that came early is still there when it is asked for.
class Signals {
public:
  // From here on HUP INT QUIT TERM USR1 USR2 (those that were not ignored at start) are read, PIPE and XFSZ are
  // ignored (a write that fails says so), CHLD has its default action. An inherited "ignore" stays an ignore.
  Signals();
  Signals(const Signals&) = delete;
  Signals& operator=(const Signals&) = delete;

  int fd() const noexcept { return m_fd.get(); }
  std::optional<SignalArrival> next() noexcept;

  // While a child runs: also CHLD WINCH CONT TSTP. Before this TSTP stops lk as it stops any program.
  void also_for_a_child();
  bool was_ignored(int number) const noexcept;

  // In the child, between fork and exec: the mask and dispositions this process was started with. Async-signal-safe.
  void restore_in_child() const noexcept;

  // Ends this process by that signal, without a core file, so that a calling shell's loop stops on Ctrl-C. Exits with
  // 128+N where the signal cannot kill (pid 1).
  [[noreturn]] void die_of(int number) const noexcept;

private:
  void read_also(const sigset_t& more);
  sigset_t m_mask_at_start{};
  sigset_t m_ignored_at_start{};
  sigset_t m_read{};
  Fd m_fd;
};

}  // namespace os
