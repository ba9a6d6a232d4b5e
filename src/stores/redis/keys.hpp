// The names of everything lk keeps in Redis for one lock, all in the hash slot of the lock itself.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace stores::redis {

// The slot of a key as Redis Cluster computes it: CRC16 of its hash tag, or of the whole key where it has none.
std::uint16_t hash_slot(std::string_view key);

struct LockKeys {
  // `lock`: prefix and key as they are. A helper's name is that with "#lk:…" behind it, after a hash tag that leads to
  // the lock's slot where the lock's own name has none.
  explicit LockKeys(std::string lock);

  std::string lock;
  std::string meta;
  std::string line;
  std::string places;
  std::string bell;  // channels: this and an ask id

  std::array<std::string_view, 4> all() const { return {lock, meta, line, places}; }
};

// What every helper's name has in it; a lock's own name never does.
inline constexpr std::string_view helper_mark = "#lk:";

// The lock a helper (of this suffix: "meta", "line") belongs to, if it is one.
std::optional<std::string> lock_of_helper(std::string_view name, std::string_view what);

// For SCAN MATCH: these bytes and nothing else.
std::string escaped_pattern(std::string_view literal);

}  // namespace stores::redis
