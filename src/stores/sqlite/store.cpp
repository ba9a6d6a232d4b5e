// The verbs: one IMMEDIATE transaction each.
#include "stores/sqlite/store.hpp"

#include <unistd.h>

#include <algorithm>
#include <climits>
#include <limits>
#include <map>
#include <utility>

#include <fmt/format.h>

#include "core/text.hpp"
#include "stores/sqlite/bell.hpp"
#include "stores/sqlite/database.hpp"
#include "stores/sqlite/holders.hpp"
#include "stores/sqlite/line.hpp"
#include "stores/sqlite/location.hpp"
#include "stores/sqlite/processes.hpp"
#include "stores/sqlite/rows.hpp"
#include "stores/sqlite/transactions.hpp"

namespace stores::sqlite {

namespace {

using core::Millis;

// Whoever opens the file while nobody else has it open reads the whole log (SQLite rebuilds its index then): 3 us for
// each of the four pages that an exec leaves in it, against 1.5 ms for copying the log. 64 pages are where the sum is
// smallest.
constexpr std::int64_t log_worth_copying = std::int64_t{64} * (1024 + 24);
// What the heartbeats of those who wait and hold for long may leave in the log.
constexpr std::int64_t longest_log = std::int64_t{512} * (1024 + 24);

class SqliteStore : public core::Store {
public:
  SqliteStore(const std::string& path, const core::StoreOptions& options, const core::Clock& clock)
      : m_clock(clock),
        m_database(path, options.durable, options.limits),
        m_bells(path),
        m_transactions(m_database, m_bells, clock),
        m_holders(m_database, m_processes),
        m_line(m_database, m_processes, m_bells) {}

  core::Result<core::Answer> acquire(const core::Ask& ask) override;
  core::Result<core::Renewal> renew(const core::Claim& claim, Millis ttl,
                                    const std::optional<core::Keepers>& keepers) override;
  core::Result<core::Released> release(const core::Claim& claim, std::optional<core::Fence> fence) override;
  core::Result<core::Released> leave(const core::Claim& claim, Millis after) override;
  core::Result<core::Eviction> evict(const core::Key& key, const core::Occupant& seen) override;
  core::Result<core::LockState> status(const core::Key& key) override;
  core::Result<std::vector<core::LockState>> list(const core::Glob& keys) override;
  core::Result<std::unique_ptr<core::Watch>> watch(const core::Claim& claim) override;
  void tidy() noexcept override;
  bool looks_at_keepers() const noexcept override { return true; }
  void rest() noexcept override { m_database.disconnect(); }
  std::string address() const override { return m_database.path(); }

private:
  // Of the claim that was told Queued last. What it says is looked at again.
  struct Place {
    core::AskId ask;
    std::int64_t number;
    std::size_t ahead;
    core::Instant lapses;
  };
  // Whose bell is to be rung once the transaction is through.
  struct Ring {
    std::optional<core::AskId> whom;
    bool lock_is_free = false;
  };
  core::Result<core::Answer> ask_once(const core::Ask& ask, const std::optional<Place>& known, Ring& ring);
  std::optional<core::Queued> still_queued(const core::Ask& ask);
  // Of a head, without a look into the file, while nobody has written to it.
  std::optional<core::Queued> unchanged(const core::Ask& ask);
  core::Result<core::Released> end_grant(const core::Claim& claim, std::optional<core::Fence> fence,
                                         std::optional<Millis> leave_after);

  static std::optional<core::AskId> belled(const std::optional<PlaceRow>& place) {
    return place && place->bell ? std::optional(place->ask) : std::nullopt;
  }
  // Prepares what a grant or a release will need, while nobody waits for us.
  enum class Verb { acquire, release };
  void get_ready(Verb next) noexcept;
  // From now on the next one is to look after the holder as often as a head does. Not in the moment of the grant, which
  // its command waits for; and of a command, once its keepers are known: one that is done sooner rings anyway.
  void ring_successor();
  // Wakes a head; one that nobody hears is dropped, and the next one woken.
  void ring_on(const core::Key& key, std::optional<core::AskId> whom);
  std::optional<core::AskId> head_without(const core::Key& key, core::AskId deaf);

