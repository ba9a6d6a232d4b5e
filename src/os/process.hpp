// Processes by pid and start time: who am I, and is that one still there.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "core/process_id.hpp"
#include "os/fd.hpp"

namespace os {

// This process and its pid and time namespaces.
core::ProcessId own_process();
// Any process of this namespace, as own_process would name it; pid 0 where it cannot be read.
core::ProcessId process_of(std::int64_t pid);
// Names the pid and time namespaces in which process ids and start times are comparable; empty where it cannot be
// known.
std::string own_realm();

// Whether that process of our own realm is certainly gone: no such pid, or a zombie, or a pid that started at another
// time. What cannot be looked at (a foreign /proc) counts as alive.
bool certainly_gone(const core::ProcessId& process);

// A process of our own realm that ran when this was made. Whether it still does is then one system call.
class RunningProcess {
public:
  // Nullopt where it is gone, or cannot be told from another one.
  static std::optional<RunningProcess> find(const core::ProcessId& process);
  bool runs() const noexcept;

private:
  explicit RunningProcess(Fd pidfd) : m_pidfd(std::move(pidfd)) {}

  Fd m_pidfd;
};

// Whether that process of our own realm is stopped (Ctrl-Z, SIGSTOP): it does nothing until somebody lets it go on.
bool is_stopped(const core::ProcessId& process);

std::string host_name();
// The name of the effective user, or its number.
std::string user_name();

}  // namespace os
