// One connection to a Redis server: a non-blocking socket with a deadline on everything, TLS on the same socket, RESP2
// by hiredis.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/store.hpp"
#include "stores/redis/address.hpp"

namespace stores::redis {

struct Reply {
  enum class Kind { status, error, integer, bulk, nil, array };
  Kind kind = Kind::nil;
  std::string text;  // of status, error, bulk
  std::int64_t integer = 0;
  std::vector<Reply> elements;
};

class Wire {
public:
  // `limits` outlives it (nullptr: the defaults). Connects nothing yet.
  Wire(Address address, const core::Limits* limits);
  ~Wire();
  Wire(const Wire&) = delete;
  Wire& operator=(const Wire&) = delete;

  const Address& address() const noexcept;

  // Begins a verb: its deadline is one op_timeout from now, whatever it takes: name look-up, connecting, TLS, AUTH,
  // SELECT, commands.
  void begin() noexcept;
  // Goes on with the verb that the other one is in, within its deadline.
  void join(const Wire& other) noexcept;

  // One command, one reply. Connects first where need be, also where the server has closed the connection since the
  // last reply; nothing but the handshake (AUTH, SELECT) is sent before that has been answered. A reply of kind error
  // is an answer, not trouble.
  //
  // Trouble says (`maybe_done`) whether the command may have been carried out: it was sent whole, and no reply came
  // because the time ran out or the connection broke. All other trouble means that it was not sent, or that who got it
  // was no Redis that took it.
  //
  // After any trouble the connection is dropped, so that a late reply can never be taken for the answer to another
  // command; the next call connects anew, and finds the server's address anew.
  core::Result<Reply> call(const std::vector<std::string_view>& words);

  // For a subscriber: what the server has sent by itself, if anything is there, without waiting. Ask until there is
  // nothing: several messages can have come at once, also together with the reply to SUBSCRIBE. A connection that is
  // gone is trouble. A subscriber makes no second call: that would lose messages, or silently the subscription.
  core::Result<std::optional<Reply>> read_push();
  int fd() const noexcept;  // -1: not connected
  bool is_connected() const noexcept;
  void disconnect() noexcept;

private:
  struct State;
  std::unique_ptr<State> m_state;
};

}  // namespace stores::redis
