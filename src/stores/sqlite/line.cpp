// What many waiters do often reads the index `line` alone.
#include "stores/sqlite/line.hpp"

#include <algorithm>
#include <string>
#include <utility>

#include <fmt/format.h>

namespace stores::sqlite {

namespace {

using core::Millis;

// The head of the line looks ten times a second, the second once a second, all others every five seconds.
constexpr Millis head_asks_again{100};
constexpr Millis others_ask_again{5000};

constexpr const char* removal = "DELETE FROM place WHERE key = ? AND number = ?";

}  // namespace

// The head is there when the holder's time ends; the others come a second later, in case all before them are dead.
// Those who came together do not come again together.
Millis asks_again_in(std::size_t ahead, std::optional<Millis> holder_left, const core::Ask& ask) {
  const Millis late(ask.claim.ask.value % (others_ask_again.count() / 10));
  Millis again = ahead == 0 ? head_asks_again : ahead == 1 ? second_asks_again : others_ask_again + late;
  if (holder_left) {
    again = std::min(again, ahead == 0 ? *holder_left : *holder_left + second_asks_again);
  }
  return ask.patience > Millis(0) ? std::min(again, ask.patience / 2) : again;
}

std::optional<PlaceRow> Line::head(const core::Key& key, const Now& now) {
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
    if (!m_processes.is_dead(first, now)) {
      return first;
    }
    drop(key, first.number);
  }
}

std::vector<PlaceRow> Line::living(const core::Key& key, const Now& now) {
  static const std::string text = fmt::format("SELECT {} FROM place WHERE key = ? ORDER BY number", place_columns);
  SQLite::Statement& query = m_database.statement(text.c_str());
  query.bind(1, key.text());
  std::vector<PlaceRow> rows;
  while (query.executeStep()) {
    if (PlaceRow row = read_place(query); !m_processes.is_dead(row, now)) {
      rows.push_back(std::move(row));
    }
  }
  query.reset();
  return rows;
}

std::vector<PlaceRow> Line::living(const core::Glob& keys, const Now& now) {
  static const std::string text = fmt::format("SELECT {} FROM place ORDER BY key, number", place_columns);
  SQLite::Statement& query = m_database.statement(text.c_str());
  std::vector<PlaceRow> rows;
  while (query.executeStep()) {
    if (!keys.matches(query.getColumn(0).getString())) {
      continue;
    }
    if (PlaceRow row = read_place(query); !m_processes.is_dead(row, now)) {
      rows.push_back(std::move(row));
    }
  }
  query.reset();
  return rows;
}

std::optional<std::int64_t> Line::find(const core::Claim& claim, std::optional<std::int64_t> hint, const Now& now) {
  const auto is_mine = [&](std::int64_t number) {
    const std::optional<core::Instant> end = lapses(claim, number);
    return end && *end > now.boot;
  };
  if (hint && is_mine(*hint)) {
    return hint;
  }
  SQLite::Statement& query = m_database.statement("SELECT number FROM place INDEXED BY line WHERE key = ? AND ask = ?");
  query.bind(1, claim.key.text());
  query.bind(2, number(claim.ask));
  std::optional<std::int64_t> found;
  while (!found && query.executeStep()) {
    if (const std::int64_t number = query.getColumn(0).getInt64(); is_mine(number)) {
      found = number;
    }
  }
  query.reset();
  return found;
}

std::optional<core::Instant> Line::lapses(const core::Claim& claim, std::int64_t number) {
  SQLite::Statement& query =
      m_database.statement("SELECT lapses FROM place WHERE key = ? AND number = ? AND ask = ? AND owner = ?");
  query.bind(1, claim.key.text());
  query.bind(2, number);
  query.bind(3, sqlite::number(claim.ask));
  query.bind(4, claim.owner.bytes());
  const auto end = query.executeStep() ? std::optional(instant(query.getColumn(0).getInt64())) : std::nullopt;
  query.reset();
  return end;
}

