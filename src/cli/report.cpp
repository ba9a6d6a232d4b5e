// The sentences, and the one place that writes to stderr.
#include "cli/report.hpp"

#include <unistd.h>

#include <vector>

#include <fmt/format.h>

#include "cli/output.hpp"
#include "cli/table.hpp"
#include "cli/times.hpp"
#include "core/text.hpp"

namespace cli {

void say(std::string_view sentence) {
  // One write: two lk that share a terminal or a log do not mix their lines.
  offer_stderr(fmt::format("lk: {}\n", sentence));
}

void Report::news(std::string_view sentence) const {
  if (!m_quiet) {
    say(sentence);
  }
}

void Report::detail(std::string_view sentence) const {
  if (m_verbose) {
    say(sentence);
  }
}

void Report::error(std::string_view sentence) const { say(sentence); }

namespace sentence {

namespace {

std::string lease(const std::optional<core::Millis>& left, std::string_view before) {
  return left ? fmt::format("{} {}", before, core::to_text(*left)) : std::string("never expires");
}

// A value in Redis may be anything, a note of any length: a sentence in somebody's mail quotes their start.
constexpr std::size_t longest_quotation = 200;

std::string held_by(const core::Held& held) {
  std::string text = held.fence ? who(held.who)
                                : fmt::format("another program (owner {})",
                                              shortened(core::escaped(held.owner.bytes()), longest_quotation));
  if (held.held_for) {
    text += fmt::format(" for {}", core::to_text(*held.held_for));
  }
  text += fmt::format(
      ", {}", lease(held.left, held.command_ended ? "its command has ended, --min-hold ends in" : "lease ends in"));
  if (held.fence) {
    text += fmt::format(", fence {}", held.fence->value);
  }
  if (!held.who.note.empty()) {
    text += fmt::format(": \"{}\"", shortened(core::escaped(held.who.note), longest_quotation));
  }
  return text;
}

std::string host_of(const core::Who& who) { return sentence::who(core::Who{who.host, who.user, 0, "", ""}); }

// What to say of whoever is in front, from all to the least.
std::vector<std::string> holder_ever_shorter(const core::Occupant& by) {
  if (const auto* const promised = std::get_if<core::Promised>(&by)) {
    return {fmt::format("free but promised to {}", who(promised->who)),
            fmt::format("promised to {}", host_of(promised->who))};
  }
  if (const auto* const foreign = std::get_if<core::Foreign>(&by)) {
    const std::string end = lease(foreign->left, "ends in");
    return {fmt::format("held by another program (redis {}), {}", core::escaped(foreign->type), end),
            fmt::format("another program, {}", end)};
  }
  const auto& held = std::get<core::Held>(by);
  core::Held without_note = held;
  without_note.who.note.clear();
  const std::string end = lease(held.left, "ends in");
  return {fmt::format("held by {}", held_by(held)),
          fmt::format("held by {}", held_by(without_note)),
          fmt::format("{}, {}", held.fence ? who(held.who, held.command_ended) : "another program", end),
          fmt::format("{}, {}", held.fence ? host_of(held.who) : "another program", end)};
}

std::string ordinal(std::size_t number) {
  const std::size_t tens = number % 100;
  const std::size_t ones = tens >= 11 && tens <= 13 ? 0 : number % 10;
  return fmt::format("{}{}", number, ones == 1 ? "st" : ones == 2 ? "nd" : ones == 3 ? "rd" : "th");
}

}  // namespace

std::string who(const core::Who& who, bool ended) {
  std::string text = who.user.empty() && who.host.empty()
                         ? "somebody"
                         : fmt::format("{}@{}", core::escaped(who.user), core::escaped(who.host));
  if (who.pid != 0) {
    text += fmt::format(" (pid {}{}{}{})",
                        who.pid,
                        who.command.empty() ? "" : ", ",
                        core::escaped(who.command),
                        ended ? ", ended" : "");
  }
  return text;
}

std::string refusal(const core::Key& key, const core::Occupant& by) {
  const std::string name = core::escaped(key.text());
  if (const auto* const held = std::get_if<core::Held>(&by)) {
    return fmt::format("{} is held by {}", name, held_by(*held));
  }
  if (const auto* const promised = std::get_if<core::Promised>(&by)) {
    return fmt::format("{} is free but promised to {}, first in line for {}",
                       name,
                       who(promised->who),
                       core::to_text(promised->waiting_for));
  }
  const auto& foreign = std::get<core::Foreign>(by);
  return fmt::format("{} is held by another program (redis {}), {}",
                     name,
                     core::escaped(foreign.type),
                     lease(foreign.left, "expires in"));
}

std::string gave_up(const core::Key& key, const core::Occupant& by, core::Millis waited) {
  return fmt::format("gave up after {}: {}", core::to_text(waited), refusal(key, by));
}

std::string line_full(const core::Key& key, const core::Occupant& by, std::size_t max_waiting) {
  return fmt::format("the line is full (--max-waiting {}): {}", max_waiting, refusal(key, by));
}

std::string exec_deadlock(const core::Key& key) {
  return fmt::format(
      "{} is held by the lk exec that this lk exec runs under: waiting for it would never end (--nested runs the "
      "command under that lock)",
      core::escaped(key.text()));
}

std::string block_deadlock(const core::Key& key) {
  return fmt::format(
      "{} is held by the lk exec that this lk block runs under: waiting for it would never end (go on without lk "
      "block: what runs here has that lock already)",
      core::escaped(key.text()));
}

std::string not_acquired(const core::StoreError& error, const core::Key& key, std::optional<core::Millis> waited) {
  const std::string name = core::escaped(key.text());
  return waited && error.transient()
             ? fmt::format("{}; gave up on {} after {}", error.detail, name, core::to_text(*waited))
             : fmt::format("{}; {} is not acquired", error.detail, name);
}

std::string maybe_granted(const core::StoreError& error, const core::Claim& claim, core::WallTime latest_end) {
  return fmt::format("{}; {} may be held all the same, by owner {}, until {} at the latest",
                     error.detail,
                     core::escaped(claim.key.text()),
                     core::escaped(claim.owner.bytes()),
                     local_time(latest_end));
}

std::string until(const core::Key& key, core::Millis ttl, core::WallTime end) {
  return fmt::format(
      "{} is yours until {} ({}); nothing renews it", core::escaped(key.text()), local_time(end), core::to_text(ttl));
}

std::string token_lost(const core::Key& key, std::string_view why, const core::Result<core::Released>& given_back) {
  return fmt::format("cannot write the token to stdout: {}; {}",
                     why,
                     given_back ? fmt::format("{} is released again", core::escaped(key.text()))
                                : not_given_back(key, given_back.error()));
}

std::string not_given_back(const core::Key& key, const core::StoreError& error) {
  return fmt::format("{} stays held until its ttl ends: {}", core::escaped(key.text()), error.detail);
}

std::string not_renewed(const core::StoreError& error, const core::Key& key, core::WallTime latest_end) {
  const std::string name = core::escaped(key.text());
  return error.maybe_done ? fmt::format("{}; {} may be renewed all the same, until {} at the latest",
                                        error.detail,
                                        name,
                                        local_time(latest_end))
                          : fmt::format("{}; {} is not renewed", error.detail, name);
}

std::string not_released(const core::StoreError& error, const core::Key& key) {
  return fmt::format(
      "{}; {} {}", error.detail, core::escaped(key.text()), error.maybe_done ? "may be held still" : "is not released");
}

std::string not_held_any_more(const core::Key& key, const core::Store& store) {
  return fmt::format(
      "not renewed: {} is not held any more in {}", core::escaped(key.text()), core::escaped(store.address()));
}

std::string held_by_another(const core::Key& key, const std::optional<core::Occupant>& by) {
  return by ? fmt::format("not yours: {}", refusal(key, *by))
            : fmt::format("not yours: {} is held by another owner", core::escaped(key.text()));
}

std::string nothing_to_release(const core::Key& key, const core::Store& store) {
  return fmt::format(
      "nothing to release: {} is not held in {}", core::escaped(key.text()), core::escaped(store.address()));
}

std::string had_expired(const core::Key& key, const std::optional<core::Millis>& expired_for) {
  return fmt::format("nothing to release: your lock {} had expired{}, and nobody has taken it since",
                     core::escaped(key.text()),
                     expired_for ? fmt::format(" {} ago", core::to_text(*expired_for)) : "");
}

std::string stands_on(const core::Key& key) {
  return fmt::format(
      "not released: the running command stands on {}; lk exec releases it when the command ends (--force if "
      "it must be now)",
      core::escaped(key.text()));
}

std::string evicted(const core::Key& key, const core::Occupant& by) {
  const auto* const held = std::get_if<core::Held>(&by);
  const std::string name = core::escaped(key.text());
  if (held == nullptr || !held->fence) {
    return fmt::format("{} is free now; the program that held it does not learn of it", name);
  }
  if (held->command_ended) {
    return fmt::format("{} is free now; its command had ended", name);
  }
  return held->durable
             ? fmt::format("{} is free now; what {} does under it is not stopped", name, who(held->who))
             : fmt::format("{} is free now; the command of {} may run on until its next renewal", name, who(held->who));
}

std::string changed(const core::Key& key, const std::optional<core::Occupant>& by) {
  return fmt::format("nothing was removed: the holder of {} changed meanwhile{}",
                     core::escaped(key.text()),
                     by ? fmt::format("; {}", refusal(key, *by)) : "");
}

std::string other_fence(const core::Key& key, core::Fence wanted, const core::Occupant& by) {
  return fmt::format("nothing was removed: fence {} is not that of the holder; {}", wanted.value, refusal(key, by));
}

std::string none_held_longer(core::Millis than, std::string_view store) {
  return fmt::format("no lock is held for longer than {} in {}", core::to_text(than), core::escaped(store));
}

std::string no_locks(std::string_view pattern, std::string_view store, bool bare) {
  const std::string_view whose = bare ? " of lk's" : "";
  const std::string_view hint = bare ? " (to see another program's, name its key)" : "";
  return pattern.empty() || pattern == "*"
             ? fmt::format("no locks{} in {}{}", whose, core::escaped(store), hint)
             : fmt::format("no locks{} match '{}' in {}{}", whose, core::escaped(pattern), core::escaped(store), hint);
}

std::string asking(const core::Store& store) { return fmt::format("asking {}", core::escaped(store.address())); }

std::string granted(const core::Key& key, core::Fence fence) {
  return fmt::format("{} is granted, fence {}", core::escaped(key.text()), fence.value);
}

std::string renewed(const core::Key& key, core::Millis ttl, core::WallTime end) {
  return fmt::format(
      "{} is renewed, until {} ({}) at least", core::escaped(key.text()), local_time(end), core::to_text(ttl));
}

std::string released(const core::Key& key) { return fmt::format("{} is released", core::escaped(key.text())); }

std::string waiting(const core::Key& key, std::size_t ahead, const core::Occupant& by) {
  return fmt::format("waiting for {}, {} in line; {}", core::escaped(key.text()), ordinal(ahead + 1), refusal(key, by));
}

std::string waiting_within(std::size_t columns, core::Millis waited, const core::Key& key, std::size_t ahead,
                           const core::Occupant& by) {
  std::string line;
  const std::vector<std::string> holders = holder_ever_shorter(by);
  for (const std::string& name : {fmt::format(" for {}", core::escaped(key.text())), std::string()}) {
    for (const std::string& holder : holders) {
      line = fmt::format("lk: {}, {} in line{}; {}", core::to_text(waited), ordinal(ahead + 1), name, holder);
      if (display_width(line) <= columns) {
        return line;
      }
    }
  }
  return shortened(line, columns);
}

std::string trouble_while_waiting(const core::StoreError& error) {
  return fmt::format("{}; still trying", error.detail);
}

}  // namespace sentence

}  // namespace cli
