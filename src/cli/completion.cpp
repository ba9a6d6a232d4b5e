// lk completion: the completion scripts, and the words of this moment that they ask for.
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include <fmt/format.h>

#include "cli/commands.hpp"
#include "cli/completions.hpp"
#include "cli/ending.hpp"
#include "cli/lock_options.hpp"
#include "cli/open_store.hpp"
#include "cli/options.hpp"
#include "cli/output.hpp"
#include "core/glob.hpp"
#include "os/real_clock.hpp"

namespace cli {

namespace {

// Somebody waits at a prompt.
constexpr core::Millis longest_look{300};

class Completion : public Action {
public:
  explicit Completion(Options& options) {
    options.words("SHELL", "bash, zsh or fish: print its script", m_words);
    options.text("--list", "WHAT", "words of now: stores, locks, parameters, keys, owners", m_list);
    options.text("--key", "K", "whose owners", m_key);
    m_named.declare(options);
    m_common.declare(options);
  }

  int run(const Call&) override {
    if (m_list) {
      if (!m_words.empty()) {
        throw usage_error("a SHELL and --list exclude each other");
      }
      print(list());
      return to_int(ExitCode::ok);
    }
    const std::string_view shell = m_words.size() == 1 ? std::string_view(m_words.front()) : "";
    for (const CompletionScript& script : completion_scripts) {
      if (script.shell == shell) {
        print(script.text);
        return to_int(ExitCode::ok);
      }
    }
    throw usage_error(fmt::format("completion needs the name of a shell: bash, zsh or fish{}",
                                  m_words.size() == 1 ? but_not(m_words.front()) : ""));
  }

private:
  // One word a line, as it is. A store that is away has none: nothing is said in the middle of somebody's typing.
  std::string list() {
    m_common.quiet = true;
    std::vector<std::string> words;
    if (*m_list == "stores" || *m_list == "locks") {
      const Configuration configuration = read_configuration(m_common.config);
      for (const auto& [name, section] : *m_list == "stores" ? configuration.stores : configuration.locks) {
        words.push_back(name);
      }
    } else if (*m_list == "parameters") {
      const Settings settings = settle(m_common, std::nullopt, m_named);
      if (const Given* const key = find(settings.lock.entries, "key")) {
        words = parameters_of(*key);
      }
    } else if (*m_list == "keys" || *m_list == "owners") {
      words = of_the_store();
    } else {
      throw usage_error(fmt::format("--list must be stores, locks, parameters, keys or owners{}", but_not(*m_list)));
    }
    std::string text;
    for (const std::string& word : words) {
      text += word + "\n";
    }
    return text;
  }

  // Only what lk itself would take: another tool's key or token may be any bytes, also line breaks.
  std::vector<std::string> of_the_store() {
    std::vector<std::string> words;
    const Settings settings = settle(m_common, std::nullopt, m_named);
    const core::Limits limits{longest_look, -1};
    const os::RealClock clock;
    const auto store = open_store(settings, store_url(settings), false, &limits, clock);
    if (*m_list == "keys") {
      if (const auto locks = store->list(core::Glob::everything())) {
        for (const core::LockState& lock : *locks) {
          if (core::Key::parse(lock.key.text())) {
            words.push_back(lock.key.text());
          }
        }
      }
    } else if (const auto state = store->status(key_of_lock(m_key, m_named, settings)); state && state->by) {
      const auto* const held = std::get_if<core::Held>(&*state->by);
      if (held != nullptr && core::Owner::parse(held->owner.bytes())) {
        words.push_back(held->owner.bytes());
      }
    }
    return words;
  }

  CommonOptions m_common;
  NamedLock m_named;
  std::optional<std::string> m_key;
  std::optional<std::string> m_list;
  std::vector<std::string> m_words;
};

}  // namespace

const Command completion_command{
    "completion",
    "Print the completion script of a shell",
    "bash|zsh|fish",
    "lk completion bash > ~/.local/share/bash-completion/completions/lk",
    false,
    [](Options& options) -> std::unique_ptr<Action> { return std::make_unique<Completion>(options); },
};

}  // namespace cli
