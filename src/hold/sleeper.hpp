// The real Sleeper: one poll over the bell, the signals and, for block, the reader of stdout.
#pragma once

#include "hold/waiting.hpp"
#include "os/boot_timer.hpp"

namespace hold {

class PollSleeper : public Sleeper {
public:
  // `signal_fd` and `reader_fd` (-1: none) are only watched, never read; they and the clock outlive the sleeper.
  PollSleeper(const core::Clock& clock, int signal_fd, int reader_fd);
  Woke sleep_until(core::Instant until, const core::Watch* bell) override;

private:
  const core::Clock& m_clock;
  int m_signal_fd;
  int m_reader_fd;
  os::BootTimer m_timer;
};

}  // namespace hold
