// Waiting for a descriptor: until a deadline, or until another descriptor says that the caller wants control back.
#pragma once

#include "core/clock.hpp"
#include "core/duration.hpp"

namespace stores::redis {

// CLOCK_BOOTTIME of this process, good for differences alone.
core::Instant boot_now() noexcept;

enum class Ready {
  yes,  // also where the descriptor has an error or was hung up
  late,
  interrupted,
};

// `events` as poll(2) takes them. What is ready counts before an interruption, so that an answer that has come is read.
// -1 is never ready.
Ready wait_for(int fd, short events, core::Instant until, int interrupt_fd) noexcept;

}  // namespace stores::redis
