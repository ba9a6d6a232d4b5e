// The verbs: one script each, EVALSHA first.
#include "stores/redis/store.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <map>
#include <set>
#include <utility>

#include <fmt/format.h>

#include "core/text.hpp"
#include "stores/redis/address.hpp"
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

// How long one question of list keeps the server from others: about 1 ms each.
constexpr std::string_view scan_count = "1000";
constexpr std::size_t most_states = 200;

std::string text_of(core::AskId ask) { return fmt::format("{:016x}", ask.value); }
// "" in a script: any ask of that owner.
std::string text_or_any(core::AskId ask) { return ask.any() ? std::string() : text_of(ask); }

std::int64_t to_number(std::string_view text) {
  std::int64_t number = 0;
  std::from_chars(text.data(), text.data() + text.size(), number);
  return number;
}
// A claim within its key, as scripts name it: the ask's 16 digits, then the owner.
constexpr std::size_t digits_of_ask = 16;
std::string text_of(const core::Claim& claim) { return text_of(claim.ask) + claim.owner.bytes(); }

core::AskId to_ask(std::string_view text) {
  core::AskId ask;
  std::from_chars(text.data(), text.data() + text.size(), ask.value, 16);
  return ask;
}

// Fields end with a zero byte: nothing in them can hold one (they come from arguments, host names and pids).
std::string joined(std::initializer_list<std::string_view> fields) {
  std::string all;
  for (const std::string_view field : fields) {
    all += field;
    all += '\0';
  }
  return all;
}
std::vector<std::string> split(std::string_view all) {
  std::vector<std::string> fields;
  while (!all.empty()) {
    const std::size_t end = std::min(all.find('\0'), all.size());
    fields.emplace_back(all.substr(0, end));
    all.remove_prefix(std::min(end + 1, all.size()));
  }
  return fields;
}

std::string who_text(const core::Who& who) {
  return joined({who.host, who.user, fmt::to_string(who.pid), who.command, who.note});
}
core::Who to_who(const std::vector<std::string>& fields, std::size_t first) {
  if (fields.size() < first + 5) {
    return {};
  }
  return {fields[first], fields[first + 1], to_number(fields[first + 2]), fields[first + 3], fields[first + 4]};
}

std::optional<Millis> to_left(std::string_view pttl) {
  const std::int64_t left = to_number(pttl);
  return left < 0 ? std::nullopt : std::optional(Millis(left));
}

core::WallTime to_wall(std::int64_t milliseconds) { return core::WallTime(Millis(milliseconds)); }

constexpr bool starts_with(std::string_view text, std::string_view start) {
  return text.substr(0, start.size()) == start;
}
constexpr bool ends_with(std::string_view text, std::string_view end) {
  return text.size() >= end.size() && text.substr(text.size() - end.size()) == end;
}

const std::string& at(const std::vector<Reply>& fields, std::size_t index) {
  static const std::string none;
  return index < fields.size() ? fields[index].text : none;
}

// `place` is what acquire.lua keeps of a waiter: since(ms), wait_left(ms or ''), who, each field with its zero byte.
core::Waiter to_waiter(std::string_view claim, std::string_view place, std::int64_t now) {
  const std::vector<std::string> fields = split(place);
  core::Waiter waiter{core::Owner::stored(std::string(claim.substr(std::min(digits_of_ask, claim.size())))),
                      to_ask(claim.substr(0, digits_of_ask)),
                      to_who(fields, 2),
                      Millis(0),
                      std::nullopt,
                      std::nullopt};
  if (!fields.empty()) {
    const std::int64_t since = to_number(fields[0]);
    waiter.since = to_wall(since);
    waiter.waiting_for = Millis(std::max<std::int64_t>(now - since, 0));
    if (fields.size() > 1 && !fields[1].empty()) {
      waiter.wait_left = Millis(std::max<std::int64_t>(since + to_number(fields[1]) - now, 0));
    }
  }
  return waiter;
}

