// A connection to a server: a unix socket, TCP, or TLS over TCP, made within a time limit.
#pragma once

#include <cstddef>
#include <memory>

#include "core/clock.hpp"
#include "core/store.hpp"
#include "os/fd.hpp"
#include "stores/redis/address.hpp"
#include "stores/redis/deadline.hpp"
#include "stores/redis/tls.hpp"

namespace stores::redis {

class Connection {
public:
  Connection() = default;
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;
  ~Connection() { close(); }

  // Closes the former one. The server's address is found anew, and its certificate verified anew. Trouble leaves it
  // closed, and nothing but a TLS greeting has been sent.
  core::Result<void> open(const Address& address, const TimeLimit& limit, int interrupt_fd);
  void close() noexcept;

  bool is_open() const noexcept { return static_cast<bool>(m_socket); }
  int fd() const noexcept { return m_socket.get(); }  // -1: closed

  // Of an open one, both without waiting: each says what the socket must become for it to go on.
  using Step = Tls::Step;
  using Transfer = Tls::Transfer;
  Transfer read(char* into, std::size_t size);
  Transfer write(const char* from, std::size_t size);
  // After `failed`.
  core::StoreError failure() const { return m_tls->failure(); }

  // Until it can go on after wants_read or wants_write.
  Ready wait(Step step, core::Instant until, int interrupt_fd) const noexcept;

private:
  os::Fd m_socket;
  std::unique_ptr<Tls> m_tls;
};

}  // namespace stores::redis
