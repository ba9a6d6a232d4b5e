// Store addresses: taken apart, and shown without their secrets.
#include "core/store_url.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <vector>

#include "core/text.hpp"

namespace core {

namespace {

constexpr std::string_view sqlite = "sqlite";

char lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

std::string lower(std::string_view text) {
  std::string out(text);
  std::transform(out.begin(), out.end(), out.begin(), [](char c) { return lower(c); });
  return out;
}

bool is_scheme(std::string_view text) {
  const auto is_letter = [](char c) { return c >= 'a' && c <= 'z'; };
  const auto is_rest = [&](char c) {
    return is_letter(c) || (c >= '0' && c <= '9') || c == '+' || c == '.' || c == '-';
  };
  return !text.empty() && is_letter(text.front()) && std::all_of(text.begin(), text.end(), is_rest);
}

int hex_value(char c) {
  if (c >= '0' && c <= '9') {
    return c - '0';
  }
  const char letter = lower(c);
  return letter >= 'a' && letter <= 'f' ? letter - 'a' + 10 : -1;
}

std::string percent_decoded(std::string_view text) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '%' && i + 2 < text.size() && hex_value(text[i + 1]) >= 0 && hex_value(text[i + 2]) >= 0) {
      out += static_cast<char>(hex_value(text[i + 1]) * 16 + hex_value(text[i + 2]));
      i += 2;
    } else {
      out += text[i];
    }
  }
  return out;
}

bool names_a_secret(std::string_view parameter) {
  const std::string name = lower(percent_decoded(parameter));
  constexpr std::array<std::string_view, 7> words{"pass", "pwd", "secret", "token", "key", "auth", "cred"};
  return std::any_of(
      words.begin(), words.end(), [&](std::string_view word) { return name.find(word) != std::string::npos; });
}

}  // namespace

tl::expected<StoreUrl, std::string> StoreUrl::parse(std::string_view text) {
  const bool has_control = std::any_of(text.begin(), text.end(), [](char c) {
    return is_control(static_cast<char32_t>(static_cast<unsigned char>(c))) && static_cast<unsigned char>(c) < 0x80;
  });
  if (has_control) {
    return tl::make_unexpected(std::string("must not contain control characters"));
  }
  const std::size_t colon = text.find(':');
  const std::size_t slash = text.find('/');
  if (colon != std::string_view::npos && colon < slash) {
    std::string scheme = lower(text.substr(0, colon));
    std::string rest(text.substr(colon + 1));
    if (scheme == sqlite && !rest.empty()) {
      return StoreUrl(std::move(scheme), std::move(rest));
    }
    if (scheme != sqlite && is_scheme(scheme) && rest.size() > 2 && rest.compare(0, 2, "//") == 0) {
      return StoreUrl(std::move(scheme), std::move(rest));
    }
    // "redis:host/0" must not quietly become a file on this machine.
    return tl::make_unexpected(
        std::string("must be a path with a slash (./ first if it has a colon), sqlite:PATH or redis://HOST"));
  }
  if (slash == std::string_view::npos) {
    return tl::make_unexpected(std::string("must be a path with a slash, sqlite:PATH or redis://HOST"));
  }
  // Neither of them is meant: a shell expands ~ only without quotes, and redis//host would be a file on this machine.
  if (text.substr(0, 1) == "~") {
    return tl::make_unexpected(std::string("must not begin with ~, which only an unquoted shell word expands"));
  }
  if (lower(text.substr(0, 5)) == "redis") {
    return tl::make_unexpected(
        std::string("must be redis://HOST for a Redis server; a path that begins with redis needs ./ before it"));
  }
  return StoreUrl(std::string(sqlite), std::string(text));
}

std::string StoreUrl::redacted() const {
  std::string out = m_scheme + ":";
  if (m_scheme == sqlite) {
    return out + m_rest;
  }

  std::vector<bool> hidden(m_rest.size(), false);
  const auto hide = [&](std::size_t from, std::size_t to) {
    std::fill(
        hidden.begin() + static_cast<std::ptrdiff_t>(from), hidden.begin() + static_cast<std::ptrdiff_t>(to), true);
  };

  // The user info ends at the last '@' of all: a password may hold '@', '/', '?' or '#', rightly encoded or not, and
  // hiding a bit of a path by mistake costs less than showing a bit of a password.
  constexpr std::size_t start = 2;
  const std::size_t at = m_rest.rfind('@');
  if (at != std::string::npos) {
    const std::size_t colon = m_rest.find(':', start);
    if (colon < at) {
      hide(colon + 1, at);
    } else if (m_rest[start] != '/') {
      // redis-cli reads a lone word here as the password.
      hide(start, at);
    }
  }

  constexpr std::string_view separators = "?&;#";
  for (std::size_t mark = m_rest.find_first_of(separators); mark != std::string::npos;) {
    const std::size_t next = m_rest.find_first_of(separators, mark + 1);
    const std::size_t equals = m_rest.find('=', mark + 1);
    if (equals < next && names_a_secret(std::string_view(m_rest).substr(mark + 1, equals - mark - 1))) {
      hide(equals + 1, std::min(m_rest.find('&', equals), m_rest.size()));
    }
    mark = next;
  }

  for (std::size_t i = 0; i < m_rest.size(); ++i) {
    if (!hidden[i]) {
      out += m_rest[i];
    } else if (i == 0 || !hidden[i - 1]) {
      out += "***";
    }
  }
  return out;
}

}  // namespace core
