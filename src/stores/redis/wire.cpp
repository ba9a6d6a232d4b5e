// Connecting, the handshake, and one command at a time.
#include "stores/redis/wire.hpp"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <new>
#include <type_traits>
#include <utility>

#include <fmt/format.h>
#include <hiredis/hiredis.h>

#include "core/clock.hpp"
#include "core/text.hpp"
#include "os/fd.hpp"
#include "stores/redis/deadline.hpp"
#include "stores/redis/errors.hpp"
#include "stores/redis/resolve.hpp"
#include "stores/redis/tls.hpp"

namespace stores::redis {

namespace {

using core::Instant;
using core::Millis;
using core::StoreError;
using core::Trouble;
using Transport = Address::Transport;

// More than any page of a scan or status of a line that lk asks for, and a bound for what a stranger's server can make
// us keep.
constexpr std::size_t longest_reply = std::size_t{64} * 1024 * 1024;
constexpr int deepest_reply = 8;

// --- Replies --------------------------------------------------------------------------------------------------------

// hiredis parses and calls back; the tree grows with what has arrived, never with what a length promises.
class ReplyReader {
public:
  ReplyReader() { reset(); }

  void reset() {
    m_reader.reset(::redisReaderCreateWithFunctions(&functions()));
    if (m_reader == nullptr) {
      throw std::bad_alloc();
    }
    m_reader->privdata = this;
    m_waiting_bytes = 0;
  }
  // False: no memory.
  bool feed(std::string_view bytes) {
    m_waiting_bytes += bytes.size();
    return ::redisReaderFeed(m_reader.get(), bytes.data(), bytes.size()) == REDIS_OK;
  }
  enum class Found { reply, incomplete, nonsense, too_long };
  Found next(Reply& reply) {
    void* done = nullptr;
    if (m_waiting_bytes == 0) {
      return Found::incomplete;
    }
    if (::redisReaderGetReply(m_reader.get(), &done) != REDIS_OK) {
      return Found::nonsense;
    }
    if (done == nullptr) {
      return m_waiting_bytes > longest_reply ? Found::too_long : Found::incomplete;
    }
    // What hiredis knows and RESP2 has not (a double, a map) is none of ours.
    if (done != &m_root) {
      return Found::nonsense;
    }
    reply = std::exchange(m_root, Reply());
    m_waiting_bytes = m_reader->len - m_reader->pos;
    return Found::reply;
  }
  // Nothing has come that was not taken as a reply.
  bool empty() const noexcept { return m_waiting_bytes == 0; }
  const char* reason() const noexcept { return m_reader->errstr; }

private:
  struct Free {
    void operator()(redisReader* reader) const noexcept { ::redisReaderFree(reader); }
  };

  static Reply* add(const redisReadTask* task, Reply::Kind kind) noexcept {
    Reply* reply = &static_cast<ReplyReader*>(task->privdata)->m_root;
    if (task->parent != nullptr) {
      // The elements before this one are complete: nothing points to them any more, and they may move.
      reply = &static_cast<Reply*>(task->parent->obj)->elements.emplace_back();
    } else {
      *reply = Reply();
    }
    reply->kind = kind;
    return reply;
  }
  static void* add_text(const redisReadTask* task, char* text, std::size_t length) noexcept {
    const bool known =
        task->type == REDIS_REPLY_STATUS || task->type == REDIS_REPLY_ERROR || task->type == REDIS_REPLY_STRING;
    if (!known) {
      return nullptr;
    }
    Reply* const reply = add(task,
                             task->type == REDIS_REPLY_STATUS  ? Reply::Kind::status
                             : task->type == REDIS_REPLY_ERROR ? Reply::Kind::error
                                                               : Reply::Kind::bulk);
    reply->text.assign(text, length);
    return reply;
  }
  // hiredis 0.14 counts elements in an int, 1.0 in a size_t; and only 0.14 itself bounds the depth.
  template <class Count>
  static void* add_array(const redisReadTask* task, Count) noexcept {
    int depth = 0;
    for (const redisReadTask* outer = task->parent; outer != nullptr; outer = outer->parent) {
      ++depth;
    }
    return task->type == REDIS_REPLY_ARRAY && depth < deepest_reply ? add(task, Reply::Kind::array) : nullptr;
  }
  static void* add_integer(const redisReadTask* task, long long value) noexcept {
    Reply* const reply = add(task, Reply::Kind::integer);
    reply->integer = value;
    return reply;
  }
  static void* add_nil(const redisReadTask* task) noexcept { return add(task, Reply::Kind::nil); }

