// What can be told of the processes that rows name.
#pragma once

#include <optional>
#include <string>

#include "core/process_id.hpp"
#include "core/store.hpp"
#include "os/process.hpp"
#include "stores/sqlite/rows.hpp"

namespace stores::sqlite {

// Of another realm (os::own_realm) nothing is known: such a process counts as alive and running.
class Processes {
public:
  bool are_gone(const std::optional<core::Keepers>& keepers);
  bool is_dead(const HolderRow& row, const Now& now) { return has_ended(row, now) || are_gone(row.keepers); }
  bool is_dead(const PlaceRow& row, const Now& now) {
    return now.rebooted || row.lapses <= now.boot || is_gone(row.lk, row.realm);
  }
  bool is_stopped(const PlaceRow& row);
  // One of them: while it runs, they are not gone.
  std::optional<os::RunningProcess> find_running(const std::optional<core::Keepers>& keepers);
  bool is_gone(const core::ProcessId& process, const std::string& realm);

private:
  bool is_ours(const std::string& realm);

  std::optional<std::string> m_realm;
};

}  // namespace stores::sqlite
