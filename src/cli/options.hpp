// The options of one command: declared once, and from that parsed, listed in its help, and compared with what was
// mistyped.
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cli/ending.hpp"
#include "core/duration.hpp"

namespace cli {

// A word that is no option, where none is expected.
class UnexpectedWord : public Ending {
public:
  UnexpectedWord(std::string word, std::string sentence)
      : Ending(usage_error(std::move(sentence))), m_word(std::move(word)) {}
  const std::string& word() const noexcept { return m_word; }

private:
  std::string m_word;
};

// A valued option takes the next word unless that is itself an option of the command, and `--name=value` takes the
// value literally. Given twice it is a usage error; a flag may be repeated.
class Options {
public:
  Options();
  ~Options();
  Options(const Options&) = delete;
  Options& operator=(const Options&) = delete;

  // `names` is "--long" or "-s,--long"; `placeholder` stands for the value in the help, which leaves out an option
  // without a text. These three outlive this object, as literals do. Targets outlive the parsing and keep what they
  // have where the option is not given.
  void value(std::string_view names, std::string_view placeholder, std::string_view help,
             std::function<void(const std::string&)> take);
  void text(std::string_view names, std::string_view placeholder, std::string_view help,
            std::optional<std::string>& target);
  // May be given more than once.
  void texts(std::string_view names, std::string_view placeholder, std::string_view help,
             std::vector<std::string>& target);
  void duration(std::string_view names, std::string_view help, core::Millis shortest,
                std::optional<core::Millis>& target);
  void number(std::string_view names, std::string_view help, std::size_t smallest, std::size_t largest,
              std::optional<std::size_t>& target);
  // `words` are separated by '|'.
  void choice(std::string_view names, std::string_view placeholder, std::string_view words, std::string_view help,
              std::string& target);
  void flag(std::string_view names, std::string_view help, bool& target);
  // Words that are no options. Without this, such a word is a usage error.
  void words(std::string_view placeholder, std::string_view help, std::vector<std::string>& target);

  // Throws a usage error (an UnexpectedWord among them). Ends early where --help is met.
  void parse(const std::vector<std::string>& words);
  // One word that no dash turns into an option.
  void take_word(const std::string& word);
  bool help_asked() const noexcept { return m_help; }

  // Whether `--name` or `-n` takes the next word as its value. Throws a usage error where there is no such option.
  bool takes_next(const std::string& word) const;

  // One line for each option.
  std::string listing() const;

private:
  struct Option;
  // Of the help.
  struct Line {
    std::string_view names;
    std::string_view placeholder;
    std::string_view text;
  };
  Option& declare(std::string_view names);
  void add_line(std::string_view names, std::string_view placeholder, std::string_view text);
  const Option* find(std::string_view name) const noexcept;
  const Option& find_or_throw(std::string_view name) const;

  std::vector<Option> m_options;
  std::vector<Line> m_lines;
  std::vector<std::string>* m_words = nullptr;
  bool m_help = false;
};

// ", not 'abc'", for the end of a sentence about a value that cannot be. Never of what may be a secret.
std::string but_not(std::string_view value);

// The value of an option or variable, or a usage error that begins with its name.
core::Millis to_duration(std::string_view name, std::string_view text, core::Millis shortest);
std::size_t to_number(std::string_view name, std::string_view text, std::size_t smallest, std::size_t largest);

}  // namespace cli
