// The order in which the sources of a setting are asked.
#include "cli/settings.hpp"

#include "cli/environment.hpp"

namespace cli {

namespace {

std::optional<Given> first_of(const std::optional<std::string>& on_the_line, const char* option, const char* name) {
  if (on_the_line) {
    return Given{*on_the_line, option};
  }
  if (auto value = variable(name)) {
    return Given{*std::move(value), name};
  }
  return std::nullopt;
}

}  // namespace

Settings settle(const CommonOptions& line, const std::optional<std::string>& ttl) {
  return {first_of(line.store, "--store", "LK_STORE"),
          first_of(line.prefix, "--prefix", "LK_PREFIX"),
          first_of(ttl, "--ttl", "LK_TTL")};
}

}  // namespace cli
