// What makes a key or an owner acceptable.
#include "core/names.hpp"

#include <optional>

#include <fmt/format.h>

#include "core/text.hpp"

namespace core {

namespace {

// What is wrong with the text of a name, if anything.
std::optional<std::string> flaw(std::string_view text, std::size_t longest) {
  if (text.empty()) {
    return "must not be empty";
  }
  if (text.size() > longest) {
    return fmt::format("must be at most {} bytes long, not {}", longest, text.size());
  }
  std::size_t position = 0;
  std::optional<std::string> control;
  while (position < text.size()) {
    char32_t code_point = 0;
    const std::size_t length = decode_utf8(text.substr(position), code_point);
    if (length == 0) {
      return fmt::format("must be UTF-8 (byte {} is not)", position + 1);
    }
    if (is_control(code_point) && !control) {
      control = fmt::format("must not contain control characters (byte {} starts {})",
                            position + 1,
                            escaped(text.substr(position, length)));
    }
    position += length;
  }
  return control;
}

}  // namespace

tl::expected<Key, std::string> Key::parse(std::string_view text) {
  if (auto what = flaw(text, longest)) {
    return tl::make_unexpected(*std::move(what));
  }
  return Key(std::string(text));
}

tl::expected<Owner, std::string> Owner::parse(std::string_view text) {
  if (auto what = flaw(text, longest)) {
    return tl::make_unexpected(*std::move(what));
  }
  return Owner(std::string(text));
}

}  // namespace core