Line::Ahead Line::ahead_of(const core::Key& key, std::int64_t number, const Now& now) {
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

std::size_t Line::drop_lapsed(const core::Key& key, std::int64_t ahead_of, const Now& now) {
  std::vector<std::int64_t> lapsed;
  SQLite::Statement& query =
      m_database.statement("SELECT number FROM place INDEXED BY line WHERE key = ? AND number < ? AND lapses <= ?");
  query.bind(1, key.text());
  query.bind(2, ahead_of);
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

std::int64_t Line::join(const core::Ask& ask, bool bell, const Now& now) {
  static const std::string text = fmt::format(
      "INSERT INTO place ({}) VALUES (?1, (SELECT coalesce(max(number), 0) + 1 FROM place WHERE key = ?1),"
      "?2,?3,?4,?5,?6,?7,?8,?9,?10,?11,?12,?13,?14,?15,?16) RETURNING number",
      place_columns);
  SQLite::Statement& insert = m_database.statement(text.c_str());
  insert.bind(1, ask.claim.key.text());
  insert.bind(2, ask.claim.owner.bytes());
  insert.bind(3, number(ask.claim.ask));
  insert.bind(4, number(now.boot + ask.patience));
  insert.bind(5, number(now.boot));
  insert.bind(6, number(now.wall));
  if (ask.wait_left) {
    insert.bind(7, number(now.boot + *ask.wait_left));
  } else {
    insert.bind(7);
  }
  insert.bind(8, bell ? 1 : 0);
  if (ask.keepers) {
    insert.bind(9, ask.keepers->realm);
  } else {
    insert.bind(9);
  }
  bind_process(insert, 10, ask.keepers ? std::optional(ask.keepers->lk) : std::nullopt);
  bind_who(insert, first_of_places_who, ask.who);
  insert.executeStep();
  const std::int64_t number = insert.getColumn(0).getInt64();
  insert.reset();
  return number;
}

void Line::stay(const core::Key& key, std::int64_t number, core::Instant lapses) {
  SQLite::Statement& update = m_database.statement("UPDATE place SET lapses = ? WHERE key = ? AND number = ?");
  update.bind(1, sqlite::number(lapses));
  update.bind(2, key.text());
  update.bind(3, number);
  update.exec();
}

bool Line::leave(const core::Claim& claim, const Now& now) {
  SQLite::Statement& remove = m_database.statement(
      "DELETE FROM place WHERE key = ?1 AND owner = ?2 AND (ask = ?3 OR ?3 = 0) RETURNING lapses > ?4, ask, bell");
  remove.bind(1, claim.key.text());
  remove.bind(2, claim.owner.bytes());
  remove.bind(3, number(claim.ask));
  remove.bind(4, number(now.boot));
  bool left = false;
  while (remove.executeStep()) {
    left = left || remove.getColumn(0).getInt() != 0;
    // Its own watch takes it down as well, unless that process is gone and its guardian is doing this.
    if (remove.getColumn(2).getInt() != 0) {
      m_bells.take_down(ask_id(remove.getColumn(1).getInt64()));
    }
  }
  remove.reset();
  return left;
}

void Line::drop(const core::Key& key, std::int64_t number) {
  SQLite::Statement& remove =
      m_database.statement("DELETE FROM place WHERE key = ? AND number = ? RETURNING bell, ask");
  remove.bind(1, key.text());
  remove.bind(2, number);
  if (remove.executeStep() && remove.getColumn(0).getInt() != 0) {
    m_bells.take_down(ask_id(remove.getColumn(1).getInt64()));
  }
  remove.reset();
}

void Line::prepare_remove() { m_database.statement(removal); }

void Line::remove(const core::Key& key, std::int64_t number) {
  SQLite::Statement& remove = m_database.statement(removal);
  remove.bind(1, key.text());
  remove.bind(2, number);
  remove.exec();
}

}  // namespace stores::sqlite
