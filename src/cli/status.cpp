// lk status: who holds what, since when, until when, who waits.
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "cli/commands.hpp"
#include "cli/ending.hpp"
#include "cli/environment.hpp"
#include "cli/json.hpp"
#include "cli/live_screen.hpp"
#include "cli/lock_options.hpp"
#include "cli/open_store.hpp"
#include "cli/options.hpp"
#include "cli/output.hpp"
#include "cli/report.hpp"
#include "cli/table.hpp"
#include "cli/times.hpp"
#include "core/glob.hpp"
#include "core/text.hpp"
#include "hold/sleeper.hpp"
#include "os/real_clock.hpp"
#include "os/signals.hpp"

namespace cli {

namespace {

using core::Millis;

std::string ago(const std::optional<Millis>& duration) {
  return duration ? fmt::format("{} ago", core::to_text(*duration)) : std::string("?");
}

std::string ends_in(const std::optional<Millis>& left) {
  return left ? fmt::format("in {}", core::to_text(*left)) : std::string("never");
}

std::string_view color_of(const core::LockState& lock) {
  if (!lock.by) {
    return "\x1b[32m";  // green
  }
  return std::holds_alternative<core::Held>(*lock.by) ? "\x1b[33m" : "\x1b[36m";  // yellow, cyan
}

Row table_row(const core::LockState& lock, bool color) {
  std::string holder = "-";
  std::string since = "-";
  std::string expires = "-";
  std::string fence = "-";
  std::string note;
  if (lock.by) {
    if (const auto* const held = std::get_if<core::Held>(&*lock.by)) {
      holder = held->fence ? sentence::who(held->who, held->command_ended)
                           : fmt::format("another program ({})", core::escaped(held->owner.bytes()));
      since = ago(held->held_for);
      expires = ends_in(held->left);
      fence = held->fence ? fmt::format("{}", held->fence->value) : "-";
      note = core::escaped(held->who.note);
    } else if (const auto* const promised = std::get_if<core::Promised>(&*lock.by)) {
      holder = fmt::format("for {}", sentence::who(promised->who));
      note = core::escaped(promised->who.note);
    } else {
      const auto& foreign = std::get<core::Foreign>(*lock.by);
      holder = fmt::format("another program (redis {})", core::escaped(foreign.type));
      expires = ends_in(foreign.left);
    }
  }
  return {{core::escaped(lock.key.text())},
          {state_name(lock), color ? color_of(lock) : ""},
          {std::move(holder)},
          {std::move(since)},
          {std::move(expires)},
          {fmt::format("{}", lock.waiting)},
          {std::move(fence)},
          {std::move(note)}};
}

// Makes the rows fit into a terminal: without FENCE and WAITING (a card has them) where it is narrow, then with shorter
// keys, notes and holders, each in turn a bit. They keep so much that they can be told from others.
void fit(std::vector<Row>& rows, std::size_t columns) {
  constexpr std::size_t key = 0;
  constexpr std::size_t holder = 2;
  for (const auto& [column, comfortable] : {std::pair{6, std::size_t{100}}, {5, std::size_t{72}}}) {
    for (Row& row : rows) {
      if (columns < comfortable) {
        row.erase(row.begin() + column);
      }
    }
  }
  const std::size_t note = rows.front().size() - 1;
  std::size_t needed = 2 * note;
  for (std::size_t i = 0; i <= note; ++i) {
    needed += column_width(rows, i);
  }
  struct Step {
    std::size_t column;
    std::size_t least;
  };
  for (const auto& [column, least] : {Step{key, std::max<std::size_t>(columns / 3, 16)},
                                      Step{note, 24},
                                      Step{holder, 24},
                                      Step{note, 8},
                                      Step{holder, 12},
                                      Step{key, 8},
                                      Step{note, 4},
                                      Step{holder, 8}}) {
    const std::size_t width = column_width(rows, column);
    if (needed > columns && width > least) {
      const std::size_t shorter = std::max(least, width - std::min(width, needed - columns));
      shorten_column(rows, column, shorter);
      needed -= width - shorter;
    }
  }
}

// `columns` of a terminal; 0: no terminal, nothing is left out.
std::string table(const std::vector<core::LockState>& locks, bool color, std::size_t columns) {
  const std::string_view bold = color ? "\x1b[1m" : "";
  std::vector<Row> rows{{}};
  for (const char* const title : {"KEY", "STATE", "HOLDER", "SINCE", "EXPIRES", "WAITING", "FENCE", "NOTE"}) {
    rows.front().push_back({title, bold});
  }
  for (const core::LockState& lock : locks) {
    rows.push_back(table_row(lock, color));
  }
  if (columns > 0) {
    fit(rows, columns);
  }
  return aligned(rows);
}

class Card {
public:
  explicit Card(core::WallTime now) : m_now(now) {}

