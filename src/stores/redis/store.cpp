// The verbs: one script each, EVALSHA first.
#include "stores/redis/store.hpp"

#include <algorithm>
#include <array>
#include <initializer_list>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include <fmt/format.h>

#include "stores/redis/address.hpp"
#include "stores/redis/answers.hpp"
#include "stores/redis/bell.hpp"
#include "stores/redis/errors.hpp"
#include "stores/redis/keys.hpp"
#include "stores/redis/scripts.hpp"
#include "stores/redis/wire.hpp"

namespace stores::redis {

namespace {

using core::Millis;
using core::StoreError;
using core::Trouble;

// What nobody announces (DEL by hand, a foreign client's release, a dead head) is to be noticed within a second; the
// rest of the line asks to keep its places.
constexpr Millis first_two_ask_again{1000};
constexpr Millis others_ask_again{5000};

// How long one question of list keeps the server from others: 2 to 4 ms each.
constexpr std::string_view scan_count = "5000";
constexpr std::size_t most_states = 200;

class RedisStore : public core::Store {
public:
  RedisStore(Address address, const core::StoreOptions& options)
      : m_limits(options.limits), m_prefix(options.prefix), m_wire(std::move(address), options.limits) {}

  core::Result<core::Answer> acquire(const core::Ask& ask) override;
  core::Result<core::Renewal> renew(const core::Claim& claim, Millis ttl,
                                    const std::optional<core::Keepers>& keepers) override;
  core::Result<core::Released> release(const core::Claim& claim, std::optional<core::Fence> fence) override;
  core::Result<core::Released> leave(const core::Claim& claim, Millis after) override;
  core::Result<core::Eviction> evict(const core::Key& key, const core::Occupant& seen) override;
  core::Result<core::LockState> status(const core::Key& key) override;
  core::Result<std::vector<core::LockState>> list(const core::Glob& keys) override;
  core::Result<std::unique_ptr<core::Watch>> watch(const core::Claim& claim) override;
  bool wants_early_renewal() const noexcept override { return m_next_waits; }
  void rest() noexcept override { m_wire.disconnect(); }
  std::string address() const override { return m_wire.address().redacted(); }

private:
  class Listing;
  using Words = std::initializer_list<std::string_view>;
  // The names that a lock has in this store.
  core::Result<LockKeys> keys_of(const core::Key& key) const;
  // The same, and its time runs.
  core::Result<LockKeys> begin(const core::Key& key);
  // An error reply is an answer of `eval` and trouble of `run`.
  core::Result<Reply> eval(const Script& script, std::span<const std::string_view> keys, Words arguments);
  // The first half of it, with EVALSHA or EVAL.
  core::Result<void> ask(std::string_view command, std::string_view script, std::span<const std::string_view> keys,
                         Words arguments);
  void make_release_known();
  core::Result<Reply> run(const Script& script, const LockKeys& keys, Words arguments);
  core::Result<Reply> understood(core::Result<Reply> reply) const;
  // Of a script: where a type was wrong, it was that of a helper of this lock.
  core::Result<Reply> understood(core::Result<Reply> reply, const LockKeys& keys);
  tl::unexpected<StoreError> strange_answer() const;
  // The names of several locks, as a script takes them.
  struct Names {
    Names(const std::string& prefix, const std::vector<core::Key>& keys) {
      locks.reserve(keys.size());
      for (const core::Key& key : keys) {
        for (const std::string_view name : locks.emplace_back(prefix + key.text()).all()) {
          all.push_back(name);
        }
      }
    }
    std::vector<LockKeys> locks;
    std::vector<std::string_view> all;
  };
  // Begins a verb for each question to the server.
  core::Result<std::vector<core::LockState>> states(const std::vector<core::Key>& keys, bool whole);
  // The key that a name of the server's tells of: a lock under our prefix, or a helper of one.
  std::optional<std::string> key_in(const std::string& name) const;

