// lk block: wait in line.
#include "cli/commands.hpp"
#include "cli/taking.hpp"

namespace cli {

const Command block_command{
    "block",
    "Wait in line for a lock, and print its owner token",
    "--key K [--ttl D] [--wait D|forever] [--owner T] [OPTION...]",
    "token=$(lk block --key deploy --wait 5m --ttl 10m) || exit",
    false,
    [](Options& options) -> std::unique_ptr<Action> {
      return std::make_unique<Taking>(options, Taking::Patience::in_line);
    },
};

}  // namespace cli
