// A sleeper that moves a fake clock, and lets a story happen meanwhile.
#pragma once

#include <poll.h>

#include <algorithm>
#include <functional>
#include <map>
#include <optional>
#include <stdexcept>
#include <utility>
#include <vector>

#include "hold/waiting.hpp"
#include "support/fake_clock.hpp"

namespace support {

class FakeSleeper : public hold::Sleeper {
public:
  explicit FakeSleeper(FakeClock& clock) : m_clock(clock), m_start(clock.now()) {}

  // What happens `after` the sleeper was made.
  void at(core::Millis after, std::function<void()> event) { m_events.emplace(m_start + after, std::move(event)); }
  void wake_at(core::Millis after, hold::Woke why) {
    at(after, [this, why] { m_woken = why; });
  }
  // How long each sleep was meant to be.
  const std::vector<core::Millis>& sleeps() const { return m_sleeps; }
  core::Instant latest() const { return m_latest; }

  hold::Woke sleep_until(core::Instant until, const core::Watch* bell) override {
    m_sleeps.push_back(std::chrono::duration_cast<core::Millis>(until - m_clock.now()));
    m_latest = std::max(m_latest, until);
    if (m_sleeps.size() > most_sleeps) {
      throw std::runtime_error("this wait has no end");
    }
    while (true) {
      if (m_woken) {
        return *std::exchange(m_woken, std::nullopt);
      }
      if (bell != nullptr && has_rung(*bell)) {
        return hold::Woke::ring;
      }
      if (m_events.empty() || m_events.begin()->first > until) {
        m_clock.advance(std::max(until - m_clock.now(), core::Instant::duration{0}));
        return hold::Woke::time;
      }
      const auto next = m_events.begin();
      m_clock.advance(std::max(next->first - m_clock.now(), core::Instant::duration{0}));
      const auto event = next->second;
      m_events.erase(next);
      event();
    }
  }

private:
  static constexpr std::size_t most_sleeps = 200'000;

  static bool has_rung(const core::Watch& bell) {
    pollfd fd{bell.fd(), POLLIN, 0};
    return ::poll(&fd, 1, 0) == 1;
  }

  FakeClock& m_clock;
  core::Instant m_start;
  core::Instant m_latest;
  std::multimap<core::Instant, std::function<void()>> m_events;
  std::optional<hold::Woke> m_woken;
  std::vector<core::Millis> m_sleeps;
};

}  // namespace support
