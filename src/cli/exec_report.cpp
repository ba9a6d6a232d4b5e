// The sentences of exec.
#include "cli/exec_report.hpp"

#include <poll.h>

#include <cerrno>
#include <cstring>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "cli/output.hpp"
#include "core/text.hpp"

namespace cli {

ExecNarrator::ExecNarrator(const Report& report, const core::Key& key, const hold::Duty& duty, const core::Store& store)
    : m_report(report), m_key(key), m_duty(duty), m_store(store) {}

std::string ExecNarrator::reason(hold::Loss why, const std::optional<core::StoreError>& last_trouble) const {
  switch (why) {
    case hold::Loss::gone:
      return fmt::format("it is gone from {}", core::escaped(m_store.address()));
    case hold::Loss::not_mine:
      return "another holder has it now";
    case hold::Loss::unconfirmed:
      break;
  }
  return last_trouble ? fmt::format("no renewal in time ({})", last_trouble->detail) : "no renewal in time";
}

void ExecNarrator::lost(hold::Loss why, const std::optional<core::StoreError>& last_trouble) {
  std::string what;
  switch (m_duty.on_lost) {
    case hold::OnLost::term:
      what = fmt::format("stopping the command (TERM, KILL after {})", core::to_text(m_duty.terms.kill_after));
      break;
    case hold::OnLost::kill:
      what = "killing the command";
      break;
    case hold::OnLost::warn:
      what = "the command runs on unguarded (--on-lost warn)";
      break;
  }
  m_report.error(fmt::format("lost {}: {}; {}", core::escaped(m_key.text()), reason(why, last_trouble), what));
}

void ExecNarrator::found_lost(hold::Loss why) {
  m_report.error(fmt::format(
      "lost {}: {}; the command had ended by then", core::escaped(m_key.text()), reason(why, std::nullopt)));
}

void ExecNarrator::renewal_failed(const core::StoreError& error) {
  const std::string sentence =
      fmt::format("cannot renew {}: {}; trying again", core::escaped(m_key.text()), error.detail);
  if (m_told_trouble) {
    m_report.detail(sentence);
  } else {
    m_report.news(sentence);
  }
  m_told_trouble = true;
}

void ExecNarrator::out_of_reach() {
  m_report.error(fmt::format(
      "the command holding {} runs as another user and cannot be stopped: run sudo lk exec, not lk exec sudo",
      core::escaped(m_key.text())));
}

void ExecNarrator::released_late() {
  m_report.news(fmt::format("{} had expired before it could be released; the command was done by then",
                            core::escaped(m_key.text())));
}

void ExecNarrator::not_released(const core::StoreError& error, bool guardian_tries_on) {
  m_report.news(fmt::format("cannot release {}: {}; {} its ttl ends",
                            core::escaped(m_key.text()),
                            error.detail,
                            guardian_tries_on ? "a background process tries on until" : "it stays held until"));
}

void ExecNarrator::no_guardian(int error) {
  m_report.news(fmt::format("the guardian of {} died, and no new one can be started ({}); trying again",
                            core::escaped(m_key.text()),
                            std::strerror(error)));
}

namespace sentence {

std::string cannot_run(const core::Key& key, const char* command, int error) {
  return fmt::format(
      "cannot run {}: {}; {} is released", core::escaped(command), std::strerror(error), core::escaped(key.text()));
}

std::string no_process(const core::Key& key, int error) {
  return fmt::format("cannot start a process: {}; {} is released", std::strerror(error), core::escaped(key.text()));
}

std::string granted_too_late(const core::Key& key, core::Millis ttl) {
  return fmt::format("{} was granted too late to start the command under it (ttl {}); nothing was run",
                     core::escaped(key.text()),
                     core::to_text(ttl));
}

std::string unsupervised(const core::Key& key, int error) {
  return fmt::format("cannot go on supervising the command that holds {}: {}; it was killed",
                     core::escaped(key.text()),
                     std::strerror(error));
}

}  // namespace sentence

void write_status_line(int fd, const StatusLine& line) {
  const auto or_null = [](const auto& value) {
    return value ? nlohmann::ordered_json(*value) : nlohmann::ordered_json();
  };
  nlohmann::ordered_json json{
      {"v", 1},
      {"ran", line.ran},
      {"acquired", line.acquired},
      {"lost", line.lost},
      {"released", line.released},
      {"child_exit", or_null(line.child_exit)},
      {"child_signal", or_null(line.child_signal)},
      {"reason", line.reason},
      {"fence", line.fence ? nlohmann::ordered_json(line.fence->value) : nlohmann::ordered_json()},
      {"waited_ms", line.waited.count()},
      {"held_ms", line.held.count()},
  };
  // A pipe that poll(2) calls writable takes PIPE_BUF bytes at once.
  pollfd out{fd, POLLOUT, 0};
  if (::poll(&out, 1, 0) == 1 && (out.revents & POLLOUT) != 0) {
    write_all(fd, json.dump() + "\n");
  }
}

}  // namespace cli