  const core::Limits* m_limits;
  std::string m_prefix;
  Wire m_wire;
  bool m_server_is_new = false;  // it did not know a script
  bool m_next_waits = false;     // behind an exec's grant, and has not been told of it
  std::weak_ptr<Bell> m_bell;    // of the one claim that this process waits with
};

core::Result<LockKeys> RedisStore::keys_of(const core::Key& key) const {
  std::string lock = m_prefix + key.text();
  if (lock.find(helper_mark) != std::string::npos) {
    return tl::unexpected(
        StoreError{Trouble::misconfigured,
                   fmt::format("prefix and key must not have {} in them on Redis: choose another name", helper_mark)});
  }
  return LockKeys(std::move(lock));
}

core::Result<LockKeys> RedisStore::begin(const core::Key& key) {
  m_wire.begin();
  return keys_of(key);
}

core::Result<void> RedisStore::ask(std::string_view command, std::string_view script,
                                   std::span<const std::string_view> keys, Words arguments) {
  const std::string count = fmt::to_string(keys.size());
  std::vector<std::string_view> words{command, script, count};
  words.insert(words.end(), keys.begin(), keys.end());
  words.insert(words.end(), arguments.begin(), arguments.end());
  return m_wire.ask(words);
}

core::Result<Reply> RedisStore::eval(const Script& script, std::span<const std::string_view> keys, Words arguments) {
  const auto answer = [this] { return m_wire.answer(); };
  auto reply = ask("EVALSHA", script.sha1, keys, arguments).and_then(answer);
  if (reply && reply->kind == Reply::Kind::error && reply->text.starts_with("NOSCRIPT")) {
    m_server_is_new = true;
    reply = ask("EVAL", script.text, keys, arguments).and_then(answer);
  }
  return reply;
}

core::Result<Reply> RedisStore::run(const Script& script, const LockKeys& keys, Words arguments) {
  return understood(eval(script, keys.all(), arguments), keys);
}

core::Result<Reply> RedisStore::understood(core::Result<Reply> reply) const {
  if (reply && reply->kind == Reply::Kind::error) {
    return tl::unexpected(translate(reply->text, m_wire.address()));
  }
  return reply;
}

core::Result<Reply> RedisStore::understood(core::Result<Reply> reply, const LockKeys& keys) {
  if (reply && reply->kind == Reply::Kind::error && is_wrong_type(reply->text)) {
    const std::array<std::pair<std::string_view, std::string_view>, 3> helpers{
        {{keys.meta, "hash"}, {keys.line, "zset"}, {keys.places, "hash"}}};
    for (const auto& [name, type] : helpers) {
      const auto found = m_wire.call({"TYPE", name});
      if (!found || found->kind != Reply::Kind::status) {
        break;
      }
      if (found->text != type && found->text != "none") {
        const std::string_view key = std::string_view(keys.lock).substr(m_prefix.size());
        return tl::unexpected(wrong_type(name, found->text, key, m_wire.address()));
      }
    }
  }
  return understood(std::move(reply));
}

tl::unexpected<StoreError> RedisStore::strange_answer() const {
  return tl::unexpected(StoreError{Trouble::unreachable,
                                   fmt::format("{} gave an answer that is none of lk's", m_wire.address().server())});
}

core::Result<core::Answer> RedisStore::acquire(const core::Ask& ask) {
  const auto keys = begin(ask.claim.key);
  if (!keys) {
    return tl::unexpected(keys.error());
  }
  const std::string id = text_of(ask.claim.ask);
  auto bell = m_bell.lock();
  if (bell && bell->channel() != keys->bell + text_of(ask.claim)) {
    bell.reset();
  }
  const bool belled = bell && bell->is_heard();
  const std::string who = text_of(ask.who);
  const std::string place = place_of(ask.wait_left, who);
  const auto reply = run(acquire_script,
                         *keys,
                         {ask.claim.owner.bytes(),
                          id,
                          fmt::to_string(ask.ttl.count()),
                          fmt::to_string(ask.patience.count()),
                          ask.max_waiting ? fmt::to_string(*ask.max_waiting) : std::string("-1"),
                          ask.durable ? "1" : "0",
                          belled ? "1" : "0",
                          keys->bell,
                          who,
                          place});
  if (!reply) {
    return tl::unexpected(reply.error());
  }
  const std::vector<Reply>& fields = reply->elements;
  const std::string& kind = at(fields, 0);
  if (kind == "granted") {
    m_next_waits = at(fields, 3) == "1";
    if (m_server_is_new && !ask.durable) {
      make_release_known();
    }
    return core::Granted{core::Fence{to_number(at(fields, 1))}, at(fields, 2) == "1"};
  }
  auto by = to_occupant(fields, 2);
  if (!by) {
    return strange_answer();
  }
  const auto ahead = static_cast<std::size_t>(to_number(at(fields, 1)));
  std::optional<Millis> left;
  if (const auto* const held = std::get_if<core::Held>(&*by)) {
    left = held->left;
  } else if (const auto* const foreign = std::get_if<core::Foreign>(&*by)) {
    left = foreign->left;
  }
  if (kind == "queued") {
    // The head alone looks after the holder's end; the second after a head that is dead by then.
    Millis again = ahead <= 1 ? first_two_ask_again : others_ask_again;
    if (left && ahead == 0) {
      again = std::min(again, *left);
    }
    // The server was started anew, or a network in between forgot us. A bell is to be there before the ask that counts
    // on it.
    if (bell && !belled && bell->subscribe_within(m_wire)) {
      again = Millis(1);
    }
    return core::Queued{ahead, ask.patience > Millis(0) ? std::min(again, ask.patience / 2) : again, std::move(*by)};
  }
  return core::Busy{left.value_or(first_two_ask_again), std::move(*by), kind == "full"};
}

// An exec's guardian is dismissed once the request to release has left. Were that answered by NOSCRIPT, nobody would
// send it again if lk died in that moment. Who may not load scripts is left with that.
void RedisStore::make_release_known() {
  for (const Script* const script : {&release_script, &leave_script}) {
    if (!m_wire.call({"SCRIPT", "LOAD", script->text})) {
      return;
    }
  }
}

core::Result<core::Renewal> RedisStore::renew(const core::Claim& claim, Millis ttl,
                                              const std::optional<core::Keepers>& /*keepers*/) {
  const auto keys = begin(claim.key);
  if (!keys) {
    return tl::unexpected(keys.error());
  }
  auto renewal = run(renew_script,
                     *keys,
                     {claim.owner.bytes(),
                      text_or_any(claim.ask),
                      fmt::to_string(ttl.count()),
                      m_next_waits ? std::string_view(keys->bell) : std::string_view()});
  m_next_waits = m_next_waits && !renewal;
  return renewal.map(to_renewal);
}

core::Result<core::Released> RedisStore::release(const core::Claim& claim, std::optional<core::Fence> fence) {
  const auto keys = begin(claim.key);
  if (!keys) {
    return tl::unexpected(keys.error());
  }
  const std::string grant = fence ? fmt::to_string(fence->value) : std::string();
  return run(release_script, *keys, {claim.owner.bytes(), text_or_any(claim.ask), grant, keys->bell}).map(to_released);
}

core::Result<core::Released> RedisStore::leave(const core::Claim& claim, Millis after) {
  if (after <= Millis(0)) {
    return release(claim, std::nullopt);
  }
  const auto keys = begin(claim.key);
  if (!keys) {
    return tl::unexpected(keys.error());
  }
  const std::string end = fmt::to_string(after.count());
  return run(leave_script, *keys, {claim.owner.bytes(), text_or_any(claim.ask), end, keys->bell}).map(to_released);
}

core::Result<core::Eviction> RedisStore::evict(const core::Key& key, const core::Occupant& seen) {
  const auto keys = begin(key);
  if (!keys) {
    return tl::unexpected(keys.error());
  }
  const std::array<std::string, 4> was = to_compare(seen);
  return run(evict_script, *keys, {was[0], was[1], was[2], was[3], keys->bell}).map(to_eviction);
}

core::Result<std::vector<core::LockState>> RedisStore::states(const std::vector<core::Key>& keys, bool whole) {
  const Names names(m_prefix, keys);
  m_wire.begin();
  auto reply = eval(status_script, names.all, {whole ? "1" : "0"});
  // A cluster of one node serves every lock, but no two slots in one command. Of several locks only one has a helper of
  // the wrong type.
  if (reply && keys.size() > 1 && reply->kind == Reply::Kind::error &&
      (reply->text.starts_with("CROSSSLOT") || is_wrong_type(reply->text))) {
    std::vector<core::LockState> found;
    found.reserve(keys.size());
    for (const core::Key& key : keys) {
      auto one = states({key}, whole);
      if (!one) {
        return one;
      }
      found.push_back(std::move(one->front()));
    }
    return found;
  }
  reply = understood(std::move(reply), names.locks.front());
  if (!reply) {
    return tl::unexpected(std::move(reply.error()));
  }
  auto found = to_states(keys, *reply, whole);
  if (!found) {
    return strange_answer();
  }
  return *std::move(found);
}

core::Result<core::LockState> RedisStore::status(const core::Key& key) {
  if (auto keys = keys_of(key); !keys) {
    return tl::unexpected(std::move(keys.error()));
  }
  return states({key}, true).map([](auto&& found) { return std::move(found.front()); });
}

// SCAN, so that the server goes on serving others. Under a prefix everything is a lock, whoever made it; without one
// only what lk itself keeps helpers for can be told from an application's data. Each question has an op_timeout of its
// own: how many there are depends on what else the server keeps.
class RedisStore::Listing {
public:
  Listing(RedisStore& store, const core::Glob& keys)
      : m_store(store),
        m_wire(store.m_wire),
        m_keys(keys),
        m_pattern(fmt::format("*{}*", escaped_pattern(store.m_prefix.empty() ? helper_mark : store.m_prefix))) {}

