// Waiting for a descriptor: until a deadline, or until another descriptor says that the caller wants control back.
#pragma once

#include <string>

#include "core/clock.hpp"
#include "core/duration.hpp"

namespace stores::redis {

// CLOCK_BOOTTIME of this process, good for differences alone.
core::Instant boot_now() noexcept;

// What something may take, from its beginning to its deadline.
struct TimeLimit {
  core::Instant began{};
  core::Instant ends{};

  // For messages: "300ms".
  std::string text() const;
};

enum class Ready {
  yes,  // also where the descriptor has an error or was hung up
  late,
  interrupted,
};

// `events` as poll(2) takes them. What is ready counts before an interruption, so that an answer that has come is read.
// -1 is never ready.
Ready wait_for(int fd, short events, core::Instant until, int interrupt_fd) noexcept;

}  // namespace stores::redis
