// In which of the kernel's namespaces this process lives.
#pragma once

#include <cstdint>

namespace os {

// The numbers that /proc/self/ns shows; 0 where it cannot be read.
std::uint64_t pid_namespace() noexcept;
std::uint64_t time_namespace() noexcept;

// In that of the machine itself, whose boot clock has no offset.
bool is_in_first_time_namespace() noexcept;

}  // namespace os
