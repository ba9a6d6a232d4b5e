// What lk says to its user on stderr: every sentence about locks and stores is worded here. Usage errors are worded
// where they are found.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "cli/common_options.hpp"
#include "core/clock.hpp"
#include "core/store.hpp"

namespace cli {

// One line on stderr, "lk: " before it. A stderr that cannot be written changes nothing.
void say(std::string_view sentence);

// Who hears what: -q leaves only errors (Ending), -v adds.
class Report {
public:
  explicit Report(const CommonOptions& options) : m_quiet(options.quiet), m_verbose(options.verbose) {}

  void news(std::string_view sentence) const;    // refusals and what the user should know; not with -q
  void detail(std::string_view sentence) const;  // only with -v
  void error(std::string_view sentence) const;   // always
  bool quiet() const noexcept { return m_quiet; }
  bool verbose() const noexcept { return m_verbose; }

private:
  bool m_quiet;
  bool m_verbose;
};

// Sentences without "lk: " and full stop. What comes from a store or a user is escaped in them.
namespace sentence {

// "deploy@web3 (pid 4312, rsync)", or "deploy@web3 (pid 4312, rsync, ended)".
std::string who(const core::Who& who, bool ended = false);
// Why the lock cannot be had: "K is held by …", "K is free but promised to …", "K is held by another program (redis
// zset) …".
std::string refusal(const core::Key& key, const core::Occupant& by);
// The wait ran out, or the line was full.
std::string gave_up(const core::Key& key, const core::Occupant& by, core::Millis waited);
std::string line_full(const core::Key& key, const core::Occupant& by, std::size_t max_waiting);
// Waiting for a lock that an exec further up holds until we are done.
std::string exec_deadlock(const core::Key& key);
std::string block_deadlock(const core::Key& key);
// The store was in trouble, to the end of the wait or (no `waited`) at once.
std::string not_acquired(const core::StoreError& error, const core::Key& key, std::optional<core::Millis> waited);
// After a lost answer: what may be held now, and until when at the latest.
std::string maybe_granted(const core::StoreError& error, const core::Claim& claim, core::WallTime latest_end);
// What an acquired lock that nothing renews should be known for.
std::string until(const core::Key& key, core::Millis ttl, core::WallTime end);
// The token could not be handed over, and what became of the lock then.
std::string token_lost(const core::Key& key, std::string_view why, const core::Result<core::Released>& given_back);
std::string not_given_back(const core::Key& key, const core::StoreError& error);

// renew and release. Without an answer of the store it is not known whether they were done.
std::string not_renewed(const core::StoreError& error, const core::Key& key, core::WallTime latest_end);
std::string not_released(const core::StoreError& error, const core::Key& key);
std::string not_held_any_more(const core::Key& key, const core::Store& store);
std::string held_by_another(const core::Key& key, const std::optional<core::Occupant>& by);
std::string nothing_to_release(const core::Key& key, const core::Store& store);
std::string had_expired(const core::Key& key, const std::optional<core::Millis>& expired_for);
std::string stands_on(const core::Key& key);

// release --force.
std::string evicted(const core::Key& key, const core::Occupant& by);
// `by`: who was found after that.
std::string changed(const core::Key& key, const std::optional<core::Occupant>& by);
std::string other_fence(const core::Key& key, core::Fence wanted, const core::Occupant& by);

// status. `bare`: without a prefix a list has only what lk itself holds; other programs' data is not taken for locks.
std::string none_held_longer(core::Millis than, std::string_view store);
std::string no_locks(std::string_view pattern, std::string_view store, bool bare);

// With -v.
std::string asking(const core::Store& store);
std::string granted(const core::Key& key, core::Fence fence);
std::string renewed(const core::Key& key, core::Millis ttl, core::WallTime end);
std::string released(const core::Key& key);

// While waiting. `ahead` are those before us.
std::string waiting(const core::Key& key, std::size_t ahead, const core::Occupant& by);
// The same as one line of a terminal with so many columns, `waited` so far: with less and less about the holder,
// then without the key, until it fits.
std::string waiting_within(std::size_t columns, core::Millis waited, const core::Key& key, std::size_t ahead,
                           const core::Occupant& by);
std::string trouble_while_waiting(const core::StoreError& error);

}  // namespace sentence

}  // namespace cli