  // `columns` of a terminal; 0: no terminal, no line is broken.
  std::string text(const core::LockState& lock, const std::string& store, bool color, std::size_t columns) {
    add("key", core::escaped(lock.key.text()));
    m_rows.push_back({{"state"}, {state_name(lock), color ? color_of(lock) : ""}});
    if (lock.by) {
      if (const auto* const held = std::get_if<core::Held>(&*lock.by)) {
        add_holder(*held);
      } else if (const auto* const promised = std::get_if<core::Promised>(&*lock.by)) {
        add("for", sentence::who(promised->who));
      } else {
        const auto& foreign = std::get<core::Foreign>(*lock.by);
        add("holder", fmt::format("another program (redis {})", core::escaped(foreign.type)));
        add("expires", at_end_of(foreign.left));
      }
    }
    add("store", core::escaped(store));
    add("waiting", fmt::format("{}", lock.waiting));
    const std::size_t hang = column_width(m_rows, 0) + 2;
    const std::string card = aligned(m_rows);
    std::string text;
    for (std::size_t begin = 0, end = 0; begin < card.size(); begin = end + 1) {
      end = card.find('\n', begin);
      text += folded(std::string_view(card).substr(begin, end - begin), columns, hang) + "\n";
    }
    for (std::size_t i = 0; i < lock.line.size(); ++i) {
      text += folded(waiter_line(lock.line[i], i + 1), columns, 5) + "\n";
    }
    return text;
  }

private:
  void add(std::string name, std::string value) { m_rows.push_back({{std::move(name)}, {std::move(value)}}); }

  std::string at_end_of(const std::optional<Millis>& left) const {
    return left ? fmt::format("{} (in {})", local_time(m_now + *left), core::to_text(*left)) : std::string("never");
  }

  void add_holder(const core::Held& held) {
    if (held.fence) {
      add("host", core::escaped(held.who.host));
      add("user", core::escaped(held.who.user));
      add("pid", fmt::format("{}", held.who.pid));
      add("command", core::escaped(held.who.command));
      add("note", core::escaped(held.who.note));
    } else {
      add("holder", "another program");
    }
    add("owner", core::escaped(held.owner.bytes()));
    add("fence", held.fence ? fmt::format("{}", held.fence->value) : "none");
    add("since", held.since ? fmt::format("{} ({})", local_time(*held.since), ago(held.held_for)) : ago(held.held_for));
    add("expires", at_end_of(held.left) + (held.command_ended ? "; its command has ended, --min-hold keeps it" : ""));
    if (held.fence) {
      add("durable", held.durable ? "yes" : "no (a reboot may end it)");
    }
  }

  std::string waiter_line(const core::Waiter& waiter, std::size_t position) const {
    std::string text =
        fmt::format("  {}. {}, waiting for {}", position, sentence::who(waiter.who), core::to_text(waiter.waiting_for));
    if (waiter.since) {
      text += fmt::format(" since {}", local_time(*waiter.since));
    }
    text += waiter.wait_left ? fmt::format(", gives up in {}", core::to_text(*waiter.wait_left)) : ", for ever";
    text += fmt::format(", owner {}", core::escaped(waiter.owner.bytes()));
    if (!waiter.who.note.empty()) {
      text += fmt::format(": \"{}\"", core::escaped(waiter.who.note));
    }
    return text;
  }

  core::WallTime m_now;
  std::vector<Row> m_rows;
};

class Status : public Action {
public:
  explicit Status(Options& options) {
    options.words("KEY", "all about one lock (default LK_KEY, else all locks)", m_words);
    options.words("GLOB", "a table of the keys that match", m_words);
    options.text("--key", "K", "this very key, also one with * in it", m_key);
    m_named.declare(options);
    options.flag("--json", "an array of objects, for programs", m_json);
    options.flag("--watch", "show it again every second, until Ctrl-C", m_watch);
    options.duration("--held-longer-than", "only those; status 1 if there are none", Millis(0), m_held_longer_than);
    m_common.declare(options, true);
  }

  int run(const Call&) override {
    const Report report(m_common);
    const bool on_terminal = ::isatty(STDOUT_FILENO) == 1;
    if (m_watch && (m_json || !on_terminal)) {
      throw usage_error("--watch redraws a terminal: for programs call status --json from time to time");
    }
    const Settings settings = settle(m_common, std::nullopt, m_named);
    sort_words(settings);
    const os::RealClock clock;
    std::optional<os::Signals> signals;
    core::Limits limits;
    if (m_watch) {
      signals.emplace();
      limits.interrupt_fd = signals->fd();
    }
    const core::StoreUrl url = store_url(settings);
    // Without a prefix a list has only what lk itself holds.
    m_bare = url.scheme() != "sqlite" && settings.prefix && settings.prefix->value.empty();
    const auto store = open_store(settings, url, false, &limits, clock);
    const std::string address = store->address();
    report.detail(sentence::asking(*store));
    if (m_watch) {
      return watch(*store, clock, *signals, settings.color);
    }

    const std::vector<core::LockState> locks = value_or_end(ask(*store));
    const core::WallTime now = clock.wall();
    print(m_json ? status_json(locks, now, address) : shown(locks, now, address, settings.color));
    if (locks.empty()) {
      if (m_held_longer_than) {
        report.detail(sentence::none_held_longer(*m_held_longer_than, address));
      } else {
        report.news(sentence::no_locks(one_glob(), address, m_bare));
      }
    }
    const bool occupied = std::any_of(locks.begin(), locks.end(), [](const auto& lock) { return lock.by.has_value(); });
    return to_int(occupied ? ExitCode::ok : ExitCode::nothing);
  }

private:
  void sort_words(const Settings& settings) {
    if (m_named.name() && !m_key && !m_named.is_complete(settings.lock)) {
      m_globs.push_back(m_named.glob(settings.lock));
    } else if (m_key || m_named.name()) {
      m_keys.push_back(key_of_lock(m_key, m_named, settings));
    }
    for (const std::string& word : m_words) {
      if (core::Glob::is_pattern(word)) {
        m_globs.emplace_back(word);
      } else {
        m_keys.push_back(parse_key("KEY", word));
      }
    }
    if (m_keys.empty() && m_globs.empty()) {
      if (variable("LK_KEY")) {
        m_keys.push_back(key_of_lock(std::nullopt, m_named, settings));
      } else {
        m_globs.push_back(core::Glob::everything());
      }
    }
  }

