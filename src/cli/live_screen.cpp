// The few sequences of a VT100 that every terminal of today knows.
#include "cli/live_screen.hpp"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <string>

#include <fmt/format.h>

#include "cli/output.hpp"

namespace cli {

namespace {

// The other screen, no cursor, no wrapping: the terminal itself cuts what is too long, whatever it thinks of widths.
constexpr std::string_view begin = "\x1b[?1049h\x1b[?25l\x1b[?7l";
constexpr std::string_view end = "\x1b[?7h\x1b[?25h\x1b[?1049l";
constexpr std::string_view home = "\x1b[H";
constexpr std::string_view clear_line = "\x1b[K";
constexpr std::string_view clear_below = "\x1b[J";

std::size_t terminal_height() {
  winsize size{};
  return ::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_row > 1 ? size.ws_row : 24;
}

}  // namespace

LiveScreen::LiveScreen() { m_failed = !write_all(STDOUT_FILENO, begin); }

LiveScreen::~LiveScreen() { write_all(STDOUT_FILENO, end); }

void LiveScreen::draw(std::string_view text) {
  const std::size_t height = terminal_height();
  const auto lines = static_cast<std::size_t>(std::count(text.begin(), text.end(), '\n'));
  const std::size_t shown = lines <= height ? lines : height - 1;
  std::string out(home);
  for (std::size_t i = 0; i < shown; ++i) {
    const std::size_t stop = text.find('\n');
    // Before the line: behind one that fills the last column its last character would go.
    out.append(clear_line).append(text.substr(0, stop));
    text.remove_prefix(stop + 1);
    // No line break behind the last line: it would scroll.
    if (i + 1 < height) {
      out += "\r\n";
    }
  }
  if (shown < lines) {
    out += fmt::format("{}... and {} more lines", clear_line, lines - shown);
  } else {
    out += shown < height ? clear_below : "";
  }
  m_failed = !write_all(STDOUT_FILENO, out);
}

}  // namespace cli
