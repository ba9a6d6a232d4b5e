// write(2) to the end.
#include "cli/output.hpp"

#include <poll.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <climits>
#include <cstring>
#include <string>

#include <fmt/format.h>

#include "cli/ending.hpp"
#include "os/fd.hpp"

namespace cli {

namespace {

// Afterwards the number 1 is taken again, by nobody: no file that is opened later becomes stdout.
bool close_stdout() {
  const bool closed = ::close(STDOUT_FILENO) == 0 || errno == EINTR;
  const int why = errno;
  os::occupy_closed_standard_fds();
  errno = why;
  return closed;
}

}  // namespace

void let_writes_fail() {
  ::signal(SIGPIPE, SIG_IGN);
  ::signal(SIGXFSZ, SIG_IGN);
}

std::size_t terminal_columns(int fd) {
  winsize size{};
  return ::ioctl(fd, TIOCGWINSZ, &size) == 0 ? size.ws_col : 0;
}

bool write_all(int fd, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(fd, bytes.data(), bytes.size());
    if (written >= 0) {
      bytes.remove_prefix(static_cast<std::size_t>(written));
    } else if (errno == EAGAIN) {
      pollfd writable{fd, POLLOUT, 0};
      ::poll(&writable, 1, -1);
    } else if (errno != EINTR) {
      return false;
    }
  }
  return true;
}

namespace {

// poll(2) calls a pipe writable when a page of it is free, and a terminal that was stopped (Ctrl-S) not writable.
constexpr std::size_t taken_at_once = PIPE_BUF;
constexpr std::chrono::milliseconds longest_finish{1000};

std::string& kept() {
  static std::string bytes;
  return bytes;
}

bool takes(int fd, int milliseconds) {
  pollfd out{fd, POLLOUT, 0};
  return ::poll(&out, 1, milliseconds) == 1;
}

// Until all is out, or `wait_for_room` says no.
template <class WaitForRoom>
void empty_kept(WaitForRoom wait_for_room) {
  std::string_view left = kept();
  while (!left.empty() && wait_for_room()) {
    const ssize_t written = ::write(STDERR_FILENO, left.data(), std::min(left.size(), taken_at_once));
    if (written >= 0) {
      left.remove_prefix(static_cast<std::size_t>(written));
    } else if (errno != EAGAIN && errno != EINTR) {
      left = {};
    }
  }
  kept().erase(0, kept().size() - left.size());
}

}  // namespace

void offer_stderr(std::string_view bytes) {
  kept() += bytes;
  empty_kept([] { return takes(STDERR_FILENO, 0); });
}

void finish_stderr() {
  const auto end = std::chrono::steady_clock::now() + longest_finish;
  empty_kept([end] {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(end - std::chrono::steady_clock::now());
    return takes(STDERR_FILENO, static_cast<int>(std::max(left.count(), std::chrono::milliseconds::rep{0})));
  });
}

bool stderr_is_ready() { return kept().empty() && takes(STDERR_FILENO, 0); }

void print(std::string_view data) {
  if (data.empty()) {
    return;
  }
  if ((!write_all(STDOUT_FILENO, data) && errno != EPIPE) || (!close_stdout() && errno != EPIPE)) {
    throw Ending(ExitCode::output, fmt::format("cannot write to stdout: {}", std::strerror(errno)));
  }
}

Delivery deliver(std::string_view data, int signal_fd) {
  std::array<pollfd, 2> watched{{{STDOUT_FILENO, POLLOUT, 0}, {signal_fd, POLLIN, 0}}};
  while (::poll(watched.data(), watched.size(), -1) < 0) {
    if (errno != EINTR) {
      return Delivery::failed;
    }
  }
  if (watched[1].revents != 0) {
    return Delivery::interrupted;
  }
  return write_all(STDOUT_FILENO, data) && close_stdout() ? Delivery::done : Delivery::failed;
}

}  // namespace cli
