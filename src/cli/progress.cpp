// One line, or a line that is written over.
#include "cli/progress.hpp"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <string_view>
#include <utility>
#include <variant>

#include "cli/environment.hpp"
#include "cli/output.hpp"

namespace cli {

namespace {

using std::chrono::seconds;

constexpr std::string_view start_over = "\r\x1b[K";

// A full last column would wrap, and a wrapped line cannot be written over. The terminal writes ^C behind the line.
constexpr std::size_t kept_free = 3;

}  // namespace

WaitProgress::WaitProgress(const Report& report, const core::Clock& clock, core::Key key)
    : m_report(report),
      m_clock(clock),
      m_key(std::move(key)),
      m_on_terminal(::isatty(STDERR_FILENO) == 1),
      m_answered(clock.now()) {}

void WaitProgress::queued(const core::Queued& place, core::Millis waited) {
  m_told_trouble = false;
  m_answered = m_clock.now();
  m_waited = waited;
  if (m_on_terminal && m_report.verbose() && variable("TERM") != "dumb") {
    m_place = place;
    look_again();
  } else if (!m_told && (m_on_terminal || m_report.verbose())) {
    m_report.news(sentence::waiting(m_key, place.ahead, place.by));
    m_told = true;
  }
}

core::Millis WaitProgress::since_answer() const {
  return std::chrono::duration_cast<core::Millis>(m_clock.now() - m_answered);
}

core::Millis WaitProgress::seconds_waited() const { return std::chrono::floor<seconds>(m_waited + since_answer()); }

std::optional<core::Instant> WaitProgress::next_look() const {
  return m_place ? std::optional(m_answered + (seconds_waited() + seconds(1) - m_waited)) : std::nullopt;
}

void WaitProgress::look_again() {
  if (!m_place || !stderr_is_ready()) {
    return;
  }
  const std::size_t known = terminal_columns(STDERR_FILENO);
  const std::size_t columns = std::max<std::size_t>(known == 0 ? 80 : known, kept_free + 1) - kept_free;
  std::string line = sentence::waiting_within(columns, seconds_waited(), m_key, m_place->ahead, by_now(m_place->by));
  if (line != m_shown) {
    offer_stderr(std::string(start_over) + line);
    m_shown = std::move(line);
  }
}

core::Occupant WaitProgress::by_now(core::Occupant by) const {
  const core::Millis passed = since_answer();
  const auto less = [passed](std::optional<core::Millis>& left) {
    if (left) {
      *left = std::max(*left - passed, core::Millis(0));
    }
  };
  if (auto* const held = std::get_if<core::Held>(&by)) {
    less(held->left);
    if (held->held_for) {
      *held->held_for += passed;
    }
  } else if (auto* const promised = std::get_if<core::Promised>(&by)) {
    promised->waiting_for += passed;
  } else {
    less(std::get<core::Foreign>(by).left);
  }
  return by;
}

void WaitProgress::trouble(const core::StoreError& error, core::Millis /*waited*/) {
  if (!m_told_trouble) {
    end_live_line();
    m_report.error(sentence::trouble_while_waiting(error));
    m_told_trouble = true;
  }
}

void WaitProgress::end_live_line() {
  m_place.reset();
  if (!std::exchange(m_shown, {}).empty()) {
    offer_stderr(start_over);
  }
}

hold::Woke LiveSleeper::sleep_until(core::Instant until, const core::Watch* bell) {
  for (;;) {
    const auto look = m_progress.next_look();
    if (!look || *look >= until) {
      return m_sleeper.sleep_until(until, bell);
    }
    if (const hold::Woke woke = m_sleeper.sleep_until(*look, bell); woke != hold::Woke::time) {
      return woke;
    }
    m_progress.look_again();
  }
}

}  // namespace cli
