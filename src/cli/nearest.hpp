// What a mistyped word was probably meant to be.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace cli {

// ": did you mean --ttl?", or nothing where no known word is near.
std::string did_you_mean(std::string_view typed, const std::vector<std::string_view>& known);

}  // namespace cli
