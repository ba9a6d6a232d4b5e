// Sentences and kinds of trouble.
#include "stores/redis/errors.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <optional>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "core/text.hpp"
#include "os/fd.hpp"

namespace stores::redis {

namespace {

using core::StoreError;
using core::Trouble;

constexpr std::size_t most_characters = 200;

bool contains(std::string_view text, std::string_view part) { return text.find(part) != std::string_view::npos; }

std::string upper(std::string_view text) {
  std::string out(text);
  std::transform(out.begin(), out.end(), out.begin(), [](char c) {
    return c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c;
  });
  return out;
}

struct Cause {
  std::string_view word;
  Trouble what;
  std::string_view predicate;
};

// The first words of error replies, and what follows the server's name.
constexpr std::array causes{
    Cause{"READONLY", Trouble::unreachable, "is a read-only replica (READONLY): name the primary"},
    Cause{"LOADING", Trouble::unreachable, "is still loading its data (LOADING): try again in a moment"},
    Cause{"MASTERDOWN",
          Trouble::unreachable,
          "is a replica that lost its primary (MASTERDOWN): name the primary, or wait until it is back"},
    Cause{"CLUSTERDOWN",
          Trouble::unreachable,
          "is part of a Redis Cluster that is down (CLUSTERDOWN): wait until all its slots are served"},
    Cause{"TRYAGAIN", Trouble::unreachable, "is moving its keys to another node (TRYAGAIN): try again in a moment"},
    Cause{"BUSY", Trouble::unreachable, "is busy with a script of somebody's (BUSY): wait, or end it with SCRIPT KILL"},
    Cause{"MISCONF",
          Trouble::unreachable,
          "takes no writes because it cannot save its data (MISCONF): look at its log and its disk"},
    Cause{"NOREPLICAS",
          Trouble::unreachable,
          "takes no writes because too few replicas follow it (NOREPLICAS): wait for them, or lower "
          "min-replicas-to-write"},
    Cause{"OOM", Trouble::full, "has no memory left for writes (OOM): raise its maxmemory or remove data"},
    Cause{
        "WRONGTYPE",
        Trouble::corrupt,
        "has data of another type where lk keeps its own for a lock (WRONGTYPE): delete that key, its name has #lk: in "
        "it"},
    Cause{"MOVED",
          Trouble::misconfigured,
          "is a node of a Redis Cluster (MOVED), which is not supported: use a server that is no cluster"},
    Cause{"ASK",
          Trouble::misconfigured,
          "is a node of a Redis Cluster (ASK), which is not supported: use a server that is no cluster"},
    Cause{"CROSSSLOT",
          Trouble::misconfigured,
          "is a node of a Redis Cluster (CROSSSLOT), which is not supported: use a server that is no cluster"},
    Cause{"NOAUTH",
          Trouble::refused,
          "wants a password (NOAUTH): set LK_REDIS_PASSWORD, or name a password_file in the settings"},
};

// A script's error as Redis 6 wraps it: "ERR Error running script (call to f_SHA): @user_script:1: -OOM command not…",
// and without the dash where the command itself has failed.
std::string_view unwrapped(std::string_view error) {
  std::size_t inner = std::string_view::npos;
  if (error.starts_with("ERR Error running script")) {
    inner = std::min(error.find(": -"), error.find(": WRONGTYPE "));
  }
  return inner == std::string_view::npos ? error
                                         : error.substr(std::min(error.find_first_not_of(": -", inner), error.size()));
}

// "ERR unknown command 'EVAL', with args…", and with backticks before Redis 6; empty where none is quoted.
std::string unknown_command(std::string_view error) {
  const std::size_t start = error.find_first_of("'`");
  const std::size_t end = error.find_first_of("'`", start == std::string_view::npos ? start : start + 1);
  return end == std::string_view::npos ? std::string() : quotation(error.substr(start + 1, end - start - 1));
}

// "NOPERM this user has no permissions to run the 'del' command", "NOPERM No permissions to access a key", "ERR The
// user executing the script can't run this command or subcommand", "… can't access at least one of the keys mentioned";
// Redis 8: "ERR ACL failure in script: User lk has no permissions to run the 'hset' command script: …".
std::optional<std::string> forbidden(std::string_view error) {
  if (!error.starts_with("NOPERM") && !contains(error, "The user executing the script can't") &&
      !contains(error, "ACL failure in script")) {
    return std::nullopt;
  }
  constexpr std::string_view opening = "the '";
  if (const std::size_t start = error.find(opening); start != std::string_view::npos) {
    const std::string_view rest = error.substr(start + opening.size());
    if (const std::size_t end = rest.find("' command"); end != std::string_view::npos) {
      return upper(quotation(rest.substr(0, end)));
    }
    if (const std::size_t end = rest.find("' key"); end != std::string_view::npos) {
      return "the key " + quotation(rest.substr(0, end));
    }
    if (const std::size_t end = rest.find("' channel"); end != std::string_view::npos) {
      return "the channel " + quotation(rest.substr(0, end));
    }
  }
  if (contains(error, "channel")) {
    return "the channels that lk uses";
  }
  return contains(error, "key") ? "the keys that lk uses" : "a command of lk's scripts";
}

std::optional<StoreError> password_trouble(std::string_view error, const Address& address) {
  const auto refused = [&](std::string_view predicate) {
    return StoreError{Trouble::refused, fmt::format("{} {}", address.server(), predicate)};
  };
  if (error.starts_with("ERR Client sent AUTH, but no password is set") ||
      contains(error, "called without any password configured")) {
    return refused("has no password set, but one was given: take it out of the URL and LK_REDIS_PASSWORD");
  }
  if (error.starts_with("ERR wrong number of arguments for 'auth'")) {
    return refused("knows no users, only a password (Redis before 6.0): leave the user out of the URL");
  }
  if (error.starts_with("WRONGPASS") || error.starts_with("ERR invalid password") || error.starts_with("ERR AUTH")) {
    if (address.user && !address.password) {
      return refused(
          "wants a password for that user (WRONGPASS): set LK_REDIS_PASSWORD; a password without a user is written "
          "redis://:PASSWORD@host");
    }
    return refused(address.user ? "refused this user and password (WRONGPASS)" : "refused the password (WRONGPASS)");
  }
  // The second is for a script that is longer than what is read of a stranger (Redis 6.2 and later).
  if (error.starts_with("ERR operation not permitted") || error.starts_with("ERR Protocol error: unauthenticated")) {
    return refused("wants a password: set LK_REDIS_PASSWORD, or name a password_file in the settings");
  }
  return std::nullopt;
}

}  // namespace

std::string quotation(std::string_view words) {
  std::size_t characters = 0;
  std::size_t length = 0;
  while (length < words.size() && characters < most_characters) {
    char32_t code_point = 0;
    length += std::max<std::size_t>(core::decode_utf8(words.substr(length), code_point), 1);
    ++characters;
  }
  return core::escaped(words.substr(0, length)) + (length < words.size() ? "…" : "");
}

StoreError translate(std::string_view error, const Address& address) {
  error = unwrapped(error);
  const std::string server = address.server();
  const std::string_view word = error.substr(0, error.find(' '));
  const auto cause = std::find_if(causes.begin(), causes.end(), [&](const Cause& known) { return known.word == word; });
  if (cause != causes.end()) {
    return {cause->what, fmt::format("{} {}", server, cause->predicate)};
  }
  if (auto trouble = password_trouble(error, address)) {
    return *std::move(trouble);
  }
  if (const auto what = forbidden(error)) {
    return {Trouble::refused,
            fmt::format("{} does not let this user use {} (NOPERM): its ACL must allow it", server, *what)};
  }
  if (word == "DENIED") {
    return {Trouble::refused,
            fmt::format("{} turned us away ({}): give it a password, or reach it by its own machine's loopback address",
                        server,
                        quotation(error.substr(0, error.find(". "))))};
  }
  if (error.starts_with("ERR max number of clients")) {
    return {Trouble::unreachable,
            fmt::format("{} has as many clients as it takes (max number of clients): end some, or raise its maxclients",
                        server)};
  }
  if (contains(error, "SELECT is not allowed in cluster mode")) {
    return {Trouble::misconfigured,
            fmt::format("{} is a node of a Redis Cluster, which has no other db than 0: leave the db out of the URL",
                        server)};
  }
  if (contains(error, "DB index is out of range") || error.starts_with("ERR invalid DB index")) {
    return {Trouble::misconfigured, fmt::format("{} has no db {} (by default there are 0 to 15)", server, address.db)};
  }
  if (error.starts_with("ERR unknown command")) {
    const std::string name = unknown_command(error);
    return {Trouble::refused,
            fmt::format("{} does not offer {}, which lk needs", server, name.empty() ? "a command" : name)};
  }
  return {Trouble::unreachable, fmt::format("{} answered with an error: {}", server, quotation(error))};
}

bool is_wrong_type(std::string_view error) { return unwrapped(error).starts_with("WRONGTYPE "); }

StoreError wrong_type(std::string_view name, std::string_view type, std::string_view lock, const Address& address) {
  return {Trouble::corrupt,
          fmt::format("{} has data of another type ({}) where lk keeps its own for the lock {}: delete the key {}",
                      address.server(),
                      quotation(type),
                      core::escaped(lock),
                      core::escaped(name))};
}

bool turns_away(std::string_view error) {
  return error.starts_with("DENIED") || error.starts_with("ERR max number of clients");
}

StoreError cannot_connect(int error, const Address& address) {
  const std::string server = address.server();
  switch (error) {
    case ECONNREFUSED:
      return {Trouble::unreachable, fmt::format("nothing listens at {} (connection refused)", server)};
    case ENOENT:
    case ENOTDIR:
      return {Trouble::unreachable, fmt::format("there is no socket at {}", server)};
    case EACCES:
      return {Trouble::refused, fmt::format("no permission to connect to {}", server)};
    case EPROTOTYPE:
      return {Trouble::misconfigured, fmt::format("the socket at {} is none that Redis listens at", server)};
    default:
      return {os::is_shortage(error) ? Trouble::exhausted : Trouble::unreachable,
              fmt::format("cannot connect to {}: {}", server, std::strerror(error))};
  }
}

StoreError cannot_find(int error, const Address& address) {
  const char* const why = error != 0 ? std::strerror(error) : "the name is not known, or no name server answers";
  return {os::is_shortage(error) ? Trouble::exhausted : Trouble::unreachable,
          fmt::format(
              "cannot find the address of the host {} for {}: {}", core::escaped(address.host), address.server(), why)};
}

StoreError interrupted(const Address& address) {
  return {Trouble::interrupted, fmt::format("interrupted while waiting for {}", address.server())};
}

}  // namespace stores::redis
