// A Redis URL, taken apart and checked.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include <tl/expected.hpp>

#include "core/duration.hpp"
#include "core/store_url.hpp"

namespace stores::redis {

struct Address {
  enum class Transport { tcp, tls, unix_socket };
  Transport transport = Transport::tcp;
  std::string host;  // without brackets
  std::uint16_t port = 6379;
  std::string path;  // of a unix socket
  std::optional<std::string> user;
  std::optional<std::string> password;
  int db = 0;
  core::Millis connect_timeout{3000};      // name look-up, connecting and TLS, within op_timeout
  std::optional<core::Millis> op_timeout;  // the limits' own where this is longer or missing
  std::string ca;                          // a file or a hashed folder; empty: the system's
  std::string cert;                        // of this client, with `key`
  std::string key;
  std::string sni;  // the name asked for and verified in place of the host; empty: the host
  bool insecure = false;

  // The error is a clause that names the part that is wrong, and never holds any of what may be a password.
  // Paths are absolute: whoever gets this address from us (LK_STORE) may run in another folder.
  static tl::expected<Address, std::string> parse(const core::StoreUrl& url);
  // For people and for LK_STORE of a child: a URL that parses to the same address without its password.
  std::string redacted() const;
  // For messages: where the server is, in short, without user and settings.
  std::string server() const;

  friend bool operator==(const Address&, const Address&) = default;
};

}  // namespace stores::redis
