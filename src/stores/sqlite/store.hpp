// The embedded store: locks as rows of one SQLite file, for all processes of one machine.
#pragma once

#include <memory>

#include "core/clock.hpp"
#include "core/store.hpp"
#include "core/store_url.hpp"

namespace stores::sqlite {

// `url.rest()` is the path of the file. Nothing is touched yet: the first verb that writes creates the file where it is
// missing; to every other verb a missing file is an empty store.
core::Result<std::unique_ptr<core::Store>> open(const core::StoreUrl& url, const core::StoreOptions& options,
                                                const core::Clock& clock);

}  // namespace stores::sqlite
