// The tables, and the steps that bring an older file to them.
#pragma once

#include <SQLiteCpp/SQLiteCpp.h>

namespace stores::sqlite {

// PRAGMA user_version of a file that this lk reads and writes. A file with a higher one is left alone.
inline constexpr int schema_version = 2;
// PRAGMA application_id ("lk_\x01"), so that file(1) and a human can tell.
inline constexpr int application_id = 0x6c6b5f01;

// Runs inside a transaction that holds the write lock: from `version` (0: an empty file) to schema_version.
void migrate(SQLite::Database& database, int version);

}  // namespace stores::sqlite
