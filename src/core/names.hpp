// The names of the field as strong types: Key, Owner, AskId, Fence, Claim.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include <tl/expected.hpp>

namespace core {

// The name of a lock. UTF-8, 1 to 512 bytes, no control characters; never cleaned up or folded.
class Key {
public:
  static constexpr std::size_t longest = 512;

  // The error is a clause that fits after the name of the option: "must be …".
  static tl::expected<Key, std::string> parse(std::string_view text);
  // For bytes that a store holds already: shown escaped, never judged.
  static Key stored(std::string text) { return Key(std::move(text)); }

  const std::string& text() const noexcept { return m_text; }
  friend bool operator==(const Key&, const Key&) = default;
  friend auto operator<=>(const Key&, const Key&) = default;

private:
  explicit Key(std::string text) : m_text(std::move(text)) {}
  std::string m_text;
};

// The token that proves who holds a lock. Compared byte for byte. lk grants locks only to owners that `parse` accepts
// (one line of UTF-8); other tools' tokens may be any bytes (`stored`).
class Owner {
public:
  static constexpr std::size_t longest = 512;

  static tl::expected<Owner, std::string> parse(std::string_view text);
  static Owner stored(std::string bytes) { return Owner(std::move(bytes)); }

  const std::string& bytes() const noexcept { return m_bytes; }
  friend bool operator==(const Owner&, const Owner&) = default;

private:
  explicit Owner(std::string bytes) : m_bytes(std::move(bytes)) {}
  std::string m_bytes;
};

// One asker: random per process, so that two processes that use the same owner are two claims.
// The zero id is nobody's own: in renew, release and leave it stands for any ask of that owner.
struct AskId {
  std::uint64_t value = 0;
  bool any() const noexcept { return value == 0; }
  friend bool operator==(AskId, AskId) = default;
};

// Rises with every grant. Below 2^53, so that JSON and Lua carry it exactly.
struct Fence {
  std::int64_t value = 0;
  friend auto operator<=>(Fence, Fence) = default;
};

// One asker of one lock, whether it waits or holds.
struct Claim {
  Key key;
  Owner owner;
  AskId ask;
};

}  // namespace core
