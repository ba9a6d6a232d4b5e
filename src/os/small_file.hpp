// Files of /proc that fit one read.
#pragma once

#include <fcntl.h>

#include <cstddef>
#include <string_view>

#include "os/fd.hpp"

namespace os {

// What one read gives, as text that ends with a zero byte; empty where the file cannot be read.
template <std::size_t size>
std::string_view read_small_file(const char* path, char (&buffer)[size]) {
  buffer[0] = '\0';
  const Fd file(::open(path, O_RDONLY | O_CLOEXEC));
  if (!file) {
    return {};
  }
  const ssize_t got = ::read(file.get(), buffer, size - 1);
  if (got <= 0) {
    return {};
  }
  buffer[got] = '\0';
  return {buffer, static_cast<std::size_t>(got)};
}

}  // namespace os
