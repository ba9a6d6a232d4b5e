// TLS on a connected, non-blocking socket: who is trusted, and what went wrong in a sentence.
#pragma once

#include <cstddef>
#include <memory>

#include "core/store.hpp"
#include "stores/redis/address.hpp"

namespace stores::redis {

// One TLS session. It never waits: each call says what the socket must become for it to go on. OpenSSL writes without
// MSG_NOSIGNAL: the process ignores SIGPIPE.
class Tls {
public:
  // The peer's certificate must lead to a trusted authority, be valid today and name the address's host (or its sni),
  // unless `insecure`. The files that the address names are read here, anew for each connection. `socket` outlives it.
  static core::Result<std::unique_ptr<Tls>> open(const Address& address, int socket);
  ~Tls();
  Tls(const Tls&) = delete;
  Tls& operator=(const Tls&) = delete;

  enum class Step {
    done,
    wants_read,
    wants_write,
    closed,  // the peer ended the connection, with or without a TLS good-bye
    failed,
  };
  struct Transfer {
    Step step;
    std::size_t bytes = 0;
  };

  Step shake_hands();
  Transfer read(char* into, std::size_t size);
  Transfer write(const char* from, std::size_t size);
  // After `failed`.
  core::StoreError failure() const;
  // Tells the peer that nothing follows, if that can be said at once.
  void say_goodbye() noexcept;

private:
  struct State;
  explicit Tls(std::unique_ptr<State> state);
  std::unique_ptr<State> m_state;
};

}  // namespace stores::redis
