// A text that is drawn again and again in the place of the last one, on a terminal.
#pragma once

#include <string_view>

namespace cli {

// While it lives stdout shows its text alone; what was there before comes back at the end.
class LiveScreen {
public:
  LiveScreen();
  ~LiveScreen();
  LiveScreen(const LiveScreen&) = delete;
  LiveScreen& operator=(const LiveScreen&) = delete;

  // What does not fit is cut: long lines at the right, and below with a line that says how many more there are.
  void draw(std::string_view text);
  // The terminal is gone.
  bool failed() const noexcept { return m_failed; }

private:
  bool m_failed = false;
};

}  // namespace cli
