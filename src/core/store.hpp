// THE CONTRACT: what every store promises to whoever waits for, holds, shows or frees a lock.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include <tl/expected.hpp>

#include "core/clock.hpp"
#include "core/duration.hpp"
#include "core/glob.hpp"
#include "core/names.hpp"
#include "core/process_id.hpp"

namespace core {

// --- Who asks -------------------------------------------------------------------------------------------------------

// For people: who holds or waits. Never used to decide anything; two processes may share all of it.
struct Who {
  std::string host;
  std::string user;
  std::int64_t pid = 0;
  std::string command;  // argv[0] only: arguments can hold secrets
  std::string note;
};

// The processes behind a grant or a place. A store that can look at them (SQLite, same machine) frees a place whose lk
// is gone and a grant whose lk, guardian and child are all gone; other stores ignore them. While guardian or child is
// not known the grant counts as alive: a child may have been born that nobody wrote down.
struct Keepers {
  std::string realm;  // pid and time namespace in which the ids mean something; any other realm counts as alive
  ProcessId lk;
  std::optional<ProcessId> guardian = std::nullopt;
  std::optional<ProcessId> child = std::nullopt;
};

// --- Asking ---------------------------------------------------------------------------------------------------------

struct Ask {
  Claim claim;
  Millis ttl{0};
  // How long my place in the line outlives my last ask. 0: do not queue.
  Millis patience{0};
  // Join the line only if fewer than this many wait already.
  std::optional<std::size_t> max_waiting = std::nullopt;
  // Until when I mean to wait, for `status`; nullopt: for ever.
  std::optional<Millis> wait_left = std::nullopt;
  // A durable grant (acquire, block) is on disk before the answer and survives a reboot; an exec grant dies with the
  // machine.
  bool durable = true;
  Who who{};
  std::optional<Keepers> keepers = std::nullopt;
};

// --- Answers --------------------------------------------------------------------------------------------------------

// A grant of lk's, as the store knows it.
struct Held {
  Owner owner;
  AskId ask;
  std::optional<Fence> fence;  // none: the holder is another tool
  Who who;
  bool durable = true;
  std::optional<Millis> held_for;
  std::optional<WallTime> since;
  std::optional<Millis> left;  // none: it never ends by itself
  bool command_ended = false;  // an exec's grant that was left (Store::leave)
};

// The lock is free, and promised to the first in line.
struct Promised {
  Who who;
  Millis waiting_for{0};
};

// Something at the key that is no lock of this format (Redis). It is never overwritten.
struct Foreign {
  std::string type;
  std::string value;  // a fingerprint of its data, from status(); compared by evict
  std::optional<Millis> left;
};

using Occupant = std::variant<Held, Promised, Foreign>;

struct Granted {
  Fence fence;
  bool again = false;  // this very claim held it already (a lost reply, asked twice): same fence, the ttl restarts
};
struct Queued {
  std::size_t ahead = 0;  // waiters before me; 0: I am the head
  Millis ask_again_in{0};
  Occupant by;
};
struct Busy {
  Millis ask_again_in{0};
  Occupant by;
  bool line_full = false;  // max_waiting kept me out
};
using Answer = std::variant<Granted, Queued, Busy>;

enum class Renewal {
  renewed,
  gone,      // nobody holds it, or it ended before this renewal
  not_mine,  // another claim holds it
};

enum class Release {
  released,
  left_line,  // the claim was waiting; its place is gone
  expired,    // the claim had held it, its ttl ran out, and nobody had taken it since; it is gone now
  not_held,
  not_mine,
};
struct Released {
  Release what = Release::not_held;
  std::optional<Occupant> by = std::nullopt;         // not_mine: whose it is
  std::optional<Millis> expired_for = std::nullopt;  // expired: since when
};

enum class Eviction {
  evicted,
  changed,  // the holder is no longer the one that was seen; nothing was removed
  free,     // nobody holds it
};

struct Waiter {
  Owner owner;
  AskId ask;
  Who who;
  Millis waiting_for{0};
  std::optional<WallTime> since;
  std::optional<Millis> wait_left;  // none: for ever
};

struct LockState {
  Key key;
  std::optional<Occupant> by;  // none: free and promised to nobody
  std::size_t waiting = 0;
  std::vector<Waiter> line;  // first come first; filled by status(), left empty by list()
};

// --- Trouble --------------------------------------------------------------------------------------------------------

enum class Trouble {
  unreachable,    // not there, or not answering as a store does
  timed_out,      // no answer within op_timeout
  interrupted,    // the limits' interrupt_fd became readable
  refused,        // the store or the system does not let us: password, ACL, file permission
  misconfigured,  // the address or the place is wrong, and waiting will not mend it
  corrupt,        // not a store of lk's, damaged, or of a newer lk
  full,           // no room for the write
  exhausted,      // the system has no descriptor or memory left for us
};

struct StoreError {
  Trouble what;
  std::string detail;       // one sentence without a full stop: what happened, to which store, what to do
  bool maybe_done = false;  // the request left, and its answer did not come: what was asked may have been done
  // Whether the same call may succeed a moment later.
  bool transient() const {
    return what == Trouble::unreachable || what == Trouble::timed_out || what == Trouble::interrupted ||
           what == Trouble::full || what == Trouble::exhausted;
  }
};

template <class T>
using Result = tl::expected<T, StoreError>;

// --- The store ------------------------------------------------------------------------------------------------------

// A bell for one claim. `fd` becomes readable when asking again is worth it. A hint, never a grant: rings may coalesce
// or get lost, and a ring may be false. -1: this watch never rings.
class Watch {
public:
  virtual ~Watch() = default;
  virtual int fd() const noexcept = 0;
  virtual void drain() noexcept = 0;
};

// Promises, each a case of tests/contract that runs over every store:
//
//  1 One verb is one atomic step. Nothing is decided from two reads.
//  2 No verb outlives its limits' op_timeout; none waits for a lock, sleeps for one, or retries after trouble.
//  3 Asking again with the same claim is the same claim. The same owner with another ask id is another asker.
//  4 A fence is max(last + 1, the store's clock in microseconds): it rises while the store keeps its data, and across a
//    wipe as long as that clock does not go back. `last` is store-wide on SQLite, per key on Redis.
//  5 First come, first served: a free lock with a line belongs to the head of the line, and newcomers cannot barge
//  past.
//    A waiter that does not ask for `patience` loses its place.
//  6 Release works in any state and says which it was. It frees nothing but the claim's own grant and place.
//  7 Only the live holder renews (SQLite: also a claim whose grant expired, while nobody took the lock and nobody waits
//  for it).
//    Renewing never shortens.
//  8 ask_again_in ends before any change that nobody announces: the holder's end, my own place lapsing, a dead waiter
//  before me. 9 A watch is opened before the first ask. A place records whether it has a bell; one whose bell nobody
//  listens to any more
//    is dropped at once, by whoever rings it. All other places end by patience.
// 10 Durations cross this interface, never absolute times (`since` is for display).
//
// An expired grant is no grant, whoever asks: only the holder's stored deadline counts, never the asker's ttl.
class Store {
public:
  virtual ~Store() = default;

