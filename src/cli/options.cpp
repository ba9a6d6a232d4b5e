// The only file that knows CLI11. It binds names to values; which word is a name and which a value is decided here,
// because CLI11 takes `--owner --help` and `--key=` for something else than what was meant.
#include "cli/options.hpp"

#include <algorithm>
#include <charconv>
#include <utility>

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <fmt/format.h>

#include "cli/nearest.hpp"
#include "cli/table.hpp"
#include "core/text.hpp"

namespace cli {

namespace {

bool is_flag(const CLI::Option& option) { return option.get_items_expected_max() == 0; }

// As the user would write it: the long name, which every option has.
std::string name_of(const CLI::Option& option) { return "--" + option.get_lnames().front(); }

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

struct Options::Parser {
  struct Line {
    std::string left;
    std::string right;
  };

  CLI::App app;
  std::vector<Line> lines;
  std::vector<std::string>* words = nullptr;
  bool help = false;
  std::vector<const CLI::Option*> seen;
  std::vector<std::pair<const CLI::Option*, std::vector<std::string>*>> repeatable;  // not for CLI11
  std::vector<std::string> for_cli11;  // each option by its long name, each value as a word of its own

  void add_line(std::string_view names, std::string_view placeholder, std::string_view text) {
    if (text.empty()) {
      return;
    }
    std::string left(names);
    if (const auto comma = left.find(','); comma != std::string::npos) {
      left.insert(comma + 1, " ");
    }
    if (!placeholder.empty()) {
      left += fmt::format(" {}", placeholder);
    }
    lines.push_back({std::move(left), std::string(text)});
  }

  bool is_name(const std::string& word) const {
    return word.size() > 1 && word[0] == '-' && word != "--" && app.get_option_no_throw(word) != nullptr;
  }

  CLI::Option& find(const std::string& name) const {
    // CLI11 would also find "ttl" or an empty name.
    if (name.size() > 1 && name[0] == '-' && name != "--") {
      if (auto* const option = app.get_option_no_throw(name); option != nullptr && option->check_name(name)) {
        return *const_cast<CLI::Option*>(option);
      }
    }
    std::vector<std::string> names;
    for (const CLI::Option* const option : app.get_options()) {
      names.push_back(name_of(*option));
    }
    throw usage_error(fmt::format("unknown option {}{}",
                                  core::escaped(name),
                                  did_you_mean(name, std::vector<std::string_view>(names.begin(), names.end()))));
  }

  void take_flag(const CLI::Option& option) {
    if (option.check_name("--help")) {
      help = true;
    }
    if (std::find(seen.begin(), seen.end(), &option) == seen.end()) {
      seen.push_back(&option);
      for_cli11.push_back(name_of(option));
    }
  }

  void take_value(const CLI::Option& option, std::string value) {
    for (const auto& [repeated, target] : repeatable) {
      if (repeated == &option) {
        target->push_back(std::move(value));
        return;
      }
    }
    if (std::find(seen.begin(), seen.end(), &option) != seen.end()) {
      throw usage_error(fmt::format("{} is given twice", name_of(option)));
    }
    seen.push_back(&option);
    for_cli11.push_back(name_of(option));
    for_cli11.push_back(std::move(value));
  }

