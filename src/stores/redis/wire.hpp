// Commands to a Redis server and its replies, each verb within its deadline, on a connection made where need be.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/store.hpp"
#include "stores/redis/address.hpp"
#include "stores/redis/connection.hpp"
#include "stores/redis/deadline.hpp"
#include "stores/redis/resp.hpp"

namespace stores::redis {

class Wire {
public:
  // `limits` outlives it (nullptr: the defaults). Connects nothing yet.
  Wire(Address address, const core::Limits* limits);

  const Address& address() const noexcept { return m_address; }

  // Begins a verb: its deadline is one op_timeout from now, whatever it takes: name look-up, connecting, TLS, AUTH,
  // SELECT, commands.
  void begin() noexcept;
  // Goes on with the verb that the other one is in, within its deadline.
  void join(const Wire& other) noexcept { m_verb = other.m_verb; }

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
  // The same in two steps, so that the server works while the last reply is read: replies come in the order of the
  // commands. Trouble in any of them loses all that are under way.
  core::Result<void> ask(const std::vector<std::string_view>& words);
  core::Result<Reply> answer();

  // For a subscriber: what the server has sent by itself, if anything is there, without waiting. Ask until there is
  // nothing: several messages can have come at once, also together with the reply to SUBSCRIBE. A connection that is
  // gone is trouble. A subscriber makes no second call: that would lose messages, or silently the subscription.
  core::Result<std::optional<Reply>> read_push();
  int fd() const noexcept { return m_connection.fd(); }  // -1: not connected
  bool is_connected() const noexcept { return m_connection.is_open(); }
  void disconnect() noexcept;

private:
  using Step = Connection::Step;

  core::Result<void> connect();
  core::Result<void> introduce();
  bool is_fit_for_use();
  core::Result<void> submit(const std::vector<std::string_view>& words);
  core::Result<void> send(std::string_view bytes);
  core::Result<Reply> receive();
  // Nothing: what the connection must become for more to arrive is in `blocked`.
  core::Result<std::optional<Reply>> take_arrived(Step& blocked);
  // The next reply that has arrived whole.
  core::Result<std::optional<Reply>> take_whole();
  // What it could read is in the reader; `done`: more may be there.
  core::Result<Step> read_more();
  core::Result<void> wait(Step blocked);

  // Of a connection that came to nothing, whatever was under way on it.
  tl::unexpected<core::StoreError> lose(core::StoreError error) const;
  core::StoreError peer_closed() const;
  core::StoreError nonsense() const;

  Address m_address;
  const core::Limits* m_limits;
  std::optional<TimeLimit> m_verb;

  Connection m_connection;
  ReplyReader m_reader;
  bool m_answered = false;  // this connection has carried a whole reply
  std::string m_first_bytes;

  // Whole commands that are out and not answered: they may be carried out. A part of one never is.
  std::size_t m_unanswered = 0;
};

}  // namespace stores::redis