  virtual Result<Answer> acquire(const Ask& ask) = 0;
  // `keepers` replaces those of the grant (a child was born, a guardian was replaced); nullopt leaves them.
  virtual Result<Renewal> renew(const Claim& claim, Millis ttl, const std::optional<Keepers>& keepers) = 0;
  // With a fence: only that grant. Rings the head of the line.
  virtual Result<Released> release(const Claim& claim, std::optional<Fence> fence) = 0;
  // Lets the grant end in `after` (from now, shorter or longer than it had left), with nobody behind it: --min-hold.
  // The answers are those of release; `released` means that the end is set.
  virtual Result<Released> leave(const Claim& claim, Millis after) = 0;
  // Force: removes the present occupant if it is still the very one that was seen, whatever its type. Rings the head.
  virtual Result<Eviction> evict(const Key& key, const Occupant& seen) = 0;

  virtual Result<LockState> status(const Key& key) = 0;
  // Held and waited-for locks in key order. status and list change nothing in the store.
  virtual Result<std::vector<LockState>> list(const Glob& keys) = 0;

  // At most one per claim; it ends with the returned object.
  virtual Result<std::unique_ptr<Watch>> watch(const Claim& claim) = 0;

  // Housekeeping that may take long, and what others may be told a little later: called after the answer is out, or
  // while the command runs. Never fails.
  virtual void tidy() noexcept {}

  // Whether it looks at keepers, so that noting them is worth their cost.
  virtual bool looks_at_keepers() const noexcept { return false; }
  // Whether a renewal soon after an exec's grant is worth it: it hands in the newborn child's process, or the next in
  // line is told by it whom it waits for now.
  virtual bool wants_early_renewal() const noexcept { return looks_at_keepers(); }

  // Lets go of everything that a fork would share (connections); the next verb takes it up again.
  virtual void rest() noexcept {}

  // Where this store is, for people and for LK_STORE of a child: an absolute path or a URL without password.
  virtual std::string address() const = 0;
};

// --- Opening --------------------------------------------------------------------------------------------------------

// How long a verb may take, and what makes it stop early: a descriptor that is readable when the caller wants control
// back (a signal; -1: nothing does). The owner may change it between verbs.
struct Limits {
  Millis op_timeout{5000};
  int interrupt_fd = -1;
  // Called, where a store is another process's, once a request has left whole: from then on it is carried out even if
  // this process dies. The answer, and all trouble, are still to come.
  std::function<void()> sent = nullptr;
};

struct StoreOptions {
  std::string prefix = "lk:";                          // Redis key prefix
  std::optional<std::string> password = std::nullopt;  // for a URL that has none
  // Every write is on disk before its answer (SQLite: synchronous FULL); else writes may die with the machine.
  bool durable = true;
  const Limits* limits = nullptr;  // outlives the store; nullptr: the defaults
};

}  // namespace core
