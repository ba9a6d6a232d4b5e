// The verbs: one IMMEDIATE transaction each.
#include "stores/sqlite/store.hpp"

#include <unistd.h>

#include <algorithm>
#include <climits>
#include <cstdlib>
#include <limits>
#include <map>
#include <utility>

#include <fmt/format.h>

#include "core/text.hpp"
#include "os/process.hpp"
#include "stores/sqlite/bell.hpp"
#include "stores/sqlite/database.hpp"
#include "stores/sqlite/location.hpp"

namespace stores::sqlite {

namespace {

using core::Millis;
using Micros = core::BootTime::duration;

// The slow heartbeats of SPEC 6: the head of the line looks ten times a second, the second once a second, all others
// every five seconds.
constexpr Millis head_asks_again{100};
constexpr Millis second_asks_again{1000};
constexpr Millis others_ask_again{5000};

// An expired row stays this long for its own claim to renew, then a sweep removes it.
constexpr Millis swept_after{10'000};
// Four rows a grant, in one grant of eight: a sweep takes 40 us even where there is nothing to do.
constexpr int grants_per_sweep = 8;
constexpr int swept_at_once = 32;

// Whoever opens the file while nobody else has it open reads the whole log (SQLite rebuilds its index then): 3 us for
// each of the four pages that an exec leaves in it, against 1.5 ms for copying the log. 64 pages are where the sum is
// smallest.
constexpr std::int64_t log_worth_copying = std::int64_t{64} * (1024 + 24);
// What the heartbeats of those who wait and hold for long may leave in the log.
constexpr std::int64_t longest_log = std::int64_t{512} * (1024 + 24);

// How far two readings of (wall clock - boot clock) may lie apart within one boot: a container manager may give each
// container a boot id of its own, and this tells such a neighbour from a reboot.
constexpr Micros same_boot{2'000'000};

std::int64_t signed_ask(core::AskId ask) { return static_cast<std::int64_t>(ask.value); }
core::AskId unsigned_ask(std::int64_t column) { return {static_cast<std::uint64_t>(column)}; }

struct HolderRow {
  core::Held held;
  core::Instant expires;
  Millis ttl{0};
  std::optional<core::Keepers> keepers;
};

struct PlaceRow {
  std::int64_t number = 0;
  core::Owner owner;
  core::AskId ask;
  core::Instant lapses;
  core::Instant since;
  core::WallTime since_wall;
  std::optional<core::Instant> until;
  bool bell = false;
  std::string realm;
  core::ProcessId lk;
  core::Who who;
};

core::Instant instant(std::int64_t microseconds) { return core::Instant(Micros(microseconds)); }
std::int64_t number(core::Instant time) { return time.time_since_epoch().count(); }
std::int64_t number(core::WallTime time) { return time.time_since_epoch().count(); }
Millis millis(Micros span) { return std::chrono::duration_cast<Millis>(span); }
// A holder that has 0.4 ms left is held for one more millisecond, not for none.
Millis millis_up(Micros span) { return std::max(std::chrono::ceil<Millis>(span), Millis(0)); }

// The head is there when the holder's time ends; the others come a second later, in case all before them are dead.
// Those who came together do not come again together.
Millis asks_again_in(std::size_t ahead, std::optional<Millis> holder_left, const core::Ask& ask) {
  const Millis early(ask.claim.ask.value % (others_ask_again.count() / 5));
  Millis again = ahead == 0 ? head_asks_again : ahead == 1 ? second_asks_again : others_ask_again - early;
  if (holder_left) {
    again = std::min(again, ahead == 0 ? *holder_left : *holder_left + second_asks_again);
  }
  return ask.patience > Millis(0) ? std::min(again, ask.patience / 2) : again;
}

constexpr const char* holder_columns =
    "key, owner, ask, fence, durable, ttl, expires, since, since_wall, realm, lk_pid, lk_started, guardian_pid, "
    "guardian_started, "
    "child_pid, child_started, host, user, pid, command, note";

constexpr const char* place_columns =
    "number, owner, ask, lapses, since, since_wall, until, bell, realm, lk_pid, lk_started, host, user, pid, command, "
    "note";

core::Who read_who(SQLite::Statement& row, int first) {
  return {row.getColumn(first).getString(),
          row.getColumn(first + 1).getString(),
          row.getColumn(first + 2).getInt64(),
          row.getColumn(first + 3).getString(),
          row.getColumn(first + 4).getString()};
}

std::optional<core::ProcessId> read_process(SQLite::Statement& row, int first) {
  if (row.getColumn(first).isNull()) {
    return std::nullopt;
  }
  return core::ProcessId{row.getColumn(first).getInt64(), row.getColumn(first + 1).getInt64()};
}

HolderRow read_holder(SQLite::Statement& row) {
  HolderRow holder{{core::Owner::stored(row.getColumn(1).getString()),
                    unsigned_ask(row.getColumn(2).getInt64()),
                    core::Fence{row.getColumn(3).getInt64()},
                    read_who(row, 16),
                    row.getColumn(4).getInt() != 0,
                    std::nullopt,
                    std::nullopt,
                    std::nullopt},
                   instant(row.getColumn(6).getInt64()),
                   Millis(row.getColumn(5).getInt64()),
                   std::nullopt};
  if (!row.getColumn(9).isNull()) {
    holder.keepers = core::Keepers{row.getColumn(9).getString(),
                                   {row.getColumn(10).getInt64(), row.getColumn(11).getInt64()},
                                   read_process(row, 12),
                                   read_process(row, 14)};
  }
  // Every exec has keepers until set_end takes them away.
  holder.held.command_ended = !holder.held.durable && !holder.keepers;
  return holder;
}

PlaceRow read_place(SQLite::Statement& row) {
  PlaceRow place{row.getColumn(0).getInt64(),
                 core::Owner::stored(row.getColumn(1).getString()),
                 unsigned_ask(row.getColumn(2).getInt64()),
                 instant(row.getColumn(3).getInt64()),
                 instant(row.getColumn(4).getInt64()),
                 core::WallTime(std::chrono::microseconds(row.getColumn(5).getInt64())),
                 std::nullopt,
                 row.getColumn(7).getInt() != 0,
                 row.getColumn(8).getString(),
                 {row.getColumn(9).getInt64(), row.getColumn(10).getInt64()},
                 read_who(row, 11)};
  if (!row.getColumn(6).isNull()) {
    place.until = instant(row.getColumn(6).getInt64());
  }
  return place;
}

void bind_who(SQLite::Statement& statement, int first, const core::Who& who) {
  statement.bind(first, who.host);
  statement.bind(first + 1, who.user);
  statement.bind(first + 2, who.pid);
  statement.bind(first + 3, who.command);
  statement.bind(first + 4, who.note);
}

void bind_process(SQLite::Statement& statement, int first, const std::optional<core::ProcessId>& process) {
  if (process) {
    statement.bind(first, process->pid);
    statement.bind(first + 1, process->started);
  } else {
    statement.bind(first);
    statement.bind(first + 1);
  }
}

void bind_keepers(SQLite::Statement& statement, int first, const std::optional<core::Keepers>& keepers) {
  if (keepers) {
    statement.bind(first, keepers->realm);
    bind_process(statement, first + 1, keepers->lk);
    bind_process(statement, first + 3, keepers->guardian);
    bind_process(statement, first + 5, keepers->child);
    return;
  }
  for (int index = first; index < first + 7; ++index) {
    statement.bind(index);
  }
}

class SqliteStore : public core::Store {
public:
  SqliteStore(std::string path, const core::StoreOptions& options, const core::Clock& clock)
      : m_clock(clock), m_database(std::move(path), options.durable, options.limits) {}

  core::Result<core::Answer> acquire(const core::Ask& ask) override;
  core::Result<core::Renewal> renew(const core::Claim& claim, Millis ttl,
                                    const std::optional<core::Keepers>& keepers) override;
  core::Result<core::Released> release(const core::Claim& claim, std::optional<core::Fence> fence) override;
  core::Result<core::Released> leave(const core::Claim& claim, Millis after) override;
  core::Result<core::Eviction> evict(const core::Key& key, const core::Occupant& seen) override;
  core::Result<core::LockState> status(const core::Key& key) override;
  core::Result<std::vector<core::LockState>> list(const core::Glob& keys) override;
  core::Result<std::unique_ptr<core::Watch>> watch(const core::Claim& claim) override;
  void tidy() noexcept override { m_database.checkpoint(log_worth_copying); }
  bool looks_at_keepers() const noexcept override { return true; }
  void rest() noexcept override { m_database.disconnect(); }
  std::string address() const override { return m_database.path(); }

private:
  // The rows' clock, settled for this transaction.
  struct Now {
    core::Instant boot;
    core::WallTime wall;
    core::Fence fence;  // the last one given
    std::int64_t grants = 0;
    std::string swept;
    bool rebooted = false;  // the rows are of another boot (only seen by readers; writers bring them up to date)
  };

  // Runs `body` in one transaction that holds the write lock. Where there is no file and none is wanted, or the file is
  // replaced while it runs, nothing is changed and `otherwise` is the answer.
  template <class T, class Body>
  core::Result<T> write(Database::Missing missing, T otherwise, Body body);
  template <class T, class Body>
  core::Result<T> read(T otherwise, Body body);

  // Of the claim that was told Queued last. What it says is looked at again.
  struct Place {
    core::AskId ask;
    std::int64_t number;
    std::size_t ahead;
    core::Instant lapses;
  };

  Now settle();
  Now look();
  static HolderRow with_times(SQLite::Statement& row, const Now& now);
  std::optional<HolderRow> holder(const core::Key& key, const Now& now, bool with_expired = false);
  static bool has_ended(const HolderRow& row, const Now& now);
  bool are_gone(const std::optional<core::Keepers>& keepers);
  bool is_dead(const HolderRow& row, const Now& now);
  bool is_dead(const PlaceRow& row, const Now& now);
  bool is_stopped(const PlaceRow& row);
  bool gone(const core::ProcessId& process, const std::string& realm);
  core::Held shown(HolderRow row, const Now& now) const;
  // The first in line that is not known to be dead; those before it are dropped.
  std::optional<PlaceRow> head(const core::Key& key, const Now& now);
  void drop(const core::Key& key, std::int64_t number);
  void remove_holder(const core::Key& key);
  core::Fence grant(const core::Ask& ask, const Now& now);
  // Removes some that expired long ago; where the next sweep begins.
  std::string sweep(const Now& now);
  void set_end(const core::Key& key, const Now& now, Millis after);
  std::optional<std::int64_t> place_of(const core::Claim& claim, const std::optional<Place>& known, const Now& now);
  // Nullopt where that place is not this claim's.
  std::optional<core::Instant> end_of_place(const core::Claim& claim, std::int64_t number);
  struct Before {
    std::size_t count;
    bool lapsed;  // some of them
  };
  Before before(const core::Key& key, std::int64_t number, const Now& now);
  std::size_t drop_lapsed(const core::Key& key, std::int64_t before, const Now& now);
  bool leave_line(const core::Claim& claim, const Now& now);
  static std::optional<core::AskId> belled(const std::optional<PlaceRow>& place) {
    return place && place->bell ? std::optional(place->ask) : std::nullopt;
  }
  // Wakes a head; one that nobody hears is dropped, and the next one woken.
  void ring_on(const core::Key& key, std::optional<core::AskId> whom);
  std::optional<core::AskId> head_without(const core::Key& key, core::AskId deaf);
  // Whose bell is to be rung once the transaction is through.
  struct Ring {
    std::optional<core::AskId> whom;
    bool lock_is_free = false;
  };
  core::Result<core::Answer> ask_once(const core::Ask& ask, const std::optional<Place>& known, Ring& ring);
  std::optional<core::Queued> still_queued(const core::Ask& ask);
  core::Result<core::Released> end_grant(const core::Claim& claim, std::optional<core::Fence> fence,
                                         std::optional<Millis> leave_after);

  const Bells& bells();

  const core::Clock& m_clock;
  Database m_database;
  std::optional<Bells> m_bells;
  std::optional<std::string> m_realm;
  std::optional<core::AskId> m_belled;  // the claim that has a watch of ours
  std::optional<Place> m_place;
};

// --- transactions ---------------------------------------------------------------------------------------------------

template <class T, class Body>
core::Result<T> SqliteStore::write(Database::Missing missing, T otherwise, Body body) {
  // The second round serves a file that was replaced between connect and BEGIN.
  for (int round = 0; round < 2; ++round) {
    auto connected = m_database.connect(missing);
    if (!connected) {
      return tl::unexpected(std::move(connected.error()));
    }
    if (!*connected) {
      return otherwise;
    }
    try {
      SQLite::Transaction transaction(*m_database, SQLite::TransactionBehavior::IMMEDIATE);
      if (m_database.moved()) {
        continue;
      }
      // SQLite turns the transaction of a connection that cannot write into a reading one, without a word.
      if (m_database.is_read_only()) {
        return tl::unexpected(explain_no_access(m_database.path()));
      }
      T answer = body(settle());
      transaction.commit();
      return answer;
    } catch (const SQLite::Exception& error) {
      return tl::unexpected(m_database.translate(error));
    }
  }
  return tl::unexpected(
      core::StoreError{core::Trouble::unreachable,
                       fmt::format("{} keeps being replaced by another file", core::escaped(m_database.path()))});
}

template <class T, class Body>
core::Result<T> SqliteStore::read(T otherwise, Body body) {
  auto connected = m_database.connect(Database::Missing::leave);
  if (!connected) {
    return tl::unexpected(std::move(connected.error()));
  }
  if (!*connected) {
    return otherwise;
  }
  try {
    SQLite::Transaction transaction(*m_database);
    T answer = body(look());
    transaction.commit();
    return answer;
  } catch (const SQLite::Exception& error) {
    return tl::unexpected(m_database.translate(error));
  }
}

SqliteStore::Now SqliteStore::look() {
  Now now{m_clock.now(), m_clock.wall(), {}, 0, {}, false};
  SQLite::Statement& row = m_database.statement("SELECT fence, boot, booted, swept, grants FROM store");
  row.executeStep();
  now.fence.value = row.getColumn(0).getInt64();
  now.swept = row.getColumn(3).getString();
  now.grants = row.getColumn(4).getInt64();
  if (row.getColumn(1).getString() != m_clock.boot_id()) {
    const Micros booted = now.wall.time_since_epoch() - now.boot.time_since_epoch();
    const Micros apart = booted - Micros(row.getColumn(2).getInt64());
    now.rebooted = apart > same_boot || apart < -same_boot;
  }
  row.reset();
  return now;
}

// After a reboot the boot clock started again: exec grants and places died with the machine, durable grants go on by
// the wall clock, never for longer than their ttl.
SqliteStore::Now SqliteStore::settle() {
  Now now = look();
  if (now.rebooted) {
    (*m_database).exec("DELETE FROM place; DELETE FROM holder WHERE durable = 0");
    SQLite::Statement move(*m_database,
                           "UPDATE holder SET expires = ?1 + max(0, min(expires_wall - ?2, ttl * 1000)), "
                           "since = ?1 - max(0, ?2 - since_wall)");
    move.bind(1, number(now.boot));
    move.bind(2, number(now.wall));
    move.exec();
    SQLite::Statement mark(*m_database, "UPDATE store SET boot = ?, booted = ?");
    mark.bind(1, m_clock.boot_id());
    mark.bind(2, Micros(now.wall.time_since_epoch() - now.boot.time_since_epoch()).count());
    mark.exec();
    bells().take_down_all();
    now.rebooted = false;
  }
  return now;
}

// --- rows -----------------------------------------------------------------------------------------------------------

bool SqliteStore::gone(const core::ProcessId& process, const std::string& realm) {
  if (!m_realm) {
    m_realm = os::own_realm();
  }
  return !realm.empty() && realm == *m_realm && os::certainly_gone(process);
}

// An end further away than the ttl was written under another clock; believing it could lock the key for years.
bool SqliteStore::has_ended(const HolderRow& row, const Now& now) {
  return (now.rebooted && !row.held.durable) || row.expires <= now.boot ||
         row.expires > now.boot + row.ttl + std::chrono::seconds(1);
}

bool SqliteStore::are_gone(const std::optional<core::Keepers>& keepers) {
  return keepers && keepers->guardian && keepers->child && gone(keepers->lk, keepers->realm) &&
         gone(*keepers->guardian, keepers->realm) && gone(*keepers->child, keepers->realm);
}

bool SqliteStore::is_dead(const HolderRow& row, const Now& now) { return has_ended(row, now) || are_gone(row.keepers); }

bool SqliteStore::is_stopped(const PlaceRow& row) {
  return !gone(row.lk, row.realm) && row.realm == *m_realm && !row.realm.empty() && os::is_stopped(row.lk);
}

bool SqliteStore::is_dead(const PlaceRow& row, const Now& now) {
  return now.rebooted || row.lapses <= now.boot || gone(row.lk, row.realm);
}

core::Held SqliteStore::shown(HolderRow row, const Now& now) const {
  row.held.left = millis_up(row.expires - now.boot);
  return std::move(row.held);
}

HolderRow SqliteStore::with_times(SQLite::Statement& row, const Now& now) {
  HolderRow holder = read_holder(row);
  holder.held.since = core::WallTime(Micros(row.getColumn(8).getInt64()));
  holder.held.held_for = std::max(millis(now.boot - instant(row.getColumn(7).getInt64())), Millis(0));
  if (now.rebooted) {
    const Micros left = core::WallTime(Micros(row.getColumn(21).getInt64())) - now.wall;
    holder.expires = now.boot + std::min<Micros>(left, holder.ttl);
    holder.held.held_for = std::max(millis(now.wall - *holder.held.since), Millis(0));
  }
  return holder;
}

std::optional<HolderRow> SqliteStore::holder(const core::Key& key, const Now& now, bool with_expired) {
  static const std::string text = fmt::format("SELECT {}, expires_wall FROM holder WHERE key = ?", holder_columns);
  SQLite::Statement& query = m_database.statement(text.c_str());
  query.bind(1, key.text());
  if (!query.executeStep()) {
    return std::nullopt;
  }
  HolderRow row = with_times(query, now);
  query.reset();
  if (!with_expired && is_dead(row, now)) {
    return std::nullopt;
  }
  return row;
}

void SqliteStore::remove_holder(const core::Key& key) {
  SQLite::Statement& remove = m_database.statement("DELETE FROM holder WHERE key = ?");
  remove.bind(1, key.text());
  remove.exec();
}

void SqliteStore::drop(const core::Key& key, std::int64_t number) {
  SQLite::Statement& remove =
      m_database.statement("DELETE FROM place WHERE key = ? AND number = ? RETURNING bell, ask");
  remove.bind(1, key.text());
  remove.bind(2, number);
  if (remove.executeStep() && remove.getColumn(0).getInt() != 0) {
    bells().take_down(unsigned_ask(remove.getColumn(1).getInt64()));
  }
  remove.reset();
}

std::optional<std::int64_t> SqliteStore::place_of(const core::Claim& claim, const std::optional<Place>& known,
                                                  const Now& now) {
  const auto is_mine = [&](std::int64_t number) {
    const std::optional<core::Instant> lapses = end_of_place(claim, number);
    return lapses && *lapses > now.boot;
  };
  if (known && is_mine(known->number)) {
    return known->number;
  }
  SQLite::Statement& query = m_database.statement("SELECT number FROM place INDEXED BY line WHERE key = ? AND ask = ?");
  query.bind(1, claim.key.text());
  query.bind(2, signed_ask(claim.ask));
  std::optional<std::int64_t> found;
  while (!found && query.executeStep()) {
    if (const std::int64_t number = query.getColumn(0).getInt64(); is_mine(number)) {
      found = number;
    }
  }
  query.reset();
  return found;
}

std::optional<core::Instant> SqliteStore::end_of_place(const core::Claim& claim, std::int64_t number) {
  SQLite::Statement& query =
      m_database.statement("SELECT lapses FROM place WHERE key = ? AND number = ? AND ask = ? AND owner = ?");
  query.bind(1, claim.key.text());
  query.bind(2, number);
  query.bind(3, signed_ask(claim.ask));
  query.bind(4, claim.owner.bytes());
  const auto lapses =
      query.executeStep() ? std::optional(instant(query.getColumn(0).getInt64())) : std::optional<core::Instant>();
  query.reset();
  return lapses;
}

SqliteStore::Before SqliteStore::before(const core::Key& key, std::int64_t number, const Now& now) {
  SQLite::Statement& query =
      m_database.statement("SELECT count(*), min(lapses) FROM place INDEXED BY line WHERE key = ? AND number < ?");
  query.bind(1, key.text());
  query.bind(2, number);
  query.executeStep();
  const auto count = static_cast<std::size_t>(query.getColumn(0).getInt64());
  const bool lapsed = count > 0 && instant(query.getColumn(1).getInt64()) <= now.boot;
  query.reset();
  return {count, lapsed};
}

std::size_t SqliteStore::drop_lapsed(const core::Key& key, std::int64_t before, const Now& now) {
  std::vector<std::int64_t> lapsed;
  SQLite::Statement& query =
      m_database.statement("SELECT number FROM place INDEXED BY line WHERE key = ? AND number < ? AND lapses <= ?");
  query.bind(1, key.text());
  query.bind(2, before);
  query.bind(3, number(now.boot));
  while (query.executeStep()) {
    lapsed.push_back(query.getColumn(0).getInt64());
  }
  query.reset();
  for (const std::int64_t number : lapsed) {
    drop(key, number);
  }
  return lapsed.size();
}

std::optional<PlaceRow> SqliteStore::head(const core::Key& key, const Now& now) {
  static const std::string text =
      fmt::format("SELECT {} FROM place WHERE key = ? ORDER BY number LIMIT 1", place_columns);
  while (true) {
    SQLite::Statement& query = m_database.statement(text.c_str());
    query.bind(1, key.text());
    if (!query.executeStep()) {
      return std::nullopt;
    }
    PlaceRow first = read_place(query);
    query.reset();
    if (!is_dead(first, now)) {
      return first;
    }
    drop(key, first.number);
  }
}

core::Fence SqliteStore::grant(const core::Ask& ask, const Now& now) {
  const core::Fence fence{std::max(now.fence.value + 1, number(now.wall))};
  static const std::string text = fmt::format(
      "INSERT OR REPLACE INTO holder ({}, expires_wall) VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)",
      holder_columns);
  SQLite::Statement& insert = m_database.statement(text.c_str());
  insert.bind(1, ask.claim.key.text());
  insert.bind(2, ask.claim.owner.bytes());
  insert.bind(3, signed_ask(ask.claim.ask));
  insert.bind(4, fence.value);
  insert.bind(5, ask.durable ? 1 : 0);
  insert.bind(6, static_cast<std::int64_t>(ask.ttl.count()));
  insert.bind(7, number(now.boot + ask.ttl));
  insert.bind(8, number(now.boot));
  insert.bind(9, number(now.wall));
  bind_keepers(insert, 10, ask.keepers);
  bind_who(insert, 17, ask.who);
  insert.bind(22, number(now.wall + ask.ttl));
  insert.exec();
  SQLite::Statement& mark = m_database.statement("UPDATE store SET fence = ?, swept = ?, grants = grants + 1");
  mark.bind(1, fence.value);
  mark.bind(2, now.grants % grants_per_sweep == 0 ? sweep(now) : now.swept);
  mark.exec();
  return fence;
}

// Round and round, so that a file of millions of one-off keys stays at a few pages. A grant whose lk is merely stopped
// is left to it.
std::string SqliteStore::sweep(const Now& now) {
  static const std::string text =
      fmt::format("SELECT {} FROM holder WHERE key > ? ORDER BY key LIMIT {}", holder_columns, swept_at_once);
  SQLite::Statement& query = m_database.statement(text.c_str());
  query.bind(1, now.swept);
  std::vector<std::string> old;
  std::string reached;
  int looked_at = 0;
  for (; query.executeStep(); ++looked_at) {
    reached = query.getColumn(0).getString();
    const HolderRow row = read_holder(query);
    if (row.expires <= now.boot - swept_after && (!row.keepers || gone(row.keepers->lk, row.keepers->realm) ||
                                                  row.expires <= now.boot - std::chrono::hours(24))) {
      old.push_back(reached);
    }
  }
  query.reset();
  for (const std::string& key : old) {
    remove_holder(core::Key::stored(key));
  }
  return looked_at == swept_at_once ? reached : std::string();
}

// --- acquire --------------------------------------------------------------------------------------------------------

core::Result<core::Answer> SqliteStore::acquire(const core::Ask& ask) {
  if (m_place && m_place->ask != ask.claim.ask) {
    m_place.reset();
  }
  // What a waiter does ten times a second: look, without the write lock. It changes nothing and answers only what the
  // whole step below would have answered. Half the patience is left for the next ask to come late.
  if (m_place && m_place->lapses - m_clock.now() >= ask.patience / 2) {
    if (auto answer = still_queued(ask)) {
      m_place->ahead = answer->ahead;
      return std::move(*answer);
    }
  }
  while (true) {
    Ring ring;
    auto answer = ask_once(ask, std::exchange(m_place, std::nullopt), ring);
    if (!answer) {
      return answer;
    }
    if (std::holds_alternative<core::Queued>(*answer)) {
      // Many who wait for hours write as much as many who come and go.
      m_database.checkpoint(longest_log);
    }
    const bool deaf = ring.whom && bells().ring(*ring.whom) == Bells::Ring::nobody_listens;
    if (deaf) {
      ring_on(ask.claim.key, head_without(ask.claim.key, *ring.whom));
    }
    // A head that does not listen kept a free lock from me.
    if (!deaf || !ring.lock_is_free) {
      return answer;
    }
  }
}

core::Result<core::Answer> SqliteStore::ask_once(const core::Ask& ask, const std::optional<Place>& known, Ring& ring) {
  // Behind the first two, who look after them, neither the holder's processes nor the first in line need to be seen.
  const bool deep = known && known->ahead >= 2;
  return write<core::Answer>(
      Database::Missing::create, core::Busy{Millis(0), core::Promised{}, false}, [&](const Now& now) -> core::Answer {
        const core::Key& key = ask.claim.key;
        std::optional<HolderRow> current = holder(key, now, true);
        if (current && (deep ? has_ended(*current, now) : is_dead(*current, now))) {
          current.reset();
        }
        if (current && current->held.owner == ask.claim.owner && current->held.ask == ask.claim.ask) {
          // Asked again after a lost reply: the ttl restarts, the grant is the same.
          const core::Fence fence = *current->held.fence;
          SQLite::Statement again(*m_database,
                                  "UPDATE holder SET expires = ?, expires_wall = ?, ttl = ? WHERE key = ?");
          again.bind(1, number(now.boot + ask.ttl));
          again.bind(2, number(now.wall + ask.ttl));
          again.bind(3, static_cast<std::int64_t>(ask.ttl.count()));
          again.bind(4, key.text());
          again.exec();
          return core::Granted{fence, true};
        }

        std::optional<PlaceRow> first;
        if (!current || !deep) {
          first = head(key, now);
        }
        const auto is_mine = [&](const PlaceRow& place) {
          return place.ask == ask.claim.ask && place.owner == ask.claim.owner;
        };
        // Who is stopped (Ctrl-Z) when his turn comes does not keep all others waiting: he queues again when he goes
        // on.
        while (!current && first && !is_mine(*first) && is_stopped(*first)) {
          drop(key, first->number);
          first = head(key, now);
        }
        if (!current && (!first || is_mine(*first))) {
          if (first) {
            SQLite::Statement& remove = m_database.statement("DELETE FROM place WHERE key = ? AND number = ?");
            remove.bind(1, key.text());
            remove.bind(2, first->number);
            remove.exec();
            // From now on the next one is to look after the holder as often as a head does.
            ring.whom = belled(head(key, now));
          }
          return core::Granted{grant(ask, now), false};
        }

        const auto by = [&]() -> core::Occupant {
          if (current) {
            return shown(std::move(*current), now);
          }
          return core::Promised{first->who, std::max(millis(now.boot - first->since), Millis(0))};
        };
        const std::optional<Millis> holder_left =
            current ? std::optional(millis_up(current->expires - now.boot)) : std::nullopt;

        // Where am I, and who before me let his place lapse?
        const std::optional<std::int64_t> mine = place_of(ask.claim, known, now);
        constexpr std::int64_t behind_all = std::numeric_limits<std::int64_t>::max();
        auto [ahead, lapsed] = before(key, mine.value_or(behind_all), now);
        if (lapsed) {
          ahead -= drop_lapsed(key, mine.value_or(behind_all), now);
        }

        if (!mine && (ask.patience <= Millis(0) || (ask.max_waiting && ahead >= *ask.max_waiting))) {
          if (!current) {
            ring = {belled(first), true};
          }
          return core::Busy{holder_left.value_or(second_asks_again), by(), ask.patience > Millis(0)};
        }

        const core::Instant lapses = now.boot + ask.patience;
        const auto until = ask.wait_left ? std::optional(now.boot + *ask.wait_left) : std::nullopt;
        std::int64_t number_of_place = mine.value_or(0);
        if (mine) {
          if (ask.patience > Millis(0)) {
            SQLite::Statement& stay = m_database.statement("UPDATE place SET lapses = ? WHERE key = ? AND number = ?");
            stay.bind(1, number(lapses));
            stay.bind(2, key.text());
            stay.bind(3, *mine);
            stay.exec();
          }
        } else {
          static const std::string text = fmt::format(
              "INSERT INTO place (key, {}) VALUES (?1, (SELECT coalesce(max(number), 0) + 1 FROM place WHERE key = ?1),"
              "?2,?3,?4,?5,?6,?7,?8,?9,?10,?11,?12,?13,?14,?15,?16) RETURNING number",
              place_columns);
          SQLite::Statement& join = m_database.statement(text.c_str());
          join.bind(1, key.text());
          join.bind(2, ask.claim.owner.bytes());
          join.bind(3, signed_ask(ask.claim.ask));
          join.bind(4, number(lapses));
          join.bind(5, number(now.boot));
          join.bind(6, number(now.wall));
          if (until) {
            join.bind(7, number(*until));
          } else {
            join.bind(7);
          }
          // The bell of a place that was dropped while we were stopped is gone.
          join.bind(8, m_belled == ask.claim.ask && bells().hangs(ask.claim.ask) ? 1 : 0);
          if (ask.keepers) {
            join.bind(9, ask.keepers->realm);
            bind_process(join, 10, ask.keepers->lk);
          } else {
            join.bind(9);
            bind_process(join, 10, std::nullopt);
          }
          bind_who(join, 12, ask.who);
          join.executeStep();
          number_of_place = join.getColumn(0).getInt64();
          join.reset();
        }
        m_place = Place{ask.claim.ask, number_of_place, ahead, lapses};

        // A free lock whose head does not come: its holder expired or crashed and nobody rang, or the head is dead.
        if (!current) {
          ring = {belled(first), true};
        }
        return core::Queued{ahead, asks_again_in(ahead, holder_left, ask), by()};
      });
}

std::optional<core::Queued> SqliteStore::still_queued(const core::Ask& ask) {
  auto answer = read<std::optional<core::Queued>>(std::nullopt, [&](const Now& now) -> std::optional<core::Queued> {
    if (now.rebooted) {
      return std::nullopt;
    }
    std::optional<HolderRow> current = holder(ask.claim.key, now, true);
    if (!current || has_ended(*current, now)) {
      return std::nullopt;
    }
    const std::optional<core::Instant> lapses = end_of_place(ask.claim, m_place->number);
    if (!lapses || *lapses - now.boot < ask.patience / 2) {
      return std::nullopt;
    }
    const auto [ahead, lapsed] = before(ask.claim.key, m_place->number, now);
    // The first two look whether the holder's processes live.
    if (lapsed || (ahead < 2 && are_gone(current->keepers))) {
      return std::nullopt;
    }
    const Millis again = asks_again_in(ahead, millis_up(current->expires - now.boot), ask);
    return core::Queued{ahead, again, shown(std::move(*current), now)};
  });
  return answer ? std::move(*answer) : std::nullopt;
}

// --- renew, release, leave, evict -----------------------------------------------------------------------------------

core::Result<core::Renewal> SqliteStore::renew(const core::Claim& claim, Millis ttl,
                                               const std::optional<core::Keepers>& keepers) {
  // Who was granted in a file that is no longer there has lost, even if a copy of it took its place.
  if (m_database.is_connected() && m_database.moved()) {
    m_database.disconnect();
    return core::Renewal::gone;
  }
  auto renewal = write<core::Renewal>(Database::Missing::leave, core::Renewal::gone, [&](const Now& now) {
    const std::optional<HolderRow> row = holder(claim.key, now, true);
    if (!row) {
      return core::Renewal::gone;
    }
    const bool expired = is_dead(*row, now);
    if (row->held.owner != claim.owner || (!claim.ask.any() && row->held.ask != claim.ask)) {
      return expired ? core::Renewal::gone : core::Renewal::not_mine;
    }
    if (expired && head(claim.key, now)) {
      return core::Renewal::gone;
    }
    const core::Instant expires = std::max(expired ? now.boot : row->expires, now.boot + ttl);
    SQLite::Statement& prolong =
        m_database.statement("UPDATE holder SET expires = ?, expires_wall = ?, ttl = max(ttl, ?) WHERE key = ?");
    prolong.bind(1, number(expires));
    prolong.bind(2, number(now.wall + (expires - now.boot)));
    prolong.bind(3, static_cast<std::int64_t>(ttl.count()));
    prolong.bind(4, claim.key.text());
    prolong.exec();
    if (keepers) {
      SQLite::Statement replace(
          *m_database,
          "UPDATE holder SET realm = ?, lk_pid = ?, lk_started = ?, guardian_pid = ?, guardian_started = ?, "
          "child_pid = ?, child_started = ? WHERE key = ?");
      bind_keepers(replace, 1, keepers);
      replace.bind(8, claim.key.text());
      replace.exec();
    }
    return core::Renewal::renewed;
  });
  m_database.checkpoint(longest_log);
  return renewal;
}

core::Result<core::Released> SqliteStore::release(const core::Claim& claim, std::optional<core::Fence> fence) {
  return end_grant(claim, fence, std::nullopt);
}

core::Result<core::Released> SqliteStore::leave(const core::Claim& claim, Millis after) {
  return end_grant(claim, std::nullopt, after);
}

core::Result<core::Released> SqliteStore::end_grant(const core::Claim& claim, std::optional<core::Fence> fence,
                                                    std::optional<Millis> leave_after) {
  if (m_place && m_place->ask == claim.ask) {
    m_place.reset();
  }
  std::optional<core::AskId> whom;
  auto answer = write<core::Released>(Database::Missing::leave, {}, [&](const Now& now) -> core::Released {
    std::optional<HolderRow> row = holder(claim.key, now, true);
    const bool live = row && !is_dead(*row, now);
    const bool mine = row && row->held.owner == claim.owner && (claim.ask.any() || row->held.ask == claim.ask);
    // A live holder waits nowhere; and "any ask of that owner" means the grant where there is one.
    const bool left = !fence && !(mine && (live || claim.ask.any())) && leave_line(claim, now);
    core::Released released;
    if (mine && (!fence || row->held.fence == fence)) {
      if (live) {
        released.what = core::Release::released;
      } else {
        released = {core::Release::expired, std::nullopt, std::max(millis(now.boot - row->expires), Millis(0))};
      }
      if (live && leave_after && *leave_after > Millis(0)) {
        set_end(claim.key, now, *leave_after);
      } else {
        remove_holder(claim.key);
      }
    } else if (left) {
      released.what = core::Release::left_line;
    } else if (live) {
      released = {core::Release::not_mine, shown(std::move(*row), now), std::nullopt};
    }
    if (released.what != core::Release::not_held && released.what != core::Release::not_mine) {
      whom = belled(head(claim.key, now));
    }
    return released;
  });
  ring_on(claim.key, whom);
  return answer;
}

void SqliteStore::set_end(const core::Key& key, const Now& now, Millis after) {
  SQLite::Statement set_end(
      *m_database,
      "UPDATE holder SET expires = ?, expires_wall = ?, ttl = max(ttl, ?), realm = NULL, lk_pid = NULL, "
      "lk_started = NULL, guardian_pid = NULL, guardian_started = NULL, child_pid = NULL, child_started = NULL "
      "WHERE key = ?");
  set_end.bind(1, number(now.boot + after));
  set_end.bind(2, number(now.wall + after));
  set_end.bind(3, static_cast<std::int64_t>(after.count()));
  set_end.bind(4, key.text());
  set_end.exec();
}

// Whether there was a place that had not lapsed.
bool SqliteStore::leave_line(const core::Claim& claim, const Now& now) {
  SQLite::Statement remove(
      *m_database,
      "DELETE FROM place WHERE key = ?1 AND owner = ?2 AND (ask = ?3 OR ?3 = 0) RETURNING lapses > ?4, ask, bell");
  remove.bind(1, claim.key.text());
  remove.bind(2, claim.owner.bytes());
  remove.bind(3, signed_ask(claim.ask));
  remove.bind(4, number(now.boot));
  bool left = false;
  while (remove.executeStep()) {
    left = left || remove.getColumn(0).getInt() != 0;
    // Its own watch takes it down as well, unless that process is gone and its guardian is doing this.
    if (remove.getColumn(2).getInt() != 0) {
      bells().take_down(unsigned_ask(remove.getColumn(1).getInt64()));
    }
  }
  return left;
}

core::Result<core::Eviction> SqliteStore::evict(const core::Key& key, const core::Occupant& seen) {
  std::optional<core::AskId> whom;
  auto answer = write<core::Eviction>(Database::Missing::leave, core::Eviction::free, [&](const Now& now) {
    const std::optional<HolderRow> row = holder(key, now);
    if (!row) {
      return core::Eviction::free;
    }
    const auto* const held = std::get_if<core::Held>(&seen);
    if (held == nullptr || held->owner != row->held.owner || held->ask != row->held.ask ||
        held->fence != row->held.fence) {
      return core::Eviction::changed;
    }
    remove_holder(key);
    whom = belled(head(key, now));
    return core::Eviction::evicted;
  });
  ring_on(key, whom);
  return answer;
}

// --- the line's bells -----------------------------------------------------------------------------------------------

const Bells& SqliteStore::bells() {
  if (!m_bells) {
    // Every process must come to the same folder, whichever link it took to the file.
    char resolved[PATH_MAX];
    m_bells.emplace(::realpath(m_database.path().c_str(), resolved) != nullptr ? resolved : m_database.path());
  }
  return *m_bells;
}

core::Result<std::unique_ptr<core::Watch>> SqliteStore::watch(const core::Claim& claim) {
  auto connected = m_database.connect(Database::Missing::create);
  if (!connected) {
    return tl::unexpected(std::move(connected.error()));
  }
  auto hung = bells().hang(claim.ask, file_mode(m_database.path()));
  if (hung) {
    m_belled = claim.ask;
  }
  return hung;
}

// The belled head after `deaf`, whom nobody hears, is dropped, unless it has gone meanwhile.
std::optional<core::AskId> SqliteStore::head_without(const core::Key& key, core::AskId deaf) {
  const auto answer = write<std::optional<core::AskId>>(
      Database::Missing::leave, std::nullopt, [&](const Now& now) -> std::optional<core::AskId> {
        std::optional<PlaceRow> first = head(key, now);
        if (first && first->ask == deaf) {
          drop(key, first->number);
          first = head(key, now);
        }
        return belled(first);
      });
  return answer ? *answer : std::nullopt;
}

void SqliteStore::ring_on(const core::Key& key, std::optional<core::AskId> whom) {
  while (whom && bells().ring(*whom) == Bells::Ring::nobody_listens) {
    whom = head_without(key, *whom);
  }
}

// --- status, list ---------------------------------------------------------------------------------------------------

core::Result<core::LockState> SqliteStore::status(const core::Key& key) {
  return read<core::LockState>({key, std::nullopt, 0, {}}, [&](const Now& now) {
    core::LockState state{key, std::nullopt, 0, {}};
    if (std::optional<HolderRow> row = holder(key, now)) {
      state.by = shown(std::move(*row), now);
    }
    static const std::string text = fmt::format("SELECT {} FROM place WHERE key = ? ORDER BY number", place_columns);
    SQLite::Statement& query = m_database.statement(text.c_str());
    query.bind(1, key.text());
    while (query.executeStep()) {
      PlaceRow place = read_place(query);
      if (is_dead(place, now)) {
        continue;
      }
      state.line.push_back({std::move(place.owner),
                            place.ask,
                            std::move(place.who),
                            std::max(millis(now.boot - place.since), Millis(0)),
                            place.since_wall,
                            place.until ? std::optional(millis_up(*place.until - now.boot)) : std::nullopt});
    }
    query.reset();
    state.waiting = state.line.size();
    if (!state.by && !state.line.empty()) {
      state.by = core::Promised{state.line.front().who, state.line.front().waiting_for};
    }
    return state;
  });
}

core::Result<std::vector<core::LockState>> SqliteStore::list(const core::Glob& keys) {
  return read<std::vector<core::LockState>>({}, [&](const Now& now) {
    std::map<std::string, core::LockState> found;
    const auto state_of = [&](const std::string& key) -> core::LockState& {
      return found.try_emplace(key, core::LockState{core::Key::stored(key), std::nullopt, 0, {}}).first->second;
    };
    SQLite::Statement holders(*m_database, fmt::format("SELECT {}, expires_wall FROM holder", holder_columns));
    while (holders.executeStep()) {
      std::string key = holders.getColumn(0).getString();
      if (!keys.matches(key)) {
        continue;
      }
      HolderRow row = with_times(holders, now);
      if (!is_dead(row, now)) {
        state_of(key).by = shown(std::move(row), now);
      }
    }
    SQLite::Statement places(*m_database, fmt::format("SELECT {}, key FROM place ORDER BY key, number", place_columns));
    while (places.executeStep()) {
      std::string key = places.getColumn(16).getString();
      if (!keys.matches(key)) {
        continue;
      }
      PlaceRow place = read_place(places);
      if (is_dead(place, now)) {
        continue;
      }
      core::LockState& state = state_of(key);
      if (!state.by) {
        state.by = core::Promised{std::move(place.who), std::max(millis(now.boot - place.since), Millis(0))};
      }
      ++state.waiting;
    }
    std::vector<core::LockState> states;
    states.reserve(found.size());
    for (auto& [key, state] : found) {
      states.push_back(std::move(state));
    }
    return states;
  });
}

}  // namespace

core::Result<std::unique_ptr<core::Store>> open(const core::StoreUrl& url, const core::StoreOptions& options,
                                                const core::Clock& clock) {
  std::string path = url.rest();
  if (path.empty()) {
    return tl::unexpected(core::StoreError{core::Trouble::misconfigured,
                                           "sqlite: needs a path, for example sqlite:/var/lib/lk/locks.db"});
  }
  if (path.front() != '/') {
    char folder[PATH_MAX];
    if (::getcwd(folder, sizeof folder) == nullptr) {
      return tl::unexpected(core::StoreError{core::Trouble::misconfigured,
                                             "the working directory is gone: give the store an absolute path"});
    }
    path = fmt::format("{}/{}", folder, path);
  }
  return std::make_unique<SqliteStore>(std::move(path), options, clock);
}

}  // namespace stores::sqlite
