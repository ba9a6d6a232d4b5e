// The rows of the database as values, and how they are read and written.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

#include <SQLiteCpp/SQLiteCpp.h>

#include "core/store.hpp"

namespace stores::sqlite {

using Micros = core::BootTime::duration;

// Columns hold microseconds of a clock, and an ask id as a signed number.
core::Instant instant(std::int64_t microseconds);
std::int64_t number(core::Instant time);
std::int64_t number(core::WallTime time);
std::int64_t number(core::AskId ask);
core::AskId ask_id(std::int64_t column);
core::Millis millis(Micros span);
// A holder that has 0.4 ms left is held for one more millisecond, not for none.
core::Millis millis_up(Micros span);

// The rows' clock and the store-wide row, as they are for one transaction.
struct Now {
  core::Instant boot;
  core::WallTime wall;
  core::Fence fence;        // the last one given
  std::int64_t grants = 0;  // so far
  std::string swept;        // the key up to which expired rows were looked for
  bool rebooted = false;    // the rows are of another boot (only seen by readers; writers bring them up to date)
};

struct HolderRow {
  std::string key;
  core::Held held;  // but for `left`
  core::Instant expires;
  core::Millis ttl{0};
  std::optional<core::Keepers> keepers;
};

struct PlaceRow {
  std::string key;
  std::int64_t number = 0;
  core::Owner owner;
  core::AskId ask;
  core::Instant lapses{};
  core::Instant since{};
  core::WallTime since_wall{};
  std::optional<core::Instant> until{};
  bool bell = false;
  std::string realm{};
  core::ProcessId lk{};
  core::Who who{};
};

// In this order they are what the functions below read and bind, from column 0 and parameter 1 on.
inline constexpr const char* holder_columns =
    "key, owner, ask, fence, durable, ttl, expires, expires_wall, since, since_wall, "
    "realm, lk_pid, lk_started, guardian_pid, guardian_started, child_pid, child_started, "
    "host, user, pid, command, note";
inline constexpr int first_of_keepers = 10;
inline constexpr int first_of_holders_who = 17;
inline constexpr const char* place_columns =
    "key, number, owner, ask, lapses, since, since_wall, until, bell, realm, lk_pid, lk_started, "
    "host, user, pid, command, note";
inline constexpr int first_of_places_who = 12;

// By the wall clock after a reboot, and never longer than the ttl.
HolderRow read_holder(SQLite::Statement& row, const Now& now);
PlaceRow read_place(SQLite::Statement& row);

void bind_who(SQLite::Statement& statement, int first, const core::Who& who);  // 5 parameters
void bind_process(SQLite::Statement& statement, int first, const std::optional<core::ProcessId>& process);  // 2
void bind_keepers(SQLite::Statement& statement, int first, const std::optional<core::Keepers>& keepers);    // 7

// By its time alone.
bool has_ended(const HolderRow& row, const Now& now);

core::Held shown(HolderRow row, const Now& now);
core::Promised promised(PlaceRow row, const Now& now);
core::Waiter waiter(PlaceRow row, const Now& now);

}  // namespace stores::sqlite
