// What the words of a command line say about one lock: its key, its owner, its times.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "cli/settings.hpp"
#include "core/duration.hpp"
#include "core/names.hpp"

namespace cli {

// All throw a usage error that names the option or variable.

core::Key parse_key(std::string_view source, std::string_view text);

// For a command that takes a lock. Unless `raw`, a key that looks as if a variable in it had been empty is refused.
core::Key key_to_take(const std::optional<std::string>& option, bool raw);

// --key, else LK_KEY.
core::Key key_of_lock(const std::optional<std::string>& option);
// --owner, else LK_OWNER unless LK_KEY says that it belongs to another key.
core::Owner owner_of_lock(const std::optional<std::string>& option, const core::Key& key);

// "-" is the first line of stdin.
core::Owner parse_owner(const std::string& source, const std::string& text);

// `ttl_given` becomes false where the fallback was used.
core::Millis ttl_of(const Settings& settings, core::Millis shortest, core::Millis fallback, bool* ttl_given = nullptr);

// --wait: a duration (0: one try), or "forever", which is nullopt.
std::optional<core::Millis> parse_wait(const std::string& text);

}  // namespace cli
