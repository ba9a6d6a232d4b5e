// The table of those who hold: one row a lock. All of it within the transaction of a verb.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "core/store.hpp"
#include "stores/sqlite/database.hpp"
#include "stores/sqlite/processes.hpp"
#include "stores/sqlite/rows.hpp"

namespace stores::sqlite {

class Holders {
public:
  Holders(Database& database, Processes& processes) : m_database(database), m_processes(processes) {}

  // Also one that is dead: until a sweep it may be renewed by its own claim.
  std::optional<HolderRow> find(const core::Key& key, const Now& now);
  std::optional<HolderRow> find_living(const core::Key& key, const Now& now);
  std::vector<HolderRow> living(const core::Glob& keys, const Now& now);

  // The lock is this ask's from now on. Now and then sweeps some rows that ended long ago.
  core::Fence grant(const core::Ask& ask, const Now& now);
  // The ttl of the same grant begins anew.
  void restart(const core::Key& key, core::Millis ttl, const Now& now);
  void prolong(const core::Key& key, core::Instant expires, core::Millis ttl, const Now& now);
  void replace_keepers(const core::Key& key, const core::Keepers& keepers);
  // Nobody keeps it any more: it ends by itself after that time.
  void leave(const core::Key& key, core::Millis after, const Now& now);
  void remove(const std::string& key);

  // While there is time: the first grant and the first removal of a connection are 50 and 20 us sooner then.
  void prepare_grant();
  void prepare_remove();

private:
  std::string sweep(const Now& now);

  Database& m_database;
  Processes& m_processes;
};

}  // namespace stores::sqlite
