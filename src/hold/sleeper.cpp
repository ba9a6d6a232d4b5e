// One poll(2) for everything that ends a wait.
#include "hold/sleeper.hpp"

#include <poll.h>

#include <array>
#include <cerrno>
#include <system_error>

namespace hold {

PollSleeper::PollSleeper(const core::Clock& clock, int signal_fd, int reader_fd)
    : m_clock(clock), m_signal_fd(signal_fd), m_reader_fd(reader_fd) {}

Woke PollSleeper::sleep_until(core::Instant until, const core::Watch* bell) {
  m_timer.set(until - m_clock.now());
  // A negative descriptor is skipped by poll(2). The reader of a pipe that goes away raises POLLERR at the writing end.
  std::array<pollfd, 4> watched{{{m_signal_fd, POLLIN, 0},
                                 {m_reader_fd, 0, 0},
                                 {bell != nullptr ? bell->fd() : -1, POLLIN, 0},
                                 {m_timer.fd(), POLLIN, 0}}};
  while (::poll(watched.data(), watched.size(), -1) < 0) {
    if (errno != EINTR) {
      throw std::system_error(errno, std::generic_category(), "poll");
    }
  }
  constexpr std::array<Woke, 4> reason{Woke::signal, Woke::hangup, Woke::ring, Woke::time};
  for (std::size_t i = 0; i < watched.size(); ++i) {
    if (watched[i].revents != 0) {
      return reason[i];
    }
  }
  return Woke::time;
}

}  // namespace hold