  core::Result<std::vector<core::LockState>> run() {
    m_wire.begin();
    auto went_well = ask_for_names();
    for (bool more = true; more && went_well;) {
      went_well = collect();
      more = m_cursor != "0";
      // The next names are asked for behind the states, so that the server looks for them while these are read.
      const bool wants_states = m_batch.size() == most_states || (!more && !m_batch.empty());
      if (went_well && wants_states) {
        went_well = m_store.ask("EVALSHA", status_script.sha1, Names(m_store.m_prefix, m_batch).all, {"0"});
      }
      if (went_well && more) {
        went_well = ask_for_names();
      }
      if (went_well && wants_states) {
        went_well = read_states(more);
      }
    }
    if (!went_well) {
      return tl::unexpected(std::move(went_well.error()));
    }
    std::vector<core::LockState> states;
    states.reserve(m_found.size());
    for (auto& [key, state] : m_found) {
      states.push_back(std::move(state));
    }
    return states;
  }

private:
  core::Result<void> ask_for_names() { return m_wire.ask({"SCAN", m_cursor, "MATCH", m_pattern, "COUNT", scan_count}); }

  // The names that were asked for: the last batch of them is kept, whole ones before it are looked up at once.
  core::Result<void> collect() {
    m_wire.begin();
    const auto names =
        m_store.understood(m_early ? core::Result<Reply>(*std::exchange(m_early, std::nullopt)) : m_wire.answer());
    if (!names) {
      return tl::unexpected(names.error());
    }
    if (names->elements.size() != 2) {
      return m_store.strange_answer();
    }
    m_cursor = names->elements[0].text;
    for (const Reply& name : names->elements[1].elements) {
      const auto key = m_store.key_in(name.text);
      if (!key || !m_keys.matches(*key) || !m_seen.insert(*key).second) {
        continue;
      }
      if (m_batch.size() == most_states) {
        if (auto taken = take(m_store.states(std::exchange(m_batch, {}), false)); !taken) {
          return taken;
        }
      }
      m_batch.push_back(core::Key::stored(*key));
    }
    m_wire.begin();
    return {};
  }

