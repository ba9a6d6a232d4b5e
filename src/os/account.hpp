// A user's line in /etc/passwd.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>

namespace os {

struct Account {
  std::string name;
  std::string home;  // may be empty
};

// Nullopt: no such line, or the file cannot be read. Users that only a name service knows (LDAP) have none: whoever
// logs in has HOME and LOGNAME in the environment.
std::optional<Account> local_account(uid_t uid);

}  // namespace os