  static redisReplyObjectFunctions& functions() {
    // No freeObject: every object lies in m_root.
    static redisReplyObjectFunctions all = [] {
      redisReplyObjectFunctions made{};
      made.createString = &add_text;
      made.createArray = &add_array;
      made.createInteger = &add_integer;
      made.createNil = &add_nil;
      return made;
    }();
    return all;
  }

  std::unique_ptr<redisReader, Free> m_reader;
  Reply m_root;
  std::size_t m_waiting_bytes = 0;
};

void append_command(std::string& out, const std::vector<std::string_view>& words) {
  std::vector<const char*> texts;
  std::vector<std::size_t> lengths;
  for (const std::string_view word : words) {
    texts.push_back(word.data());
    lengths.push_back(word.size());
  }
  char* formatted = nullptr;
  const auto length =
      ::redisFormatCommandArgv(&formatted, static_cast<int>(words.size()), texts.data(), lengths.data());
  if (length < 0) {
    throw std::bad_alloc();
  }
  out.append(formatted, static_cast<std::size_t>(length));
  ::redisFreeCommand(formatted);
}

}  // namespace

// --- The connection -------------------------------------------------------------------------------------------------

struct Wire::State {
  using Outcome = core::Result<void>;

  Address address;
  const core::Limits* limits;
  const core::Limits usual_limits{};
  Instant verb_began{};
  Instant verb_ends{};
  bool in_verb = false;

  os::Fd socket;
  std::unique_ptr<Tls> tls;
  ReplyReader reader;
  bool answered = false;  // this connection has carried a whole reply
  std::string first_bytes;

  // A whole command is out and not answered: from then on it may be carried out. A part of one never is.
  bool command_sent = false;

  int interrupt_fd() const { return limits->interrupt_fd; }

  void begin() noexcept {
    verb_began = boot_now();
    verb_ends = verb_began + std::min(address.op_timeout.value_or(limits->op_timeout), limits->op_timeout);
    in_verb = true;
  }

  void disconnect() noexcept {
    if (tls) {
      tls->say_goodbye();
      tls.reset();
    }
    socket.reset();
    answered = false;
    command_sent = false;
    first_bytes.clear();
  }

  // --- trouble ------------------------------------------------------------------------------------------------------

  tl::unexpected<StoreError> fail(StoreError error) { return tl::unexpected(std::move(error)); }
  tl::unexpected<StoreError> fail(Trouble what, std::string sentence) {
    return fail(StoreError{what, std::move(sentence)});
  }
  // Of a connection that came to nothing, whatever was under way on it.
  tl::unexpected<StoreError> lose(Trouble what, std::string sentence) {
    return fail(StoreError{what, std::move(sentence), command_sent});
  }
  tl::unexpected<StoreError> interrupted() {
    return lose(Trouble::interrupted, fmt::format("interrupted while waiting for {}", address.server()));
  }
  static std::string span(Instant from, Instant to) { return core::to_text(std::chrono::round<Millis>(to - from)); }

  tl::unexpected<StoreError> no_answer() {
    return lose(Trouble::timed_out,
                fmt::format("{} did not answer within {}", address.server(), span(verb_began, verb_ends)));
  }

  tl::unexpected<StoreError> peer_closed() {
    if (answered) {
      return lose(Trouble::unreachable, fmt::format("{} closed the connection before it answered", address.server()));
    }
    std::string_view hint;
    if (address.transport == Transport::tcp) {
      hint = ": if it expects TLS, use rediss://";
    } else if (address.transport == Transport::tls && address.cert.empty()) {
      hint = ": it may want a client certificate (cert and key in the URL)";
    }
    return lose(Trouble::unreachable,
                fmt::format("{} closed the connection before its first answer{}", address.server(), hint));
  }

