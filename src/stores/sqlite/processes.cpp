// Asked of the kernel, through os.
#include "stores/sqlite/processes.hpp"

namespace stores::sqlite {

bool Processes::is_ours(const std::string& realm) {
  if (!m_realm) {
    m_realm = os::own_realm();
  }
  return !realm.empty() && realm == *m_realm;
}

bool Processes::is_gone(const core::ProcessId& process, const std::string& realm) {
  return is_ours(realm) && os::certainly_gone(process);
}

bool Processes::are_gone(const std::optional<core::Keepers>& keepers) {
  return keepers && keepers->guardian && keepers->child && is_gone(keepers->lk, keepers->realm) &&
         is_gone(*keepers->guardian, keepers->realm) && is_gone(*keepers->child, keepers->realm);
}

std::optional<os::RunningProcess> Processes::find_running(const std::optional<core::Keepers>& keepers) {
  return keepers && is_ours(keepers->realm) ? os::RunningProcess::find(keepers->lk) : std::nullopt;
}

bool Processes::is_stopped(const PlaceRow& row) {
  return is_ours(row.realm) && !os::certainly_gone(row.lk) && os::is_stopped(row.lk);
}

}  // namespace stores::sqlite
