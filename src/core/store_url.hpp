// The address of a store as the user gave it, taken apart only as far as every store needs.
#pragma once

#include <string>
#include <string_view>

#include <tl/expected.hpp>

namespace core {

// `scheme:rest`. A plain path with a slash is `sqlite:PATH`. What `rest` means is the store's own business.
class StoreUrl {
public:
  // The error is one sentence without the text itself, which may hold a password.
  static tl::expected<StoreUrl, std::string> parse(std::string_view text);

  const std::string& scheme() const noexcept { return m_scheme; }
  const std::string& rest() const noexcept { return m_rest; }
  // The only form that may be printed, logged or handed to a child: user info keeps its user, never its password.
  std::string redacted() const;

private:
  StoreUrl(std::string scheme, std::string rest) : m_scheme(std::move(scheme)), m_rest(std::move(rest)) {}
  std::string m_scheme;
  std::string m_rest;
};

}  // namespace core
