// The settings files: what they may hold, and what they hold here.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace cli {

// A value as it was written, and how an error about it begins: the option or the variable it came from, or the place in
// a file ("/etc/lk/config.toml:3:7: ttl").
struct Given {
  std::string value;
  std::string source;
  std::string file = {};  // of a settings file
};
using Entries = std::map<std::string, Given, std::less<>>;

struct Section {
  Entries entries;
  std::string source;  // how an error about it begins ("/etc/lk/config.toml:3:1: [locks.nightly]")
};
using Sections = std::map<std::string, Section, std::less<>>;

// THE lists of what a file may hold.
const std::vector<std::string_view>& default_names();  // in [defaults]
const std::vector<std::string_view>& store_names();    // in [stores.NAME]
const std::vector<std::string_view>& lock_names();     // in [locks.NAME]

struct Configuration {
  struct File {
    std::string path;
    std::string_view state;  // for people: read, not there, or why it was not read
  };
  std::vector<File> files;  // in the order they were asked; a later one wins, value by value
  Entries defaults;
  Sections stores;
  Sections locks;
  std::vector<std::string> warnings;  // sentences

  const Given* default_of(std::string_view name) const;
};

const Given* find(const Entries& entries, std::string_view name);

// `option` (--config), else LK_CONFIG, names the one file to read; else /etc/lk/config.toml and the user's own are
// read where they exist. Throws Ending (78) with file, line and column for what is no TOML or has no place here. The
// values themselves are looked at by whoever uses them.
Configuration read_configuration(const std::optional<std::string>& option);

// A name in --store or --lock: what cannot be a path or a URL.
bool is_name(std::string_view text);

}  // namespace cli
