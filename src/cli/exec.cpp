// lk exec: run a command while holding a lock.
#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "cli/commands.hpp"
#include "cli/ending.hpp"
#include "cli/environment.hpp"
#include "cli/exec_report.hpp"
#include "cli/lock_options.hpp"
#include "cli/open_store.hpp"
#include "cli/options.hpp"
#include "cli/output.hpp"
#include "cli/progress.hpp"
#include "cli/report.hpp"
#include "cli/taking.hpp"
#include "core/lease.hpp"
#include "core/text.hpp"
#include "hold/sleeper.hpp"
#include "hold/supervise.hpp"
#include "hold/waiting.hpp"
#include "os/child.hpp"
#include "os/process.hpp"
#include "os/random.hpp"
#include "os/real_clock.hpp"
#include "os/signals.hpp"
#include "stores/registry.hpp"

namespace cli {

namespace {

using core::Millis;

constexpr Millis default_ttl{60'000};

// The environment of the command: the caller's, with lk's own words in it.
class ChildEnvironment {
public:
  ChildEnvironment(const core::Key& key, std::string_view owner, core::Fence fence, const core::Store& store,
                   const Settings& settings, const CommonOptions& line) {
    set("LK_KEY", key.text());
    set("LK_OWNER", owner);
    set("LK_FENCE", fmt::to_string(fence.value));
    const auto held = variable("LK_HELD");
    set("LK_HELD", held && !held->empty() ? fmt::format("{}\n{}", *held, owner) : std::string(owner));
    // What leads to the same lock, wherever the command goes. An LK_STORE that does so already stays as it is: it may
    // hold a password. A store's name needs the file that has it.
    const Given* const asked = settings.store_name ? &*settings.store_name
                               : settings.store    ? &*settings.store
                                                   : nullptr;
    if (asked == nullptr || asked->source != "LK_STORE" || asked->value.substr(0, 1) == ".") {
      set("LK_STORE", settings.store_name ? settings.store_name->value : store.address());
    }
    const auto config = line.config ? line.config : variable("LK_CONFIG");
    if (config && !config->empty()) {
      set("LK_CONFIG", std::filesystem::absolute(*config).string());
    }
    if (settings.prefix) {
      set("LK_PREFIX", settings.prefix->value);
    }
    for (char** entry = environ; *entry != nullptr; ++entry) {
      if (!replaced(*entry)) {
        m_pointers.push_back(*entry);
      }
    }
    for (std::string& own : m_own) {
      m_pointers.push_back(own.data());
    }
    m_pointers.push_back(nullptr);
  }

  char* const* pointers() const { return m_pointers.data(); }

private:
  void set(std::string_view name, std::string_view value) { m_own.push_back(fmt::format("{}={}", name, value)); }
  bool replaced(std::string_view entry) const {
    for (const std::string& own : m_own) {
      if (entry.substr(0, own.find('=') + 1) == own.substr(0, own.find('=') + 1)) {
        return true;
      }
    }
    return false;
  }

  std::vector<std::string> m_own;
  std::vector<char*> m_pointers;
};

class Exec : public Action {
public:
  explicit Exec(Options& options) {
    options.text("--key", "K", "the name of the lock", m_key);
    m_named.declare(options);
    options.text("--ttl", "D", "the lease, renewed while CMD runs (LK_TTL; default 60s)", m_ttl);
    options.text("--wait", "D|forever", "wait in line that long (default 0: try once)", m_wait);
    options.text("--max-waiting", "N", "join the line only if fewer than N wait", m_max_waiting_text);
    options.text("--owner", "T", "the owner token (default random; -: read from stdin)", m_owner);
    options.text("--note", "TEXT", "shown by status", m_note);
    options.text("-E,--busy-exit", "N", "exit status when not acquired (default 75)", m_busy_exit_text);
    options.text("--kill-after", "D", "from TERM to KILL (default ttl/4, at most 5s)", m_kill_after);
    options.text("--on-lost", "WHAT", "when the lock is lost: term, kill, warn (default term)", m_on_lost);
    options.text("--min-hold", "D", "keep the lock until D after the grant", m_min_hold);
    options.number("--status-fd", "write one JSON line there at the end", 3, 1'000'000, m_status_fd);
    options.flag("--nested", "run under the lock if a parent exec holds it", m_nested);
    options.flag("--raw-key", "take a key that begins or ends with : or /", m_raw_key);
    m_common.declare(options);
  }

  int run(const Call& call) override;

private:
  int refused(const Report& report, const core::Key& key, const hold::Refused& refused, const WaitProgress* waited);
  int ended(const Report& report, const core::Key& key, const hold::Ended& ended, const char* command, Millis ttl,
            const os::Signals& signals);
  void check_status_fd() const;
  core::Terms terms_of(const Settings& settings, Millis ttl) const;
  // Every way out of `run` once the line can be written.
  int end(int status) {
    if (m_status_fd) {
      write_status_line(static_cast<int>(*m_status_fd), m_line);
    }
    finish_stderr();
    return status;
  }
  int busy_status() const { return m_busy_exit ? static_cast<int>(*m_busy_exit) : to_int(ExitCode::busy); }

  CommonOptions m_common;
  NamedLock m_named;
  std::optional<std::string> m_key;
  std::optional<std::string> m_ttl;
  std::optional<std::string> m_wait;
  std::optional<std::string> m_max_waiting_text;
  std::optional<std::size_t> m_max_waiting;
  std::optional<std::string> m_owner;
  std::optional<std::string> m_note;
  std::optional<std::string> m_busy_exit_text;
  std::optional<std::size_t> m_busy_exit;
  std::optional<std::string> m_kill_after;
  std::optional<std::string> m_on_lost;
  std::optional<std::string> m_min_hold;
  std::optional<std::size_t> m_status_fd;
  bool m_nested = false;
  bool m_raw_key = false;
  StatusLine m_line;
};

// The child must not get it: end of file without a line tells a reader that lk was killed.
void Exec::check_status_fd() const {
  if (!m_status_fd) {
    return;
  }
  const int fd = static_cast<int>(*m_status_fd);
  const int mode = ::fcntl(fd, F_GETFL);
  if (mode < 0 || (mode & O_ACCMODE) == O_RDONLY) {
    throw usage_error(fmt::format("--status-fd {} is not open for writing: add {}>FILE to the command line", fd, fd));
  }
  ::fcntl(fd, F_SETFD, FD_CLOEXEC);
}

core::Terms Exec::terms_of(const Settings& settings, Millis ttl) const {
  const auto given = option_or_lock(m_kill_after, "--kill-after", settings, "kill_after");
  auto terms = core::make_terms(ttl, given ? std::optional(duration_of(*given, Millis(0))) : std::nullopt);
  if (!terms) {
    throw given ? Ending(blame(*given), fmt::format("{} {}{}", given->source, terms.error(), but_not(given->value)))
                : usage_error(fmt::format("--kill-after {}", terms.error()));
  }
  return *terms;
}

int Exec::run(const Call& call) {
  const Report report(m_common);
  const Settings settings = settle(m_common, m_ttl, m_named);
  const core::Key key = key_to_take(m_key, m_raw_key, m_named, settings);
  if (*call.words == nullptr) {
    throw usage_error("no command to run: lk exec --key K -- CMD [ARG...]");
  }
  if (**call.words == '\0') {
    throw usage_error("the command is an empty word: is a variable unset?");
  }
  const Millis ttl = ttl_of(settings, core::shortest_exec_ttl, default_ttl);
  const auto terms = terms_of(settings, ttl);
  const auto on_lost_given = option_or_lock(m_on_lost, "--on-lost", settings, "on_lost");
  const hold::OnLost on_lost = on_lost_given ? on_lost_of(*on_lost_given) : hold::OnLost::term;
  const auto wait_given = option_or_lock(m_wait, "--wait", settings, "wait");
  const std::optional<Millis> at_most = wait_given ? wait_of(*wait_given) : std::optional(Millis(0));
  const auto min_hold = option_or_lock(m_min_hold, "--min-hold", settings, "min_hold");
  const auto note = option_or_lock(m_note, "--note", settings, "note");
  if (const auto given = option_or_lock(m_max_waiting_text, "--max-waiting", settings, "max_waiting")) {
    m_max_waiting = number_of(*given, 1, most_waiting);
  }
  if (const auto given = option_or_lock(m_busy_exit_text, "--busy-exit", settings, "busy_exit")) {
    m_busy_exit = number_of(*given, 0, 255);
  }
  const Millis held_at_least = min_hold ? duration_of(*min_hold, Millis(0)) : Millis(0);
  const bool waits = !at_most || *at_most > Millis(0);
  check_status_fd();
  if (m_nested && m_status_fd) {
    throw usage_error("--status-fd does not go with --nested: under a parent's lock CMD takes lk's own place");
  }
  const core::StoreUrl url = store_url(settings);
  core::Owner owner = m_owner ? parse_owner("--owner", *m_owner) : core::Owner::stored(os::random_uuid());
  const core::Claim claim{key, std::move(owner), core::AskId{os::random_u64()}};

  // From here on no signal is lost: it ends the wait, keeps the command from starting, or is forwarded to it.
  os::Signals signals;
  core::Limits limits;
  limits.interrupt_fd = signals.fd();
  const os::RealClock clock;
  const hold::OpenStore open_again = [&settings, &url, &clock] {
    return stores::open(url, store_options(settings, false, nullptr), clock);
  };
  auto store = open_store(settings, url, false, &limits, clock);
  report.detail(sentence::asking(*store));

  if (const auto held = ancestors_lock(*store, key)) {
    if (!m_nested) {
      report.error(sentence::exec_deadlock(key));
      m_line.reason = "deadlock";
      return end(to_int(ExitCode::busy));
    }
    const ChildEnvironment environment(
        key, held->owner.bytes(), held->fence.value_or(core::Fence{}), *store, settings, m_common);
    finish_stderr();
    signals.restore_in_child();
    ::execvpe(call.words[0], call.words, environment.pointers());
    const int error = errno;
    report.error(fmt::format("cannot run {}: {}", core::escaped(call.words[0]), std::strerror(error)));
    return end(to_int(error == ENOENT ? ExitCode::not_found : ExitCode::not_executable));
  }

  // Before the grant: from then on there is somebody to give it back, whatever happens to lk.
  hold::SharedPage page;
  page->ttl = ttl.count();
  std::optional<hold::Guardian> guardian;
  store->rest();
  guardian.emplace(page, clock, open_again, claim);

  hold::Wait wait{core::Ask{claim}, at_most};
  wait.ask.ttl = ttl;
  wait.ask.max_waiting = m_max_waiting;
  wait.ask.durable = false;
  wait.ask.who = who_asks(::getpid(), call.words[0], text_of(note));
  if (store->looks_at_keepers()) {
    wait.keepers = [&guardian] { return core::Keepers{os::own_realm(), os::own_process(), guardian->process()}; };
  }
  WaitProgress progress(report, clock, key);
  hold::PollSleeper sleeper(clock, signals.fd(), -1);
  LiveSleeper live_sleeper(sleeper, progress);
  const hold::Outcome outcome = hold::wait_for(*store, limits, clock, live_sleeper, progress, wait);
  progress.end_live_line();

  if (const auto* const refusal = std::get_if<hold::Refused>(&outcome)) {
    return refused(report, key, *refusal, waits ? &progress : nullptr);
  }
  if (const auto* const failed = std::get_if<hold::Failed>(&outcome)) {
    m_line.reason = "store";
    m_line.waited = failed->waited;
    const std::string trouble =
        failed->maybe_granted
            ? sentence::maybe_granted(failed->error, claim, clock.wall() + ttl)
            : sentence::not_acquired(failed->error, key, waits ? std::optional(failed->waited) : std::nullopt);
    report.error(trouble + "; nothing was run");
    return end(to_int(exit_code(failed->error.what)));
  }
  if (const auto* const stopped = std::get_if<hold::Stopped>(&outcome)) {
    const auto signal = signals.next();
    m_line.reason = "signal";
    m_line.waited = stopped->waited;
    guardian.reset();
    end(0);
    signals.die_of(signal ? signal->number : SIGTERM);
  }

  const auto& won = std::get<hold::Won>(outcome);
  m_line.acquired = true;
  m_line.fence = won.fence;
  m_line.waited = won.waited;
  report.detail(sentence::granted(key, won.fence));

  const hold::Duty duty{claim, terms, on_lost, held_at_least};
  const ChildEnvironment environment(key, claim.owner.bytes(), won.fence, *store, settings, m_common);
  // With a terminal, or under another exec, the child stays in the group that gets Ctrl-C.
  const hold::Command command{call.words, environment.pointers(), !os::has_terminal() && !variable("LK_HELD")};
  ExecNarrator narrator(report, key, duty, *store);
  const hold::Ended result =
      hold::supervise(*store, limits, clock, signals, page, guardian, open_again, won, duty, command, narrator);
  // Not closed: nothing waits to be written, and the kernel takes back what lk has more quickly. The pointer stays, so
  // that this is no leak.
  [[maybe_unused]] static const core::Store* const to_the_end = store.release();
  guardian.reset();
  return ended(report, key, result, call.words[0], ttl, signals);
}

int Exec::refused(const Report& report, const core::Key& key, const hold::Refused& refused,
                  const WaitProgress* waited) {
  m_line.reason = "busy";
  m_line.waited = refused.waited;
  if (refused.line_full && m_max_waiting) {
    report.news(sentence::line_full(key, refused.by, *m_max_waiting));
  } else if (waited != nullptr) {
    report.news(sentence::gave_up(key, waited->by_now(refused.by), refused.waited));
  } else {
    report.news(sentence::refusal(key, refused.by));
  }
  return end(busy_status());
}

int Exec::ended(const Report& report, const core::Key& key, const hold::Ended& ended, const char* command, Millis ttl,
                const os::Signals& signals) {
  using Start = hold::Ended::Start;
  m_line.released = ended.released;
  m_line.lost = ended.lost.has_value();
  m_line.held = ended.held;
  switch (ended.start) {
    case Start::started:
      break;
    case Start::too_late:
      m_line.reason = "too_late";
      report.error(sentence::granted_too_late(key, ttl));
      return end(ended.released ? to_int(ExitCode::store_down) : busy_status());
    case Start::signalled:
      m_line.reason = "signal";
      end(0);
      signals.die_of(ended.signal);
    case Start::no_process:
      m_line.reason = "no_process";
      report.error(sentence::no_process(key, ended.error));
      return end(to_int(ExitCode::system));
    case Start::not_executable:
      m_line.reason = "cannot_run";
      report.error(sentence::cannot_run(key, command, ended.error));
      return end(to_int(ended.error == ENOENT ? ExitCode::not_found : ExitCode::not_executable));
  }
  m_line.ran = true;
  if (WIFEXITED(ended.status)) {
    m_line.child_exit = WEXITSTATUS(ended.status);
  } else {
    m_line.child_signal = WTERMSIG(ended.status);
  }
  if (ended.unsupervised) {
    m_line.reason = "unsupervised";
    report.error(sentence::unsupervised(key, ended.error));
    return end(to_int(ExitCode::unsupervised));
  }
  if (ended.lost) {
    m_line.reason = "lost";
    return end(to_int(ExitCode::lost));
  }
  m_line.reason = m_line.child_signal ? "signal" : "ok";
  end(0);
  if (m_line.child_signal) {
    signals.die_of(*m_line.child_signal);
  }
  return *m_line.child_exit;
}

}  // namespace

const Command exec_command{
    "exec",
    "Run a command while holding a lock",
    "--key K [OPTION...] -- CMD [ARG...]",
    "lk exec --key backup --wait 10m -- /usr/local/bin/backup",
    true,
    [](Options& options) -> std::unique_ptr<Action> { return std::make_unique<Exec>(options); },
};

}  // namespace cli
