// Where the database file lies: its folder, its mode, and whether SQLite's locks can work there at all.
#pragma once

#include <sys/types.h>

#include <string>

#include "core/store.hpp"

namespace stores::sqlite {

// Creates the folders that are missing, for this user alone (0700).
core::Result<void> make_folder(const std::string& path);

// 0600; 0660 in a folder that is setgid and writable for its group, so that a team can share the store.
mode_t file_mode(const std::string& path);

// Refuses what would give two holders: a network file system (byte locks and shared memory do not reach the other
// machine) and a file that is mounted alone into a container (its -wal and -shm would lie in another folder than
// everybody else's).
core::Result<void> check_location(const std::string& path);

// Why a file that should open does not: names the file or folder, its owner, and the permission that is missing.
core::StoreError explain_no_access(const std::string& path);

}  // namespace stores::sqlite