  tl::unexpected<StoreError> nonsense() {
    const std::string server = address.server();
    if (answered) {
      return lose(Trouble::unreachable,
                  fmt::format("{} broke the Redis protocol: {}", server, quotation(reader.reason())));
    }
    // A TLS alert (RFC 8446, 5.1): a record of type 21, version 3.x.
    if (first_bytes.substr(0, 2) == "\x15\x03") {
      return fail(Trouble::misconfigured, fmt::format("{} expects TLS: use rediss://", server));
    }
    return fail(Trouble::misconfigured,
                fmt::format("{} is no Redis server: it answered \"{}\"",
                            server,
                            quotation(std::string_view(first_bytes).substr(0, 40))));
  }

  // --- bytes --------------------------------------------------------------------------------------------------------

  using Step = Tls::Step;
  using Transfer = Tls::Transfer;

  Transfer read_some(char* into, std::size_t size) {
    if (tls) {
      return tls->read(into, size);
    }
    while (true) {
      const ssize_t got = ::recv(socket.get(), into, size, 0);
      if (got > 0) {
        return {Step::done, static_cast<std::size_t>(got)};
      }
      if (got < 0 && errno == EINTR) {
        continue;
      }
      return {got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK) ? Step::wants_read : Step::closed};
    }
  }

  Transfer write_some(const char* from, std::size_t size) {
    if (tls) {
      return tls->write(from, size);
    }
    while (true) {
      const ssize_t sent = ::send(socket.get(), from, size, MSG_NOSIGNAL);
      if (sent >= 0) {
        return {Step::done, static_cast<std::size_t>(sent)};
      }
      if (errno == EINTR) {
        continue;
      }
      return {errno == EAGAIN || errno == EWOULDBLOCK ? Step::wants_write : Step::closed};
    }
  }

  Outcome wait(Step step, Instant until) {
    const short events = step == Step::wants_read ? POLLIN : POLLOUT;
    switch (wait_for(socket.get(), events, until, interrupt_fd())) {
      case Ready::yes:
        return {};
      case Ready::interrupted:
        return interrupted();
      case Ready::late:
        break;
    }
    return no_answer();
  }

  // False: there is nothing to read now.
  core::Result<bool> read_into_reader(Transfer& transfer) {
    std::array<char, 16384> buffer;
    transfer = read_some(buffer.data(), buffer.size());
    switch (transfer.step) {
      case Step::closed:
        return peer_closed();
      case Step::failed: {
        StoreError error = tls->failure();
        error.maybe_done = command_sent && error.transient();
        return fail(std::move(error));
      }
      case Step::wants_read:
      case Step::wants_write:
        return false;
      case Step::done:
        break;
    }
    const std::string_view bytes(buffer.data(), transfer.bytes);
    if (!answered && first_bytes.size() < 64) {
      first_bytes.append(bytes.substr(0, 64));
    }
    if (!reader.feed(bytes)) {
      throw std::bad_alloc();
    }
    return true;
  }

  // --- connecting ---------------------------------------------------------------------------------------------------

  struct Failure {
    int error = 0;  // errno
    bool is_interrupted = false;
  };

