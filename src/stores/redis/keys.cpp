// Hash tags (Redis Cluster specification, "Hash tags") and names.
#include "stores/redis/keys.hpp"

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

// What comes before "#lk:…".
std::string helper_base(const std::string& lock) {
  if (!hash_tag(lock).empty()) {
    return lock;
  }
  if (lock.find('}') == std::string::npos) {
    return fmt::format("{{{}}}", lock);
  }
  // No tag can be wrapped around it, as the tag would end too early: a short one that falls into the same slot.
  const std::uint16_t slot = hash_slot(lock);
  for (std::uint32_t number = 0;; ++number) {
    std::string base = fmt::format("{{{:x}}}{}", number, lock);
    if (hash_slot(base) == slot) {
      return base;
    }
  }
}

}  // namespace

std::uint16_t hash_slot(std::string_view key) {
  const std::string_view tag = hash_tag(key);
  return crc16(tag.empty() ? key : tag) % 16384;
}

LockKeys::LockKeys(std::string name) : lock(std::move(name)) {
  const std::string base = helper_base(lock);
  meta = base + "#lk:meta";
  line = base + "#lk:line";
  places = base + "#lk:places";
  bell = base + "#lk:bell:";
}

std::optional<std::string> lock_of_helper(std::string_view name, std::string_view what) {
  const std::string suffix = fmt::format("{}{}", helper_mark, what);
  if (name.size() <= suffix.size() || name.substr(name.size() - suffix.size()) != suffix) {
    return std::nullopt;
  }
  const std::string_view base = name.substr(0, name.size() - suffix.size());
  // Exactly one of the three forms leads back to this very name.
  const std::string_view wrapped = base.size() > 2 ? base.substr(1, base.size() - 2) : std::string_view{};
  const std::size_t close = base.find('}');
  const std::string_view tagged = close == std::string_view::npos ? std::string_view{} : base.substr(close + 1);
  for (const std::string_view candidate : {base, wrapped, tagged}) {
    if (!candidate.empty() && helper_base(std::string(candidate)) == base) {
      return std::string(candidate);
    }
  }
  return std::nullopt;
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
