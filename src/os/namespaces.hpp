// In which of the kernel's namespaces this process lives.
#pragma once

#include <cstdint>

namespace os {

// The numbers that /proc/self/ns shows; 0 where it cannot be read.
std::uint64_t pid_namespace() noexcept;
std::uint64_t time_namespace() noexcept;

// The time namespace of the machine itself, whose boot clock has no offset.
bool is_first_time_namespace(std::uint64_t number) noexcept;

}  // namespace os
