// The only file that knows toml++.
#include "cli/config_file.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include <fmt/format.h>
#include <toml++/toml.h>

#include "cli/ending.hpp"
#include "cli/environment.hpp"
#include "cli/nearest.hpp"
#include "core/text.hpp"
#include "os/fd.hpp"

namespace cli {

namespace {

constexpr const char* of_the_machine = "/etc/lk/config.toml";
// A file of 10,000 locks has 2 MB.
constexpr std::size_t largest = std::size_t{16} * 1024 * 1024;

std::string place(const std::string& path, const toml::source_position& at) {
  return fmt::format("{}:{}:{}", core::escaped(path), at.line, at.column);
}

std::string place(const std::string& path, const toml::node& node) { return place(path, node.source().begin); }

// Nullopt where there is no file.
std::optional<std::string> content_of(const std::string& path, struct stat& found) {
  const os::Fd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file) {
    if (errno == ENOENT || errno == ENOTDIR) {
      return std::nullopt;
    }
    const int error = errno;
    throw Ending(os::is_shortage(error) ? ExitCode::system : ExitCode::configuration,
                 fmt::format("cannot read {}: {}", core::escaped(path), std::strerror(error)));
  }
  ::fstat(file.get(), &found);
  std::string content;
  char buffer[4096];
  while (true) {
    const ssize_t got = ::read(file.get(), buffer, sizeof buffer);
    if (got < 0 && errno == EINTR) {
      continue;
    }
    if (got < 0) {
      throw configuration_error(fmt::format("cannot read {}: {}", core::escaped(path), std::strerror(errno)));
    }
    if (got == 0) {
      return content;
    }
    content.append(buffer, static_cast<std::size_t>(got));
    if (content.size() > largest) {
      throw configuration_error(fmt::format("{} is too large for a settings file", core::escaped(path)));
    }
  }
}

std::string_view line_of(std::string_view content, std::size_t number) {
  for (; number > 1; --number) {
    content.remove_prefix(std::min(content.find('\n'), content.size() - 1) + 1);
  }
  return content.substr(0, content.find('\n'));
}

// toml++ has written some characters as \uXXXX: no backslash of its text is one to escape.
std::string escaped_once(std::string_view description) {
  std::string text;
  while (true) {
    const std::size_t backslash = std::min(description.find('\\'), description.size());
    text += core::escaped(description.substr(0, backslash));
    if (backslash == description.size()) {
      return text;
    }
    text += '\\';
    description.remove_prefix(backslash + 1);
  }
}

class Reader {
public:
  Reader(const std::string& path, Configuration& configuration) : m_path(path), m_configuration(configuration) {}

  void read(const std::string& content) {
    try {
      const toml::table file = toml::parse(content, m_path);
      for (const auto& [key, node] : file) {
        const std::string_view name = key.str();
        if (name == "defaults") {
          entries(table(node, name), "[defaults]", default_names(), m_configuration.defaults);
        } else if (name == "stores") {
          sections(table(node, name), "stores", store_names(), m_configuration.stores);
        } else if (name == "locks") {
          sections(table(node, name), "locks", lock_names(), m_configuration.locks);
        } else {
          unknown(key, "a settings file", {"defaults", "stores", "locks"});
        }
      }
    } catch (const toml::parse_error& error) {
      // A description may quote the value, and a value may be a password.
      const std::string_view line = line_of(content, error.source().begin.line);
      const bool secret = line.find("password") != std::string_view::npos || line.find("://") != std::string_view::npos;
      throw configuration_error(
          fmt::format("{}: {}",
                      place(m_path, error.source().begin),
                      secret ? "this is not TOML: text stands in \"quotes\"" : escaped_once(error.description())));
    }
  }

private:
  const toml::table& table(const toml::node& node, std::string_view name) const {
    if (const auto* const inner = node.as_table()) {
      return *inner;
    }
    throw configuration_error(
        fmt::format("{}: {} must be a table: [{}]", place(m_path, node), core::escaped(name), core::escaped(name)));
  }

  [[noreturn]] void unknown(const toml::key& key, std::string_view where,
                            const std::vector<std::string_view>& known) const {
    throw configuration_error(fmt::format("{}: {} has no '{}'{}",
                                          place(m_path, key.source().begin),
                                          where,
                                          core::escaped(key.str()),
                                          did_you_mean(key.str(), known)));
  }

  void sections(const toml::table& all, std::string_view kind, const std::vector<std::string_view>& known,
                Sections& target) const {
    for (const auto& [key, node] : all) {
      const std::string name(key.str());
      if (!is_name(name)) {
        throw configuration_error(fmt::format("{}: {}.{} must have a name of letters, digits, '.', '-' and '_'",
                                              place(m_path, node),
                                              kind,
                                              core::escaped(name)));
      }
      const std::string title = fmt::format("[{}.{}]", kind, name);
      Section& section = target[name];
      section.source = fmt::format("{}: {}", place(m_path, node), title);
      entries(table(node, fmt::format("{}.{}", kind, name)), title, known, section.entries);
    }
  }

