// The reference store: a map of locks, each a grant and a line.
#include "stores/memory/store.hpp"

#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "os/fd.hpp"

namespace stores::memory {

using core::Instant;
using core::Millis;

namespace {

class Bell {
public:
  Bell() : m_fd(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {}
  int fd() const noexcept { return m_fd.get(); }
  void ring() noexcept { ::eventfd_write(m_fd.get(), 1); }
  void drain() noexcept {
    eventfd_t rings = 0;
    ::eventfd_read(m_fd.get(), &rings);
  }

private:
  os::Fd m_fd;
};

class MemoryWatch : public core::Watch {
public:
  explicit MemoryWatch(std::shared_ptr<Bell> bell) : m_bell(std::move(bell)) {}
  int fd() const noexcept override { return m_bell->fd(); }
  void drain() noexcept override { m_bell->drain(); }

private:
  std::shared_ptr<Bell> m_bell;  // the only one that keeps it: a bell without its watch is dead
};

struct Grant {
  core::Owner owner;
  core::AskId ask;
  core::Fence fence;
  core::Who who;
  bool durable;
  Instant since;
  core::WallTime since_wall;
  Instant ends;
  bool left = false;
};

struct Place {
  core::Owner owner;
  core::AskId ask;
  core::Who who;
  Instant since;
  core::WallTime since_wall;
  Instant lapses;
  std::optional<Instant> gives_up;
  std::optional<std::weak_ptr<Bell>> bell;
};

struct Lock {
  std::optional<Grant> grant;  // may have ended: a release wants to know, and its claim may still renew it
  core::Fence last_fence;
  std::vector<Place> line;
};

Millis floor(Instant::duration time) { return std::chrono::floor<Millis>(time); }
Millis ceil(Instant::duration time) { return std::chrono::ceil<Millis>(time); }

bool live(const std::optional<Grant>& grant, Instant now) { return grant && now < grant->ends; }
bool live(const Place& place, Instant now) { return now < place.lapses; }

template <class Owned>
bool owned_by(const Owned& owned, const core::Claim& claim) {
  return owned.owner == claim.owner && (claim.ask.any() || owned.ask == claim.ask);
}

void forget_lapsed(Lock& lock, Instant now) {
  std::erase_if(lock.line, [&](const Place& place) { return !live(place, now); });
}

// Tells the head that asking is worth it. A head whose bell nobody listens to is dead: its place goes, and the next is
// told.
void ring_head(Lock& lock) {
  while (!lock.line.empty()) {
    const auto& head = lock.line.front().bell;
    if (!head) {
      return;
    }
    if (const auto bell = head->lock()) {
      bell->ring();
      return;
    }
    lock.line.erase(lock.line.begin());
  }
}

std::optional<core::Occupant> occupant(const Lock& lock, Instant now) {
  if (live(lock.grant, now)) {
    const Grant& grant = *lock.grant;
    return core::Held{grant.owner,
                      grant.ask,
                      grant.fence,
                      grant.who,
                      grant.durable,
                      floor(now - grant.since),
                      grant.since_wall,
                      floor(grant.ends - now),
                      grant.left && !grant.durable};
  }
  const auto head =
      std::find_if(lock.line.begin(), lock.line.end(), [&](const Place& place) { return live(place, now); });
  if (head != lock.line.end()) {
    return core::Promised{head->who, floor(now - head->since)};
  }
  return std::nullopt;
}

core::LockState look_at(const core::Key& key, const Lock& lock, Instant now) {
  const auto waiting =
      std::count_if(lock.line.begin(), lock.line.end(), [&](const Place& place) { return live(place, now); });
  return core::LockState{key, occupant(lock, now), static_cast<std::size_t>(waiting), {}};
}

// The head polls often, for what nobody announces (an end by ttl); the second often enough to replace a head that died.
Millis ask_again_in(std::size_t ahead, Millis patience, std::optional<Millis> holder_left) {
  Millis pause = ahead == 0 ? Millis(100) : ahead == 1 ? Millis(1000) : Millis(5000);
  if (holder_left && ahead == 0) {
    pause = std::min(pause, *holder_left);
  }
  return patience > Millis(0) ? std::min(pause, patience / 2) : pause;
}

}  // namespace

class MemoryState {
public:
  explicit MemoryState(Ways which) : ways(which) {}

