// Typing errors, counted: one for each letter that is wrong, missing, too many, or swapped with its neighbour.
#include "cli/nearest.hpp"

#include <algorithm>
#include <cstddef>

#include <fmt/format.h>

namespace cli {

namespace {

std::size_t typing_errors(std::string_view a, std::string_view b) {
  std::vector<std::size_t> two_back(b.size() + 1);
  std::vector<std::size_t> last(b.size() + 1);
  std::vector<std::size_t> row(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) {
    row[j] = j;
  }
  for (std::size_t i = 1; i <= a.size(); ++i) {
    two_back.swap(last);
    last.swap(row);
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t wrong = a[i - 1] == b[j - 1] ? 0 : 1;
      row[j] = std::min({last[j] + 1, row[j - 1] + 1, last[j - 1] + wrong});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
        row[j] = std::min(row[j], two_back[j - 2] + 1);
      }
    }
  }
  return row.back();
}

}  // namespace

std::string did_you_mean(std::string_view typed, const std::vector<std::string_view>& known) {
  // A word of which a third and more is wrong is another word; longer ones than any known one need no table.
  constexpr std::size_t longest = 64;
  std::string_view best;
  std::size_t fewest = longest;
  for (const std::string_view word : known) {
    const std::size_t letters = word.size() - std::min(word.find_first_not_of('-'), word.size());
    const std::size_t errors = typed.size() > longest ? longest : typing_errors(typed, word);
    const bool begun = typed.size() >= 4 && word.substr(0, typed.size()) == typed;
    if (errors < fewest && (begun || errors <= std::max<std::size_t>(letters / 3, 1))) {
      fewest = errors;
      best = word;
    }
  }
  return best.empty() ? std::string() : fmt::format(": did you mean {}?", best);
}

}  // namespace cli
