// Shell patterns over keys: `*`, `?`, `[abc]`, `[a-z]`, `[!x]`, and `\` before a character that is meant literally.
#pragma once

#include <string>
#include <string_view>

namespace core {

class Glob {
public:
  explicit Glob(std::string pattern) : m_pattern(std::move(pattern)) {}
  static Glob everything() { return Glob("*"); }

  const std::string& pattern() const noexcept { return m_pattern; }
  bool matches(std::string_view text) const;
  // Whether the text has a character that means more than itself.
  static bool is_pattern(std::string_view text);

private:
  std::string m_pattern;
};

}  // namespace core