  const Ways ways;
  std::mutex mutex;
  std::map<core::Key, Lock> locks;
  core::Fence last_fence;
  std::map<std::tuple<core::Key, std::string, std::uint64_t>, std::weak_ptr<Bell>> bells;
};

namespace {

class MemoryStore : public core::Store {
public:
  MemoryStore(std::shared_ptr<MemoryState> state, const core::Clock& clock)
      : m_state(std::move(state)), m_clock(clock) {}

  core::Result<core::Answer> acquire(const core::Ask& ask) override {
    const std::lock_guard guard(m_state->mutex);
    const Instant now = m_clock.now();
    const core::Claim& claim = ask.claim;
    Lock& lock = m_state->locks[claim.key];
    forget_ended(lock, now);

    if (live(lock.grant, now) && owned_by(*lock.grant, claim)) {
      lock.grant->ends = now + ask.ttl;
      return core::Granted{lock.grant->fence, true};
    }
    const auto mine = [&](const Place& place) { return owned_by(place, claim); };
    auto place = std::find_if(lock.line.begin(), lock.line.end(), mine);
    if (!live(lock.grant, now)) {
      if (place != lock.line.begin()) {
        // Nobody rings when a grant ends by itself, so whoever finds the lock free does.
        ring_head(lock);
        place = std::find_if(lock.line.begin(), lock.line.end(), mine);
      }
      if (place == lock.line.begin()) {
        if (place != lock.line.end()) {
          lock.line.erase(place);
          // From now on the next one is to look after the holder as often as a head does.
          ring_head(lock);
        }
        const auto clock_fence =
            std::chrono::floor<std::chrono::microseconds>(m_clock.wall().time_since_epoch()).count();
        core::Fence& last = m_state->ways.one_fence_for_all_keys ? m_state->last_fence : lock.last_fence;
        last.value = std::max(last.value + 1, clock_fence);
        lock.grant = Grant{claim.owner, claim.ask, last, ask.who, ask.durable, now, m_clock.wall(), now + ask.ttl};
        return core::Granted{last, false};
      }
    }

    const core::Occupant by = *occupant(lock, now);
    const auto holder_left = live(lock.grant, now) ? std::optional(ceil(lock.grant->ends - now)) : std::nullopt;
    if (place == lock.line.end()) {
      const bool line_full = ask.max_waiting && lock.line.size() >= *ask.max_waiting;
      if (ask.patience <= Millis(0) || line_full) {
        return core::Busy{holder_left.value_or(Millis(1000)), by, ask.patience > Millis(0)};
      }
      lock.line.push_back(Place{claim.owner, claim.ask, ask.who, now, m_clock.wall(), now, std::nullopt, std::nullopt});
      place = std::prev(lock.line.end());
    }
    if (ask.patience > Millis(0)) {
      place->lapses = now + ask.patience;
      place->gives_up = ask.wait_left ? std::optional(now + *ask.wait_left) : std::nullopt;
    }
    const auto bell = m_state->bells.find(name_of(claim));
    if (bell != m_state->bells.end()) {
      place->bell = bell->second;
    }
    const auto ahead = static_cast<std::size_t>(place - lock.line.begin());
    return core::Queued{ahead, ask_again_in(ahead, ask.patience, holder_left), by};
  }

  core::Result<core::Renewal> renew(const core::Claim& claim, Millis ttl,
                                    const std::optional<core::Keepers>&) override {
    const std::lock_guard guard(m_state->mutex);
    const Instant now = m_clock.now();
    Lock& lock = m_state->locks[claim.key];
    forget_ended(lock, now);
    if (!lock.grant || !owned_by(*lock.grant, claim)) {
      return live(lock.grant, now) ? core::Renewal::not_mine : core::Renewal::gone;
    }
    if (!live(lock.grant, now) && !lock.line.empty()) {
      return core::Renewal::gone;
    }
    lock.grant->ends = std::max(lock.grant->ends, now + ttl);
    return core::Renewal::renewed;
  }

  core::Result<core::Released> release(const core::Claim& claim, std::optional<core::Fence> fence) override {
    return end(claim, fence, std::nullopt);
  }

  core::Result<core::Released> leave(const core::Claim& claim, Millis after) override {
    return end(claim, std::nullopt, after);
  }

