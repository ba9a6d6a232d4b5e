// The store for many machines: locks as keys of one Redis server.
#pragma once

#include <memory>

#include "core/clock.hpp"
#include "core/store.hpp"
#include "core/store_url.hpp"

namespace stores::redis {

// Checks the address; connects with the first verb. The server's clock is the only one that counts.
core::Result<std::unique_ptr<core::Store>> open(const core::StoreUrl& url, const core::StoreOptions& options,
                                                const core::Clock& clock);

}  // namespace stores::redis
