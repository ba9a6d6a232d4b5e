// THE list of stores: which scheme of a store URL is opened by whom.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "core/clock.hpp"
#include "core/store.hpp"
#include "core/store_url.hpp"

namespace stores {

struct StoreKind {
  std::string_view scheme;
  std::string_view example;  // a good URL, for messages and --help
  core::Result<std::unique_ptr<core::Store>> (*open)(const core::StoreUrl&, const core::StoreOptions&,
                                                     const core::Clock&);
};

const std::vector<StoreKind>& kinds();

// Opens the store (and creates it where that needs nothing but a file). `clock` outlives the store.
core::Result<std::unique_ptr<core::Store>> open(const core::StoreUrl& url, const core::StoreOptions& options,
                                                const core::Clock& clock);

}  // namespace stores
