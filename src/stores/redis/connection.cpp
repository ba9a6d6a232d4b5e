// Connecting, the TLS handshake, and bytes in both directions.
#include "stores/redis/connection.hpp"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <string_view>
#include <utility>

#include <fmt/format.h>
#include <tl/expected.hpp>

#include "core/duration.hpp"
#include "core/text.hpp"
#include "stores/redis/errors.hpp"
#include "stores/redis/resolve.hpp"

namespace stores::redis {

namespace {

using core::Instant;
using core::Millis;
using core::StoreError;
using core::Trouble;
using Step = Connection::Step;
using Transport = Address::Transport;

tl::unexpected<StoreError> fail(Trouble what, std::string sentence) {
  return tl::unexpected(StoreError{what, std::move(sentence)});
}

short events_for(Step step) noexcept { return step == Step::wants_read ? POLLIN : POLLOUT; }

void set_options_of_tcp(int socket) {
  const auto set = [&](int level, int option, int value) { ::setsockopt(socket, level, option, &value, sizeof value); };
  set(IPPROTO_TCP, TCP_NODELAY, 1);
  // A dead peer of an idle connection (a subscriber's) is noticed after a minute.
  set(SOL_SOCKET, SO_KEEPALIVE, 1);
  set(IPPROTO_TCP, TCP_KEEPIDLE, 30);
  set(IPPROTO_TCP, TCP_KEEPINTVL, 10);
  set(IPPROTO_TCP, TCP_KEEPCNT, 3);
}

// Where nobody listens at a port of the range for clients, the kernel may choose that very port for our own end, and
// TCP then joins the two: we would read our own commands as replies.
bool is_connected_to_itself(int socket) {
  sockaddr_storage here{};
  sockaddr_storage there{};
  socklen_t here_size = sizeof here;
  socklen_t there_size = sizeof there;
  return ::getsockname(socket, reinterpret_cast<sockaddr*>(&here), &here_size) == 0 &&
         ::getpeername(socket, reinterpret_cast<sockaddr*>(&there), &there_size) == 0 && here_size == there_size &&
         std::memcmp(&here, &there, here_size) == 0;
}

// One opening, with what limits it.
struct Opening {
  const Address& address;
  const TimeLimit& limit;
  int interrupt_fd;

  struct Failure {
    int error = 0;  // errno
    bool is_interrupted = false;
  };

