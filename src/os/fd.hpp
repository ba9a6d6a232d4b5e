// A descriptor that closes itself, and what to say where there is none left. Every descriptor lk opens is
// close-on-exec.
#pragma once

#include <unistd.h>

#include <utility>

namespace os {

class Fd {
public:
  Fd() = default;
  explicit Fd(int fd) noexcept : m_fd(fd) {}
  Fd(Fd&& other) noexcept : m_fd(std::exchange(other.m_fd, -1)) {}
  Fd& operator=(Fd&& other) noexcept {
    if (this != &other) {
      reset(std::exchange(other.m_fd, -1));
    }
    return *this;
  }
  Fd(const Fd&) = delete;
  Fd& operator=(const Fd&) = delete;
  ~Fd() { reset(); }

  int get() const noexcept { return m_fd; }
  explicit operator bool() const noexcept { return m_fd >= 0; }
  void reset(int fd = -1) noexcept {
    if (m_fd >= 0) {
      ::close(m_fd);
    }
    m_fd = fd;
  }

private:
  int m_fd = -1;
};

// Whether an errno says that this process or the system has no descriptor or memory left.
bool is_shortage(int error) noexcept;

// At start: descriptors 0, 1, 2 that the caller left closed are taken by /dev/null, opened the wrong way round (a write
// to a closed stdout still fails) and close-on-exec (the child finds them closed as the caller meant).
// Otherwise a store's file could become descriptor 2 and error text be written into it.
void occupy_closed_standard_fds() noexcept;

}  // namespace os
