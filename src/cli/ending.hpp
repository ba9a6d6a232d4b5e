// What ends a command before its time: a sentence and a status. Caught once, in run.cpp.
#pragma once

#include <exception>
#include <string>
#include <utility>

#include "cli/exit_code.hpp"
#include "core/store.hpp"

namespace cli {

class Ending : public std::exception {
public:
  // The sentence has no "lk: " before it and no full stop after it; bytes from outside are escaped already.
  Ending(ExitCode code, std::string sentence) : m_code(code), m_sentence(std::move(sentence)) {}

  ExitCode code() const noexcept { return m_code; }
  const char* what() const noexcept override { return m_sentence.c_str(); }

private:
  ExitCode m_code;
  std::string m_sentence;
};

inline Ending usage_error(std::string sentence) { return {ExitCode::usage, std::move(sentence)}; }
inline Ending configuration_error(std::string sentence) { return {ExitCode::configuration, std::move(sentence)}; }

constexpr ExitCode exit_code(core::Trouble trouble) noexcept {
  switch (trouble) {
    case core::Trouble::refused:
      return ExitCode::refused;
    case core::Trouble::misconfigured:
      return ExitCode::configuration;
    case core::Trouble::exhausted:
      return ExitCode::system;
    case core::Trouble::unreachable:
    case core::Trouble::timed_out:
    case core::Trouble::interrupted:
    case core::Trouble::corrupt:
    case core::Trouble::full:
      break;
  }
  return ExitCode::store_down;
}

// The answer of a verb, or the end of the command with the store's own sentence.
template <class T>
T value_or_end(core::Result<T> result) {
  if (!result) {
    throw Ending(exit_code(result.error().what), std::move(result.error().detail));
  }
  return std::move(*result);
}

}  // namespace cli