  // `names_follow`: they were asked for, too.
  core::Result<void> read_states(bool names_follow) {
    const auto reply = m_wire.answer();
    if (!reply) {
      return tl::unexpected(reply.error());
    }
    const std::vector<core::Key> batch = std::exchange(m_batch, {});
    if (reply->kind != Reply::Kind::error) {
      auto states = to_states(batch, *reply, false);
      return states ? take(*std::move(states)) : m_store.strange_answer();
    }
    // NOSCRIPT, or what states() knows a way around, with nothing else under way.
    if (names_follow) {
      auto names = m_wire.answer();
      if (!names) {
        return tl::unexpected(std::move(names.error()));
      }
      m_early = *std::move(names);
    }
    return take(m_store.states(batch, false));
  }

  core::Result<void> take(core::Result<std::vector<core::LockState>> states) {
    if (!states) {
      return tl::unexpected(std::move(states.error()));
    }
    for (core::LockState& state : *states) {
      if (state.by) {
        m_found.insert_or_assign(state.key.text(), std::move(state));
      }
    }
    return {};
  }

  RedisStore& m_store;
  Wire& m_wire;
  const core::Glob& m_keys;
  std::string m_pattern;
  std::string m_cursor = "0";
  std::optional<Reply> m_early;
  std::set<std::string> m_seen;
  std::vector<core::Key> m_batch;
  std::map<std::string, core::LockState> m_found;
};

core::Result<std::vector<core::LockState>> RedisStore::list(const core::Glob& keys) {
  return Listing(*this, keys).run();
}

std::optional<std::string> RedisStore::key_in(const std::string& name) const {
  std::optional<std::string> lock;
  if (name.find(helper_mark) == std::string::npos) {
    lock = m_prefix.empty() ? std::nullopt : std::optional(name);
  } else if (name.ends_with("line") || (m_prefix.empty() && name.ends_with("meta"))) {
    lock = lock_of_helper(name);
  }
  const bool is_ours = lock && lock->size() > m_prefix.size() && lock->starts_with(m_prefix);
  return is_ours ? std::optional(lock->substr(m_prefix.size())) : std::nullopt;
}

core::Result<std::unique_ptr<core::Watch>> RedisStore::watch(const core::Claim& claim) {
  const auto keys = keys_of(claim.key);
  if (!keys) {
    return tl::unexpected(keys.error());
  }
  auto bell = std::make_shared<Bell>(m_wire.address(), m_limits, keys->bell + text_of(claim));
  if (auto subscribed = bell->subscribe(); !subscribed) {
    return tl::unexpected(std::move(subscribed.error()));
  }
  m_bell = bell;
  return watch_over(std::move(bell));
}

}  // namespace

core::Result<std::unique_ptr<core::Store>> open(const core::StoreUrl& url, const core::StoreOptions& options,
                                                const core::Clock& /*clock*/) {
  auto address = Address::parse(url);
  if (!address) {
    return tl::unexpected(StoreError{Trouble::misconfigured, "the URL " + address.error()});
  }
  if (!address->password) {
    address->password = options.password;
  }
  return std::make_unique<RedisStore>(std::move(*address), options);
}

}  // namespace stores::redis