// The occupant as common.lua returns it, from `fields[first]` on.
std::optional<core::Occupant> to_occupant(const std::vector<Reply>& fields, std::size_t first) {
  const std::string& kind = at(fields, first);
  if (kind == "held") {
    core::Held held{core::Owner::stored(at(fields, first + 1)),
                    {},
                    std::nullopt,
                    {},
                    true,
                    std::nullopt,
                    std::nullopt,
                    to_left(at(fields, first + 2))};
    if (fields.size() > first + 8) {
      held.ask = to_ask(at(fields, first + 3));
      held.fence = core::Fence{to_number(at(fields, first + 4))};
      held.durable = at(fields, first + 5) == "1";
      held.command_ended = at(fields, first + 5) == "left";
      held.held_for = Millis(to_number(at(fields, first + 6)));
      held.since = to_wall(to_number(at(fields, first + 7)));
      held.who = to_who(split(at(fields, first + 8)), 0);
    }
    return held;
  }
  if (kind == "promised") {
    const core::Waiter head = to_waiter(at(fields, first + 1), at(fields, first + 2), to_number(at(fields, first + 3)));
    return core::Promised{head.who, head.waiting_for};
  }
  if (kind == "foreign") {
    return core::Foreign{at(fields, first + 1), at(fields, first + 2), to_left(at(fields, first + 3))};
  }
  return std::nullopt;
}

// A subscription on a connection of its own.
class Bell {
public:
  Bell(Address address, const core::Limits* limits, std::string channel)
      : m_wire(std::move(address), limits), m_channel(std::move(channel)) {}

  Wire& wire() noexcept { return m_wire; }
  const std::string& channel() const noexcept { return m_channel; }

  core::Result<void> subscribe() {
    const auto reply = m_wire.call({"SUBSCRIBE", m_channel});
    if (!reply) {
      return tl::unexpected(reply.error());
    }
    if (reply->kind == Reply::Kind::error) {
      StoreError error = translate(reply->text, m_wire.address());
      m_wire.disconnect();
      return tl::unexpected(std::move(error));
    }
    return {};
  }

private:
  Wire m_wire;
  std::string m_channel;
};

// Once its connection breaks it does not ring; the next ask makes a new one.
class Subscription : public core::Watch {
public:
  explicit Subscription(std::shared_ptr<Bell> bell) : m_bell(std::move(bell)) {}

  int fd() const noexcept override { return m_bell->wire().fd(); }
  void drain() noexcept override {
    while (m_bell->wire().is_connected()) {
      const auto push = m_bell->wire().read_push();
      if (!push || !*push) {
        return;  // trouble has dropped the connection
      }
    }
  }

private:
  std::shared_ptr<Bell> m_bell;
};

class RedisStore : public core::Store {
public:
  RedisStore(Address address, const core::StoreOptions& options)
      : m_address(address),
        m_limits(options.limits),
        m_prefix(options.prefix),
        m_wire(std::move(address), options.limits) {}

  core::Result<core::Answer> acquire(const core::Ask& ask) override;
  core::Result<core::Renewal> renew(const core::Claim& claim, Millis ttl,
                                    const std::optional<core::Keepers>& keepers) override;
  core::Result<core::Released> release(const core::Claim& claim, std::optional<core::Fence> fence) override;
  core::Result<core::Released> leave(const core::Claim& claim, Millis after) override;
  core::Result<core::Eviction> evict(const core::Key& key, const core::Occupant& seen) override;
  core::Result<core::LockState> status(const core::Key& key) override;
  core::Result<std::vector<core::LockState>> list(const core::Glob& keys) override;
  core::Result<std::unique_ptr<core::Watch>> watch(const core::Claim& claim) override;
  void rest() noexcept override { m_wire.disconnect(); }
  std::string address() const override { return m_address.redacted(); }

private:
  using Words = std::vector<std::string_view>;
  core::Result<LockKeys> keys_of(const core::Key& key) const;
  // An error reply is an answer of `eval` and trouble of `run`.
  core::Result<Reply> eval(const Script& script, const Words& keys, const Words& arguments);
  core::Result<Reply> run(const Script& script, const LockKeys& keys, const Words& arguments);
  core::Result<Reply> understood(core::Result<Reply> reply) const;
  tl::unexpected<StoreError> strange_answer() const;
  core::Result<std::vector<core::LockState>> states(const std::vector<core::Key>& keys, bool whole);
  core::Result<core::Released> to_released(const core::Result<Reply>& reply) const;
  // The key that a name of the server's tells of: a lock under our prefix, or a helper of one.
  std::optional<std::string> key_in(const std::string& name) const;

