// What holds where an option is not given. The command line wins over the named lock, that over the environment, and
// the environment over the defaults of the settings files: who names a lock with --lock means its definition.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "cli/common_options.hpp"
#include "cli/config_file.hpp"
#include "cli/named_lock.hpp"

namespace cli {

struct Settings {
  std::optional<Given> store;       // a URL or a path; that of [stores.NAME] where a name was given
  std::optional<Given> store_name;  // that name
  std::optional<Given> password;    // of LK_REDIS_PASSWORD, else of [stores.NAME]
  std::optional<Given> prefix;
  std::optional<Given> ttl;
  std::optional<Given> color_when;  // always, never; else auto
  Section lock;                     // [locks.NAME], with --lock; else empty
  bool has_locks = false;           // the settings files define some
  bool color = false;               // on stdout
};

// Reads the settings files. Throws Ending.
Settings settle(const CommonOptions& line, const std::optional<std::string>& ttl = std::nullopt,
                const NamedLock& named = {});

// An option where it was given, else what the named lock has under that name.
std::optional<Given> option_or_lock(const std::optional<std::string>& option, const char* option_name,
                                    const Settings& settings, const char* name);

// Of --color or an entry color. Throws Ending.
bool colors_stdout(const std::optional<Given>& color);

// What an entry password_file names: a relative path starts where the settings file is.
std::filesystem::path password_path(const Given& file);
// The first line of that file. Warns unless `quiet` where every user can read it. Throws Ending (78).
std::string password_in(const Given& file, bool quiet);

// What --store, LK_STORE or an entry names, with what [stores.NAME] has where it is a name. Throws Ending (78).
void resolve_store(const Configuration& configuration, const Given& asked, Settings& settings);

}  // namespace cli
