// lk config: the settings that hold, and where each comes from.
#include <filesystem>
#include <string>
#include <system_error>
#include <vector>

#include <fmt/format.h>

#include "cli/commands.hpp"
#include "cli/ending.hpp"
#include "cli/lock_options.hpp"
#include "cli/open_store.hpp"
#include "cli/options.hpp"
#include "cli/output.hpp"
#include "cli/report.hpp"
#include "cli/table.hpp"
#include "core/lease.hpp"
#include "core/store_url.hpp"
#include "core/text.hpp"
#include "os/real_clock.hpp"

namespace cli {

namespace {

class Config : public Action {
public:
  explicit Config(Options& options) { m_common.declare(options, true); }

  int run(const Call&) override {
    const Configuration configuration = read_configuration(m_common.config);
    const Settings settings = settle(m_common);
    m_rows.push_back({{"SETTING"}, {"VALUE"}, {"FROM"}});
    const core::StoreUrl url = checked_address(settings);
    add("store", settings.store_name ? settings.store_name->value : url.redacted(), source_of_store(settings));
    add("ttl", settings.ttl);
    if (settings.ttl) {
      duration_of(*settings.ttl, core::shortest_ttl);
    }
    add("prefix", settings.prefix, "lk:");
    add("password", settings.password ? "***" : "none", settings.password ? place_of(*settings.password) : "default");
    add("color", settings.color_when, "auto");
    check_defaults(configuration);
    for (const auto& [name, section] : configuration.stores) {
      check_store(configuration, {name, section.source});
      check_password_file(section, settings);
      add_all("stores", name, section.entries);
    }
    for (const auto& [name, section] : configuration.locks) {
      check_lock(configuration, name, section);
      add_all("locks", name, section.entries);
    }
    for (const auto& file : configuration.files) {
      m_rows.push_back({{"file"}, {core::escaped(file.path)}, {std::string(file.state)}});
    }
    print(aligned(m_rows));
    return to_int(ExitCode::ok);
  }

private:
  void add(const std::string& name, const std::string& value, const std::string& from) {
    m_rows.push_back({{name}, {core::escaped(value)}, {core::escaped(from)}});
  }

  void add(const std::string& name, const std::optional<Given>& given, const std::string& otherwise = "") {
    if (given) {
      add(name, given->value, place_of(*given));
    } else {
      add(name, otherwise.empty() ? "each command's own" : otherwise, "default");
    }
  }

  // Of a file its place alone: the name is in the first column already.
  static std::string place_of(const Given& given) {
    return given.file.empty() ? given.source : given.source.substr(0, given.source.rfind(": "));
  }

  static std::string source_of_store(const Settings& settings) {
    return settings.store_name ? place_of(*settings.store_name)
           : settings.store    ? place_of(*settings.store)
                               : "default";
  }

  void add_all(const std::string& kind, const std::string& name, const Entries& entries) {
    for (const auto& [entry, given] : entries) {
      std::string value = given.value;
      if (entry == "password") {
        value = "***";
      } else if (entry == "url" || (entry == "store" && !is_name(value))) {
        value = core::StoreUrl::parse(value)->redacted();
      }
      add(fmt::format("{}.{}.{}", kind, name, entry), value, place_of(given));
    }
  }

  static void check_store(const Configuration& configuration, const Given& asked) {
    Settings settings;
    resolve_store(configuration, asked, settings);
    checked_address(settings);
  }

  // Opening finds what only the store itself knows of its address, and asks nobody yet.
  static core::StoreUrl checked_address(const Settings& settings) {
    core::StoreUrl url = store_url(settings);
    open_store(settings, url, false, nullptr, os::RealClock());
    return url;
  }

  // Only told: another user may be meant to read it.
  void check_password_file(const Section& section, const Settings& settings) const {
    const Given* const file = find(section.entries, "password_file");
    if (file == nullptr || (settings.password && settings.password->source == file->source)) {
      return;
    }
    // A pipe gives its password once, and a terminal asks for it.
    std::error_code error;
    const auto type = std::filesystem::status(password_path(*file), error).type();
    if (type == std::filesystem::file_type::fifo || type == std::filesystem::file_type::character) {
      return;
    }
    try {
      password_in(*file, m_common.quiet);
    } catch (const Ending& ending) {
      Report(m_common).news(ending.what());
    }
  }

  // Also those that something else wins over here.
  static void check_defaults(const Configuration& configuration) {
    if (const Given* const store = configuration.default_of("store")) {
      check_store(configuration, *store);
    }
    if (const Given* const ttl = configuration.default_of("ttl")) {
      duration_of(*ttl, core::shortest_ttl);
    }
    if (const Given* const color = configuration.default_of("color")) {
      colors_stdout(*color);
    }
  }

  // Each value as the command that takes it would.
  static void check_lock(const Configuration& configuration, const std::string& name, const Section& section) {
    const Entries& entries = section.entries;
    const Given& key = key_entry(name, section);
    // Any value will do to see whether the rest of the key is good.
    std::string filled;
    walk_key(
        key, [&filled](char c) { filled += c; }, [&filled](const std::string&) { filled += 'x'; });
    if (const auto good = core::Key::parse(filled); !good) {
      throw configuration_error(fmt::format("{} {}", key.source, good.error()));
    }
    if (const Given* const store = find(entries, "store")) {
      check_store(configuration, *store);
    }
    for (const char* const entry : {"ttl", "kill_after", "min_hold"}) {
      if (const Given* const given = find(entries, entry)) {
        duration_of(*given, entry == std::string_view("ttl") ? core::shortest_ttl : core::Millis(0));
      }
    }
    if (const Given* const wait = find(entries, "wait")) {
      wait_of(*wait);
    }
    if (const Given* const on_lost = find(entries, "on_lost")) {
      on_lost_of(*on_lost);
    }
    if (const Given* const waiting = find(entries, "max_waiting")) {
      number_of(*waiting, 1, most_waiting);
    }
    if (const Given* const status = find(entries, "busy_exit")) {
      number_of(*status, 0, 255);
    }
  }

  CommonOptions m_common;
  std::vector<Row> m_rows;
};

}  // namespace

const Command config_command{
    "config",
    "Show the settings, and where each comes from",
    "[OPTION...]",
    "lk config --config ./lk.toml",
    false,
    [](Options& options) -> std::unique_ptr<Action> { return std::make_unique<Config>(options); },
};

}  // namespace cli
