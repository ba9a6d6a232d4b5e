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
  enum class Why { late, interrupted, unknown, system } why;
  int error = 0;  // system: errno
};

// At least one, in the order in which they are worth trying. Numeric hosts and "localhost" (RFC 6761: always the
// loopback) are answered at once. For others getent(1) is run, or where there is none our own libc asked, in a process
// of its own: getaddrinfo(3) knows no deadline, a thread that hangs in it would hang a later fork's child too, and a
// statically linked program cannot load the modules of the system's name service. That process raises no SIGCHLD, is
// seen by no wait(2) of others, and is gone on return.
tl::expected<std::vector<Endpoint>, LookupFailure> resolve(const Address& address, core::Instant until,
                                                           int interrupt_fd);

}  // namespace stores::redis
