// One line, or a line that is written over.
#include "cli/progress.hpp"

#include <sys/ioctl.h>
#include <unistd.h>

#include <chrono>
#include <utility>

#include <fmt/format.h>

#include "cli/output.hpp"
#include "cli/table.hpp"

namespace cli {

namespace {

constexpr std::string_view start_over = "\r\x1b[K";

std::size_t terminal_width() {
  winsize size{};
  return ::ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
}

}  // namespace

WaitProgress::WaitProgress(const Report& report, core::Key key)
    : m_report(report), m_key(std::move(key)), m_on_terminal(::isatty(STDERR_FILENO) == 1) {}

void WaitProgress::queued(const core::Queued& place, core::Millis waited) {
  m_told_trouble = false;
  if (m_on_terminal && m_report.verbose()) {
    const auto seconds = std::chrono::floor<std::chrono::seconds>(waited);
    if (m_live && seconds == m_shown && place.ahead == m_shown_ahead) {
      return;
    }
    const std::string line =
        fmt::format("lk: {}, {}", core::to_text(seconds), sentence::waiting(m_key, place.ahead, place.by));
    if (!stderr_is_ready()) {
      return;
    }
    // A full last column would wrap, and a wrapped line cannot be written over.
    offer_stderr(fmt::format("{}{}", start_over, fitting(line, terminal_width() - 1)));
    m_live = true;
    m_shown = seconds;
    m_shown_ahead = place.ahead;
  } else if (!m_told && (m_on_terminal || m_report.verbose())) {
    m_report.news(sentence::waiting(m_key, place.ahead, place.by));
    m_told = true;
  }
}

void WaitProgress::trouble(const core::StoreError& error, core::Millis /*waited*/) {
  if (!m_told_trouble) {
    end_live_line();
    m_report.error(sentence::trouble_while_waiting(error));
    m_told_trouble = true;
  }
}

void WaitProgress::end_live_line() {
  if (std::exchange(m_live, false)) {
    offer_stderr(start_over);
  }
}

}  // namespace cli
