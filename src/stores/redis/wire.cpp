// The handshake, one command at a time, and what it means where no reply comes.
#include "stores/redis/wire.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <utility>

#include <fmt/format.h>

#include "stores/redis/errors.hpp"

namespace stores::redis {

namespace {

using core::StoreError;
using core::Trouble;
using Transport = Address::Transport;

const core::Limits usual_limits{};

// What tells a stranger from a Redis server.
constexpr std::size_t most_first_bytes = 64;

}  // namespace

Wire::Wire(Address address, const core::Limits* limits)
    : m_address(std::move(address)), m_limits(limits != nullptr ? limits : &usual_limits) {}

void Wire::begin() noexcept {
  const core::Instant now = boot_now();
  const core::Millis limit = m_limits->op_timeout;
  m_verb = TimeLimit{now, now + std::min(m_address.op_timeout.value_or(limit), limit)};
}

core::Result<Reply> Wire::call(const std::vector<std::string_view>& words) {
  if (auto asked = ask(words); !asked) {
    return tl::unexpected(std::move(asked.error()));
  }
  return answer();
}

core::Result<void> Wire::ask(const std::vector<std::string_view>& words) {
  auto submitted = submit(words);
  if (!submitted) {
    disconnect();
  }
  return submitted;
}

core::Result<Reply> Wire::answer() {
  auto reply = receive();
  if (reply) {
    --m_unanswered;
  } else {
    disconnect();
  }
  return reply;
}

core::Result<std::optional<Reply>> Wire::read_push() {
  if (!is_connected()) {
    return tl::unexpected(StoreError{Trouble::unreachable, fmt::format("not connected to {}", m_address.server())});
  }
  Step blocked{};
  auto push = take_arrived(blocked);
  if (!push) {
    disconnect();
  }
  return push;
}

void Wire::disconnect() noexcept {
  m_connection.close();
  m_answered = false;
  m_unanswered = 0;
  m_first_bytes.clear();
}

// --- connecting -----------------------------------------------------------------------------------------------------

core::Result<void> Wire::connect() {
  disconnect();
  m_reader.reset();
  const core::Instant until = std::min(m_verb->ends, boot_now() + m_address.connect_timeout);
  auto connected = m_connection.open(m_address, {m_verb->began, until}, m_limits->interrupt_fd);
  return connected ? introduce() : connected;
}

// AUTH and SELECT go out together and are both answered before the first command does: that must not run as the
// default user or in another db.
core::Result<void> Wire::introduce() {
  std::string greeting;
  std::size_t awaited = 0;
  if (m_address.user || m_address.password) {
    std::vector<std::string_view> words{"AUTH"};
    if (m_address.user) {
      words.emplace_back(*m_address.user);
    }
    // A user without any password may be one that needs none.
    words.emplace_back(m_address.password ? std::string_view(*m_address.password) : std::string_view());
    append_command(greeting, words);
    ++awaited;
  }
  if (m_address.db != 0) {
    append_command(greeting, {"SELECT", std::to_string(m_address.db)});
    ++awaited;
  }
  if (auto sent = send(greeting); !sent) {
    return sent;
  }
  for (; awaited > 0; --awaited) {
    const auto reply = receive();
    if (!reply) {
      return tl::unexpected(reply.error());
    }
    if (reply->kind == Reply::Kind::error) {
      return tl::unexpected(translate(reply->text, m_address));
    }
    if (reply->kind != Reply::Kind::status) {
      return tl::unexpected(
          StoreError{Trouble::misconfigured,
                     fmt::format("{} is no Redis server: it answered AUTH or SELECT with data", m_address.server())});
    }
  }
  return {};
}

// Not so where the server has ended the connection since the last reply, or has sent what nobody asked for: better
// found now than when a command is on its way.
bool Wire::is_fit_for_use() {
  char byte = 0;
  return m_reader.empty() && m_connection.read(&byte, 1).step == Step::wants_read;
}

// --- a command and its reply ----------------------------------------------------------------------------------------

core::Result<void> Wire::submit(const std::vector<std::string_view>& words) {
  if (!m_verb) {
    begin();
  }
  if (m_unanswered == 0 && (!is_connected() || !is_fit_for_use())) {
    if (auto connected = connect(); !connected) {
      return connected;
    }
  }
  std::string command;
  append_command(command, words);
  if (auto sent = send(command); !sent) {
    return sent;
  }
  ++m_unanswered;
  if (m_limits->sent) {
    m_limits->sent();
  }
  return {};
}

core::Result<void> Wire::send(std::string_view bytes) {
  while (!bytes.empty()) {
    const auto [step, sent] = m_connection.write(bytes.data(), bytes.size());
    if (step == Step::done) {
      bytes.remove_prefix(sent);
    } else if (step == Step::closed || step == Step::failed) {
      // A server that turned us away has said why before it closed; that is still there to be read.
      auto reply = receive();
      if (!reply) {
        return tl::unexpected(std::move(reply.error()));
      }
      return reply->kind == Reply::Kind::error ? tl::unexpected(translate(reply->text, m_address))
                                               : lose(peer_closed());
    } else if (auto waited = wait(step); !waited) {
      return waited;
    }
  }
  return {};
}

core::Result<Reply> Wire::receive() {
  while (true) {
    Step blocked{};
    auto reply = take_arrived(blocked);
    if (!reply) {
      return tl::unexpected(std::move(reply.error()));
    }
    if (*reply) {
      return **std::move(reply);
    }
    if (auto waited = wait(blocked); !waited) {
      return tl::unexpected(std::move(waited.error()));
    }
  }
}

core::Result<std::optional<Reply>> Wire::take_arrived(Step& blocked) {
  while (true) {
    auto reply = take_whole();
    if (!reply || *reply) {
      return reply;
    }
    const auto step = read_more();
    if (!step) {
      return tl::unexpected(step.error());
    }
    if (*step != Step::done) {
      blocked = *step;
      return std::nullopt;
    }
  }
}

core::Result<std::optional<Reply>> Wire::take_whole() {
  Reply reply;
  switch (m_reader.next(reply)) {
    case ReplyReader::Found::incomplete:
      return std::nullopt;
    case ReplyReader::Found::nonsense:
      return lose(nonsense());
    case ReplyReader::Found::too_long:
      return lose(
          {Trouble::unreachable,
           fmt::format("{} sent a reply of more than {} bytes", m_address.server(), ReplyReader::longest_reply)});
    case ReplyReader::Found::reply:
      break;
  }
  if (!m_answered && reply.kind == Reply::Kind::error && turns_away(reply.text)) {
    return tl::unexpected(translate(reply.text, m_address));
  }
  m_answered = true;
  return reply;
}

core::Result<Wire::Step> Wire::read_more() {
  std::array<char, 16384> buffer;
  const auto [step, size] = m_connection.read(buffer.data(), buffer.size());
  switch (step) {
    case Step::closed:
      return lose(peer_closed());
    case Step::failed:
      return lose(m_connection.failure());
    case Step::wants_read:
    case Step::wants_write:
      return step;
    case Step::done:
      break;
  }
  const std::string_view bytes(buffer.data(), size);
  if (!m_answered && m_first_bytes.size() < most_first_bytes) {
    m_first_bytes.append(bytes.substr(0, most_first_bytes));
  }
  m_reader.feed(bytes);
  return step;
}

core::Result<void> Wire::wait(Step blocked) {
  switch (m_connection.wait(blocked, m_verb->ends, m_limits->interrupt_fd)) {
    case Ready::yes:
      return {};
    case Ready::interrupted:
      return lose(interrupted(m_address));
    case Ready::late:
      break;
  }
  return lose({Trouble::timed_out, fmt::format("{} did not answer within {}", m_address.server(), m_verb->text())});
}

// --- trouble --------------------------------------------------------------------------------------------------------

tl::unexpected<StoreError> Wire::lose(StoreError error) const {
  error.maybe_done = m_unanswered > 0 && error.transient();
  return tl::unexpected(std::move(error));
}

StoreError Wire::peer_closed() const {
  if (m_answered) {
    return {Trouble::unreachable, fmt::format("{} closed the connection before it answered", m_address.server())};
  }
  std::string_view hint;
  if (m_address.transport == Transport::tcp) {
    hint = ": if it expects TLS, use rediss://";
  } else if (m_address.transport == Transport::tls && m_address.cert.empty()) {
    hint = ": it may want a client certificate (cert and key in the URL)";
  }
  return {Trouble::unreachable,
          fmt::format("{} closed the connection before its first answer{}", m_address.server(), hint)};
}

StoreError Wire::nonsense() const {
  const std::string server = m_address.server();
  if (m_answered) {
    return {Trouble::unreachable, fmt::format("{} broke the Redis protocol: {}", server, quotation(m_reader.reason()))};
  }
  // A TLS alert (RFC 8446, 5.1): a record of type 21, version 3.x.
  if (m_first_bytes.starts_with("\x15\x03")) {
    return {Trouble::misconfigured, fmt::format("{} expects TLS: use rediss://", server)};
  }
  return {Trouble::misconfigured,
          fmt::format("{} is no Redis server: it answered \"{}\"",
                      server,
                      quotation(std::string_view(m_first_bytes).substr(0, 40)))};
}

}  // namespace stores::redis
