// The one place where what Redis, the network and the name service say becomes trouble of lk's.
#pragma once

#include <string>
#include <string_view>

#include "core/store.hpp"
#include "stores/redis/address.hpp"

namespace stores::redis {

// An error reply ("WRONGPASS invalid username-password pair…"): which trouble it is, and a sentence that says what it
// means and what to do, and names the server without its password.
core::StoreError translate(std::string_view error, const Address& address);

// An error reply that no command gets: the server says why it does not take this connection, and closes it.
bool turns_away(std::string_view error);

// An error reply that a command gets at a key of another type than it needs. The reply does not say which key.
bool is_wrong_type(std::string_view error);

// `name` is that of the key, `type` what TYPE says of it, `lock` the key of the lock that lk keeps it for.
core::StoreError wrong_type(std::string_view name, std::string_view type, std::string_view lock,
                            const Address& address);

// `error` is an errno of connect(2) or socket(2).
core::StoreError cannot_connect(int error, const Address& address);

// `error` is what kept lk from asking (errno), or 0: it asked, and got no address.
core::StoreError cannot_find(int error, const Address& address);

core::StoreError interrupted(const Address& address);

// What another program may have said, fit for a sentence: escaped, and cut where it is long.
std::string quotation(std::string_view words);

}  // namespace stores::redis
