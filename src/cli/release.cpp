// lk release: give a lock back, or take it from whoever has it.
#include <unistd.h>

#include <cerrno>
#include <optional>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "cli/commands.hpp"
#include "cli/ending.hpp"
#include "cli/environment.hpp"
#include "cli/lock_options.hpp"
#include "cli/open_store.hpp"
#include "cli/options.hpp"
#include "cli/output.hpp"
#include "cli/report.hpp"
#include "os/real_clock.hpp"

namespace cli {

namespace {

constexpr std::size_t largest_fence = (std::size_t{1} << 53) - 1;

// Whether the running command would lose the lock that an exec above it holds for it. LK_HELD has the owners alone: an
// owner that is also LK_OWNER is meant only with the key that is LK_KEY.
bool stands_on_it(const core::Claim& claim) {
  const std::string& owner = claim.owner.bytes();
  return held_by_ancestor(owner) && (variable("LK_OWNER") != owner || variable("LK_KEY") == claim.key.text());
}

bool says_yes() {
  std::string answer;
  for (char c = '\0';;) {
    const ssize_t got = ::read(STDIN_FILENO, &c, 1);
    if (got < 0 && errno == EINTR) {
      continue;
    }
    if (got <= 0) {
      // Ctrl-D leaves the cursor behind the question.
      write_all(STDERR_FILENO, "\n");
      break;
    }
    if (c == '\n') {
      break;
    }
    answer += c;
  }
  return answer == "y" || answer == "Y" || answer == "yes";
}

template <class T>
T answer_or_end(core::Result<T> result, const core::Key& key) {
  if (!result) {
    throw Ending(exit_code(result.error().what), sentence::not_released(result.error(), key));
  }
  return std::move(*result);
}

class ReleaseLock : public Action {
public:
  explicit ReleaseLock(Options& options) {
    options.text("--key", "K", "the name of the lock (LK_KEY)", m_key);
    m_named.declare(options);
    options.text("--owner", "T", "its owner token (LK_OWNER; -: read from stdin)", m_owner);
    options.flag("--force", "remove the holder, whoever it is; shows it and asks", m_force);
    options.flag("--yes", "with --force: do not ask", m_yes);
    options.number("--fence", "only the grant with this fence", 1, largest_fence, m_fence);
    m_common.declare(options);
  }

  int run(const Call&) override {
    const Report report(m_common);
    const Settings settings = settle(m_common, std::nullopt, m_named);
    const core::Key key = key_of_lock(m_key, m_named, settings);
    if (m_force && m_owner) {
      throw usage_error("--force and --owner exclude each other: --force asks for no token");
    }
    if (m_yes && !m_force) {
      throw usage_error("--yes only goes with --force");
    }
    const bool can_ask = ::isatty(STDIN_FILENO) == 1 && ::isatty(STDERR_FILENO) == 1;
    if (m_force && !m_yes && !can_ask) {
      throw usage_error("--force needs --yes where there is no terminal to ask on");
    }
    const core::StoreUrl url = store_url(settings);
    return m_force ? force(report, key, settings, url) : give_back(report, key, settings, url);
  }

private:
  std::optional<core::Fence> fence() const {
    return m_fence ? std::optional<core::Fence>(core::Fence{static_cast<std::int64_t>(*m_fence)}) : std::nullopt;
  }

  int give_back(const Report& report, const core::Key& key, const Settings& settings, const core::StoreUrl& url) {
    const core::Claim claim{key, owner_of_lock(m_owner, key), core::AskId{}};
    if (stands_on_it(claim)) {
      throw usage_error(sentence::stands_on(key));
    }
    const os::RealClock clock;
    const auto store = open_store(settings, url, true, nullptr, clock);
    report.detail(sentence::asking(*store));
    const core::Released released = answer_or_end(store->release(claim, fence()), key);
    switch (released.what) {
      case core::Release::released:
      case core::Release::left_line:
        report.detail(sentence::released(key));
        store->tidy();
        return to_int(ExitCode::ok);
      case core::Release::expired:
        report.news(sentence::had_expired(key, released.expired_for));
        return to_int(ExitCode::nothing);
      case core::Release::not_held:
        report.news(sentence::nothing_to_release(key, *store));
        return to_int(ExitCode::nothing);
      case core::Release::not_mine:
        break;
    }
    const auto* const held = released.by ? std::get_if<core::Held>(&*released.by) : nullptr;
    if (m_fence && held != nullptr && held->owner == claim.owner) {
      report.news(sentence::other_fence(key, *fence(), *released.by));
    } else {
      report.news(sentence::held_by_another(key, released.by));
    }
    return to_int(ExitCode::busy);
  }

  int force(const Report& report, const core::Key& key, const Settings& settings, const core::StoreUrl& url) {
    const os::RealClock clock;
    const auto store = open_store(settings, url, true, nullptr, clock);
    report.detail(sentence::asking(*store));
    auto asked = store->status(key);
    if (!asked) {
      asked.error().maybe_done = false;  // a look changes nothing
    }
    const core::LockState seen = answer_or_end(std::move(asked), key);
    if (!seen.by || std::holds_alternative<core::Promised>(*seen.by)) {
      report.news(sentence::nothing_to_release(key, *store));
      return to_int(ExitCode::nothing);
    }
    if (m_fence) {
      const auto* const held = std::get_if<core::Held>(&*seen.by);
      if (held == nullptr || held->fence != fence()) {
        report.news(sentence::other_fence(key, *fence(), *seen.by));
        return to_int(ExitCode::busy);
      }
    }
    if (!m_yes) {
      write_all(STDERR_FILENO, fmt::format("lk: {}\nlk: remove it? [y/N] ", sentence::refusal(key, *seen.by)));
      if (!says_yes()) {
        report.error("nothing was removed");
        return to_int(ExitCode::nothing);
      }
    }
    switch (answer_or_end(store->evict(key, *seen.by), key)) {
      case core::Eviction::evicted:
        report.news(sentence::evicted(key, *seen.by));
        store->tidy();
        return to_int(ExitCode::ok);
      case core::Eviction::free:
        report.news(sentence::nothing_to_release(key, *store));
        return to_int(ExitCode::nothing);
      case core::Eviction::changed:
        break;
    }
    // Only for the sentence: nothing is removed, whoever is there by now.
    const auto now = store->status(key);
    report.news(sentence::changed(key, now ? now->by : std::nullopt));
    return to_int(ExitCode::busy);
  }

  CommonOptions m_common;
  NamedLock m_named;
  std::optional<std::string> m_key;
  std::optional<std::string> m_owner;
  std::optional<std::size_t> m_fence;
  bool m_force = false;
  bool m_yes = false;
};

}  // namespace

const Command release_command{
    "release",
    "Give a lock back, or free a stuck one (--force)",
    "--key K [--owner T] [--fence N] | --key K --force [--yes]",
    "lk release --key deploy --owner \"$token\"",
    false,
    [](Options& options) -> std::unique_ptr<Action> { return std::make_unique<ReleaseLock>(options); },
};

}  // namespace cli
