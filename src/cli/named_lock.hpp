// --lock and --with: a lock that the settings file defines, and the values of its parameters.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "cli/config_file.hpp"
#include "core/glob.hpp"
#include "core/names.hpp"

namespace cli {

class Options;

class NamedLock {
public:
  void declare(Options& options);

  const std::optional<std::string>& name() const noexcept { return m_name; }

  // `section` is [locks.NAME]. Its key with the parameters filled in: "shipment:{shipment}" with shipment=7 is
  // "shipment:7", and "{{" stands for "{". Throws a usage error that names what is missing, empty or unknown.
  core::Key key(const Section& section) const;
  // --with without --lock is a usage error.
  void check() const;
  // The same where some values may be missing: what matches any of them.
  core::Glob glob(const Section& section) const;
  bool is_complete(const Section& section) const;

private:
  std::optional<std::string> m_name;
  std::vector<std::string> m_with;
};

// The entry `key` of [locks.NAME]. Throws a configuration error where it has none.
const Given& key_entry(const std::string& name, const Section& section);
// Calls `text` for each character of a key that stands for itself, and `parameter` for each name in braces. Throws a
// configuration error where its braces do not match.
void walk_key(const Given& key, const std::function<void(char)>& text,
              const std::function<void(const std::string&)>& parameter);
// The parameters in a key, in their order. Throws a configuration error where its braces do not match.
std::vector<std::string> parameters_of(const Given& key);

}  // namespace cli