  void take_word(const std::string& word) {
    if (words == nullptr) {
      const bool wants_key = app.get_option_no_throw("--key") != nullptr;
      throw UnexpectedWord(
          word,
          fmt::format("unexpected word '{}'{}", core::escaped(word), wants_key ? ": the key is given with --key" : ""));
    }
    words->push_back(word);
  }
};

Options::Options() : m_parser(std::make_unique<Parser>()) {
  m_parser->app.set_help_flag();
  m_parser->app.add_flag("-h,--help");
}

Options::~Options() = default;

void Options::value(std::string_view names, std::string_view placeholder, std::string_view help,
                    std::function<void(const std::string&)> take) {
  m_parser->add_line(names, placeholder, help);
  m_parser->app.add_option(std::string(names), [take = std::move(take)](const CLI::results_t& results) {
    take(results.front());
    return true;
  });
}

void Options::text(std::string_view names, std::string_view placeholder, std::string_view help,
                   std::optional<std::string>& target) {
  value(names, placeholder, help, [&target](const std::string& text) { target = text; });
}

void Options::texts(std::string_view names, std::string_view placeholder, std::string_view help,
                    std::vector<std::string>& target) {
  m_parser->add_line(names, placeholder, help);
  m_parser->repeatable.emplace_back(m_parser->app.add_option(std::string(names)), &target);
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
  m_parser->add_line(names, "", help);
  m_parser->app.add_flag(std::string(names), target);
}

void Options::words(std::string_view placeholder, std::string_view help, std::vector<std::string>& target) {
  m_parser->add_line(placeholder, "", help);
  m_parser->words = &target;
}

void Options::parse(const std::vector<std::string>& words) {
  Parser& parser = *m_parser;
  for (std::size_t i = 0; i < words.size() && !parser.help; ++i) {
    const std::string& word = words[i];
    const auto next = [&](const CLI::Option& option) -> const std::string& {
      if (i + 1 == words.size()) {
        throw usage_error(fmt::format("{} needs a value", name_of(option)));
      }
      // `--key $key --nested` with an empty variable.
      const std::string& value = words[++i];
      if (parser.is_name(value)) {
        throw usage_error(
            fmt::format("{} needs a value, and {} is an option: is a variable unset? ({}={} if it is meant)",
                        name_of(option),
                        value,
                        name_of(option),
                        value));
      }
      return value;
    };
    if (word.size() < 2 || word[0] != '-') {
      parser.take_word(word);
    } else if (word[1] == '-') {
      const std::size_t equals = word.find('=');
      const CLI::Option& option = parser.find(word.substr(0, equals));
      if (!is_flag(option)) {
        parser.take_value(option, equals == std::string::npos ? next(option) : word.substr(equals + 1));
      } else if (equals == std::string::npos) {
        parser.take_flag(option);
      } else {
        throw usage_error(fmt::format("{} takes no value", name_of(option)));
      }
    } else {
      // "-qv" is two flags, "-E0" an option and its value.
      for (std::size_t letter = 1; letter < word.size(); ++letter) {
        const CLI::Option& option = parser.find(std::string{'-', word[letter]});
        if (!is_flag(option)) {
          parser.take_value(option, letter + 1 == word.size() ? next(option) : word.substr(letter + 1));
          break;
        }
        parser.take_flag(option);
      }
    }
  }
  if (parser.help) {
    return;
  }
  try {
    std::vector<std::string> last_first(parser.for_cli11.rbegin(), parser.for_cli11.rend());
    parser.app.parse(std::move(last_first));
  } catch (const CLI::Error& error) {
    throw usage_error(core::escaped(error.what()));
  }
}

void Options::take_word(const std::string& word) { m_parser->take_word(word); }

bool Options::help_asked() const noexcept { return m_parser->help; }

bool Options::takes_next(const std::string& word) const {
  const bool has_value = word.substr(0, 2) == "--" ? word.find('=') != std::string::npos : word.size() > 2;
  const std::string name = word.substr(0, 2) == "--" ? word.substr(0, word.find('=')) : word.substr(0, 2);
  return !is_flag(m_parser->find(name)) && !has_value;
}

std::string Options::listing() const {
  auto lines = m_parser->lines;
  lines.push_back({"-h, --help", "show this and do nothing"});
  std::size_t widest = 0;
  for (const auto& line : lines) {
    widest = std::max(widest, line.left.size());
  }
  std::string text;
  for (const auto& line : lines) {
    text += fmt::format("  {:<{}}  {}\n", line.left, widest, line.right);
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
