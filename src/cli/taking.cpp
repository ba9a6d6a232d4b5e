// The order of things in acquire and block: read what may block, block signals, ask, hand over, tidy.
#include "cli/taking.hpp"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include <fmt/format.h>

#include "cli/ending.hpp"
#include "cli/environment.hpp"
#include "cli/exit_code.hpp"
#include "cli/json.hpp"
#include "cli/lock_options.hpp"
#include "cli/open_store.hpp"
#include "cli/output.hpp"
#include "cli/progress.hpp"
#include "cli/report.hpp"
#include "core/lease.hpp"
#include "hold/sleeper.hpp"
#include "hold/waiting.hpp"
#include "os/process.hpp"
#include "os/random.hpp"
#include "os/real_clock.hpp"
#include "os/signals.hpp"
#include "os/small_file.hpp"

namespace cli {

namespace {

using core::Millis;

constexpr Millis default_ttl = std::chrono::minutes(15);
// What giving back may take when lk is about to end: longer than a busy disk, shorter than a user's patience.
constexpr Millis longest_give_back{1000};

// The process that asked for the lock and will work under it: lk itself is gone by then.
core::Who parent(const std::optional<std::string>& note) {
  const pid_t pid = ::getppid();
  char buffer[64];
  std::string_view name = os::read_small_file(fmt::format("/proc/{}/comm", pid).c_str(), buffer);
  name = name.substr(0, name.find('\n'));
  return who_asks(pid, std::string(name), note);
}

// For eval: nothing between the quotes means anything to a shell.
std::string shell_quoted(std::string_view text) {
  std::string out = "'";
  for (const char c : text) {
    if (c == '\'') {
      out += "'\\''";
    } else {
      out += c;
    }
  }
  return out + "'";
}

// One grant: what must be undone where the token cannot be handed over.
class Taken {
public:
  Taken(core::Store& store, core::Limits& limits, const core::Claim& claim, core::Fence fence)
      : m_store(store), m_limits(limits), m_claim(claim), m_fence(fence) {}

