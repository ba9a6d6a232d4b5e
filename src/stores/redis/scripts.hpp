// The Lua scripts, one a verb, embedded at build from scripts/*.lua.
#pragma once

#include <string_view>

namespace stores::redis {

struct Script {
  std::string_view sha1;  // of `text`, for EVALSHA
  std::string_view text;
};

extern const Script acquire_script;
extern const Script renew_script;
extern const Script release_script;
extern const Script leave_script;
extern const Script evict_script;
extern const Script status_script;

}  // namespace stores::redis
