// The only file that knows nlohmann-json. Everything beyond ASCII is escaped: stdout may be a terminal, and notes and
// foreign keys may hold control characters.
#include "cli/json.hpp"

#include <optional>

#include <nlohmann/json.hpp>

#include "cli/times.hpp"

namespace cli {

namespace {

using Json = nlohmann::ordered_json;

std::string to_line(const Json& json) { return json.dump(-1, ' ', true, Json::error_handler_t::replace); }

Json millis(const std::optional<core::Millis>& duration) { return duration ? Json(duration->count()) : Json(); }

void add_time(Json& json, const std::string& name, const std::optional<core::WallTime>& time) {
  json[name] = time ? Json(utc_time(*time)) : Json();
  json[name + "_ms"] = time ? Json(epoch_millis(*time)) : Json();
}

std::optional<core::WallTime> after(core::WallTime now, const std::optional<core::Millis>& left) {
  return left ? std::optional<core::WallTime>(now + *left) : std::nullopt;
}

void add_who(Json& json, const core::Who* who) {
  json["host"] = who == nullptr ? Json() : Json(who->host);
  json["user"] = who == nullptr ? Json() : Json(who->user);
  json["pid"] = who == nullptr ? Json() : Json(who->pid);
  json["command"] = who == nullptr ? Json() : Json(who->command);
  json["note"] = who == nullptr ? Json() : Json(who->note);
}

Json to_json(const core::Waiter& waiter, std::size_t position, core::WallTime now) {
  Json json;
  json["position"] = position;
  json["owner"] = waiter.owner.bytes();
  add_who(json, &waiter.who);
  add_time(json, "since", waiter.since);
  json["waiting_ms"] = waiter.waiting_for.count();
  add_time(json, "until", after(now, waiter.wait_left));
  json["wait_left_ms"] = millis(waiter.wait_left);
  return json;
}

Json to_json(const core::LockState& lock, core::WallTime now, const std::string& store) {
  const auto* const held = lock.by ? std::get_if<core::Held>(&*lock.by) : nullptr;
  const auto* const foreign = lock.by ? std::get_if<core::Foreign>(&*lock.by) : nullptr;
  const std::optional<core::Millis> left = held != nullptr      ? held->left
                                           : foreign != nullptr ? foreign->left
                                                                : std::nullopt;
  Json json;
  json["key"] = lock.key.text();
  json["state"] = state_name(lock);
  json["owner"] = held == nullptr ? Json() : Json(held->owner.bytes());
  json["fence"] = held != nullptr && held->fence ? Json(held->fence->value) : Json();
  add_who(json, held != nullptr && held->fence ? &held->who : nullptr);
  json["durable"] = held != nullptr && held->fence ? Json(held->durable) : Json();
  json["command_ended"] = held != nullptr && held->fence ? Json(held->command_ended) : Json();
  json["type"] = foreign == nullptr ? Json() : Json(foreign->type);
  add_time(json, "since", held == nullptr ? std::nullopt : held->since);
  json["held_ms"] = held == nullptr ? Json() : millis(held->held_for);
  add_time(json, "expires", after(now, left));
  json["left_ms"] = millis(left);
  json["waiting"] = lock.waiting;
  json["line"] = Json::array();
  for (const core::Waiter& waiter : lock.line) {
    json["line"].push_back(to_json(waiter, json["line"].size() + 1, now));
  }
  json["store"] = store;
  return json;
}

}  // namespace

const char* state_name(const core::LockState& lock) {
  if (!lock.by) {
    return "free";
  }
  if (std::holds_alternative<core::Held>(*lock.by)) {
    return "held";
  }
  return std::holds_alternative<core::Promised>(*lock.by) ? "promised" : "foreign";
}

std::string granted_json(const core::Claim& claim, core::Fence fence, core::Millis ttl, core::WallTime expires,
                         const std::string& store) {
  Json json;
  json["key"] = claim.key.text();
  json["owner"] = claim.owner.bytes();
  json["fence"] = fence.value;
  json["ttl_ms"] = ttl.count();
  add_time(json, "expires", expires);
  json["store"] = store;
  return to_line(json) + "\n";
}

std::string status_json(const std::vector<core::LockState>& locks, core::WallTime now, const std::string& store) {
  std::string text = "[";
  for (const core::LockState& lock : locks) {
    text += text.size() == 1 ? "\n" : ",\n";
    text += to_line(to_json(lock, now, store));
  }
  return text + (locks.empty() ? "]\n" : "\n]\n");
}

}  // namespace cli