  Address m_address;
  const core::Limits* m_limits;
  std::string m_prefix;
  Wire m_wire;
  std::weak_ptr<Bell> m_bell;  // of the one claim that this process waits with
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

core::Result<Reply> RedisStore::eval(const Script& script, const Words& keys, const Words& arguments) {
  const std::string count = fmt::to_string(keys.size());
  Words words{"EVALSHA", script.sha1, count};
  words.insert(words.end(), keys.begin(), keys.end());
  words.insert(words.end(), arguments.begin(), arguments.end());
  auto reply = m_wire.call(words);
  if (reply && reply->kind == Reply::Kind::error && starts_with(reply->text, "NOSCRIPT")) {
    words[0] = "EVAL";
    words[1] = script.text;
    reply = m_wire.call(words);
  }
  return reply;
}

core::Result<Reply> RedisStore::run(const Script& script, const LockKeys& keys, const Words& arguments) {
  const auto all = keys.all();
  return understood(eval(script, Words(all.begin(), all.end()), arguments));
}

core::Result<Reply> RedisStore::understood(core::Result<Reply> reply) const {
  if (reply && reply->kind == Reply::Kind::error) {
    return tl::unexpected(translate(reply->text, m_address));
  }
  return reply;
}

tl::unexpected<StoreError> RedisStore::strange_answer() const {
  return tl::unexpected(
      StoreError{Trouble::unreachable, fmt::format("{} gave an answer that is none of lk's", m_address.server())});
}

core::Result<core::Answer> RedisStore::acquire(const core::Ask& ask) {
  const auto keys = keys_of(ask.claim.key);
  if (!keys) {
    return tl::unexpected(keys.error());
  }
  m_wire.begin();
  const std::string id = text_of(ask.claim.ask);
  auto bell = m_bell.lock();
  if (bell && bell->channel() != keys->bell + text_of(ask.claim)) {
    bell.reset();
  }
  const bool belled = bell && bell->wire().is_connected();
  const std::string who = who_text(ask.who);
  const std::string place = joined({ask.wait_left ? fmt::to_string(ask.wait_left->count()) : std::string()}) + who;
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
    if (bell && !belled) {
      // The server was started anew, or a network in between forgot us. A bell is to be there before the ask that
      // counts on it.
      bell->wire().join(m_wire);
      if (bell->subscribe()) {
        again = Millis(1);
      }
    }
    return core::Queued{ahead, ask.patience > Millis(0) ? std::min(again, ask.patience / 2) : again, std::move(*by)};
  }
  return core::Busy{left.value_or(first_two_ask_again), std::move(*by), kind == "full"};
}

core::Result<core::Renewal> RedisStore::renew(const core::Claim& claim, Millis ttl,
                                              const std::optional<core::Keepers>& /*keepers*/) {
  const auto keys = keys_of(claim.key);
  if (!keys) {
    return tl::unexpected(keys.error());
  }
  m_wire.begin();
  const auto reply =
      run(renew_script, *keys, {claim.owner.bytes(), text_or_any(claim.ask), fmt::to_string(ttl.count())});
  if (!reply) {
    return tl::unexpected(reply.error());
  }
  return reply->text == "renewed" ? core::Renewal::renewed
         : reply->text == "gone"  ? core::Renewal::gone
                                  : core::Renewal::not_mine;
}

