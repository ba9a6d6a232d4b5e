// From a host to socket addresses, without ever waiting longer than the caller wants.
#pragma once

#include <netinet/in.h>
#include <sys/socket.h>

#include <vector>

#include <tl/expected.hpp>

#include "core/clock.hpp"
#include "stores/redis/address.hpp"

namespace stores::redis {

struct Endpoint {
  union {
    sockaddr any;
    sockaddr_in ipv4;
    sockaddr_in6 ipv6;
  } address;
  socklen_t size;
};

struct LookupFailure {
  enum class Why { late, interrupted, answered } why;
  int code = 0;   // answered: what getaddrinfo(3) said
  int error = 0;  // answered with EAI_SYSTEM: errno
};

// At least one, in the order in which they are worth trying. Numeric hosts and "localhost" (RFC 6761: always the
// loopback) are answered at once. The name service is asked by a process of its own, because getaddrinfo(3) knows no
// deadline, and a thread that hangs in it would hang a later fork's child too. That process raises no SIGCHLD, is seen
// by no wait(2) of others, and is gone on return.
tl::expected<std::vector<Endpoint>, LookupFailure> resolve(const Address& address, core::Instant until,
                                                           int interrupt_fd);

}  // namespace stores::redis
