// The one list.
#include "stores/registry.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "core/text.hpp"
#include "stores/redis/store.hpp"
#include "stores/sqlite/store.hpp"

namespace stores {

const std::vector<StoreKind>& kinds() {
  static const std::vector<StoreKind> all{
      {"sqlite", "sqlite:/var/lib/lk/locks.db", &sqlite::open},
      {"redis", "redis://host:6379/0", &redis::open},
      {"rediss", "rediss://host:6380/0", &redis::open},
      {"redis+unix", "redis+unix:///run/redis/redis.sock", &redis::open},
  };
  return all;
}

core::Result<std::unique_ptr<core::Store>> open(const core::StoreUrl& url, const core::StoreOptions& options,
                                                const core::Clock& clock) {
  const auto& all = kinds();
  const auto kind = std::ranges::find(all, url.scheme(), &StoreKind::scheme);
  if (kind != all.end()) {
    return kind->open(url, options, clock);
  }
  std::string examples;
  for (const StoreKind& known : all) {
    examples += fmt::format("{}{}", examples.empty() ? "" : " or ", known.example);
  }
  return tl::unexpected(
      core::StoreError{core::Trouble::misconfigured,
                       fmt::format("no store is called {}:, try {}", core::escaped(url.scheme()), examples)});
}

}  // namespace stores
