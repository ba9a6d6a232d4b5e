// Randomness from the kernel (getrandom): unaffected by faked clocks and fixed pids.
#pragma once

#include <cstdint>
#include <string>

namespace os {

std::uint64_t random_u64();
// A version 4 UUID, lower case.
std::string random_uuid();

}  // namespace os