  const core::Clock& m_clock;
  Database m_database;
  Bells m_bells;
  Transactions m_transactions;
  Processes m_processes;
  Holders m_holders;
  Line m_line;
  std::optional<core::AskId> m_belled;  // the claim that has a watch of ours
  std::optional<Place> m_place;
  // What a head saw last, and of which state of the files.
  struct View {
    Database::Files files;
    HolderRow holder;
    std::optional<os::RunningProcess> keeper;
    core::Instant seen;
  };
  std::optional<View> m_view;
  std::shared_ptr<bool> m_rung = std::make_shared<bool>(false);  // since the last ask
  // Who became the head by a grant of ours.
  struct Successor {
    core::Key key;
    core::AskId head;
    bool durable;
  };
  std::optional<Successor> m_successor;
  bool m_releases = false;  // an exec's grant is given back by this process
};

// --- acquire --------------------------------------------------------------------------------------------------------

core::Result<core::Answer> SqliteStore::acquire(const core::Ask& ask) {
  if (m_place && m_place->ask != ask.claim.ask) {
    m_place.reset();
  }
  // What a waiter does ten times a second: look, without the write lock. It changes nothing and answers only what the
  // whole step below would have answered, so it is no use after a ring. Half the patience is left for the next ask to
  // come late.
  const bool rung = std::exchange(*m_rung, false);
  if (m_place && !rung && m_place->lapses - m_clock.machine_now() >= ask.patience / 2) {
    if (auto answer = still_queued(ask)) {
      m_place->ahead = answer->ahead;
      return std::move(*answer);
    }
  }
  while (true) {
    Ring ring;
    m_view.reset();
    auto answer = ask_once(ask, std::exchange(m_place, std::nullopt), ring);
    if (!answer) {
      return answer;
    }
    if (std::holds_alternative<core::Queued>(*answer)) {
      // Many who wait for hours write as much as many who come and go.
      m_database.checkpoint(longest_log);
      get_ready(Verb::acquire);
    }
    const bool deaf = ring.whom && m_bells.ring(*ring.whom) == Bells::Ring::nobody_listens;
    if (deaf) {
      ring_on(ask.claim.key, head_without(ask.claim.key, *ring.whom));
    }
    // A head that does not listen kept a free lock from me.
    if (!deaf || !ring.lock_is_free) {
      return answer;
    }
  }
}

core::Result<core::Answer> SqliteStore::ask_once(const core::Ask& ask, const std::optional<Place>& known, Ring& ring) {
  // Behind the first two, who look after them, neither the holder's processes nor the first in line need to be seen.
  const bool deep = known && known->ahead >= 2;
  return m_transactions.write<core::Answer>(
      Database::Missing::create, core::Busy{Millis(0), core::Promised{}, false}, [&](const Now& now) -> core::Answer {
        const core::Key& key = ask.claim.key;
        std::optional<HolderRow> current = m_holders.find(key, now);
        if (current && (deep ? has_ended(*current, now) : m_processes.is_dead(*current, now))) {
          current.reset();
        }
        if (current && current->held.owner == ask.claim.owner && current->held.ask == ask.claim.ask) {
          // Asked again after a lost reply: the ttl restarts, the grant is the same.
          m_holders.restart(key, ask.ttl, now);
          return core::Granted{*current->held.fence, true};
        }

        std::optional<PlaceRow> first;
        if (!current || !deep) {
          first = m_line.head(key, now);
        }
        const auto is_mine = [&](const PlaceRow& place) {
          return place.ask == ask.claim.ask && place.owner == ask.claim.owner;
        };
        // Who is stopped (Ctrl-Z) when his turn comes does not keep all others waiting: he queues again when he goes
        // on.
        while (!current && first && !is_mine(*first) && m_processes.is_stopped(*first)) {
          m_line.drop(key, first->number);
          first = m_line.head(key, now);
        }
        if (!current && (!first || is_mine(*first))) {
          m_successor.reset();
          if (first) {
            m_line.remove(key, first->number);
            if (const auto next = belled(m_line.head(key, now))) {
              m_successor = Successor{key, *next, ask.durable};
            }
          }
          m_releases = !ask.durable;
          return core::Granted{m_holders.grant(ask, now), false};
        }

        const std::optional<Millis> holder_left =
            current ? std::optional(millis_up(current->expires - now.boot)) : std::nullopt;
        if (!current) {
          // Its holder expired or crashed and nobody rang, or the head is dead.
          ring = {belled(first), true};
        }
        core::Occupant by = current ? core::Occupant(shown(*std::move(current), now))
                                    : core::Occupant(promised(*std::move(first), now));

        // Where am I, and who before me let his place lapse?
        constexpr std::int64_t behind_all = std::numeric_limits<std::int64_t>::max();
        const std::optional<std::int64_t> mine =
            m_line.find(ask.claim, known ? std::optional(known->number) : std::nullopt, now);
        auto [ahead, lapsed] = m_line.ahead_of(key, mine.value_or(behind_all), now);
        if (lapsed) {
          ahead -= m_line.drop_lapsed(key, mine.value_or(behind_all), now);
        }
        const Millis again = asks_again_in(ahead, holder_left, ask);
        if (!mine && (ask.patience <= Millis(0) || (ask.max_waiting && ahead >= *ask.max_waiting))) {
          return core::Busy{holder_left.value_or(second_asks_again), std::move(by), ask.patience > Millis(0)};
        }

        const core::Instant lapses = now.boot + ask.patience;
        if (mine && ask.patience > Millis(0)) {
          m_line.stay(key, *mine, lapses);
        }
        // The bell of a place that was dropped while we were stopped is gone.
        const bool bell = !mine && m_belled == ask.claim.ask && m_bells.hangs(ask.claim.ask);
        m_place = Place{ask.claim.ask, mine ? *mine : m_line.join(ask, bell, now), ahead, lapses};
        return core::Queued{ahead, again, std::move(by)};
      });
}

std::optional<core::Queued> SqliteStore::unchanged(const core::Ask& ask) {
  const Now now{m_clock.machine_now(), m_clock.wall(), {}, 0, {}, false};
  if (!m_view || now.boot - m_view->seen >= second_asks_again || has_ended(m_view->holder, now) || !m_view->keeper ||
      !m_view->keeper->runs() || m_database.files_now() != m_view->files) {
    m_view.reset();
    return std::nullopt;
  }
  const HolderRow& holder = m_view->holder;
  return core::Queued{0, asks_again_in(0, millis_up(holder.expires - now.boot), ask), shown(holder, now)};
}

std::optional<core::Queued> SqliteStore::still_queued(const core::Ask& ask) {
  if (auto same = unchanged(ask)) {
    return same;
  }
  // Before the look into the file, or what is written in between would go unseen.
  const auto files = m_place->ahead == 0 ? std::optional(m_database.files_now()) : std::nullopt;
  auto answer = m_transactions.read<std::optional<core::Queued>>(
      std::nullopt, [&](const Now& now) -> std::optional<core::Queued> {
        if (now.rebooted) {
          return std::nullopt;
        }
        std::optional<HolderRow> current = m_holders.find(ask.claim.key, now);
        if (!current || has_ended(*current, now)) {
          return std::nullopt;
        }
        const std::optional<core::Instant> lapses = m_line.lapses(ask.claim, m_place->number);
        if (!lapses || *lapses - now.boot < ask.patience / 2) {
          return std::nullopt;
        }
        const auto [ahead, lapsed] = m_line.ahead_of(ask.claim.key, m_place->number, now);
        // The first two look whether the holder's processes live.
        if (lapsed || (ahead < 2 && m_processes.are_gone(current->keepers))) {
          return std::nullopt;
        }
        const Millis again = asks_again_in(ahead, millis_up(current->expires - now.boot), ask);
        if (ahead == 0 && files) {
          m_view = View{*files, *current, m_processes.find_running(current->keepers), now.boot};
        }
        return core::Queued{ahead, again, shown(*std::move(current), now)};
      });
  return answer ? std::move(*answer) : std::nullopt;
}

// --- renew, release, leave, evict -----------------------------------------------------------------------------------

core::Result<core::Renewal> SqliteStore::renew(const core::Claim& claim, Millis ttl,
                                               const std::optional<core::Keepers>& keepers) {
  // Who was granted in a file that is no longer there has lost, even if a copy of it took its place.
  if (m_database.is_connected() && m_database.moved()) {
    m_database.disconnect();
    return core::Renewal::gone;
  }
  auto renewal =
      m_transactions.write<core::Renewal>(Database::Missing::leave, core::Renewal::gone, [&](const Now& now) {
        const std::optional<HolderRow> row = m_holders.find(claim.key, now);
        if (!row) {
          return core::Renewal::gone;
        }
        const bool dead = m_processes.is_dead(*row, now);
        if (row->held.owner != claim.owner || (!claim.ask.any() && row->held.ask != claim.ask)) {
          return dead ? core::Renewal::gone : core::Renewal::not_mine;
        }
        if (dead && m_line.head(claim.key, now)) {
          return core::Renewal::gone;
        }
        m_holders.prolong(claim.key, std::max(dead ? now.boot : row->expires, now.boot + ttl), ttl, now);
        if (keepers) {
          m_holders.replace_keepers(claim.key, *keepers);
        }
        return core::Renewal::renewed;
      });
  ring_successor();
  m_database.checkpoint(longest_log);
  return renewal;
}

core::Result<core::Released> SqliteStore::release(const core::Claim& claim, std::optional<core::Fence> fence) {
  return end_grant(claim, fence, std::nullopt);
}

core::Result<core::Released> SqliteStore::leave(const core::Claim& claim, Millis after) {
  return end_grant(claim, std::nullopt, after);
}

core::Result<core::Released> SqliteStore::end_grant(const core::Claim& claim, std::optional<core::Fence> fence,
                                                    std::optional<Millis> leave_after) {
  if (m_place && m_place->ask == claim.ask) {
    m_place.reset();
  }
  std::optional<core::AskId> whom;
  auto answer =
      m_transactions.write<core::Released>(Database::Missing::leave, {}, [&](const Now& now) -> core::Released {
        std::optional<HolderRow> row = m_holders.find(claim.key, now);
        const bool live = row && !m_processes.is_dead(*row, now);
        const bool mine = row && row->held.owner == claim.owner && (claim.ask.any() || row->held.ask == claim.ask);
        // A live holder waits nowhere; and "any ask of that owner" means the grant where there is one.
        const bool left = !fence && !(mine && (live || claim.ask.any())) && m_line.leave(claim, now);
        core::Released released;
        if (mine && (!fence || row->held.fence == fence)) {
          if (live) {
            released.what = core::Release::released;
          } else {
            released = {core::Release::expired, std::nullopt, std::max(millis(now.boot - row->expires), Millis(0))};
          }
          if (live && leave_after && *leave_after > Millis(0)) {
            m_holders.leave(claim.key, *leave_after, now);
          } else {
            m_holders.remove(claim.key.text());
          }
        } else if (left) {
          released.what = core::Release::left_line;
        } else if (live) {
          released = {core::Release::not_mine, shown(*std::move(row), now), std::nullopt};
        }
        if (released.what != core::Release::not_held && released.what != core::Release::not_mine) {
          whom = belled(m_line.head(claim.key, now));
        }
        return released;
      });
  ring_on(claim.key, whom);
  return answer;
}

core::Result<core::Eviction> SqliteStore::evict(const core::Key& key, const core::Occupant& seen) {
  std::optional<core::AskId> whom;
  auto answer =
      m_transactions.write<core::Eviction>(Database::Missing::leave, core::Eviction::free, [&](const Now& now) {
        const std::optional<HolderRow> row = m_holders.find_living(key, now);
        if (!row) {
          return core::Eviction::free;
        }
        const auto* const held = std::get_if<core::Held>(&seen);
        if (held == nullptr || held->owner != row->held.owner || held->ask != row->held.ask ||
            held->fence != row->held.fence) {
          return core::Eviction::changed;
        }
        m_holders.remove(key.text());
        whom = belled(m_line.head(key, now));
        return core::Eviction::evicted;
      });
  ring_on(key, whom);
  return answer;
}

// --- the line's bells -----------------------------------------------------------------------------------------------

core::Result<std::unique_ptr<core::Watch>> SqliteStore::watch(const core::Claim& claim) {
  auto connected = m_database.connect(Database::Missing::create);
  if (!connected) {
    return tl::unexpected(std::move(connected.error()));
  }
  auto hung = m_bells.hang(claim.ask, file_mode(m_database.path()), m_rung);
  if (hung) {
    m_belled = claim.ask;
  }
  return hung;
}

void SqliteStore::ring_successor() {
  if (const auto next = std::exchange(m_successor, std::nullopt)) {
    ring_on(next->key, next->head);
  }
}

void SqliteStore::tidy() noexcept {
  if (m_successor && m_successor->durable) {
    ring_successor();
  }
  m_database.checkpoint(log_worth_copying);
  if (m_releases) {
    get_ready(Verb::release);
  }
}

void SqliteStore::get_ready(Verb next) noexcept {
  if (!m_database.is_connected()) {
    return;
  }
  try {
    if (next == Verb::acquire) {
      m_line.prepare_remove();
      m_holders.prepare_grant();
    } else {
      m_holders.prepare_remove();
    }
  } catch (const SQLite::Exception&) {
    // The verb itself will say so.
  }
}

// The belled head after `deaf`, whom nobody hears, is dropped, unless it has gone meanwhile.
std::optional<core::AskId> SqliteStore::head_without(const core::Key& key, core::AskId deaf) {
  const auto answer = m_transactions.write<std::optional<core::AskId>>(
      Database::Missing::leave, std::nullopt, [&](const Now& now) -> std::optional<core::AskId> {
        std::optional<PlaceRow> first = m_line.head(key, now);
        if (first && first->ask == deaf) {
          m_line.drop(key, first->number);
          first = m_line.head(key, now);
        }
        return belled(first);
      });
  return answer ? *answer : std::nullopt;
}

void SqliteStore::ring_on(const core::Key& key, std::optional<core::AskId> whom) {
  while (whom && m_bells.ring(*whom) == Bells::Ring::nobody_listens) {
    whom = head_without(key, *whom);
  }
}

// --- status, list ---------------------------------------------------------------------------------------------------

core::Result<core::LockState> SqliteStore::status(const core::Key& key) {
  return m_transactions.read<core::LockState>({key, std::nullopt, 0, {}}, [&](const Now& now) {
    core::LockState state{key, std::nullopt, 0, {}};
    if (std::optional<HolderRow> row = m_holders.find_living(key, now)) {
      state.by = shown(*std::move(row), now);
    }
    for (PlaceRow& place : m_line.living(key, now)) {
      if (!state.by) {
        state.by = promised(place, now);
      }
      state.line.push_back(waiter(std::move(place), now));
    }
    state.waiting = state.line.size();
    return state;
  });
}

core::Result<std::vector<core::LockState>> SqliteStore::list(const core::Glob& keys) {
  return m_transactions.read<std::vector<core::LockState>>({}, [&](const Now& now) {
    std::map<std::string, core::LockState> found;
    const auto state_of = [&](const std::string& key) -> core::LockState& {
      return found.try_emplace(key, core::LockState{core::Key::stored(key), std::nullopt, 0, {}}).first->second;
    };
    for (HolderRow& row : m_holders.living(keys, now)) {
      core::LockState& state = state_of(row.key);
      state.by = shown(std::move(row), now);
    }
    for (PlaceRow& place : m_line.living(keys, now)) {
      core::LockState& state = state_of(place.key);
      if (!state.by) {
        state.by = promised(std::move(place), now);
      }
      ++state.waiting;
    }
    std::vector<core::LockState> states;
    states.reserve(found.size());
    for (auto& [key, state] : found) {
      states.push_back(std::move(state));
    }
    return states;
  });
}

}  // namespace

core::Result<std::unique_ptr<core::Store>> open(const core::StoreUrl& url, const core::StoreOptions& options,
                                                const core::Clock& clock) {
  std::string path = url.rest();
  if (path.empty()) {
    return tl::unexpected(core::StoreError{core::Trouble::misconfigured,
                                           "sqlite: needs a path, for example sqlite:/var/lib/lk/locks.db"});
  }
  if (path.front() != '/') {
    char folder[PATH_MAX];
    if (::getcwd(folder, sizeof folder) == nullptr) {
      return tl::unexpected(core::StoreError{core::Trouble::misconfigured,
                                             "the working directory is gone: give the store an absolute path"});
    }
    path = fmt::format("{}/{}", folder, path);
  }
  return std::make_unique<SqliteStore>(std::move(path), options, clock);
}

}  // namespace stores::sqlite
