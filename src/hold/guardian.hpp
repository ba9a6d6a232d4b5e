// The process that outlives lk: it stops the command and gives the lock back when lk cannot.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>

#include "core/clock.hpp"
#include "core/process_id.hpp"
#include "core/store.hpp"
#include "os/fd.hpp"

namespace hold {

// What lk and its guardian share. Written by lk alone.
struct Page {
  std::atomic<std::int64_t> deadline{0};        // boot clock, µs; 0: none yet
  std::atomic<std::int64_t> kill_at{0};         // the same, of the KILL after a loss's TERM; 0: no TERM is out
  std::atomic<std::int64_t> min_hold_until{0};  // boot clock, µs; 0: none
  std::atomic<std::int64_t> kill_after{0};      // ms
  std::atomic<std::int64_t> ttl{0};             // ms; set before a guardian is made
  std::atomic<bool> kills_at_deadline{true};    // not with --on-lost warn
  std::atomic<bool> own_group{false};
  std::atomic<pid_t> child{0};            // written by the child itself, before it executes anything
  std::atomic<bool> child_ended{false};   // written before lk reaps it: from then on the pid may be another's
  std::atomic<bool> family_ended{false};  // so did all that could be reached: no number of theirs is signalled again
  std::atomic<bool> terminated{false};    // the child had its TERM from lk already
  std::atomic<bool> done{false};          // nothing is left to do
};

// The page in memory that a fork shares.
class SharedPage {
public:
  SharedPage();
  ~SharedPage();
  SharedPage(const SharedPage&) = delete;
  SharedPage& operator=(const SharedPage&) = delete;
  Page& operator*() const noexcept { return *m_page; }
  Page* operator->() const noexcept { return m_page; }

private:
  Page* m_page;
};

// How the guardian ends the claim: on a store opened afresh, in its own process.
using OpenStore = std::function<core::Result<std::unique_ptr<core::Store>>()>;

class Guardian {
public:
  // Forks. lk has no open connection to a store at this moment (Store::rest). All but `page` is copied into the
  // guardian. Throws std::system_error where no process can be made.
  Guardian(const SharedPage& page, const core::Clock& clock, const OpenStore& open_store, const core::Claim& claim);
  ~Guardian();
  Guardian(const Guardian&) = delete;
  Guardian& operator=(const Guardian&) = delete;

  pid_t pid() const noexcept { return m_pid; }
  // For the store, to find out whether it still runs.
  core::ProcessId process() const;

  // Once the page has a deadline, before the child is born: lk may be stopped in the middle of that birth.
  void watch_deadline() noexcept;
  // Once the child is born: `pidfd` reaches the guardian also if lk dies right after this.
  void watch_child(int pidfd) noexcept;
  // Once the page has a time to kill, before the TERM is out: what follows must come in time even if lk is stopped
  // then.
  void watch_kill() noexcept;
  // Nothing is left for it to do: it dies while we go on.
  void dismiss() noexcept;
  bool is_dismissed() const noexcept { return m_dismissed; }
  // The store could not be told: it outlives us, and gives the lock back when the store is there again.
  void outlive() noexcept { m_pid = 0; }
  // It died before us and has been reaped.
  void reaped() noexcept { m_pid = 0; }

private:
  const core::Clock& m_clock;
  // Half a ttl after its birth, so before any deadline of a lock that was asked for since, the guardian looks for one
  // in the page. What comes later must wake it.
  core::Instant m_looks_at;
  pid_t m_pid = 0;
  bool m_dismissed = false;
  os::Fd m_channel;
};

}  // namespace hold
