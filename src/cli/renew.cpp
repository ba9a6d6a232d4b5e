// lk renew: prolong a lock that is still held.
#include <optional>
#include <string>

#include "cli/commands.hpp"
#include "cli/ending.hpp"
#include "cli/lock_options.hpp"
#include "cli/open_store.hpp"
#include "cli/report.hpp"
#include "core/lease.hpp"
#include "os/real_clock.hpp"

namespace cli {

namespace {

class Renew : public Action {
public:
  explicit Renew(Options& options) {
    options.text("--key", "K", "the name of the lock (LK_KEY)", m_key);
    m_named.declare(options);
    options.text("--owner", "T", "its owner token (LK_OWNER; -: read from stdin)", m_owner);
    options.text("--ttl", "D", "from now, never shortening (LK_TTL; default 15m)", m_ttl);
    m_common.declare(options);
  }

  int run(const Call&) override {
    const Report report(m_common);
    const Settings settings = settle(m_common, m_ttl, m_named);
    const core::Key key = key_of_lock(m_key, m_named, settings);
    const core::Millis ttl = ttl_of(settings, core::shortest_ttl, std::chrono::minutes(15));
    const core::StoreUrl url = store_url(settings);
    const core::Claim claim{key, owner_of_lock(m_owner, key), core::AskId{}};

    const os::RealClock clock;
    const auto store = open_store(settings, url, true, nullptr, clock);
    report.detail(sentence::asking(*store));
    const core::WallTime end = clock.wall() + ttl;
    const auto renewal = store->renew(claim, ttl, std::nullopt);
    if (!renewal) {
      throw Ending(exit_code(renewal.error().what), sentence::not_renewed(renewal.error(), key, clock.wall() + ttl));
    }
    switch (*renewal) {
      case core::Renewal::renewed:
        report.detail(sentence::renewed(key, ttl, end));
        store->tidy();
        return to_int(ExitCode::ok);
      case core::Renewal::gone:
        report.news(sentence::not_held_any_more(key, *store));
        return to_int(ExitCode::nothing);
      case core::Renewal::not_mine:
        break;
    }
    // Only for the sentence: the answer stands, whatever is there by now.
    const auto state = store->status(key);
    report.news(sentence::held_by_another(key, state ? state->by : std::nullopt));
    return to_int(ExitCode::busy);
  }

private:
  CommonOptions m_common;
  NamedLock m_named;
  std::optional<std::string> m_key;
  std::optional<std::string> m_owner;
  std::optional<std::string> m_ttl;
};

}  // namespace

const Command renew_command{
    "renew",
    "Prolong a lock that is still held",
    "--key K [--owner T] [--ttl D] [OPTION...]",
    "lk renew --key deploy --owner \"$token\" --ttl 10m",
    false,
    [](Options& options) -> std::unique_ptr<Action> { return std::make_unique<Renew>(options); },
};

}  // namespace cli