  // ETIMEDOUT where `until` comes first.
  Failure connect_to(const sockaddr* place, socklen_t size, Instant until) {
    socket.reset(::socket(place->sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
    if (!socket) {
      return {errno};
    }
    if (place->sa_family != AF_UNIX) {
      // A dead peer of an idle connection (a subscriber's) is noticed after a minute.
      const auto set = [&](int level, int option, int value) {
        ::setsockopt(socket.get(), level, option, &value, sizeof value);
      };
      set(IPPROTO_TCP, TCP_NODELAY, 1);
      set(SOL_SOCKET, SO_KEEPALIVE, 1);
      set(IPPROTO_TCP, TCP_KEEPIDLE, 30);
      set(IPPROTO_TCP, TCP_KEEPINTVL, 10);
      set(IPPROTO_TCP, TCP_KEEPCNT, 3);
    }
    while (::connect(socket.get(), place, size) != 0) {
      if (errno == EAGAIN) {
        // Only a unix socket: its queue of connections is full, and no event tells when it has room (unix(7)).
        const Instant look_again = std::min(boot_now() + Millis(5), until);
        if (wait_for(-1, 0, look_again, interrupt_fd()) == Ready::interrupted) {
          return {EINTR, true};
        }
        if (boot_now() >= until) {
          return {ETIMEDOUT};
        }
        continue;
      }
      if (errno != EINPROGRESS && errno != EINTR) {
        return {errno};
      }
      switch (wait_for(socket.get(), POLLOUT, until, interrupt_fd())) {
        case Ready::late:
          return {ETIMEDOUT};
        case Ready::interrupted:
          return {EINTR, true};
        case Ready::yes:
          break;
      }
      int error = 0;
      socklen_t length = sizeof error;
      if (::getsockopt(socket.get(), SOL_SOCKET, SO_ERROR, &error, &length) != 0 || error != 0) {
        return {error != 0 ? error : errno};
      }
      break;
    }
    return {is_connected_to_itself() ? ECONNREFUSED : 0};
  }

  // Where nobody listens at a port of the range for clients, the kernel may choose that very port for our own end, and
  // TCP then joins the two: we would read our own commands as replies.
  bool is_connected_to_itself() const {
    sockaddr_storage here{};
    sockaddr_storage there{};
    socklen_t here_size = sizeof here;
    socklen_t there_size = sizeof there;
    return address.transport != Transport::unix_socket &&
           ::getsockname(socket.get(), reinterpret_cast<sockaddr*>(&here), &here_size) == 0 &&
           ::getpeername(socket.get(), reinterpret_cast<sockaddr*>(&there), &there_size) == 0 &&
           here_size == there_size && std::memcmp(&here, &there, here_size) == 0;
  }

  tl::unexpected<StoreError> connecting_failed(const Failure& failure, Instant until) {
    if (failure.is_interrupted) {
      return interrupted();
    }
    if (failure.error == ETIMEDOUT && boot_now() >= until) {
      return fail(Trouble::timed_out,
                  fmt::format("cannot connect to {}: no answer within {}", address.server(), span(verb_began, until)));
    }
    return fail(cannot_connect(failure.error, address));
  }

  Outcome connect_to_socket(Instant until) {
    sockaddr_un place{};
    place.sun_family = AF_UNIX;
    std::memcpy(place.sun_path, address.path.c_str(), address.path.size() + 1);
    const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + address.path.size() + 1);
    const Failure failure = connect_to(reinterpret_cast<const sockaddr*>(&place), size, until);
    return failure.error != 0 ? connecting_failed(failure, until) : Outcome();
  }

  Outcome connect_to_host(Instant until) {
    const auto endpoints = resolve(address, until, interrupt_fd());
    if (!endpoints) {
      switch (endpoints.error().why) {
        case LookupFailure::Why::interrupted:
          return interrupted();
        case LookupFailure::Why::late:
          return fail(
              Trouble::timed_out,
              fmt::format("cannot find the address of the host {} for {}: no answer from the name service within {}",
                          core::escaped(address.host),
                          address.server(),
                          span(verb_began, until)));
        case LookupFailure::Why::unknown:
        case LookupFailure::Why::system:
          break;
      }
      return fail(cannot_find(endpoints.error().error, address));
    }
    Failure telling;
    for (std::size_t i = 0; i < endpoints->size(); ++i) {
      const Endpoint& endpoint = (*endpoints)[i];
      // A dead address leaves the others their share of the time.
      const Instant now = boot_now();
      const Instant share = now + (until - now) / static_cast<int>(endpoints->size() - i);
      const Failure failure = connect_to(&endpoint.address.any, endpoint.size, share);
      if (failure.error == 0) {
        return {};
      }
      if (failure.is_interrupted) {
        return interrupted();
      }
      // Of several reasons the one that comes from a machine that is there: IPv6 often has no route at all.
      const bool dull = telling.error == 0 || telling.error == ENETUNREACH || telling.error == EADDRNOTAVAIL ||
                        telling.error == EAFNOSUPPORT;
      if (dull || failure.error == ECONNREFUSED) {
        telling = failure;
      }
    }
    return connecting_failed(telling, until);
  }

  Outcome start_tls(Instant until) {
    auto opened = Tls::open(address, socket.get());
    if (!opened) {
      return fail(std::move(opened.error()));
    }
    tls = *std::move(opened);
    bool first = true;
    while (true) {
      const Tls::Step step = tls->shake_hands();
      switch (step) {
        case Tls::Step::done:
          return {};
        case Tls::Step::failed:
          return fail(tls->failure());
        case Tls::Step::closed:
          return fail(Trouble::unreachable,
                      fmt::format("{} closed the connection during the TLS handshake{}",
                                  address.server(),
                                  first ? ": if it speaks no TLS, use redis://" : ""));
        case Tls::Step::wants_read:
        case Tls::Step::wants_write:
          break;
      }
      switch (wait_for(socket.get(), step == Tls::Step::wants_read ? POLLIN : POLLOUT, until, interrupt_fd())) {
        case Ready::interrupted:
          return interrupted();
        case Ready::late:
          return fail(Trouble::timed_out,
                      fmt::format("{} did not answer the TLS handshake within {}: if it speaks no TLS, use redis://",
                                  address.server(),
                                  span(verb_began, until)));
        case Ready::yes:
          break;
      }
      if (first && step == Tls::Step::wants_read) {
        first = false;
        // Redis takes a TLS greeting for a command and answers in plain text.
        char byte = 0;
        if (::recv(socket.get(), &byte, 1, MSG_PEEK) == 1 && byte == '-') {
          return fail(Trouble::misconfigured, fmt::format("{} does not speak TLS: use redis://", address.server()));
        }
      }
    }
  }

  Outcome connect() {
    disconnect();
    reader.reset();
    const Instant until = std::min(verb_ends, boot_now() + address.connect_timeout);
    auto connected = address.transport == Transport::unix_socket ? connect_to_socket(until) : connect_to_host(until);
    if (connected && address.transport == Transport::tls) {
      connected = start_tls(until);
    }
    return connected ? introduce() : connected;
  }

  // AUTH and SELECT go out together and are both answered before the first command does: that must not run as the
  // default user or in another db.
  Outcome introduce() {
    std::string greeting;
    std::size_t awaited = 0;
    if (address.user || address.password) {
      std::vector<std::string_view> words{"AUTH"};
      if (address.user) {
        words.emplace_back(*address.user);
      }
      // A user without any password may be one that needs none.
      words.emplace_back(address.password ? std::string_view(*address.password) : std::string_view());
      append_command(greeting, words);
      ++awaited;
    }
    const std::string db = std::to_string(address.db);
    if (address.db != 0) {
      append_command(greeting, {"SELECT", db});
      ++awaited;
    }
    if (auto sent = send(greeting); !sent) {
      return sent;
    }
    for (; awaited > 0; --awaited) {
      const auto reply = receive();
      if (!reply) {
        return fail(reply.error());
      }
      if (reply->kind == Reply::Kind::error) {
        return fail(translate(reply->text, address));
      }
      if (reply->kind != Reply::Kind::status) {
        return fail(Trouble::misconfigured,
                    fmt::format("{} is no Redis server: it answered AUTH or SELECT with data", address.server()));
      }
    }
    return {};
  }

  // --- commands -----------------------------------------------------------------------------------------------------

  // Not so where the server has ended the connection since the last reply, or has sent what nobody asked for: better
  // found now than when a command is on its way.
  bool is_fit_for_use() {
    char byte = 0;
    return reader.empty() && read_some(&byte, 1).step == Step::wants_read;
  }

  Outcome send(std::string_view bytes) {
    while (!bytes.empty()) {
      const Transfer transfer = write_some(bytes.data(), bytes.size());
      if (transfer.step == Step::done) {
        bytes.remove_prefix(transfer.bytes);
      } else if (transfer.step == Step::closed || transfer.step == Step::failed) {
        // A server that turned us away has said why before it closed; that is still there to be read.
        auto reply = receive();
        if (!reply) {
          return fail(std::move(reply.error()));
        }
        return reply->kind == Reply::Kind::error ? fail(translate(reply->text, address)) : peer_closed();
      } else if (auto waited = wait(transfer.step, verb_ends); !waited) {
        return waited;
      }
    }
    return {};
  }

  core::Result<Reply> receive() {
    while (true) {
      auto reply = take_reply();
      if (!reply) {
        return fail(std::move(reply.error()));
      }
      if (*reply) {
        return **std::move(reply);
      }
      Transfer transfer{Step::done};
      const auto came = read_into_reader(transfer);
      if (!came) {
        return fail(came.error());
      }
      if (!*came) {
        if (auto waited = wait(transfer.step, verb_ends); !waited) {
          return fail(std::move(waited.error()));
        }
      }
    }
  }

  // The next reply that has arrived whole.
  core::Result<std::optional<Reply>> take_reply() {
    Reply reply;
    switch (reader.next(reply)) {
      case ReplyReader::Found::incomplete:
        return std::nullopt;
      case ReplyReader::Found::nonsense:
        return nonsense();
      case ReplyReader::Found::too_long:
        return lose(Trouble::unreachable,
                    fmt::format("{} sent a reply of more than {} bytes", address.server(), longest_reply));
      case ReplyReader::Found::reply:
        break;
    }
    if (!answered && reply.kind == Reply::Kind::error && turns_away(reply.text)) {
      return fail(translate(reply.text, address));
    }
    answered = true;
    return reply;
  }

  core::Result<Reply> call(const std::vector<std::string_view>& words) {
    if (!in_verb) {
      begin();
    }
    if (!socket || !is_fit_for_use()) {
      if (auto connected = connect(); !connected) {
        return fail(std::move(connected.error()));
      }
    }
    std::string command;
    append_command(command, words);
    if (auto sent = send(command); !sent) {
      return fail(std::move(sent.error()));
    }
    command_sent = true;
    auto reply = receive();
    command_sent = false;
    return reply;
  }

  core::Result<std::optional<Reply>> read_push() {
    if (!socket) {
      return fail(Trouble::unreachable, fmt::format("not connected to {}", address.server()));
    }
    while (true) {
      auto reply = take_reply();
      if (!reply || *reply) {
        return reply;
      }
      Transfer transfer{Step::done};
      const auto came = read_into_reader(transfer);
      if (!came) {
        return fail(came.error());
      }
      if (!*came) {
        return std::nullopt;
      }
    }
  }
};

Wire::Wire(Address address, const core::Limits* limits) : m_state(std::make_unique<State>()) {
  m_state->address = std::move(address);
  m_state->limits = limits != nullptr ? limits : &m_state->usual_limits;
}

Wire::~Wire() { disconnect(); }

const Address& Wire::address() const noexcept { return m_state->address; }

void Wire::begin() noexcept { m_state->begin(); }

void Wire::join(const Wire& other) noexcept {
  m_state->verb_began = other.m_state->verb_began;
  m_state->verb_ends = other.m_state->verb_ends;
  m_state->in_verb = other.m_state->in_verb;
}

core::Result<Reply> Wire::call(const std::vector<std::string_view>& words) {
  auto reply = m_state->call(words);
  if (!reply) {
    disconnect();
  }
  return reply;
}

core::Result<std::optional<Reply>> Wire::read_push() {
  auto reply = m_state->read_push();
  if (!reply) {
    disconnect();
  }
  return reply;
}

int Wire::fd() const noexcept { return m_state->socket.get(); }

bool Wire::is_connected() const noexcept { return static_cast<bool>(m_state->socket); }

void Wire::disconnect() noexcept { m_state->disconnect(); }

}  // namespace stores::redis