  // A signal that waits to be read must not stop this.
  core::Result<core::Released> give_back() {
    m_limits.interrupt_fd = -1;
    m_limits.op_timeout = std::min(m_limits.op_timeout, longest_give_back);
    return m_store.release(m_claim, m_fence);
  }

private:
  core::Store& m_store;
  core::Limits& m_limits;
  const core::Claim& m_claim;
  core::Fence m_fence;
};

[[noreturn]] void die_of(const os::Signals& signals, int number) {
  finish_stderr();
  signals.die_of(number);
}

}  // namespace

std::optional<core::Held> ancestors_lock(core::Store& store, const core::Key& key) {
  if (!variable("LK_HELD")) {
    return std::nullopt;
  }
  // Trouble is left to the asking that follows: it may pass.
  const auto state = store.status(key);
  const auto* const held = state && state->by ? std::get_if<core::Held>(&*state->by) : nullptr;
  return held != nullptr && !held->command_ended && held_by_ancestor(held->owner.bytes()) ? std::optional(*held)
                                                                                          : std::nullopt;
}

core::Who who_asks(std::int64_t pid, std::string command, const std::optional<std::string>& note) {
  return {os::host_name(), os::user_name(), pid, std::move(command), note.value_or("")};
}

Taking::Taking(Options& options, Patience patience) : m_patience(patience) {
  options.text("--key", "K", "the name of the lock", m_key);
  m_named.declare(options);
  options.text("--ttl", "D", "it ends after D unless renewed (LK_TTL; default 15m)", m_ttl);
  if (patience == Patience::in_line) {
    options.text("--wait", "D|forever", "longest wait, 0: one try (default forever)", m_wait);
    options.text("--max-waiting", "N", "join the line only if fewer than N wait", m_max_waiting_text);
  }
  options.text("--owner", "T", "the owner token (default random; -: read from stdin)", m_owner);
  options.text("--note", "TEXT", "shown by status", m_note);
  options.choice("--output", "FORM", "token|env|json", "token, env (for eval) or json (default token)", m_output);
  options.flag("--raw-key", "take a key that begins or ends with : or /", m_raw_key);
  m_common.declare(options);
}

int Taking::run(const Call&) {
  const Report report(m_common);
  const Settings settings = settle(m_common, m_ttl, m_named);
  const core::Key key = key_to_take(m_key, m_raw_key, m_named, settings);
  bool ttl_given = false;
  const Millis ttl = ttl_of(settings, core::shortest_ttl, default_ttl, &ttl_given);
  std::optional<Millis> at_most = m_patience == Patience::one_try ? std::optional<Millis>(0) : std::nullopt;
  if (m_patience == Patience::in_line) {
    if (const auto given = option_or_lock(m_wait, "--wait", settings, "wait")) {
      at_most = wait_of(*given);
    }
    if (const auto given = option_or_lock(m_max_waiting_text, "--max-waiting", settings, "max_waiting")) {
      m_max_waiting = number_of(*given, 1, most_waiting);
    }
  }
  const core::StoreUrl url = store_url(settings);
  // Before signals are blocked: a terminal may take its time, and Ctrl-C must end that.
  core::Owner owner = m_owner ? parse_owner("--owner", *m_owner) : core::Owner::stored(os::random_uuid());
  const core::Claim claim{key, std::move(owner), core::AskId{os::random_u64()}};

  os::Signals signals;
  core::Limits limits;
  limits.interrupt_fd = signals.fd();
  const os::RealClock clock;
  std::unique_ptr<core::Store> store;
  try {
    store = open_store(settings, url, true, &limits, clock);
  } catch (const Ending&) {
    if (const auto signal = signals.next()) {
      die_of(signals, signal->number);
    }
    throw;
  }
  report.detail(sentence::asking(*store));

  const bool waits = !at_most || *at_most > Millis(0);
  if (waits && ancestors_lock(*store, key)) {
    report.news(sentence::block_deadlock(key));
    return to_int(ExitCode::busy);
  }

  hold::Wait wait{core::Ask{claim}, at_most};
  wait.ask.ttl = ttl;
  wait.ask.max_waiting = m_max_waiting;
  wait.ask.who = parent(text_of(option_or_lock(m_note, "--note", settings, "note")));
  // A grant without a guardian is nobody's to end.
  if (store->looks_at_keepers()) {
    wait.keepers = [] { return core::Keepers{os::own_realm(), os::own_process()}; };
  }
  WaitProgress progress(report, clock, key);
  hold::PollSleeper sleeper(clock, signals.fd(), waits ? STDOUT_FILENO : -1);
  LiveSleeper live_sleeper(sleeper, progress);
  const hold::Outcome outcome = hold::wait_for(*store, limits, clock, live_sleeper, progress, wait);
  progress.end_live_line();

  if (const auto* const refused = std::get_if<hold::Refused>(&outcome)) {
    if (refused->line_full && m_max_waiting) {
      report.news(sentence::line_full(key, refused->by, *m_max_waiting));
    } else if (waits) {
      report.news(sentence::gave_up(key, progress.by_now(refused->by), refused->waited));
    } else {
      report.news(sentence::refusal(key, refused->by));
    }
    return to_int(ExitCode::busy);
  }
  if (const auto* const failed = std::get_if<hold::Failed>(&outcome)) {
    throw Ending(
        exit_code(failed->error.what),
        failed->maybe_granted
            ? sentence::maybe_granted(failed->error, claim, clock.wall() + ttl)
            : sentence::not_acquired(failed->error, key, waits ? std::optional<Millis>(failed->waited) : std::nullopt));
  }
  if (const auto* const stopped = std::get_if<hold::Stopped>(&outcome)) {
    store.reset();
    if (const auto signal = signals.next()) {
      die_of(signals, signal->number);
    }
    return to_int(ExitCode::output);
  }

  const auto& won = std::get<hold::Won>(outcome);
  // Counted from before the request left, so never later than the store's own end.
  const core::WallTime expires = clock.wall() - (clock.now() - won.sent) + ttl;
  Taken taken(*store, limits, claim, won.fence);
  std::string data;
  if (m_output == "env") {
    data = fmt::format("export LK_KEY={} LK_OWNER={} LK_FENCE={}\n",
                       shell_quoted(key.text()),
                       shell_quoted(claim.owner.bytes()),
                       won.fence.value);
  } else if (m_output == "json") {
    data = granted_json(claim, won.fence, ttl, expires, store->address());
  } else {
    data = claim.owner.bytes() + "\n";
  }
  switch (deliver(data, signals.fd())) {
    case Delivery::done:
      break;
    case Delivery::interrupted: {
      if (const auto given_back = taken.give_back(); !given_back) {
        report.error(sentence::not_given_back(key, given_back.error()));
      }
      store.reset();
      const auto signal = signals.next();
      die_of(signals, signal ? signal->number : SIGTERM);
    }
    case Delivery::failed: {
      const std::string why = std::strerror(errno);
      const auto given_back = taken.give_back();
      throw Ending(ExitCode::output, sentence::token_lost(key, why, given_back));
    }
  }
  if (!ttl_given) {
    report.news(sentence::until(key, ttl, expires));
  }
  report.detail(sentence::granted(key, won.fence));
  store->tidy();
  return to_int(ExitCode::ok);
}

}  // namespace cli
