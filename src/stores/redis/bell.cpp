// SUBSCRIBE, and what comes after it.
#include "stores/redis/bell.hpp"

#include <utility>

#include "stores/redis/errors.hpp"

namespace stores::redis {

namespace {

class Subscription : public core::Watch {
public:
  explicit Subscription(std::shared_ptr<Bell> bell) : m_bell(std::move(bell)) {}

  int fd() const noexcept override { return m_bell->fd(); }
  void drain() noexcept override { m_bell->drain(); }

private:
  std::shared_ptr<Bell> m_bell;
};

}  // namespace

void Bell::drain() noexcept {
  while (m_wire.is_connected()) {
    const auto push = m_wire.read_push();
    if (!push || !*push) {
      return;  // trouble has dropped the connection
    }
  }
}

core::Result<void> Bell::subscribe() {
  m_wire.begin();
  return ask_for_channel();
}

core::Result<void> Bell::subscribe_within(const Wire& verb) {
  m_wire.join(verb);
  return ask_for_channel();
}

core::Result<void> Bell::ask_for_channel() {
  const auto reply = m_wire.call({"SUBSCRIBE", m_channel});
  if (!reply) {
    return tl::unexpected(reply.error());
  }
  if (reply->kind == Reply::Kind::error) {
    m_wire.disconnect();
    return tl::unexpected(translate(reply->text, m_wire.address()));
  }
  return {};
}

std::unique_ptr<core::Watch> watch_over(std::shared_ptr<Bell> bell) {
  return std::make_unique<Subscription>(std::move(bell));
}

}  // namespace stores::redis
