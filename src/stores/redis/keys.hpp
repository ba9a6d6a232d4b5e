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

// What every helper's name has in it; a lock's own name never does.
inline constexpr std::string_view helper_mark = "#lk:";

// The helpers of a lock, by what its own name has of a hash tag:
//
//   a lock             its helpers          they share its slot because
//   web{7}             web{7}#lk:own:meta   they have its tag
//   invoice:42         {invoice:42}#lk:meta the tag is its whole name
//   a}b   {}x          {2f}a}b#lk:slot:meta a search found that tag: no tag can be put around a name with a }
//
// So no two locks share a helper, no helper is a lock, and an application's key is no helper unless it was given the
// mark on purpose.
struct LockKeys {
  // `lock`: prefix and key as they are, without the mark.
  explicit LockKeys(std::string lock);

  std::string lock;
  std::string meta;
  std::string line;
  std::string places;
  std::string bell;  // channels: this and a claim

  std::array<std::string_view, 4> all() const { return {lock, meta, line, places}; }
};

// The lock that this key is a helper of; nothing where it is none of lk's.
std::optional<std::string> lock_of_helper(std::string_view name);

// For SCAN MATCH: these bytes and nothing else.
std::string escaped_pattern(std::string_view literal);

}  // namespace stores::redis
