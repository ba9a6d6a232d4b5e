// What exec tells: sentences on stderr while it holds, and the line for --status-fd at its end.
#pragma once

#include <optional>
#include <string>

#include "cli/report.hpp"
#include "core/names.hpp"
#include "hold/supervise.hpp"

namespace cli {

class ExecNarrator : public hold::Narrator {
public:
  ExecNarrator(const Report& report, const core::Key& key, const hold::Duty& duty, const core::Store& store);

  void lost(hold::Loss why, const std::optional<core::StoreError>& last_trouble) override;
  void found_lost(hold::Loss why) override;
  void renewal_failed(const core::StoreError& error) override;
  void out_of_reach() override;
  void released_late() override;
  void not_released(const core::StoreError& error, bool guardian_tries_on) override;
  void no_guardian(int error) override;

private:
  std::string reason(hold::Loss why, const std::optional<core::StoreError>& last_trouble) const;

  const Report& m_report;
  const core::Key& m_key;
  const hold::Duty& m_duty;
  const core::Store& m_store;
  bool m_told_trouble = false;
};

namespace sentence {

std::string cannot_run(const core::Key& key, const char* command, int error);
std::string no_process(const core::Key& key, int error);
std::string granted_too_late(const core::Key& key, core::Millis ttl);
std::string unsupervised(const core::Key& key, int error);

}  // namespace sentence

// {"v":1,…}: how an exec ended. What is unknown is null.
struct StatusLine {
  bool ran = false;
  bool acquired = false;
  bool lost = false;
  bool released = false;  // false also where --min-hold keeps it
  std::optional<int> child_exit;
  std::optional<int> child_signal;
  std::string reason;  // ok busy deadlock store lost signal cannot_run no_process too_late unsupervised
  std::optional<core::Fence> fence;
  core::Millis waited{0};
  core::Millis held{0};
};

// Never blocks: a reader that does not read loses the line.
void write_status_line(int fd, const StatusLine& line);

}  // namespace cli
