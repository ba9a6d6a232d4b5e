// acquire and block: get the lock, hand the token over, and leave nothing behind where that fails.
#pragma once

#include <optional>
#include <string>

#include "cli/command.hpp"
#include "cli/common_options.hpp"
#include "cli/named_lock.hpp"
#include "core/store.hpp"

namespace cli {

// For people: this user on this machine, and the process that `pid` names.
core::Who who_asks(std::int64_t pid, std::string command, const std::optional<std::string>& note);

// The lock, if an exec that this process runs under holds it for its command: waiting for it would never end.
std::optional<core::Held> ancestors_lock(core::Store& store, const core::Key& key);

class Taking : public Action {
public:
  enum class Patience { one_try, in_line };
  Taking(Options& options, Patience patience);
  int run(const Call& call) override;

private:
  Patience m_patience;
  CommonOptions m_common;
  NamedLock m_named;
  std::optional<std::string> m_key;
  std::optional<std::string> m_ttl;
  std::optional<std::string> m_owner;
  std::optional<std::string> m_note;
  std::optional<std::string> m_wait;
  std::optional<std::string> m_max_waiting_text;
  std::optional<std::size_t> m_max_waiting;
  std::string m_output = "token";
  bool m_raw_key = false;
};

}  // namespace cli
