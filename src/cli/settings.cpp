// The order in which the sources of a setting are asked.
#include "cli/settings.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>

#include <fmt/format.h>

#include "cli/ending.hpp"
#include "cli/environment.hpp"
#include "cli/nearest.hpp"
#include "cli/options.hpp"
#include "cli/report.hpp"
#include "core/text.hpp"

namespace cli {

namespace {

std::optional<Given> copy_of(const Given* given) { return given == nullptr ? std::nullopt : std::optional(*given); }

std::optional<Given> first_of(const std::optional<std::string>& on_the_line, const char* option, const Given* of_lock,
                              const char* variable_name, const Given* fallback) {
  if (on_the_line) {
    return Given{*on_the_line, option};
  }
  if (of_lock != nullptr) {
    return *of_lock;
  }
  if (variable_name != nullptr) {
    if (auto value = variable(variable_name)) {
      return Given{*std::move(value), variable_name};
    }
  }
  return copy_of(fallback);
}

std::string files_of(const Configuration& configuration) {
  std::string text;
  for (const auto& file : configuration.files) {
    text += fmt::format("{}{}", text.empty() ? "" : ", ", core::escaped(file.path));
  }
  return text;
}

// A name that no section has: what there is instead.
[[noreturn]] void no_such(const Given& asked, std::string_view kind, const Sections& sections,
                          const Configuration& configuration, std::string_view way_out) {
  std::vector<std::string_view> names;
  std::string list;
  for (const auto& [name, section] : sections) {
    names.push_back(name);
    list += fmt::format("{}{}", list.empty() ? "" : ", ", name);
  }
  const std::string near = did_you_mean(asked.value, names);
  throw configuration_error(fmt::format(
      "{}: no {} is called '{}'{}{}",
      asked.source,
      kind,
      core::escaped(asked.value),
      near,
      !list.empty() ? fmt::format(" (there is {})", list)
                    : fmt::format(": no settings file names one ({}){}", files_of(configuration), way_out)));
}

}  // namespace

bool colors_stdout(const std::optional<Given>& color) {
  const std::string when = color ? color->value : "auto";
  if (when == "always" || when == "never") {
    return when == "always";
  }
  if (when != "auto") {
    throw configuration_error(fmt::format("{} must be auto, always or never{}", color->source, but_not(when)));
  }
  return ::isatty(STDOUT_FILENO) == 1 && variable("TERM") != "dumb";
}

std::filesystem::path password_path(const Given& file) {
  const std::filesystem::path path = file.value;
  return path.is_relative() ? std::filesystem::path(file.file).parent_path() / path : path;
}

std::string password_in(const Given& file, bool quiet) {
  const std::filesystem::path path = password_path(file);
  std::ifstream in(path);
  std::string why = in ? "its first line is empty" : std::strerror(errno);
  constexpr std::size_t longest_password = 4096;
  std::string password(longest_password + 1, '\0');
  in.read(password.data(), static_cast<std::streamsize>(password.size()));
  password.resize(static_cast<std::size_t>(in.gcount()));
  password.resize(std::min(password.find('\n'), password.size()));
  if (password.size() > longest_password) {
    why = "its first line is too long for a password";
    password.clear();
  }
  if (password.empty()) {
    throw configuration_error(
        fmt::format("{}: no password can be read from {} ({})", file.source, core::escaped(path.string()), why));
  }
  if (password.back() == '\r') {
    password.pop_back();
  }
  struct stat found {};
  if (!quiet && ::stat(path.c_str(), &found) == 0 && (found.st_mode & S_IROTH) != 0) {
    say(fmt::format("{} holds a password that every user can read: chmod 600 it", core::escaped(path.string())));
  }
  return password;
}

void resolve_store(const Configuration& configuration, const Given& asked, Settings& settings) {
  if (!is_name(asked.value)) {
    settings.store = asked;
    return;
  }
  const auto found = configuration.stores.find(asked.value);
  if (found == configuration.stores.end()) {
    no_such(asked, "store", configuration.stores, configuration, "; a path has a slash, like ./locks.db");
  }
  const Section& section = found->second;
  const Given* const url = find(section.entries, "url");
  if (url == nullptr) {
    throw configuration_error(fmt::format("{} has no url, for example url = \"redis://host:6379/0\"", section.source));
  }
  settings.store = *url;
  settings.store_name = asked;
  if (!settings.prefix) {
    settings.prefix = copy_of(find(section.entries, "prefix"));
  }
  if (!settings.password) {
    settings.password = copy_of(find(section.entries, "password"));
  }
}

Settings settle(const CommonOptions& line, const std::optional<std::string>& ttl, const NamedLock& named) {
  const Configuration configuration = read_configuration(line.config);
  if (!line.quiet) {
    for (const std::string& warning : configuration.warnings) {
      say(warning);
    }
  }
  Settings settings;
  named.check();
  if (named.name()) {
    const auto found = configuration.locks.find(*named.name());
    if (found == configuration.locks.end()) {
      no_such({*named.name(), "--lock"}, "lock", configuration.locks, configuration, "");
    }
    settings.lock = found->second;
  }
  settings.has_locks = !configuration.locks.empty();
  settings.prefix = first_of(line.prefix, "--prefix", nullptr, "LK_PREFIX", nullptr);
  // Empty is as good as not set: a password that a job's environment is to fill in often comes empty.
  if (auto password = variable("LK_REDIS_PASSWORD"); password && !password->empty()) {
    settings.password = Given{*std::move(password), "LK_REDIS_PASSWORD"};
  }
  settings.ttl = first_of(ttl, "--ttl", find(settings.lock.entries, "ttl"), "LK_TTL", configuration.default_of("ttl"));
  const auto store = first_of(
      line.store, "--store", find(settings.lock.entries, "store"), "LK_STORE", configuration.default_of("store"));
  if (store) {
    resolve_store(configuration, *store, settings);
    if (settings.store_name) {
      const Entries& entries = configuration.stores.find(settings.store_name->value)->second.entries;
      if (const Given* const file = find(entries, "password_file"); file != nullptr && !settings.password) {
        settings.password = Given{password_in(*file, line.quiet), file->source, file->file};
      }
    }
  }
  if (!settings.prefix) {
    settings.prefix = copy_of(configuration.default_of("prefix"));
  }
  if (!line.color.empty()) {
    settings.color_when = Given{line.color, "--color"};
  } else if (!variable("NO_COLOR").value_or("").empty()) {
    settings.color_when = Given{"never", "NO_COLOR"};
  } else {
    settings.color_when = copy_of(configuration.default_of("color"));
  }
  settings.color = colors_stdout(settings.color_when);
  return settings;
}

std::optional<Given> option_or_lock(const std::optional<std::string>& option, const char* option_name,
                                    const Settings& settings, const char* name) {
  return first_of(option, option_name, find(settings.lock.entries, name), nullptr, nullptr);
}

}  // namespace cli
