// Hash tags (Redis Cluster specification, "Hash tags") and names.
#include "stores/redis/keys.hpp"

#include <algorithm>

#include <fmt/format.h>

namespace stores::redis {

namespace {

// CRC16-CCITT (XMODEM): polynomial 0x1021, initial value 0.
std::uint16_t crc16(std::string_view bytes) {
  std::uint16_t crc = 0;
  for (const char byte : bytes) {
    crc = static_cast<std::uint16_t>(crc ^ (static_cast<unsigned char>(byte) << 8));
    for (int bit = 0; bit < 8; ++bit) {
      crc = static_cast<std::uint16_t>((crc & 0x8000) != 0 ? crc << 1 ^ 0x1021 : crc << 1);
    }
  }
  return crc;
}

// Between the first '{' and the next '}' after it, if that is not empty.
std::string_view hash_tag(std::string_view key) {
  const std::size_t open = key.find('{');
  const std::size_t close = open == std::string_view::npos ? open : key.find('}', open + 1);
  return close == std::string_view::npos || close == open + 1 ? std::string_view{}
                                                              : key.substr(open + 1, close - open - 1);
}

constexpr std::string_view own_tag = "own:";
constexpr std::string_view found_tag = "slot:";

// The first of 0, 1, … f, 10, … that falls into this slot.
std::string tag_in(std::uint16_t slot) {
  for (std::uint32_t number = 0;; ++number) {
    std::string tag = fmt::format("{:x}", number);
    if (hash_slot(tag) == slot) {
      return tag;
    }
  }
}

// All of a helper's name but what it keeps.
std::string helper_of(const std::string& lock) {
  if (!hash_tag(lock).empty()) {
    return fmt::format("{}{}{}", lock, helper_mark, own_tag);
  }
  if (lock.find('}') == std::string::npos) {
    return fmt::format("{{{}}}{}", lock, helper_mark);
  }
  return fmt::format("{{{}}}{}{}{}", tag_in(hash_slot(lock)), lock, helper_mark, found_tag);
}

}  // namespace

std::uint16_t hash_slot(std::string_view key) {
  const std::string_view tag = hash_tag(key);
  return crc16(tag.empty() ? key : tag) % 16384;
}

LockKeys::LockKeys(std::string name) : lock(std::move(name)) {
  const std::string helper = helper_of(lock);
  meta = helper + "meta";
  line = helper + "line";
  places = helper + "places";
  bell = helper + "bell:";
}

std::optional<std::string> lock_of_helper(std::string_view name) {
  const std::size_t mark = name.find(helper_mark);
  if (mark == std::string_view::npos) {
    return std::nullopt;
  }
  const std::string_view base = name.substr(0, mark);
  const std::string_view what = name.substr(mark + helper_mark.size());
  std::string_view lock;
  if (what.substr(0, own_tag.size()) == own_tag) {
    lock = base;
  } else if (what.substr(0, found_tag.size()) == found_tag) {
    const std::size_t close = base.find('}');
    lock = close == std::string_view::npos ? std::string_view{} : base.substr(close + 1);
  } else if (base.size() > 2) {
    lock = base.substr(1, base.size() - 2);
  }
  if (lock.empty()) {
    return std::nullopt;
  }
  // A name that only looks like one leads to a lock whose helpers have other names.
  const LockKeys keys{std::string(lock)};
  const auto all = keys.all();
  return std::find(all.begin() + 1, all.end(), name) != all.end() ? std::optional(keys.lock) : std::nullopt;
}

std::string escaped_pattern(std::string_view literal) {
  std::string pattern;
  for (const char byte : literal) {
    if (std::string_view("*?[]\\^-").find(byte) != std::string_view::npos) {
      pattern += '\\';
    }
    pattern += byte;
  }
  return pattern;
}

}  // namespace stores::redis
