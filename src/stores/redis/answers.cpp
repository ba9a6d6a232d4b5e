// Fields, claims, places, occupants.
#include "stores/redis/answers.hpp"

#include <algorithm>
#include <charconv>
#include <initializer_list>
#include <utility>

#include <fmt/format.h>

namespace stores::redis {

namespace {

using core::Millis;

constexpr std::size_t digits_of_ask = 16;

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

core::AskId to_ask(std::string_view text) {
  core::AskId ask;
  std::from_chars(text.data(), text.data() + text.size(), ask.value, 16);
  return ask;
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

core::LockState to_state(const core::Key& key, const std::vector<Reply>& fields, std::int64_t now, bool whole) {
  core::LockState state{
      key, to_occupant(fields[0].elements, 0), static_cast<std::size_t>(to_number(at(fields, 1))), {}};
  for (const Reply& place : fields[2].elements) {
    state.line.push_back(to_waiter(at(place.elements, 0), at(place.elements, 1), now));
  }
  if (!state.by && !state.line.empty()) {
    state.by = core::Promised{state.line.front().who, state.line.front().waiting_for};
  }
  if (!whole) {
    state.line.clear();
  }
  return state;
}

}  // namespace

std::string text_of(core::AskId ask) { return fmt::format("{:016x}", ask.value); }

std::string text_or_any(core::AskId ask) { return ask.any() ? std::string() : text_of(ask); }

std::string text_of(const core::Claim& claim) { return text_of(claim.ask) + claim.owner.bytes(); }

std::string text_of(const core::Who& who) {
  return joined({who.host, who.user, fmt::to_string(who.pid), who.command, who.note});
}

std::string place_of(const std::optional<Millis>& wait_left, std::string_view who) {
  std::string place = joined({wait_left ? fmt::to_string(wait_left->count()) : std::string()});
  place += who;
  return place;
}

std::array<std::string, 4> to_compare(const core::Occupant& seen) {
  if (const auto* const held = std::get_if<core::Held>(&seen)) {
    // A holder of another tool has neither ask nor fence.
    return {"held",
            held->owner.bytes(),
            held->fence ? text_of(held->ask) : std::string(),
            held->fence ? fmt::to_string(held->fence->value) : std::string()};
  }
  if (const auto* const foreign = std::get_if<core::Foreign>(&seen)) {
    return {"foreign", foreign->type, foreign->value, ""};
  }
  // What was only promised had no holder: whoever holds it now is another one. So this is no kind of the script's.
  return {"promised", "", "", ""};
}

const std::string& at(const std::vector<Reply>& fields, std::size_t index) {
  static const std::string none;
  return index < fields.size() ? fields[index].text : none;
}

std::int64_t to_number(std::string_view text) {
  std::int64_t number = 0;
  std::from_chars(text.data(), text.data() + text.size(), number);
  return number;
}

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

core::Renewal to_renewal(const Reply& reply) {
  return reply.text == "renewed" ? core::Renewal::renewed
         : reply.text == "gone"  ? core::Renewal::gone
                                 : core::Renewal::not_mine;
}

core::Released to_released(const Reply& reply) {
  const std::string& what = at(reply.elements, 0);
  if (what == "released") {
    return {core::Release::released, std::nullopt, std::nullopt};
  }
  if (what == "left_line") {
    return {core::Release::left_line, std::nullopt, std::nullopt};
  }
  if (what == "not_mine") {
    return {core::Release::not_mine, to_occupant(reply.elements, 1), std::nullopt};
  }
  return {};
}

core::Eviction to_eviction(const Reply& reply) {
  return reply.text == "evicted" ? core::Eviction::evicted
         : reply.text == "free"  ? core::Eviction::free
                                 : core::Eviction::changed;
}

std::optional<std::vector<core::LockState>> to_states(const std::vector<core::Key>& keys, const Reply& reply,
                                                      bool whole) {
  if (reply.elements.size() != 2 || reply.elements[1].elements.size() != keys.size()) {
    return std::nullopt;
  }
  const std::int64_t now = to_number(reply.elements[0].text);
  std::vector<core::LockState> states;
  states.reserve(keys.size());
  for (std::size_t i = 0; i < keys.size(); ++i) {
    const std::vector<Reply>& fields = reply.elements[1].elements[i].elements;
    if (fields.size() != 3) {
      return std::nullopt;
    }
    states.push_back(to_state(keys[i], fields, now, whole));
  }
  return states;
}

}  // namespace stores::redis
