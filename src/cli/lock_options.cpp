// Keys, owners and times as users give them.
#include "cli/lock_options.hpp"

#include <unistd.h>

#include <cerrno>

#include <fmt/format.h>

#include "cli/ending.hpp"
#include "cli/environment.hpp"
#include "cli/options.hpp"
#include "core/lease.hpp"
#include "core/text.hpp"

namespace cli {

namespace {

// Byte by byte: what follows the line belongs to whoever reads stdin next.
std::string line_of_stdin() {
  std::string line;
  for (char c = '\0'; line.size() <= core::Owner::longest;) {
    const ssize_t got = ::read(STDIN_FILENO, &c, 1);
    if (got < 0 && errno == EINTR) {
      continue;
    }
    if (got <= 0 || c == '\n') {
      break;
    }
    line += c;
  }
  return line;
}

void check_one_key(const std::optional<std::string>& option, const NamedLock& named) {
  if (option && named.name()) {
    throw usage_error("--key and --lock exclude each other: the settings file has the key of a named lock");
  }
}

Ending key_is_missing(std::string_view where, const Settings& settings) {
  return usage_error(
      fmt::format("--key is missing{}{}",
                  where,
                  settings.has_locks ? ": give --key K, or --lock NAME for one of the settings file" : ""));
}

}  // namespace

core::Key parse_key(std::string_view source, std::string_view text) {
  auto key = core::Key::parse(text);
  if (!key) {
    throw usage_error(fmt::format("{} {}", source, key.error()));
  }
  return *std::move(key);
}

core::Key key_to_take(const std::optional<std::string>& option, bool raw, const NamedLock& named,
                      const Settings& settings) {
  check_one_key(option, named);
  if (named.name()) {
    return named.key(settings.lock);
  }
  if (!option) {
    throw key_is_missing("", settings);
  }
  core::Key key = parse_key("--key", *option);
  const auto is_separator = [](char c) { return c == ':' || c == '/'; };
  const bool at_start = is_separator(key.text().front());
  if (!raw && (at_start || is_separator(key.text().back()))) {
    throw usage_error(fmt::format("--key '{}' {} with '{}': is a variable unset? (--raw-key if it is meant)",
                                  core::escaped(key.text()),
                                  at_start ? "begins" : "ends",
                                  at_start ? key.text().front() : key.text().back()));
  }
  return key;
}

core::Key key_of_lock(const std::optional<std::string>& option, const NamedLock& named, const Settings& settings) {
  check_one_key(option, named);
  if (named.name()) {
    return named.key(settings.lock);
  }
  if (option) {
    return parse_key("--key", *option);
  }
  if (const auto key = variable("LK_KEY")) {
    return parse_key("LK_KEY", *key);
  }
  throw key_is_missing(", and LK_KEY is not set", settings);
}

core::Owner owner_of_lock(const std::optional<std::string>& option, const core::Key& key) {
  if (option) {
    return parse_owner("--owner", *option);
  }
  const auto owner = variable("LK_OWNER");
  if (!owner) {
    throw usage_error("--owner is missing, and LK_OWNER is not set");
  }
  if (const auto its_key = variable("LK_KEY"); its_key && *its_key != key.text()) {
    throw usage_error(fmt::format("--owner is missing: LK_OWNER is that of LK_KEY '{}', not of '{}'",
                                  core::escaped(*its_key),
                                  core::escaped(key.text())));
  }
  return parse_owner("LK_OWNER", *owner);
}

core::Owner parse_owner(const std::string& source, const std::string& text) {
  const bool from_stdin = text == "-";
  auto owner = core::Owner::parse(from_stdin ? line_of_stdin() : text);
  if (!owner) {
    throw usage_error(fmt::format("{} {}", from_stdin ? source + " from stdin" : source, owner.error()));
  }
  return *std::move(owner);
}

core::Millis ttl_of(const Settings& settings, core::Millis shortest, core::Millis fallback, bool* ttl_given) {
  if (ttl_given != nullptr) {
    *ttl_given = settings.ttl.has_value();
  }
  return settings.ttl ? duration_of(*settings.ttl, shortest) : fallback;
}

std::optional<core::Millis> wait_of(const Given& given) {
  if (given.value == "forever") {
    return std::nullopt;
  }
  const auto wait = core::parse_duration(given.value);
  if (!wait) {
    throw Ending(blame(given), fmt::format("{} {}, or forever{}", given.source, wait.error(), but_not(given.value)));
  }
  return *wait;
}

ExitCode blame(const Given& given) { return given.file.empty() ? ExitCode::usage : ExitCode::configuration; }

std::optional<std::string> text_of(const std::optional<Given>& given) {
  return given ? std::optional(given->value) : std::nullopt;
}

core::Millis duration_of(const Given& given, core::Millis shortest) {
  try {
    return to_duration(given.source, given.value, shortest);
  } catch (const Ending& ending) {
    throw Ending(blame(given), ending.what());
  }
}

hold::OnLost on_lost_of(const Given& given) {
  if (given.value == "term") {
    return hold::OnLost::term;
  }
  if (given.value == "kill") {
    return hold::OnLost::kill;
  }
  if (given.value == "warn") {
    return hold::OnLost::warn;
  }
  throw Ending(blame(given), fmt::format("{} must be term, kill or warn{}", given.source, but_not(given.value)));
}

std::size_t number_of(const Given& given, std::size_t smallest, std::size_t largest) {
  try {
    return to_number(given.source, given.value, smallest, largest);
  } catch (const Ending& ending) {
    throw Ending(blame(given), ending.what());
  }
}

}  // namespace cli
