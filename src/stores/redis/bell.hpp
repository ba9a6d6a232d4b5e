// The bell of one claim: a subscription to its channel, on a connection of its own.
#pragma once

#include <memory>
#include <string>
#include <utility>

#include "core/store.hpp"
#include "stores/redis/address.hpp"
#include "stores/redis/wire.hpp"

namespace stores::redis {

class Bell {
public:
  // `limits` outlives it (nullptr: the defaults).
  Bell(Address address, const core::Limits* limits, std::string channel)
      : m_wire(std::move(address), limits), m_channel(std::move(channel)) {}

  const std::string& channel() const noexcept { return m_channel; }
  // Not before it has subscribed, and no more once its connection broke.
  bool is_heard() const noexcept { return m_wire.is_connected(); }
  int fd() const noexcept { return m_wire.fd(); }
  void drain() noexcept;

  // A verb of its own.
  core::Result<void> subscribe();
  // Within the verb that the other connection is in.
  core::Result<void> subscribe_within(const Wire& verb);

private:
  core::Result<void> ask_for_channel();

  Wire m_wire;
  std::string m_channel;
};

// Once the bell's connection breaks it does not ring; who has the bell too may subscribe again.
std::unique_ptr<core::Watch> watch_over(std::shared_ptr<Bell> bell);

}  // namespace stores::redis
