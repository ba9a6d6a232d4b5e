// Filling in the parameters of a key.
#include "cli/named_lock.hpp"

#include <algorithm>
#include <functional>
#include <map>
#include <utility>

#include <fmt/format.h>

#include "cli/ending.hpp"
#include "cli/nearest.hpp"
#include "cli/options.hpp"
#include "core/text.hpp"

namespace cli {

namespace {

std::map<std::string, std::string> values(const std::string& lock, const Given& key,
                                          const std::vector<std::string>& with) {
  const std::vector<std::string> known = parameters_of(key);
  std::map<std::string, std::string> found;
  for (const std::string& word : with) {
    const std::size_t equals = word.find('=');
    const std::string name = word.substr(0, equals);
    if (equals == std::string::npos) {
      throw usage_error(fmt::format(
          "--with must be NAME=VALUE, for example {}=7{}", known.empty() ? "id" : known.front(), but_not(word)));
    }
    if (std::find(known.begin(), known.end(), name) == known.end()) {
      throw usage_error(
          fmt::format("--with {}: the key of lock {} has no such parameter{}",
                      core::escaped(name),
                      core::escaped(lock),
                      known.empty() ? " (it has none)"
                                    : did_you_mean(name, std::vector<std::string_view>(known.begin(), known.end()))));
    }
    if (equals + 1 == word.size()) {
      throw usage_error(fmt::format("--with {}= is empty: is a variable unset?", core::escaped(name)));
    }
    if (!found.emplace(name, word.substr(equals + 1)).second) {
      throw usage_error(fmt::format("--with {} is given twice", core::escaped(name)));
    }
  }
  return found;
}

}  // namespace

const Given& key_entry(const std::string& name, const Section& section) {
  const Given* const key = find(section.entries, "key");
  if (key == nullptr) {
    throw configuration_error(
        fmt::format("{} has no key, for example key = \"{}:{{id}}\"", section.source, core::escaped(name)));
  }
  return *key;
}

void walk_key(const Given& key, const std::function<void(char)>& text,
              const std::function<void(const std::string&)>& parameter) {
  const std::string_view all = key.value;
  for (std::size_t i = 0; i < all.size(); ++i) {
    const char c = all[i];
    if ((c == '{' || c == '}') && i + 1 < all.size() && all[i + 1] == c) {
      text(c);
      ++i;
    } else if (c == '{') {
      const std::size_t end = all.find('}', i);
      const std::string name(end == std::string_view::npos ? "" : all.substr(i + 1, end - i - 1));
      if (!is_name(name)) {
        throw configuration_error(fmt::format(
            "{} has a '{{' without a name and '}}' behind it; write {{{{ for a brace that is meant", key.source));
      }
      parameter(name);
      i = end;
    } else if (c == '}') {
      throw configuration_error(
          fmt::format("{} has a '}}' without '{{'; write }}}} for one that is meant", key.source));
    } else {
      text(c);
    }
  }
}

std::vector<std::string> parameters_of(const Given& key) {
  std::vector<std::string> names;
  walk_key(
      key,
      [](char) {},
      [&names](const std::string& name) {
        if (std::find(names.begin(), names.end(), name) == names.end()) {
          names.push_back(name);
        }
      });
  return names;
}

void NamedLock::declare(Options& options) {
  options.text("--lock", "NAME", "a lock of the settings file, instead of --key", m_name);
  options.texts("--with", "P=V", "the value of a parameter in its key", m_with);
}

void NamedLock::check() const {
  if (!m_name && !m_with.empty()) {
    throw usage_error("--with goes with --lock: --key has no parameters");
  }
}

core::Key NamedLock::key(const Section& section) const {
  const Given& pattern = key_entry(*m_name, section);
  const auto found = values(*m_name, pattern, m_with);
  std::string text;
  walk_key(
      pattern,
      [&text](char c) { text += c; },
      [&](const std::string& name) {
        const auto value = found.find(name);
        if (value == found.end()) {
          throw usage_error(fmt::format("--with {}=… is missing: the key of lock {} is {}",
                                        name,
                                        core::escaped(*m_name),
                                        core::escaped(pattern.value)));
        }
        text += value->second;
      });
  auto key = core::Key::parse(text);
  if (!key) {
    throw usage_error(fmt::format("--lock {}: its key {}", core::escaped(*m_name), key.error()));
  }
  return *std::move(key);
}

core::Glob NamedLock::glob(const Section& section) const {
  const Given& pattern = key_entry(*m_name, section);
  const auto found = values(*m_name, pattern, m_with);
  std::string text;
  const auto literally = [&text](char c) {
    if (std::string_view("*?[]\\").find(c) != std::string_view::npos) {
      text += '\\';
    }
    text += c;
  };
  walk_key(pattern, literally, [&](const std::string& name) {
    if (const auto value = found.find(name); value != found.end()) {
      std::for_each(value->second.begin(), value->second.end(), literally);
    } else {
      text += '*';
    }
  });
  return core::Glob(text);
}

bool NamedLock::is_complete(const Section& section) const {
  const Given& pattern = key_entry(*m_name, section);
  return values(*m_name, pattern, m_with).size() == parameters_of(pattern).size();
}

}  // namespace cli
