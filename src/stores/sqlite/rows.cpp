// Column by column.
#include "stores/sqlite/rows.hpp"

#include <algorithm>
#include <utility>

namespace stores::sqlite {

namespace {

using core::Millis;

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

core::WallTime wall_time(std::int64_t microseconds) { return core::WallTime(std::chrono::microseconds(microseconds)); }

}  // namespace

core::Instant instant(std::int64_t microseconds) { return core::Instant(Micros(microseconds)); }
std::int64_t number(core::Instant time) { return time.time_since_epoch().count(); }
std::int64_t number(core::WallTime time) { return time.time_since_epoch().count(); }
std::int64_t number(core::AskId ask) { return static_cast<std::int64_t>(ask.value); }
core::AskId ask_id(std::int64_t column) { return {static_cast<std::uint64_t>(column)}; }
Millis millis(Micros span) { return std::chrono::duration_cast<Millis>(span); }
Millis millis_up(Micros span) { return std::max(std::chrono::ceil<Millis>(span), Millis(0)); }

HolderRow read_holder(SQLite::Statement& row, const Now& now) {
  const core::WallTime since = wall_time(row.getColumn(9).getInt64());
  HolderRow holder{row.getColumn(0).getString(),
                   {core::Owner::stored(row.getColumn(1).getString()),
                    ask_id(row.getColumn(2).getInt64()),
                    core::Fence{row.getColumn(3).getInt64()},
                    read_who(row, first_of_holders_who),
                    row.getColumn(4).getInt() != 0,
                    std::max(millis(now.boot - instant(row.getColumn(8).getInt64())), Millis(0)),
                    since,
                    std::nullopt},
                   instant(row.getColumn(6).getInt64()),
                   Millis(row.getColumn(5).getInt64()),
                   std::nullopt};
  if (now.rebooted) {
    const Micros left = wall_time(row.getColumn(7).getInt64()) - now.wall;
    holder.expires = now.boot + std::min<Micros>(left, holder.ttl);
    holder.held.held_for = std::max(millis(now.wall - since), Millis(0));
  }
  const bool has_realm = !row.getColumn(first_of_keepers).isNull();
  if (const auto lk = read_process(row, first_of_keepers + 1); has_realm && lk) {
    holder.keepers = core::Keepers{row.getColumn(first_of_keepers).getString(),
                                   *lk,
                                   read_process(row, first_of_keepers + 3),
                                   read_process(row, first_of_keepers + 5)};
  } else {
    // Holders::leave; where they are not known yet there is no realm either.
    holder.held.command_ended = has_realm && !holder.held.durable;
  }
  return holder;
}

PlaceRow read_place(SQLite::Statement& row) {
  PlaceRow place{row.getColumn(0).getString(),
                 row.getColumn(1).getInt64(),
                 core::Owner::stored(row.getColumn(2).getString()),
                 ask_id(row.getColumn(3).getInt64())};
  place.lapses = instant(row.getColumn(4).getInt64());
  place.since = instant(row.getColumn(5).getInt64());
  place.since_wall = wall_time(row.getColumn(6).getInt64());
  if (!row.getColumn(7).isNull()) {
    place.until = instant(row.getColumn(7).getInt64());
  }
  place.bell = row.getColumn(8).getInt() != 0;
  place.realm = row.getColumn(9).getString();
  place.lk = {row.getColumn(10).getInt64(), row.getColumn(11).getInt64()};
  place.who = read_who(row, first_of_places_who);
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

// An end further away than the ttl was written under another clock; believing it could lock the key for years.
bool has_ended(const HolderRow& row, const Now& now) {
  return (now.rebooted && !row.held.durable) || row.expires <= now.boot ||
         row.expires > now.boot + row.ttl + std::chrono::seconds(1);
}

core::Held shown(HolderRow row, const Now& now) {
  row.held.left = millis_up(row.expires - now.boot);
  return std::move(row.held);
}

core::Promised promised(PlaceRow row, const Now& now) {
  return {std::move(row.who), std::max(millis(now.boot - row.since), Millis(0))};
}

core::Waiter waiter(PlaceRow row, const Now& now) {
  return {std::move(row.owner),
          row.ask,
          std::move(row.who),
          std::max(millis(now.boot - row.since), Millis(0)),
          row.since_wall,
          row.until ? std::optional(millis_up(*row.until - now.boot)) : std::nullopt};
}

}  // namespace stores::sqlite
