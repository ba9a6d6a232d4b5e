// From the settings to an open store.
#pragma once

#include <memory>

#include "cli/settings.hpp"
#include "core/store.hpp"
#include "core/store_url.hpp"

namespace cli {

// The store that was asked for, or this user's default. Paths are absolute. Throws Ending.
core::StoreUrl store_url(const Settings& settings);

// What a store is opened with; the password of LK_REDIS_PASSWORD or the settings file among it.
core::StoreOptions store_options(const Settings& settings, bool durable, const core::Limits* limits);

// `clock` and `limits` outlive the store. Throws Ending; a bad address names where it came from.
std::unique_ptr<core::Store> open_store(const Settings& settings, const core::StoreUrl& url, bool durable,
                                        const core::Limits* limits, const core::Clock& clock);

// Overwrites the password of a --store in main's own words, so that other users do not read it in ps.
void blank_passwords(int argc, char** argv);

}  // namespace cli
