// One statement each, prepared once for a connection.
#include "stores/sqlite/holders.hpp"

#include <algorithm>
#include <chrono>
#include <utility>

#include <fmt/format.h>

namespace stores::sqlite {

namespace {

using core::Millis;

// An expired row stays this long for its own claim to renew, then a sweep removes it.
constexpr Millis swept_after{10'000};
// Four rows a grant, in one grant of eight: a sweep takes 40 us even where there is nothing to do.
constexpr int grants_per_sweep = 8;
constexpr int swept_at_once = 32;

const char* insertion() {
  static const std::string text = fmt::format(
      "INSERT OR REPLACE INTO holder ({}) VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)", holder_columns);
  return text.c_str();
}
constexpr const char* mark_of_grant = "UPDATE store SET fence = ?, swept = ?, grants = grants + 1";
constexpr const char* removal = "DELETE FROM holder WHERE key = ?";

}  // namespace

std::optional<HolderRow> Holders::find(const core::Key& key, const Now& now) {
  static const std::string text = fmt::format("SELECT {} FROM holder WHERE key = ?", holder_columns);
  SQLite::Statement& query = m_database.statement(text.c_str());
  query.bind(1, key.text());
  auto row = query.executeStep() ? std::optional(read_holder(query, now)) : std::nullopt;
  query.reset();
  return row;
}

std::optional<HolderRow> Holders::find_living(const core::Key& key, const Now& now) {
  auto row = find(key, now);
  return row && !m_processes.is_dead(*row, now) ? std::move(row) : std::nullopt;
}

std::vector<HolderRow> Holders::living(const core::Glob& keys, const Now& now) {
  static const std::string text = fmt::format("SELECT {} FROM holder", holder_columns);
  SQLite::Statement& query = m_database.statement(text.c_str());
  std::vector<HolderRow> rows;
  while (query.executeStep()) {
    if (!keys.matches(query.getColumn(0).getString())) {
      continue;
    }
    if (HolderRow row = read_holder(query, now); !m_processes.is_dead(row, now)) {
      rows.push_back(std::move(row));
    }
  }
  query.reset();
  return rows;
}

void Holders::prepare_grant() {
  m_database.statement(insertion());
  m_database.statement(mark_of_grant);
}

void Holders::prepare_remove() { m_database.statement(removal); }

core::Fence Holders::grant(const core::Ask& ask, const Now& now) {
  const core::Fence fence{std::max(now.fence.value + 1, number(now.wall))};
  SQLite::Statement& insert = m_database.statement(insertion());
  insert.bind(1, ask.claim.key.text());
  insert.bind(2, ask.claim.owner.bytes());
  insert.bind(3, number(ask.claim.ask));
  insert.bind(4, fence.value);
  insert.bind(5, ask.durable ? 1 : 0);
  insert.bind(6, static_cast<std::int64_t>(ask.ttl.count()));
  insert.bind(7, number(now.boot + ask.ttl));
  insert.bind(8, number(now.wall + ask.ttl));
  insert.bind(9, number(now.boot));
  insert.bind(10, number(now.wall));
  bind_keepers(insert, first_of_keepers + 1, ask.keepers);
  bind_who(insert, first_of_holders_who + 1, ask.who);
  insert.exec();
  SQLite::Statement& mark = m_database.statement(mark_of_grant);
  mark.bind(1, fence.value);
  mark.bind(2, now.grants % grants_per_sweep == 0 ? sweep(now) : now.swept);
  mark.exec();
  return fence;
}

// Round and round, so that a file of millions of one-off keys stays at a few pages. A grant whose lk is merely stopped
// is left to it. Returns where the next one begins.
std::string Holders::sweep(const Now& now) {
  static const std::string text =
      fmt::format("SELECT {} FROM holder WHERE key > ? ORDER BY key LIMIT {}", holder_columns, swept_at_once);
  SQLite::Statement& query = m_database.statement(text.c_str());
  query.bind(1, now.swept);
  std::vector<std::string> old;
  std::string reached;
  int looked_at = 0;
  for (; query.executeStep(); ++looked_at) {
    HolderRow row = read_holder(query, now);
    reached = row.key;
    if (row.expires <= now.boot - swept_after &&
        (!row.keepers || m_processes.is_gone(row.keepers->lk, row.keepers->realm) ||
         row.expires <= now.boot - std::chrono::hours(24))) {
      old.push_back(std::move(row.key));
    }
  }
  query.reset();
  for (const std::string& key : old) {
    remove(key);
  }
  return looked_at == swept_at_once ? reached : std::string();
}

void Holders::restart(const core::Key& key, Millis ttl, const Now& now) {
  SQLite::Statement& update =
      m_database.statement("UPDATE holder SET expires = ?, expires_wall = ?, ttl = ? WHERE key = ?");
  update.bind(1, number(now.boot + ttl));
  update.bind(2, number(now.wall + ttl));
  update.bind(3, static_cast<std::int64_t>(ttl.count()));
  update.bind(4, key.text());
  update.exec();
}

void Holders::prolong(const core::Key& key, core::Instant expires, Millis ttl, const Now& now) {
  SQLite::Statement& update =
      m_database.statement("UPDATE holder SET expires = ?, expires_wall = ?, ttl = max(ttl, ?) WHERE key = ?");
  update.bind(1, number(expires));
  update.bind(2, number(now.wall + (expires - now.boot)));
  update.bind(3, static_cast<std::int64_t>(ttl.count()));
  update.bind(4, key.text());
  update.exec();
}

void Holders::replace_keepers(const core::Key& key, const core::Keepers& keepers) {
  SQLite::Statement& update = m_database.statement(
      "UPDATE holder SET realm = ?, lk_pid = ?, lk_started = ?, guardian_pid = ?, guardian_started = ?, "
      "child_pid = ?, child_started = ? WHERE key = ?");
  bind_keepers(update, 1, keepers);
  update.bind(8, key.text());
  update.exec();
}

void Holders::leave(const core::Key& key, Millis after, const Now& now) {
  prolong(key, now.boot + after, after, now);
  SQLite::Statement& update = m_database.statement(
      "UPDATE holder SET realm = '', lk_pid = NULL, lk_started = NULL, guardian_pid = NULL, guardian_started = NULL, "
      "child_pid = NULL, child_started = NULL WHERE key = ?");
  update.bind(1, key.text());
  update.exec();
}

void Holders::remove(const std::string& key) {
  SQLite::Statement& remove = m_database.statement(removal);
  remove.bind(1, key);
  remove.exec();
}

}  // namespace stores::sqlite