  std::string one_glob() const { return m_globs.size() == 1 && m_keys.empty() ? m_globs.front().pattern() : ""; }

  std::string shown(const std::vector<core::LockState>& locks, core::WallTime now, const std::string& address,
                    bool color) const {
    if (locks.empty()) {
      return "";
    }
    const std::size_t columns = terminal_columns(STDOUT_FILENO);
    return m_keys.size() == 1 && m_globs.empty() ? Card(now).text(locks.front(), address, color, columns)
                                                 : table(locks, color, columns);
  }

  // Until Ctrl-C, which ends it well; any other signal ends it as a signal does.
  int watch(core::Store& store, const core::Clock& clock, os::Signals& signals, bool color) const {
    constexpr std::chrono::seconds between_looks{1};
    hold::PollSleeper sleeper(clock, signals.fd(), STDOUT_FILENO);
    std::optional<LiveScreen> screen(std::in_place);
    const std::string address = store.address();
    hold::Woke woke = hold::Woke::time;
    while (woke == hold::Woke::time && !screen->failed()) {
      const core::Instant next = clock.now() + between_looks;
      const auto locks = ask(store);
      const core::WallTime now = clock.wall();
      std::string text = fmt::format("{}  {}\n\n", local_time(now), core::escaped(address));
      if (!locks) {
        text += fmt::format("{}\n", locks.error().detail);
      } else if (locks->empty()) {
        text += fmt::format("{}\n",
                            m_held_longer_than ? sentence::none_held_longer(*m_held_longer_than, address)
                                               : sentence::no_locks(one_glob(), address, m_bare));
      } else {
        text += shown(*locks, now, address, color);
      }
      screen->draw(text);
      woke = sleeper.sleep_until(next, nullptr);
    }
    screen.reset();
    const auto signal = signals.next();
    if (signal && signal->number != SIGINT) {
      signals.die_of(signal->number);
    }
    return to_int(ExitCode::ok);
  }

  // In key order, each key once. A key that was named is there also where it is free.
  core::Result<std::vector<core::LockState>> ask(core::Store& store) const {
    std::map<core::Key, core::LockState> found;
    for (const core::Glob& glob : m_globs) {
      auto locks = store.list(glob);
      if (!locks) {
        return locks;
      }
      for (core::LockState& lock : *locks) {
        // Only status() tells the line.
        if (m_json && lock.waiting > 0) {
          auto whole = store.status(lock.key);
          if (!whole) {
            return tl::unexpected(std::move(whole.error()));
          }
          lock = std::move(*whole);
        }
        found.insert_or_assign(lock.key, lock);
      }
    }
    for (const core::Key& key : m_keys) {
      auto lock = store.status(key);
      if (!lock) {
        return tl::unexpected(std::move(lock.error()));
      }
      found.insert_or_assign(key, std::move(*lock));
    }
    std::vector<core::LockState> locks;
    locks.reserve(found.size());
    for (auto& [key, lock] : found) {
      if (is_wanted(lock)) {
        locks.push_back(std::move(lock));
      }
    }
    return locks;
  }

  bool is_wanted(const core::LockState& lock) const {
    if (!m_held_longer_than) {
      return true;
    }
    const auto* const held = lock.by ? std::get_if<core::Held>(&*lock.by) : nullptr;
    return held != nullptr && held->held_for && *held->held_for > *m_held_longer_than;
  }

  CommonOptions m_common;
  NamedLock m_named;
  std::optional<std::string> m_key;
  bool m_json = false;
  bool m_watch = false;
  bool m_bare = false;
  std::optional<Millis> m_held_longer_than;
  std::vector<std::string> m_words;
  std::vector<core::Key> m_keys;
  std::vector<core::Glob> m_globs;
};

}  // namespace

const Command status_command{
    "status",
    "Show who holds what, since when, until when, and who waits",
    "[KEY|GLOB ...] [--key K] [--json|--watch] [OPTION...]",
    "lk status 'invoice:*'",
    false,
    [](Options& options) -> std::unique_ptr<Action> { return std::make_unique<Status>(options); },
};

}  // namespace cli