  core::Result<core::Eviction> evict(const core::Key& key, const core::Occupant& seen) override {
    const std::lock_guard guard(m_state->mutex);
    const Instant now = m_clock.now();
    Lock& lock = m_state->locks[key];
    forget_ended(lock, now);
    if (!live(lock.grant, now)) {
      return core::Eviction::free;
    }
    const auto* held = std::get_if<core::Held>(&seen);
    const Grant& grant = *lock.grant;
    if (held == nullptr || held->owner != grant.owner || held->ask != grant.ask || held->fence != grant.fence) {
      return core::Eviction::changed;
    }
    lock.grant.reset();
    ring_head(lock);
    return core::Eviction::evicted;
  }

  core::Result<core::LockState> status(const core::Key& key) override {
    const std::lock_guard guard(m_state->mutex);
    const Instant now = m_clock.now();
    const auto found = m_state->locks.find(key);
    if (found == m_state->locks.end()) {
      return core::LockState{key, std::nullopt, 0, {}};
    }
    core::LockState state = look_at(key, found->second, now);
    for (const Place& place : found->second.line) {
      if (live(place, now)) {
        const auto wait_left =
            place.gives_up ? std::optional(std::max(floor(*place.gives_up - now), Millis(0))) : std::nullopt;
        state.line.push_back(
            {place.owner, place.ask, place.who, floor(now - place.since), place.since_wall, wait_left});
      }
    }
    return state;
  }

  core::Result<std::vector<core::LockState>> list(const core::Glob& keys) override {
    const std::lock_guard guard(m_state->mutex);
    const Instant now = m_clock.now();
    std::vector<core::LockState> states;
    for (const auto& [key, lock] : m_state->locks) {
      core::LockState state = look_at(key, lock, now);
      if (state.by && keys.matches(key.text())) {
        states.push_back(std::move(state));
      }
    }
    return states;
  }

  core::Result<std::unique_ptr<core::Watch>> watch(const core::Claim& claim) override {
    const std::lock_guard guard(m_state->mutex);
    auto bell = std::make_shared<Bell>();
    if (bell->fd() < 0) {
      return tl::make_unexpected(core::StoreError{core::Trouble::full, "no descriptor is left for a bell"});
    }
    std::erase_if(m_state->bells, [](const auto& entry) { return entry.second.expired(); });
    m_state->bells[name_of(claim)] = bell;
    return std::make_unique<MemoryWatch>(std::move(bell));
  }

  std::string address() const override { return "memory:"; }

private:
  static std::tuple<core::Key, std::string, std::uint64_t> name_of(const core::Claim& claim) {
    return {claim.key, claim.owner.bytes(), claim.ask.value};
  }

  void forget_ended(Lock& lock, Instant now) const {
    forget_lapsed(lock, now);
    if (!m_state->ways.renews_expired && !live(lock.grant, now)) {
      lock.grant.reset();
    }
  }

  // Release and leave: `after` is what the grant has left then.
  core::Released end(const core::Claim& claim, std::optional<core::Fence> fence, std::optional<Millis> after) {
    const std::lock_guard guard(m_state->mutex);
    const Instant now = m_clock.now();
    Lock& lock = m_state->locks[claim.key];
    forget_ended(lock, now);

    std::size_t places_gone = 0;
    const bool any_grant = lock.grant && owned_by(*lock.grant, claim);
    if (!fence && !(claim.ask.any() && any_grant)) {
      places_gone = std::erase_if(lock.line, [&](const Place& place) { return owned_by(place, claim); });
    }
    core::Released released;
    if (any_grant && (!fence || *fence == lock.grant->fence)) {
      const bool was_live = live(lock.grant, now);
      if (!was_live) {
        released = {core::Release::expired, std::nullopt, floor(now - lock.grant->ends)};
      } else {
        released.what = core::Release::released;
      }
      if (was_live && after && *after > Millis(0)) {
        lock.grant->ends = now + *after;
        lock.grant->left = true;
      } else {
        lock.grant.reset();
      }
    } else if (places_gone > 0) {
      released.what = core::Release::left_line;
    } else if (live(lock.grant, now)) {
      released = {core::Release::not_mine, occupant(lock, now), std::nullopt};
    }
    if (released.what != core::Release::not_held && released.what != core::Release::not_mine) {
      ring_head(lock);
    }
    return released;
  }

  std::shared_ptr<MemoryState> m_state;
  const core::Clock& m_clock;
};

}  // namespace

std::shared_ptr<MemoryState> new_state(Ways ways) { return std::make_shared<MemoryState>(ways); }

std::unique_ptr<core::Store> open(std::shared_ptr<MemoryState> state, const core::Clock& clock) {
  return std::make_unique<MemoryStore>(std::move(state), clock);
}

}  // namespace stores::memory