core::Result<core::Released> RedisStore::to_released(const core::Result<Reply>& reply) const {
  if (!reply) {
    return tl::unexpected(reply.error());
  }
  const std::string& what = at(reply->elements, 0);
  if (what == "released") {
    return core::Released{core::Release::released, std::nullopt, std::nullopt};
  }
  if (what == "left_line") {
    return core::Released{core::Release::left_line, std::nullopt, std::nullopt};
  }
  if (what == "not_mine") {
    return core::Released{core::Release::not_mine, to_occupant(reply->elements, 1), std::nullopt};
  }
  return core::Released{};
}

core::Result<core::Released> RedisStore::release(const core::Claim& claim, std::optional<core::Fence> fence) {
  const auto keys = keys_of(claim.key);
  if (!keys) {
    return tl::unexpected(keys.error());
  }
  m_wire.begin();
  return to_released(run(
      release_script,
      *keys,
      {claim.owner.bytes(), text_or_any(claim.ask), fence ? fmt::to_string(fence->value) : std::string(), keys->bell}));
}

core::Result<core::Released> RedisStore::leave(const core::Claim& claim, Millis after) {
  if (after <= Millis(0)) {
    return release(claim, std::nullopt);
  }
  const auto keys = keys_of(claim.key);
  if (!keys) {
    return tl::unexpected(keys.error());
  }
  m_wire.begin();
  return to_released(run(
      leave_script, *keys, {claim.owner.bytes(), text_or_any(claim.ask), fmt::to_string(after.count()), keys->bell}));
}

core::Result<core::Eviction> RedisStore::evict(const core::Key& key, const core::Occupant& seen) {
  const auto keys = keys_of(key);
  if (!keys) {
    return tl::unexpected(keys.error());
  }
  // What was only promised had no holder: whoever holds it now is another one. So "promised" is no kind of the
  // script's.
  std::array<std::string, 4> was{"promised", "", "", ""};
  if (const auto* const held = std::get_if<core::Held>(&seen)) {
    // A holder of another tool has neither ask nor fence.
    was = {"held",
           held->owner.bytes(),
           held->fence ? text_of(held->ask) : std::string(),
           held->fence ? fmt::to_string(held->fence->value) : std::string()};
  } else if (const auto* const foreign = std::get_if<core::Foreign>(&seen)) {
    was = {"foreign", foreign->type, foreign->value, ""};
  }
  m_wire.begin();
  const auto reply = run(evict_script, *keys, {was[0], was[1], was[2], was[3], keys->bell});
  if (!reply) {
    return tl::unexpected(reply.error());
  }
  return reply->text == "evicted" ? core::Eviction::evicted
         : reply->text == "free"  ? core::Eviction::free
                                  : core::Eviction::changed;
}

core::Result<std::vector<core::LockState>> RedisStore::states(const std::vector<core::Key>& keys, bool whole) {
  std::vector<LockKeys> names;
  names.reserve(keys.size());
  Words all;
  for (const core::Key& key : keys) {
    for (const std::string_view name : names.emplace_back(m_prefix + key.text()).all()) {
      all.push_back(name);
    }
  }
  auto reply = eval(status_script, all, {whole ? "1" : "0"});
  std::vector<core::LockState> found;
  if (reply && keys.size() > 1 && reply->kind == Reply::Kind::error && starts_with(reply->text, "CROSSSLOT")) {
    // A cluster of one node serves every lock, but no two slots in one command.
    for (const core::Key& key : keys) {
      auto one = states({key}, whole);
      if (!one) {
        return one;
      }
      found.push_back(std::move(one->front()));
    }
    return found;
  }
  reply = understood(std::move(reply));
  if (!reply) {
    return tl::unexpected(reply.error());
  }
  if (reply->elements.size() != 2 || reply->elements[1].elements.size() != keys.size()) {
    return strange_answer();
  }
  const std::int64_t now = to_number(reply->elements[0].text);
  for (std::size_t i = 0; i < keys.size(); ++i) {
    const std::vector<Reply>& fields = reply->elements[1].elements[i].elements;
    if (fields.size() != 3) {
      return strange_answer();
    }
    core::LockState state{
        keys[i], to_occupant(fields[0].elements, 0), static_cast<std::size_t>(to_number(at(fields, 1))), {}};
    for (const Reply& place : fields[2].elements) {
      state.line.push_back(to_waiter(at(place.elements, 0), at(place.elements, 1), now));
    }
    if (!state.by && !state.line.empty()) {
      state.by = core::Promised{state.line.front().who, state.line.front().waiting_for};
    }
    if (!whole) {
      state.line.clear();
    }
    found.push_back(std::move(state));
  }
  return found;
}

