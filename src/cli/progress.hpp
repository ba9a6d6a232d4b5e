// What block and exec tell while they wait.
#pragma once

#include "cli/report.hpp"
#include "core/names.hpp"
#include "hold/waiting.hpp"

namespace cli {

// On a terminal one line for the whole wait (with -v, anywhere); with -v on a terminal it is kept up to date instead.
// The first failure of the store is said always, and again when it comes back after an answer.
class WaitProgress : public hold::Progress {
public:
  WaitProgress(const Report& report, core::Key key);
  ~WaitProgress() override { end_live_line(); }

  void queued(const core::Queued& place, core::Millis waited) override;
  void trouble(const core::StoreError& error, core::Millis waited) override;

  // Before anything else is said.
  void end_live_line();

private:
  const Report& m_report;
  core::Key m_key;
  bool m_on_terminal;
  bool m_told = false;
  bool m_told_trouble = false;
  bool m_live = false;
  core::Millis m_shown{0};
  std::size_t m_shown_ahead = 0;
};

}  // namespace cli