  // ETIMEDOUT where `until` comes first.
  tl::expected<os::Fd, Failure> connect(const sockaddr* place, socklen_t size, Instant until) const {
    const auto failed = [](int error) { return tl::unexpected(Failure{error}); };
    const bool is_unix = place->sa_family == AF_UNIX;
    os::Fd socket(::socket(place->sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
    if (!socket) {
      return failed(errno);
    }
    if (!is_unix) {
      set_options_of_tcp(socket.get());
    }
    while (::connect(socket.get(), place, size) != 0) {
      if (errno == EAGAIN) {
        // Only a unix socket: its queue of connections is full, and no event tells when it has room (unix(7)).
        const Instant look_again = std::min(boot_now() + Millis(5), until);
        if (wait_for(-1, 0, look_again, interrupt_fd) == Ready::interrupted) {
          return tl::unexpected(Failure{EINTR, true});
        }
        if (boot_now() >= until) {
          return failed(ETIMEDOUT);
        }
        continue;
      }
      if (errno != EINPROGRESS && errno != EINTR) {
        return failed(errno);
      }
      switch (wait_for(socket.get(), POLLOUT, until, interrupt_fd)) {
        case Ready::late:
          return failed(ETIMEDOUT);
        case Ready::interrupted:
          return tl::unexpected(Failure{EINTR, true});
        case Ready::yes:
          break;
      }
      int error = 0;
      socklen_t length = sizeof error;
      if (::getsockopt(socket.get(), SOL_SOCKET, SO_ERROR, &error, &length) != 0 || error != 0) {
        return failed(error != 0 ? error : errno);
      }
      break;
    }
    if (!is_unix && is_connected_to_itself(socket.get())) {
      return failed(ECONNREFUSED);
    }
    return socket;
  }

  tl::unexpected<StoreError> trouble(const Failure& failure) const {
    if (failure.is_interrupted) {
      return tl::unexpected(interrupted(address));
    }
    if (failure.error == ETIMEDOUT && boot_now() >= limit.ends) {
      return fail(Trouble::timed_out,
                  fmt::format("cannot connect to {}: no answer within {}", address.server(), limit.text()));
    }
    return tl::unexpected(cannot_connect(failure.error, address));
  }

  core::Result<os::Fd> connect_to_socket() const {
    sockaddr_un place{};
    place.sun_family = AF_UNIX;
    std::memcpy(place.sun_path, address.path.c_str(), address.path.size() + 1);
    const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + address.path.size() + 1);
    auto socket = connect(reinterpret_cast<const sockaddr*>(&place), size, limit.ends);
    if (!socket) {
      return trouble(socket.error());
    }
    return *std::move(socket);
  }

  core::Result<os::Fd> connect_to_host() const {
    const auto endpoints = resolve(address, limit.ends, interrupt_fd);
    if (!endpoints) {
      switch (endpoints.error().why) {
        case LookupFailure::Why::interrupted:
          return tl::unexpected(interrupted(address));
        case LookupFailure::Why::late:
          return fail(
              Trouble::timed_out,
              fmt::format("cannot find the address of the host {} for {}: no answer from the name service within {}",
                          core::escaped(address.host),
                          address.server(),
                          limit.text()));
        case LookupFailure::Why::unknown:
        case LookupFailure::Why::system:
          break;
      }
      return tl::unexpected(cannot_find(endpoints.error().error, address));
    }
    Failure telling;
    for (std::size_t i = 0; i < endpoints->size(); ++i) {
      const Endpoint& endpoint = (*endpoints)[i];
      // A dead address leaves the others their share of the time.
      const Instant now = boot_now();
      const Instant share = now + (limit.ends - now) / static_cast<int>(endpoints->size() - i);
      auto socket = connect(&endpoint.address.any, endpoint.size, share);
      if (socket) {
        return *std::move(socket);
      }
      const Failure failure = socket.error();
      if (failure.is_interrupted) {
        return trouble(failure);
      }
      // Of several reasons the one that comes from a machine that is there: IPv6 often has no route at all.
      const bool dull = telling.error == 0 || telling.error == ENETUNREACH || telling.error == EADDRNOTAVAIL ||
                        telling.error == EAFNOSUPPORT;
      if (dull || failure.error == ECONNREFUSED) {
        telling = failure;
      }
    }
    return trouble(telling);
  }

  core::Result<std::unique_ptr<Tls>> start_tls(int socket) const {
    auto tls = Tls::open(address, socket);
    if (!tls) {
      return tls;
    }
    bool first = true;
    while (true) {
      const Step step = (*tls)->shake_hands();
      switch (step) {
        case Step::done:
          return tls;
        case Step::failed:
          return tl::unexpected((*tls)->failure());
        case Step::closed:
          return fail(Trouble::unreachable,
                      fmt::format("{} closed the connection during the TLS handshake{}",
                                  address.server(),
                                  first ? ": if it speaks no TLS, use redis://" : ""));
        case Step::wants_read:
        case Step::wants_write:
          break;
      }
      switch (wait_for(socket, events_for(step), limit.ends, interrupt_fd)) {
        case Ready::interrupted:
          return tl::unexpected(interrupted(address));
        case Ready::late:
          return fail(Trouble::timed_out,
                      fmt::format("{} did not answer the TLS handshake within {}: if it speaks no TLS, use redis://",
                                  address.server(),
                                  limit.text()));
        case Ready::yes:
          break;
      }
      if (first && step == Step::wants_read) {
        first = false;
        // Redis takes a TLS greeting for a command and answers in plain text.
        char byte = 0;
        if (::recv(socket, &byte, 1, MSG_PEEK) == 1 && byte == '-') {
          return fail(Trouble::misconfigured, fmt::format("{} does not speak TLS: use redis://", address.server()));
        }
      }
    }
  }
};

}  // namespace

core::Result<void> Connection::open(const Address& address, const TimeLimit& limit, int interrupt_fd) {
  close();
  const Opening opening{address, limit, interrupt_fd};
  auto socket = address.transport == Transport::unix_socket ? opening.connect_to_socket() : opening.connect_to_host();
  if (!socket) {
    return tl::unexpected(std::move(socket.error()));
  }
  if (address.transport == Transport::tls) {
    auto tls = opening.start_tls(socket->get());
    if (!tls) {
      return tl::unexpected(std::move(tls.error()));
    }
    m_tls = *std::move(tls);
  }
  m_socket = *std::move(socket);
  return {};
}

void Connection::close() noexcept {
  if (m_tls) {
    m_tls->say_goodbye();
    m_tls.reset();
  }
  m_socket.reset();
}

Connection::Transfer Connection::read(char* into, std::size_t size) {
  if (m_tls) {
    return m_tls->read(into, size);
  }
  while (true) {
    const ssize_t got = ::recv(m_socket.get(), into, size, 0);
    if (got > 0) {
      return {Step::done, static_cast<std::size_t>(got)};
    }
    if (got < 0 && errno == EINTR) {
      continue;
    }
    return {got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK) ? Step::wants_read : Step::closed};
  }
}

Connection::Transfer Connection::write(const char* from, std::size_t size) {
  if (m_tls) {
    return m_tls->write(from, size);
  }
  while (true) {
    const ssize_t sent = ::send(m_socket.get(), from, size, MSG_NOSIGNAL);
    if (sent >= 0) {
      return {Step::done, static_cast<std::size_t>(sent)};
    }
    if (errno == EINTR) {
      continue;
    }
    return {errno == EAGAIN || errno == EWOULDBLOCK ? Step::wants_write : Step::closed};
  }
}

Ready Connection::wait(Step step, Instant until, int interrupt_fd) const noexcept {
  return wait_for(m_socket.get(), events_for(step), until, interrupt_fd);
}

}  // namespace stores::redis
