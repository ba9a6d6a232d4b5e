// lk acquire: one try.
#include "cli/commands.hpp"
#include "cli/taking.hpp"

namespace cli {

const Command acquire_command{
    "acquire",
    "Try once to get a lock, and print its owner token",
    "--key K [--ttl D] [--owner T] [OPTION...]",
    "token=$(lk acquire --key deploy --ttl 10m) || exit",
    false,
    [](Options& options) -> std::unique_ptr<Action> {
      return std::make_unique<Taking>(options, Taking::Patience::one_try);
    },
};

}  // namespace cli