  void entries(const toml::table& section, std::string_view title, const std::vector<std::string_view>& known,
               Entries& target) const {
    for (const auto& [key, node] : section) {
      const std::string name(key.str());
      if (std::find(known.begin(), known.end(), name) == known.end()) {
        unknown(key, title, known);
      }
      target[name] = Given{text_of(node, name), fmt::format("{}: {}", place(m_path, node), name), m_path};
    }
  }

  std::string text_of(const toml::node& node, std::string_view name) const {
    if (const auto* const text = node.as_string()) {
      return text->get();
    }
    if (const auto* const integer = node.as_integer()) {
      return fmt::format("{}", integer->get());
    }
    if (const auto* const number = node.as_floating_point()) {
      return fmt::format("{}", number->get());
    }
    throw configuration_error(
        fmt::format("{}: {} must be text in quotes or a number", place(m_path, node), core::escaped(name)));
  }

  const std::string& m_path;
  Configuration& m_configuration;
};

bool is_with_password(const Given* url) {
  if (url == nullptr) {
    return false;
  }
  const std::size_t at = url->value.rfind('@');
  const std::size_t colon = url->value.find(':', url->value.find("//"));
  return at != std::string::npos && colon < at;
}

bool holds_a_password(const Configuration& configuration) {
  const auto in_section = [](const auto& section) {
    const Entries& entries = section.second.entries;
    return find(entries, "password") != nullptr || is_with_password(find(entries, "url")) ||
           is_with_password(find(entries, "store"));
  };
  return is_with_password(configuration.default_of("store")) ||
         std::any_of(configuration.stores.begin(), configuration.stores.end(), in_section) ||
         std::any_of(configuration.locks.begin(), configuration.locks.end(), in_section);
}

// Whether it was there. `owner` other than root or us: somebody else could decide where our locks live.
bool read_file(const std::string& path, bool of_a_user, Configuration& configuration) {
  struct stat found {};
  const auto content = content_of(path, found);
  if (content && of_a_user && found.st_uid != 0 && found.st_uid != ::geteuid()) {
    configuration.warnings.push_back(
        fmt::format("{} belongs to another user and is not read; --config reads it", core::escaped(path)));
    configuration.files.push_back({path, "of another user, not read"});
    return true;
  }
  configuration.files.push_back({path, content ? "read" : "not there"});
  if (!content) {
    return false;
  }
  Configuration here;
  Reader(path, here).read(*content);
  if (S_ISREG(found.st_mode) && (found.st_mode & S_IROTH) != 0 && holds_a_password(here)) {
    configuration.warnings.push_back(
        fmt::format("{} holds a password that every user can read: chmod 600 it", core::escaped(path)));
  }
  const auto take = [](Entries& target, Entries& source) {
    // Two ways to say one thing: the later file's counts.
    if (source.count("password") + source.count("password_file") > 0) {
      target.erase("password");
      target.erase("password_file");
    }
    for (auto& [name, given] : source) {
      target.insert_or_assign(name, std::move(given));
    }
  };
  const auto take_all = [&take](Sections& target, Sections& source) {
    for (auto& [name, section] : source) {
      take(target[name].entries, section.entries);
      target[name].source = std::move(section.source);
    }
  };
  take(configuration.defaults, here.defaults);
  take_all(configuration.stores, here.stores);
  take_all(configuration.locks, here.locks);
  return true;
}

std::optional<std::string> of_this_user() {
  // The base directory specification: a relative path is to be ignored.
  if (const auto folder = variable("XDG_CONFIG_HOME"); folder && !folder->empty() && folder->front() == '/') {
    return *folder + "/lk/config.toml";
  }
  if (const auto home = variable("HOME"); home && !home->empty() && home->front() == '/') {
    return *home + "/.config/lk/config.toml";
  }
  return std::nullopt;
}

}  // namespace

const std::vector<std::string_view>& default_names() {
  static const std::vector<std::string_view> names{"store", "prefix", "ttl", "color"};
  return names;
}

const std::vector<std::string_view>& store_names() {
  static const std::vector<std::string_view> names{"url", "password", "password_file", "prefix"};
  return names;
}

const std::vector<std::string_view>& lock_names() {
  static const std::vector<std::string_view> names{
      "key", "ttl", "wait", "store", "note", "max_waiting", "kill_after", "on_lost", "min_hold", "busy_exit"};
  return names;
}

const Given* find(const Entries& entries, std::string_view name) {
  const auto found = entries.find(name);
  return found == entries.end() ? nullptr : &found->second;
}

const Given* Configuration::default_of(std::string_view name) const { return find(defaults, name); }

bool is_name(std::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' || c == '-' ||
           c == '_';
  });
}

Configuration read_configuration(const std::optional<std::string>& option) {
  Configuration configuration;
  const auto named = option ? option : variable("LK_CONFIG");
  if (named && (option || !named->empty())) {
    if (!read_file(*named, false, configuration)) {
      throw configuration_error(
          fmt::format("{}: there is no file {}", option ? "--config" : "LK_CONFIG", core::escaped(*named)));
    }
    return configuration;
  }
  read_file(of_the_machine, false, configuration);
  if (const auto path = of_this_user()) {
    read_file(*path, true, configuration);
  }
  return configuration;
}

}  // namespace cli
