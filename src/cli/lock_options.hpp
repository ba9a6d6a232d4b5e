// What the words of a command line say about one lock: its key, its owner, its times.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "cli/exit_code.hpp"
#include "cli/settings.hpp"
#include "core/duration.hpp"
#include "core/names.hpp"
#include "hold/machine.hpp"

namespace cli {

// All throw a usage error that names the option or variable, or a configuration error that names the place in the file.

core::Key parse_key(std::string_view source, std::string_view text);

// For a command that takes a lock: --key or --lock. Unless `raw`, a --key that looks as if a variable in it had been
// empty is refused.
core::Key key_to_take(const std::optional<std::string>& option, bool raw, const NamedLock& named,
                      const Settings& settings);

// --key or --lock, else LK_KEY.
core::Key key_of_lock(const std::optional<std::string>& option, const NamedLock& named, const Settings& settings);
// --owner, else LK_OWNER unless LK_KEY says that it belongs to another key.
core::Owner owner_of_lock(const std::optional<std::string>& option, const core::Key& key);

// "-" is the first line of stdin.
core::Owner parse_owner(const std::string& source, const std::string& text);

// `ttl_given` becomes false where the fallback was used.
core::Millis ttl_of(const Settings& settings, core::Millis shortest, core::Millis fallback, bool* ttl_given = nullptr);

// A duration (0: one try), or "forever", which is nullopt.
std::optional<core::Millis> wait_of(const Given& given);

inline constexpr std::size_t most_waiting = 1'000'000;

// Whose fault a bad value is: that of the command line or environment, or that of a settings file.
ExitCode blame(const Given& given);
// Its value alone.
std::optional<std::string> text_of(const std::optional<Given>& given);
core::Millis duration_of(const Given& given, core::Millis shortest);
hold::OnLost on_lost_of(const Given& given);
std::size_t number_of(const Given& given, std::size_t smallest, std::size_t largest);

}  // namespace cli
