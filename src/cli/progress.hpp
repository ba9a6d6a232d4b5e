// What block and exec tell while they wait.
#pragma once

#include <optional>
#include <string>

#include "cli/report.hpp"
#include "core/clock.hpp"
#include "core/names.hpp"
#include "hold/waiting.hpp"

namespace cli {

// On a terminal one line for the whole wait (with -v, anywhere); with -v on a terminal it is kept up to date instead
// (not on a dumb one).
// The first failure of the store is said always, and again when it comes back after an answer.
class WaitProgress : public hold::Progress {
public:
  // The report and the clock outlive it.
  WaitProgress(const Report& report, const core::Clock& clock, core::Key key);
  ~WaitProgress() override { end_live_line(); }

  void queued(const core::Queued& place, core::Millis waited) override;
  void trouble(const core::StoreError& error, core::Millis waited) override;

  // When the live line wants to be drawn again; nullopt: there is none.
  std::optional<core::Instant> next_look() const;
  void look_again();

  // Who was in front at the last answer, as many milliseconds later as have passed since.
  core::Occupant by_now(core::Occupant by) const;

  // Before anything else is said.
  void end_live_line();

private:
  core::Millis since_answer() const;
  core::Millis seconds_waited() const;

  const Report& m_report;
  const core::Clock& m_clock;
  core::Key m_key;
  bool m_on_terminal;
  bool m_told = false;
  bool m_told_trouble = false;
  std::optional<core::Queued> m_place;  // while there is a live line
  core::Instant m_answered;
  core::Millis m_waited{0};  // at that time
  std::string m_shown;
};

// Sleeps as another one does, but for looks at the live line.
class LiveSleeper : public hold::Sleeper {
public:
  // Both outlive it.
  LiveSleeper(hold::Sleeper& sleeper, WaitProgress& progress) : m_sleeper(sleeper), m_progress(progress) {}
  hold::Woke sleep_until(core::Instant until, const core::Watch* bell) override;

private:
  hold::Sleeper& m_sleeper;
  WaitProgress& m_progress;
};

}  // namespace cli
