// Which word is a name and which a value. Written here, as the libraries that do this take `--owner --help`, `--key=`
// or an abbreviation for something else than what was meant, and make a table of all options cost 0.15 ms at every
// start.
#include "cli/options.hpp"

#include <algorithm>
#include <charconv>
#include <utility>

#include <fmt/format.h>

#include "cli/nearest.hpp"
#include "cli/table.hpp"
#include "core/text.hpp"

namespace cli {

namespace {

std::vector<std::string> split(std::string_view words) {
  std::vector<std::string> list;
  for (std::size_t bar = 0; bar != std::string_view::npos;) {
    bar = words.find('|');
    list.emplace_back(words.substr(0, bar));
    words.remove_prefix(bar == std::string_view::npos ? words.size() : bar + 1);
  }
  return list;
}

// "a, b or c".
std::string one_of(const std::vector<std::string>& words) {
  std::string text;
  for (std::size_t i = 0; i < words.size(); ++i) {
    text += i == 0 ? "" : i + 1 == words.size() ? " or " : ", ";
    text += words[i];
  }
  return text;
}

}  // namespace

struct Options::Option {
  std::string_view name;  // with its dashes, as all messages have it
  char letter = 0;
  bool* flag = nullptr;  // where it takes no value
  bool repeatable = false;
  std::function<void(const std::string&)> take;

