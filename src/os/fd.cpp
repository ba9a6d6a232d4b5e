// Descriptors 0, 1 and 2 that the caller left closed, and the errnos of a shortage.
#include "os/fd.hpp"

#include <fcntl.h>

#include <cerrno>

namespace os {

bool is_shortage(int error) noexcept {
  return error == EMFILE || error == ENFILE || error == ENOMEM || error == ENOBUFS;
}

void occupy_closed_standard_fds() noexcept {
  for (int fd = 0; fd <= 2; ++fd) {
    if (::fcntl(fd, F_GETFD) >= 0) {
      continue;
    }
    // open() takes the lowest free number, which is this one.
    const int opened = ::open("/dev/null", (fd == 0 ? O_WRONLY : O_RDONLY) | O_CLOEXEC);
    if (opened > 2) {
      ::close(opened);
    }
  }
}

}  // namespace os
