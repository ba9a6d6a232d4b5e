// Store addresses: the default one, absolute paths, passwords blanked in argv.
#include "cli/open_store.hpp"

#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

#include <fmt/format.h>

#include "cli/ending.hpp"
#include "cli/environment.hpp"
#include "os/account.hpp"
#include "stores/registry.hpp"

namespace cli {

namespace {

constexpr std::string_view sqlite = "sqlite";

std::string home() {
  if (const auto value = variable("HOME"); value && !value->empty()) {
    return *value;
  }
  auto account = os::local_account(::geteuid());
  if (!account || account->home.empty()) {
    throw configuration_error(fmt::format(
        "no place for the default store: HOME is not set and user {} has no home; give one with --store or LK_STORE",
        ::geteuid()));
  }
  return std::move(account->home);
}

std::string default_path() {
  if (::geteuid() == 0) {
    return "/var/lib/lk/locks.db";
  }
  // The base directory specification: a relative path is to be ignored.
  if (const auto state = variable("XDG_STATE_HOME"); state && !state->empty() && state->front() == '/') {
    return *state + "/lk/locks.db";
  }
  return home() + "/.local/state/lk/locks.db";
}

core::StoreUrl checked(std::string_view source, std::string_view text) {
  auto url = core::StoreUrl::parse(text);
  if (!url) {
    throw configuration_error(fmt::format("{} {}", source, url.error()));
  }
  return *std::move(url);
}

}  // namespace

core::StoreUrl store_url(const Settings& settings) {
  const std::string source = settings.store ? settings.store->source : "the default store";
  core::StoreUrl url = settings.store ? checked(source, settings.store->value)
                                      : checked(source, fmt::format("sqlite:{}", default_path()));
  if (url.scheme() != sqlite || url.rest().front() == '/') {
    return url;
  }
  std::error_code error;
  auto folder = std::filesystem::current_path(error);
  if (error) {
    throw configuration_error(
        fmt::format("{} is a relative path, and the working directory cannot be read: {}", source, error.message()));
  }
  // Only the dots at its start, so that all spell it alike: behind a symbolic link ".." would lead elsewhere.
  std::string_view path = url.rest();
  for (std::size_t slash = path.find('/'); slash != std::string_view::npos; slash = path.find('/')) {
    const std::string_view part = path.substr(0, slash);
    if (part == "..") {
      folder = folder.parent_path();
    } else if (!part.empty() && part != ".") {
      break;
    }
    path.remove_prefix(slash + 1);
  }
  return checked(source, fmt::format("sqlite:{}", (folder / path).string()));
}

core::StoreOptions store_options(const Settings& settings, bool durable, const core::Limits* limits) {
  core::StoreOptions options;
  options.durable = durable;
  options.limits = limits;
  if (settings.password) {
    options.password = settings.password->value;
  }
  if (settings.prefix) {
    options.prefix = settings.prefix->value;
  }
  return options;
}

std::unique_ptr<core::Store> open_store(const Settings& settings, const core::StoreUrl& url, bool durable,
                                        const core::Limits* limits, const core::Clock& clock) {
  auto store = stores::open(url, store_options(settings, durable, limits), clock);
  if (!store) {
    core::StoreError& error = store.error();
    if (error.what == core::Trouble::misconfigured && settings.store) {
      error.detail = fmt::format("{}: {}", settings.store->source, error.detail);
    }
    throw Ending(exit_code(error.what), std::move(error.detail));
  }
  return *std::move(store);
}

void blank_passwords(int argc, char** argv) {
  constexpr std::string_view option = "--store";
  for (int i = 1; i < argc && std::strcmp(argv[i], "--") != 0; ++i) {
    char* value = nullptr;
    if (argv[i] == option && i + 1 < argc) {
      value = argv[i + 1];
    } else if (std::string_view(argv[i]).substr(0, option.size() + 1) == "--store=") {
      value = argv[i] + option.size() + 1;
    }
    char* const authority = value == nullptr ? nullptr : std::strstr(value, "://");
    // The last '@' of all, because a password that was not percent-encoded may hold one.
    char* const at = authority == nullptr ? nullptr : std::strrchr(authority, '@');
    if (at == nullptr) {
      continue;
    }
    char* const user = authority + 3;
    char* const colon = std::strchr(user, ':');
    // A lone word before the '@' may be meant as the password.
    for (char* c = colon != nullptr && colon < at ? colon + 1 : user; c < at; ++c) {
      *c = '*';
    }
  }
}

}  // namespace cli
