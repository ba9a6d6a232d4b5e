// write(2) to the end.
#include "cli/output.hpp"

#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>

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
