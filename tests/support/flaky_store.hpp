// A store that fails as real ones do: trouble before a verb, or a reply that gets lost after it.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/store.hpp"

namespace support {

class FlakyStore : public core::Store {
public:
  // `real` outlives it.
  explicit FlakyStore(core::Store& real) : m_real(real) {}

  // The next `verbs` verbs do nothing and report this.
  void fail_next(int verbs, core::Trouble what, std::string detail = "made to fail");
  // Every verb from now on; until mended.
  void fail_from_now(core::Trouble what, std::string detail = "made to fail");
  void mend() { m_fault.reset(); }
  // The next `verbs` verbs are carried out, and report this all the same.
  void lose_replies(int verbs, core::Trouble what = core::Trouble::timed_out,
                    std::string detail = "the reply was lost");

  // Only verbs of this name meet the faults above; empty: all do.
  std::string only;

  // Called before and after each verb is carried out, with its name: a story's place to let time pass.
  std::function<void(const std::string& verb)> before;
  std::function<void(const std::string& verb)> after;
  // The names of all verbs so far, and how many there were of one.
  const std::vector<std::string>& verbs() const { return m_verbs; }
  int count(const std::string& verb) const;

  core::Result<core::Answer> acquire(const core::Ask& ask) override;
  core::Result<core::Renewal> renew(const core::Claim& claim, core::Millis ttl,
                                    const std::optional<core::Keepers>& keepers) override;
  core::Result<core::Released> release(const core::Claim& claim, std::optional<core::Fence> fence) override;
  core::Result<core::Released> leave(const core::Claim& claim, core::Millis after_that) override;
  core::Result<core::Eviction> evict(const core::Key& key, const core::Occupant& seen) override;
  core::Result<core::LockState> status(const core::Key& key) override;
  core::Result<std::vector<core::LockState>> list(const core::Glob& keys) override;
  core::Result<std::unique_ptr<core::Watch>> watch(const core::Claim& claim) override;
  std::string address() const override { return m_real.address(); }

private:
  struct Fault {
    std::optional<int> verbs_left;  // none: for ever
    bool carried_out;
    core::StoreError error;
  };
  template <class Verb>
  auto run(const char* name, Verb verb) -> decltype(verb());

  core::Store& m_real;
  std::optional<Fault> m_fault;
  std::vector<std::string> m_verbs;
};

}  // namespace support
