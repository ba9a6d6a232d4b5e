// One step per version; a step is never changed once released.
#include "stores/sqlite/schema.hpp"

#include <array>

#include <fmt/format.h>

namespace stores::sqlite {

namespace {

// Times: `expires`, `since` and `lapses` are microseconds of the boot clock, `*_wall` microseconds since the epoch.
// `booted` is wall clock minus boot clock, `swept` the key up to which expired rows were looked for: an index over
// `expires` would be written with every renewal. `ask` is the 64-bit ask id as a signed integer. A holder whose keepers
// are not known has no realm; one who has left has an empty realm, and no keepers.
constexpr const char* first_step = R"sql(
CREATE TABLE store (
  id INTEGER PRIMARY KEY CHECK (id = 1),
  fence INTEGER NOT NULL,
  boot TEXT NOT NULL,
  booted INTEGER NOT NULL,
  swept TEXT NOT NULL
);
INSERT INTO store VALUES (1, 0, '', 0, '');
CREATE TABLE holder (
  key TEXT PRIMARY KEY, owner TEXT NOT NULL, ask INTEGER NOT NULL, fence INTEGER NOT NULL, durable INTEGER NOT NULL,
  ttl INTEGER NOT NULL, expires INTEGER NOT NULL, expires_wall INTEGER NOT NULL, since INTEGER NOT NULL, since_wall INTEGER NOT NULL,
  realm TEXT, lk_pid INTEGER, lk_started INTEGER, guardian_pid INTEGER, guardian_started INTEGER,
  child_pid INTEGER, child_started INTEGER,
  host TEXT, user TEXT, pid INTEGER, command TEXT, note TEXT
) WITHOUT ROWID;
CREATE TABLE place (
  key TEXT NOT NULL, number INTEGER NOT NULL, owner TEXT NOT NULL, ask INTEGER NOT NULL,
  lapses INTEGER NOT NULL, since INTEGER NOT NULL, since_wall INTEGER NOT NULL, until INTEGER, bell INTEGER NOT NULL,
  realm TEXT, lk_pid INTEGER, lk_started INTEGER,
  host TEXT, user TEXT, pid INTEGER, command TEXT, note TEXT,
  PRIMARY KEY (key, number)
) WITHOUT ROWID;
)sql";

// `grants` counts, as not every grant sweeps. `line` is what each heartbeat of a waiter reads: 200 places are 9 pages
// of it, and 67 of the table.
constexpr const char* second_step = R"sql(
ALTER TABLE store ADD COLUMN grants INTEGER NOT NULL DEFAULT 0;
CREATE INDEX line ON place (key, number, ask, lapses);
)sql";

constexpr std::array<const char*, schema_version> steps{first_step, second_step};

}  // namespace

void migrate(SQLite::Database& database, int version) {
  for (int from = version; from < schema_version; ++from) {
    database.exec(steps[static_cast<std::size_t>(from)]);
  }
  database.exec(fmt::format("PRAGMA application_id = {}; PRAGMA user_version = {};", application_id, schema_version));
}

}  // namespace stores::sqlite
