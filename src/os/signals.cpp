// Blocked signals, read through a signalfd.
#include "os/signals.hpp"

#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>

namespace os {

namespace {

constexpr int ending[] = {SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2};
constexpr int for_a_child[] = {SIGCHLD, SIGWINCH, SIGCONT, SIGTSTP};

void set_disposition(int number, void (*handler)(int)) noexcept {
  struct sigaction action {};
  action.sa_handler = handler;
  sigemptyset(&action.sa_mask);
  ::sigaction(number, &action, nullptr);
}

}  // namespace

Signals::Signals() {
  ::sigprocmask(SIG_SETMASK, nullptr, &m_mask_at_start);
  sigemptyset(&m_ignored_at_start);
  for (const int number :
       {SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2, SIGCHLD, SIGWINCH, SIGCONT, SIGTSTP, SIGPIPE, SIGXFSZ}) {
    struct sigaction action {};
    if (::sigaction(number, nullptr, &action) == 0 && action.sa_handler == SIG_IGN) {
      sigaddset(&m_ignored_at_start, number);
    }
  }
  set_disposition(SIGPIPE, SIG_IGN);
  set_disposition(SIGXFSZ, SIG_IGN);
  set_disposition(SIGCHLD, SIG_DFL);  // ignored, the kernel would reap the child itself and its status be lost

  sigset_t wanted;
  sigemptyset(&wanted);
  sigemptyset(&m_read);
  for (const int number : ending) {
    sigaddset(&wanted, number);
  }
  read_also(wanted);
}

// A signal that is blocked is queued even where it is ignored (signal(7) leaves it open, Linux does it): an inherited
// "ignore" must therefore neither be blocked nor read.
void Signals::read_also(const sigset_t& more) {
  for (int number = 1; number < SIGRTMIN; ++number) {
    if (sigismember(&more, number) == 1 && (number == SIGCHLD || !was_ignored(number))) {
      sigaddset(&m_read, number);
    }
  }
  ::sigprocmask(SIG_BLOCK, &m_read, nullptr);
  const int fd = ::signalfd(m_fd ? m_fd.get() : -1, &m_read, SFD_CLOEXEC | SFD_NONBLOCK);
  if (fd < 0) {
    throw std::system_error(errno, std::generic_category(), "signalfd");
  }
  if (!m_fd) {
    m_fd.reset(fd);
  }
}

void Signals::also_for_a_child() {
  sigset_t more;
  sigemptyset(&more);
  for (const int number : for_a_child) {
    sigaddset(&more, number);
  }
  read_also(more);
}

std::optional<SignalArrival> Signals::next() noexcept {
  signalfd_siginfo info{};
  if (::read(m_fd.get(), &info, sizeof info) != static_cast<ssize_t>(sizeof info)) {
    return std::nullopt;
  }
  return SignalArrival{static_cast<int>(info.ssi_signo), info.ssi_code > 0, static_cast<pid_t>(info.ssi_pid)};
}

bool Signals::was_ignored(int number) const noexcept { return sigismember(&m_ignored_at_start, number) == 1; }

void Signals::restore_in_child() const noexcept {
  for (const int number : {SIGPIPE, SIGXFSZ, SIGCHLD}) {
    set_disposition(number, was_ignored(number) ? SIG_IGN : SIG_DFL);
  }
  ::sigprocmask(SIG_SETMASK, &m_mask_at_start, nullptr);
}

void Signals::die_of(int number) const noexcept {
  const rlimit no_core{0, 0};
  ::setrlimit(RLIMIT_CORE, &no_core);
  ::prctl(PR_SET_DUMPABLE, 0);  // a core_pattern that is a pipe ignores the limit
  set_disposition(number, SIG_DFL);
  ::kill(::getpid(), number);
  sigset_t only;
  sigemptyset(&only);
  sigaddset(&only, number);
  ::sigprocmask(SIG_UNBLOCK, &only, nullptr);
  ::_exit(128 + number);
}

}  // namespace os
