// fgetpwent(3): what getpwuid(3) loads for other sources does not go with a statically linked program.
#include "os/account.hpp"

#include <pwd.h>

#include <cstdio>
#include <memory>

namespace os {

std::optional<Account> local_account(uid_t uid) {
  const std::unique_ptr<FILE, int (*)(FILE*)> file(std::fopen("/etc/passwd", "re"), &std::fclose);
  while (file) {
    const passwd* const entry = ::fgetpwent(file.get());
    if (entry == nullptr) {
      break;
    }
    if (entry->pw_uid == uid) {
      return Account{entry->pw_name, entry->pw_dir};
    }
  }
  return std::nullopt;
}

}  // namespace os
