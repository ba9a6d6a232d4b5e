// Catch2 under one name and in the words of version 3: version 2 (Debian 12) is a single header, version 3 is many.
#pragma once

#if __has_include(<catch2/catch_all.hpp>)

#include <catch2/catch_all.hpp>

#else

#include <catch2/catch.hpp>

namespace Catch {

using Detail::Approx;

namespace Matchers {

inline auto ContainsSubstring(const std::string& part, CaseSensitive::Choice letters = CaseSensitive::Yes) {
  return Contains(part, letters);
}

}  // namespace Matchers
}  // namespace Catch

#endif
