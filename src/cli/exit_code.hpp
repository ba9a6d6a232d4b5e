// THE list of lk's own exit statuses. The manual's EXIT STATUS and the tests are checked against it.
#pragma once

namespace cli {

enum class ExitCode : int {
  ok = 0,
  nothing = 1,  // release: nothing to release; status: free; renew: not held any more
  usage = 64,
  store_down = 69,  // unreachable or timed out; the command was not started
  bug = 70,
  system = 71,         // fork, memory
  output = 74,         // stdout could not be written
  configuration = 78,  // configuration file or store URL
  busy = 75,           // held by another, or the wait ran out
  refused = 77,        // the store refused us
  lost = 79,           // the lock was lost while the command ran
  unsupervised = 125,  // lk could not go on supervising; the command was stopped
  not_executable = 126,
  not_found = 127,
};

constexpr int to_int(ExitCode code) noexcept { return static_cast<int>(code); }

}  // namespace cli
