// A waiter's bell: a named FIFO beside the database that a release writes one byte into.
#pragma once

#include <sys/types.h>

#include <memory>
#include <string>
#include <utility>

#include "core/store.hpp"

namespace stores::sqlite {

// All bells of one database file, in the folder `PATH-bells`. A path works for every process that shares the folder,
// across containers too.
class Bells {
public:
  // Every process comes to the same folder, whichever link it takes to the file; so it must be there at the first use.
  explicit Bells(std::string database_path) : m_database_path(std::move(database_path)) {}

  // Creates the FIFO and listens; it is removed again with the watch. A drain that finds a ring sets `rung`.
  core::Result<std::unique_ptr<core::Watch>> hang(core::AskId ask, mode_t mode, std::shared_ptr<bool> rung) const;

  enum class Ring { heard, nobody_listens };
  // `heard` also where it cannot be known: no permission, a full pipe. Never blocks.
  Ring ring(core::AskId ask) const noexcept;

  // Whether somebody can still ring it.
  bool hangs(core::AskId ask) const noexcept;
  // After its waiter is known to be gone.
  void take_down(core::AskId ask) const noexcept;
  // After a reboot nobody listens to any of them.
  void take_down_all() const noexcept;

private:
  const std::string& folder() const;
  std::string path(core::AskId ask) const;

  std::string m_database_path;
  mutable std::string m_folder;
};

}  // namespace stores::sqlite