  bool is_flag() const noexcept { return flag != nullptr; }
};

Options::Options() {
  m_options.reserve(24);
  declare("-h,--help").flag = &m_help;
}

Options::~Options() = default;

Options::Option& Options::declare(std::string_view names) {
  Option option;
  if (names.size() > 3 && names[2] == ',') {
    option.letter = names[1];
    names.remove_prefix(3);
  }
  option.name = names;
  return m_options.emplace_back(std::move(option));
}

void Options::add_line(std::string_view names, std::string_view placeholder, std::string_view text) {
  if (!text.empty()) {
    m_lines.push_back({names, placeholder, text});
  }
}

const Options::Option* Options::find(std::string_view name) const noexcept {
  for (const Option& option : m_options) {
    if (name == option.name || (name.size() == 2 && name[0] == '-' && name[1] == option.letter)) {
      return &option;
    }
  }
  return nullptr;
}

const Options::Option& Options::find_or_throw(std::string_view name) const {
  if (const Option* const option = find(name)) {
    return *option;
  }
  std::vector<std::string_view> names;
  for (const Option& option : m_options) {
    names.push_back(option.name);
  }
  throw usage_error(fmt::format("unknown option {}{}", core::escaped(name), did_you_mean(name, names)));
}

void Options::value(std::string_view names, std::string_view placeholder, std::string_view help,
                    std::function<void(const std::string&)> take) {
  add_line(names, placeholder, help);
  declare(names).take = std::move(take);
}

void Options::text(std::string_view names, std::string_view placeholder, std::string_view help,
                   std::optional<std::string>& target) {
  value(names, placeholder, help, [&target](const std::string& text) { target = text; });
}

void Options::texts(std::string_view names, std::string_view placeholder, std::string_view help,
                    std::vector<std::string>& target) {
  value(names, placeholder, help, [&target](const std::string& text) { target.push_back(text); });
  m_options.back().repeatable = true;
}

void Options::duration(std::string_view names, std::string_view help, core::Millis shortest,
                       std::optional<core::Millis>& target) {
  value(names, "D", help, [name = std::string(names), shortest, &target](const std::string& text) {
    target = to_duration(name, text, shortest);
  });
}

void Options::number(std::string_view names, std::string_view help, std::size_t smallest, std::size_t largest,
                     std::optional<std::size_t>& target) {
  const auto comma = names.find(',');
  const std::string name(comma == std::string_view::npos ? names : names.substr(comma + 1));
  value(names, "N", help, [name, smallest, largest, &target](const std::string& text) {
    target = to_number(name, text, smallest, largest);
  });
}

void Options::choice(std::string_view names, std::string_view placeholder, std::string_view words,
                     std::string_view help, std::string& target) {
  value(names, placeholder, help, [name = std::string(names), words = split(words), &target](const std::string& text) {
    if (std::find(words.begin(), words.end(), text) == words.end()) {
      throw usage_error(fmt::format("{} must be {}{}", name, one_of(words), but_not(text)));
    }
    target = text;
  });
}

void Options::flag(std::string_view names, std::string_view help, bool& target) {
  add_line(names, "", help);
  declare(names).flag = &target;
}

void Options::words(std::string_view placeholder, std::string_view help, std::vector<std::string>& target) {
  add_line(placeholder, "", help);
  m_words = &target;
}

void Options::parse(const std::vector<std::string>& words) {
  // Taken once all names are known to be right: a wrong name is told before a wrong value.
  std::vector<std::pair<const Option*, std::string>> values;
  const auto take_value = [&](const Option& option, std::string value) {
    const auto is_same = [&](const auto& earlier) { return earlier.first == &option; };
    if (!option.repeatable && std::any_of(values.begin(), values.end(), is_same)) {
      throw usage_error(fmt::format("{} is given twice", option.name));
    }
    values.emplace_back(&option, std::move(value));
  };
  for (std::size_t i = 0; i < words.size() && !m_help; ++i) {
    const std::string& word = words[i];
    const auto next = [&](const Option& option) -> const std::string& {
      if (i + 1 == words.size()) {
        throw usage_error(fmt::format("{} needs a value", option.name));
      }
      // `--key $key --nested` with an empty variable.
      const std::string& value = words[++i];
      if (find(value) != nullptr) {
        throw usage_error(
            fmt::format("{} needs a value, and {} is an option: is a variable unset? ({}={} if it is meant)",
                        option.name,
                        value,
                        option.name,
                        value));
      }
      return value;
    };
    if (word.size() < 2 || word[0] != '-') {
      take_word(word);
    } else if (word[1] == '-') {
      const std::size_t equals = word.find('=');
      const Option& option = find_or_throw(std::string_view(word).substr(0, equals));
      if (!option.is_flag()) {
        take_value(option, equals == std::string::npos ? next(option) : word.substr(equals + 1));
      } else if (equals == std::string::npos) {
        *option.flag = true;
      } else {
        throw usage_error(fmt::format("{} takes no value", option.name));
      }
    } else {
      // "-qv" is two flags, "-E0" an option and its value.
      for (std::size_t letter = 1; letter < word.size(); ++letter) {
        const Option& option = find_or_throw(std::string{'-', word[letter]});
        if (!option.is_flag()) {
          take_value(option, letter + 1 == word.size() ? next(option) : word.substr(letter + 1));
          break;
        }
        *option.flag = true;
      }
    }
  }
  if (m_help) {
    return;
  }
  for (const auto& [option, value] : values) {
    option->take(value);
  }
}

void Options::take_word(const std::string& word) {
  if (m_words == nullptr) {
    throw UnexpectedWord(word,
                         fmt::format("unexpected word '{}'{}",
                                     core::escaped(word),
                                     find("--key") != nullptr ? ": the key is given with --key" : ""));
  }
  m_words->push_back(word);
}

bool Options::takes_next(const std::string& word) const {
  const bool is_long = word.substr(0, 2) == "--";
  const bool has_value = is_long ? word.find('=') != std::string::npos : word.size() > 2;
  return !find_or_throw(is_long ? word.substr(0, word.find('=')) : word.substr(0, 2)).is_flag() && !has_value;
}

std::string Options::listing() const {
  std::vector<std::pair<std::string, std::string_view>> lines;
  for (const Line& line : m_lines) {
    std::string left(line.names);
    if (const auto comma = left.find(','); comma != std::string::npos) {
      left.insert(comma + 1, " ");
    }
    if (!line.placeholder.empty()) {
      left += fmt::format(" {}", line.placeholder);
    }
    lines.emplace_back(std::move(left), line.text);
  }
  lines.emplace_back("-h, --help", "show this and do nothing");
  std::size_t widest = 0;
  for (const auto& [left, right] : lines) {
    widest = std::max(widest, left.size());
  }
  std::string text;
  for (const auto& [left, right] : lines) {
    text += fmt::format("  {:<{}}  {}\n", left, widest, right);
  }
  return text;
}

std::string but_not(std::string_view value) {
  constexpr std::size_t longest = 60;
  return fmt::format(", not '{}'", shortened(core::escaped(value), longest));
}

core::Millis to_duration(std::string_view name, std::string_view text, core::Millis shortest) {
  const auto duration = core::parse_duration(text);
  if (!duration) {
    throw usage_error(fmt::format("{} {}{}", name, duration.error(), but_not(text)));
  }
  if (*duration < shortest) {
    throw usage_error(fmt::format(
        "{} must be at least {}, like 30, 1.5s, 5m or 1h30m{}", name, core::to_text(shortest), but_not(text)));
  }
  return *duration;
}

std::size_t to_number(std::string_view name, std::string_view text, std::size_t smallest, std::size_t largest) {
  std::size_t number = 0;
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, number);
  if (text.empty() || error != std::errc() || stop != end || number < smallest || number > largest) {
    throw usage_error(fmt::format("{} must be a whole number from {} to {}{}", name, smallest, largest, but_not(text)));
  }
  return number;
}

}  // namespace cli
