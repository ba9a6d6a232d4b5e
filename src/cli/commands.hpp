// THE list of subcommands, in the order of the help.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "cli/command.hpp"

namespace cli {

extern const Command acquire_command;
extern const Command block_command;
extern const Command completion_command;
extern const Command config_command;
extern const Command exec_command;
extern const Command help_command;
extern const Command release_command;
extern const Command renew_command;
extern const Command status_command;

const std::vector<const Command*>& commands();

// Throws a usage error that names the nearest command, or the one that other tools call so.
const Command& find_command(std::string_view name);

// What `lk help` and `lk help NAME` print, for a terminal of that many columns (0: for none).
std::string general_help(std::size_t columns);
std::string help_of(const Command& command, std::size_t columns);

}  // namespace cli
