// Core's types as the text that scripts take and keep, and what scripts answer as core's types.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/store.hpp"
#include "stores/redis/resp.hpp"

namespace stores::redis {

// --- what scripts are given -----------------------------------------------------------------------------------------

std::string text_of(core::AskId ask);
// "" in a script: any ask of that owner.
std::string text_or_any(core::AskId ask);
// A claim within its key, as scripts name it: the ask's 16 digits, then the owner.
std::string text_of(const core::Claim& claim);
std::string text_of(const core::Who& who);
// What stays of a waiter with its place; `who` as text.
std::string place_of(const std::optional<core::Millis>& wait_left, std::string_view who);
// What was seen, as evict compares it: kind, owner or type, ask or digest, fence.
std::array<std::string, 4> to_compare(const core::Occupant& seen);

// --- what they answer -----------------------------------------------------------------------------------------------

// "" where there are fewer.
const std::string& at(const std::vector<Reply>& fields, std::size_t index);
// 0 where it is none.
std::int64_t to_number(std::string_view text);

// As common.lua returns it, from `fields[first]` on; nothing where nobody is there.
std::optional<core::Occupant> to_occupant(const std::vector<Reply>& fields, std::size_t first);
core::Renewal to_renewal(const Reply& reply);
core::Released to_released(const Reply& reply);
core::Eviction to_eviction(const Reply& reply);
// `whole`: with the line. Nothing where the reply is not one for these keys.
std::optional<std::vector<core::LockState>> to_states(const std::vector<core::Key>& keys, const Reply& reply,
                                                      bool whole);

}  // namespace stores::redis
