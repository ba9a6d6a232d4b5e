// A store that fails as real ones do.
#include "support/flaky_store.hpp"

#include <algorithm>
#include <utility>

namespace support {

void FlakyStore::fail_next(int verbs, core::Trouble what, std::string detail) {
  m_fault = Fault{verbs, false, {what, std::move(detail)}};
}

void FlakyStore::fail_from_now(core::Trouble what, std::string detail) {
  m_fault = Fault{std::nullopt, false, {what, std::move(detail)}};
}

void FlakyStore::lose_replies(int verbs, core::Trouble what, std::string detail) {
  m_fault = Fault{verbs, true, {what, std::move(detail), true}};
}

int FlakyStore::count(const std::string& verb) const {
  return static_cast<int>(std::count(m_verbs.begin(), m_verbs.end(), verb));
}

template <class Verb>
auto FlakyStore::run(const char* name, Verb verb) -> decltype(verb()) {
  m_verbs.emplace_back(name);
  if (before) {
    before(name);
  }
  std::optional<Fault> fault;
  if (m_fault && (only.empty() || only == name)) {
    fault = m_fault;
    if (m_fault->verbs_left && --*m_fault->verbs_left <= 0) {
      m_fault.reset();
    }
  }
  if (fault && !fault->carried_out) {
    return tl::make_unexpected(std::move(fault->error));
  }
  auto result = verb();
  if (after) {
    after(name);
  }
  if (fault) {
    return tl::make_unexpected(std::move(fault->error));
  }
  return result;
}

core::Result<core::Answer> FlakyStore::acquire(const core::Ask& ask) {
  return run("acquire", [&] { return m_real.acquire(ask); });
}

core::Result<core::Renewal> FlakyStore::renew(const core::Claim& claim, core::Millis ttl,
                                              const std::optional<core::Keepers>& keepers) {
  return run("renew", [&] { return m_real.renew(claim, ttl, keepers); });
}

core::Result<core::Released> FlakyStore::release(const core::Claim& claim, std::optional<core::Fence> fence) {
  return run("release", [&] { return m_real.release(claim, fence); });
}

core::Result<core::Released> FlakyStore::leave(const core::Claim& claim, core::Millis after_that) {
  return run("leave", [&] { return m_real.leave(claim, after_that); });
}

core::Result<core::Eviction> FlakyStore::evict(const core::Key& key, const core::Occupant& seen) {
  return run("evict", [&] { return m_real.evict(key, seen); });
}

core::Result<core::LockState> FlakyStore::status(const core::Key& key) {
  return run("status", [&] { return m_real.status(key); });
}

core::Result<std::vector<core::LockState>> FlakyStore::list(const core::Glob& keys) {
  return run("list", [&] { return m_real.list(keys); });
}

core::Result<std::unique_ptr<core::Watch>> FlakyStore::watch(const core::Claim& claim) {
  return run("watch", [&] { return m_real.watch(claim); });
}

}  // namespace support