core::Result<core::LockState> RedisStore::status(const core::Key& key) {
  if (auto keys = keys_of(key); !keys) {
    return tl::unexpected(std::move(keys.error()));
  }
  m_wire.begin();
  auto found = states({key}, true);
  if (!found) {
    return tl::unexpected(std::move(found.error()));
  }
  return std::move(found->front());
}

// SCAN, so that the server goes on serving others. Under a prefix everything is a lock, whoever made it; without one
// only what lk itself keeps helpers for can be told from an application's data. Each question has an op_timeout of its
// own: how many there are depends on what else the server keeps.
core::Result<std::vector<core::LockState>> RedisStore::list(const core::Glob& keys) {
  const std::string pattern = fmt::format("*{}*", escaped_pattern(m_prefix.empty() ? helper_mark : m_prefix));
  std::map<std::string, core::LockState> found;
  std::vector<core::Key> batch;
  const auto take_batch = [&]() -> core::Result<void> {
    if (batch.empty()) {
      return {};
    }
    m_wire.begin();
    auto some = states(batch, false);
    if (!some) {
      return tl::unexpected(std::move(some.error()));
    }
    for (core::LockState& state : *some) {
      if (state.by) {
        found.insert_or_assign(state.key.text(), std::move(state));
      }
    }
    batch.clear();
    return {};
  };
  std::set<std::string> seen;
  std::string cursor = "0";
  do {
    m_wire.begin();
    const auto reply = understood(m_wire.call({"SCAN", cursor, "MATCH", pattern, "COUNT", scan_count}));
    if (!reply) {
      return tl::unexpected(reply.error());
    }
    if (reply->elements.size() != 2) {
      return strange_answer();
    }
    cursor = reply->elements[0].text;
    for (const Reply& name : reply->elements[1].elements) {
      const auto key = key_in(name.text);
      if (key && keys.matches(*key) && seen.insert(*key).second) {
        batch.push_back(core::Key::stored(*key));
      }
      if (batch.size() == most_states) {
        if (auto taken = take_batch(); !taken) {
          return tl::unexpected(std::move(taken.error()));
        }
      }
    }
  } while (cursor != "0");
  if (auto taken = take_batch(); !taken) {
    return tl::unexpected(std::move(taken.error()));
  }
  std::vector<core::LockState> states;
  states.reserve(found.size());
  for (auto& [key, state] : found) {
    states.push_back(std::move(state));
  }
  return states;
}

std::optional<std::string> RedisStore::key_in(const std::string& name) const {
  std::optional<std::string> lock;
  if (name.find(helper_mark) == std::string::npos) {
    lock = m_prefix.empty() ? std::nullopt : std::optional(name);
  } else if (ends_with(name, "line") || (m_prefix.empty() && ends_with(name, "meta"))) {
    lock = lock_of_helper(name);
  }
  const bool is_ours = lock && lock->size() > m_prefix.size() && starts_with(*lock, m_prefix);
  return is_ours ? std::optional(lock->substr(m_prefix.size())) : std::nullopt;
}

core::Result<std::unique_ptr<core::Watch>> RedisStore::watch(const core::Claim& claim) {
  const auto keys = keys_of(claim.key);
  if (!keys) {
    return tl::unexpected(keys.error());
  }
  auto bell = std::make_shared<Bell>(m_address, m_limits, keys->bell + text_of(claim));
  bell->wire().begin();
  if (auto subscribed = bell->subscribe(); !subscribed) {
    return tl::unexpected(std::move(subscribed.error()));
  }
  m_bell = bell;
  return std::make_unique<Subscription>(std::move(bell));
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
