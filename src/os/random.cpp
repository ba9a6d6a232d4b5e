// getrandom(2), whole reads only.
#include "os/random.hpp"

#include <sys/random.h>

#include <cerrno>
#include <system_error>

#include <fmt/format.h>

namespace os {

std::uint64_t random_u64() {
  std::uint64_t value = 0;
  // Reads of up to 256 bytes are never short once the kernel's generator is seeded (getrandom(2)); before that they
  // block.
  while (::getrandom(&value, sizeof value, 0) != static_cast<ssize_t>(sizeof value)) {
    if (errno != EINTR) {
      throw std::system_error(errno, std::generic_category(), "getrandom");
    }
  }
  return value;
}

std::string random_uuid() {
  const std::uint64_t high = random_u64();
  const std::uint64_t low = random_u64();
  return fmt::format("{:08x}-{:04x}-4{:03x}-{:04x}-{:012x}",
                     high >> 32,
                     (high >> 16) & 0xffff,
                     high & 0xfff,
                     0x8000 | (low >> 48 & 0x3fff),
                     low & 0xffffffffffff);
}

}  // namespace os
