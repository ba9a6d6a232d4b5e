// The table of those who wait: a row for each place in a lock's line. All of it within the transaction of a verb.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "core/store.hpp"
#include "stores/sqlite/bell.hpp"
#include "stores/sqlite/database.hpp"
#include "stores/sqlite/processes.hpp"
#include "stores/sqlite/rows.hpp"

namespace stores::sqlite {

inline constexpr core::Millis second_asks_again{1000};
// When a waiter with so many `ahead` is to ask again: the slow heartbeats of SPEC 6.
core::Millis asks_again_in(std::size_t ahead, std::optional<core::Millis> holder_left, const core::Ask& ask);

class Line {
public:
  Line(Database& database, Processes& processes, const Bells& bells)
      : m_database(database), m_processes(processes), m_bells(bells) {}

  // The first that is not known to be dead; those before it are dropped.
  std::optional<PlaceRow> head(const core::Key& key, const Now& now);
  // First come first; dead ones are left out.
  std::vector<PlaceRow> living(const core::Key& key, const Now& now);
  // The same for every key that matches, key by key.
  std::vector<PlaceRow> living(const core::Glob& keys, const Now& now);

  // The number of this claim's place. `hint`: where it was last seen.
  std::optional<std::int64_t> find(const core::Claim& claim, std::optional<std::int64_t> hint, const Now& now);
  // Nullopt where that place is not this claim's.
  std::optional<core::Instant> lapses(const core::Claim& claim, std::int64_t number);

  struct Ahead {
    std::size_t count;
    bool lapsed;  // some of them
  };
  Ahead ahead_of(const core::Key& key, std::int64_t number, const Now& now);
  // How many of those ahead had lapsed.
  std::size_t drop_lapsed(const core::Key& key, std::int64_t ahead_of, const Now& now);

  // Takes the last place, and returns its number.
  std::int64_t join(const core::Ask& ask, bool bell, const Now& now);
  void stay(const core::Key& key, std::int64_t number, core::Instant lapses);
  // Whether this claim (of any ask: all of its owner) had a place that had not lapsed.
  bool leave(const core::Claim& claim, const Now& now);
  // Of one that is dead or does not come: its bell is taken down.
  void drop(const core::Key& key, std::int64_t number);
  void remove(const core::Key& key, std::int64_t number);
  void prepare_remove();

private:
  Database& m_database;
  Processes& m_processes;
  const Bells& m_bells;
};

}  // namespace stores::sqlite
