// The connection to Redis against real servers, servers that misbehave by script, bad networks and bad certificates.
#include <dlfcn.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include <fmt/format.h>
#include <openssl/crypto.h>

#include "core/store_url.hpp"
#include "os/fd.hpp"
#include "stores/redis/deadline.hpp"
#include "stores/redis/errors.hpp"
#include "stores/redis/resolve.hpp"
#include "stores/redis/wire.hpp"
#include "support/catch.hpp"
#include "support/certificates.hpp"
#include "support/proxy.hpp"
#include "support/redis_server.hpp"
#include "support/run_lk.hpp"
#include "support/temp_folder.hpp"

using Catch::Matchers::ContainsSubstring;
using core::Limits;
using core::Millis;
using core::StoreError;
using core::Trouble;
using stores::redis::Address;
using stores::redis::Reply;
using stores::redis::Wire;
using support::Authority;
using support::Certificate;
using support::Proxy;
using support::RedisServer;
using support::wait_until;

// In place of the C library's: hosts under .test whose answers, and whose silence, are known.
extern "C" int getaddrinfo(const char* host, const char* service, const addrinfo* hints, addrinfo** found) {
  using Function = int (*)(const char*, const char*, const addrinfo*, addrinfo**);
  static const auto real = reinterpret_cast<Function>(::dlsym(RTLD_NEXT, "getaddrinfo"));
  const std::string_view name = host == nullptr ? "" : host;
  if (name == "hangs.test") {
    while (true) {
      ::pause();
    }
  }
  if (name == "unknown.test") {
    return EAI_NONAME;
  }
  if (name == "crashes.test") {
    ::_exit(3);
  }
  if (name == "two.test") {
    addrinfo* second = nullptr;
    const int code = real("127.0.0.2", service, hints, found);
    const int other = real("127.0.0.1", service, hints, &second);
    (*found)->ai_next = second;
    return code != 0 ? code : other;
  }
  return real(host, service, hints, found);
}

namespace {

using Clock = std::chrono::steady_clock;

// Who answers for the hosts under .test: a getent of ours, or the C library above where there is no getent.
class NameService {
public:
  enum class Kind { getent, c_library };

  explicit NameService(Kind kind) : m_path(std::getenv("PATH")) {
    if (kind == Kind::getent) {
      std::ofstream(m_folder.path() / "getent") << R"(#!/bin/sh
case "$1 $2" in
  "ahosts hangs.test") exec /bin/sleep 1000 ;;
  "ahosts crashes.test") kill -SEGV $$ ;;
  "ahosts two.test")
    echo "127.0.0.2       STREAM two.test"
    echo "127.0.0.2       DGRAM"
    echo "127.0.0.2       RAW"
    echo "127.0.0.1       STREAM"
    echo "127.0.0.1       DGRAM"
    ;;
  *) exit 2 ;;
esac
)";
      std::filesystem::permissions(m_folder.path() / "getent", std::filesystem::perms::owner_all);
    }
    ::setenv("PATH", m_folder.path().c_str(), 1);
  }
  ~NameService() { ::setenv("PATH", m_path.c_str(), 1); }
  NameService(const NameService&) = delete;
  NameService& operator=(const NameService&) = delete;

private:
  const std::string m_path;
  const support::TempFolder m_folder;
};

NameService::Kind either() { return GENERATE(NameService::Kind::getent, NameService::Kind::c_library); }

// A loaded machine may be this late; a missing deadline is not.
constexpr Millis slack{1500};

Address address_of(const std::string& url) {
  const auto parsed = core::StoreUrl::parse(url);
  REQUIRE(parsed);
  auto address = Address::parse(*parsed);
  INFO((address ? "" : address.error()));
  REQUIRE(address);
  return *address;
}

// One verb of one command.
core::Result<Reply> ask(Wire& wire, const std::vector<std::string_view>& words) {
  wire.begin();
  return wire.call(words);
}

Reply reply_of(Wire& wire, const std::vector<std::string_view>& words) {
  auto reply = ask(wire, words);
  INFO((reply ? "" : reply.error().detail));
  REQUIRE(reply);
  return *reply;
}

std::string text_of(Wire& wire, const std::vector<std::string_view>& words) { return reply_of(wire, words).text; }

StoreError trouble_of(Wire& wire, const std::vector<std::string_view>& words = {"PING"}) {
  auto reply = ask(wire, words);
  REQUIRE_FALSE(reply);
  CHECK_FALSE(wire.is_connected());
  CHECK(wire.fd() == -1);
  CHECK_FALSE(reply.error().detail.empty());
  return reply.error();
}

StoreError trouble_at(const std::string& url, const std::vector<std::string_view>& words = {"PING"}) {
  CAPTURE(url);
  Wire wire(address_of(url), nullptr);
  return trouble_of(wire, words);
}

// How a server is reached. A generator runs its test anew, with a new server: only what does not depend on one may be
// generated.
enum class Over { unix_socket, tcp, localhost };

std::string url_of(const RedisServer& server, Over over, const std::string& db = "") {
  switch (over) {
    case Over::unix_socket:
      return server.socket_url() + (db.empty() ? "" : "?db=" + db);
    case Over::tcp:
      return server.tcp_url() + "/" + db;
    case Over::localhost:
      break;
  }
  return server.tcp_url("localhost") + "/" + db;
}

bool answers_at(const std::string& url) {
  Wire wire(address_of(url), nullptr);
  const auto reply = ask(wire, {"PING"});
  UNSCOPED_INFO(url << ": " << (reply ? reply->text : reply.error().detail));
  return reply && reply->text == "PONG";
}

class Stopwatch {
public:
  Millis elapsed() const { return std::chrono::duration_cast<Millis>(Clock::now() - m_start); }

private:
  Clock::time_point m_start = Clock::now();
};

// A TCP socket that listens at a loopback address, and takes nobody by itself.
class Listener {
public:
  explicit Listener(in_addr_t host = INADDR_LOOPBACK, int port = 0, int backlog = 16)
      : m_socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in place{};
    place.sin_family = AF_INET;
    place.sin_addr.s_addr = htonl(host);
    place.sin_port = htons(static_cast<in_port_t>(port));
    socklen_t size = sizeof place;
    auto* const any = reinterpret_cast<sockaddr*>(&place);
    if (::bind(m_socket.get(), any, size) != 0 || ::listen(m_socket.get(), backlog) != 0 ||
        ::getsockname(m_socket.get(), any, &size) != 0) {
      throw std::system_error(errno, std::generic_category(), "listen");
    }
    m_place = place;
  }
  int fd() const { return m_socket.get(); }
  int port() const { return ntohs(m_place.sin_port); }
  std::string url(const std::string& scheme = "redis") const {
    return fmt::format("{}://127.0.0.1:{}", scheme, port());
  }

  // With a backlog of 0: no further connection gets an answer.
  void fill() {
    for (int i = 0; i < 4; ++i) {
      os::Fd socket(::socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
      (void)::connect(socket.get(), reinterpret_cast<const sockaddr*>(&m_place), sizeof m_place);
      m_fill.push_back(std::move(socket));
    }
    // The first is taken by the kernel; the last must not be.
    pollfd last{m_fill.back().get(), POLLOUT, 0};
    REQUIRE(::poll(&last, 1, 300) == 0);
  }

private:
  os::Fd m_socket;
  sockaddr_in m_place{};
  std::vector<os::Fd> m_fill;
};

void say(int fd, std::string_view text) {
  while (!text.empty()) {
    const ssize_t sent = ::send(fd, text.data(), text.size(), MSG_NOSIGNAL);
    if (sent <= 0) {
      return;
    }
    text.remove_prefix(static_cast<std::size_t>(sent));
  }
}

// Reads until that has come; false where the peer leaves first.
bool hear(int fd, std::string_view text) {
  std::string heard;
  std::array<char, 4096> buffer;
  while (heard.find(text) == std::string::npos) {
    const ssize_t got = ::read(fd, buffer.data(), buffer.size());
    if (got <= 0) {
      return false;
    }
    heard.append(buffer.data(), static_cast<std::size_t>(got));
  }
  return true;
}

void hear_all(int fd) { hear(fd, "no client says this"); }

constexpr std::string_view ping = "*1\r\n$4\r\nPING\r\n";

// A process that does with each connection what its script says, then closes it.
class ScriptedServer {
public:
  explicit ScriptedServer(const std::function<void(int)>& script) {
    const pid_t parent = ::getpid();
    m_pid = ::fork();
    if (m_pid == 0) {
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);
      while (::getppid() == parent) {
        const os::Fd peer(::accept4(m_listener.fd(), nullptr, nullptr, SOCK_CLOEXEC));
        script(peer.get());
      }
      ::_exit(0);
    }
  }
  ~ScriptedServer() {
    ::kill(m_pid, SIGKILL);
    ::waitpid(m_pid, nullptr, 0);
  }
  ScriptedServer(const ScriptedServer&) = delete;
  ScriptedServer& operator=(const ScriptedServer&) = delete;

  std::string url(const std::string& scheme = "redis") const { return m_listener.url(scheme); }
  std::string url_with(const std::string& user_info, const std::string& rest = "") const {
    return fmt::format("redis://{}@127.0.0.1:{}{}", user_info, m_listener.port(), rest);
  }

private:
  Listener m_listener;
  pid_t m_pid;
};

// OpenSSL writes without MSG_NOSIGNAL; lk ignores the signal for its whole life.
class NoPipeSignal {
public:
  NoPipeSignal() : m_before(::signal(SIGPIPE, SIG_IGN)) {}
  ~NoPipeSignal() { ::signal(SIGPIPE, m_before); }
  NoPipeSignal(const NoPipeSignal&) = delete;
  NoPipeSignal& operator=(const NoPipeSignal&) = delete;

private:
  void (*m_before)(int);
};

// A descriptor that asks for control.
class Bell {
public:
  int fd() const { return m_fd.get(); }
  void ring() const { ::eventfd_write(m_fd.get(), 1); }
  void still() const {
    eventfd_t value = 0;
    ::eventfd_read(m_fd.get(), &value);
  }

private:
  os::Fd m_fd{::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};
};

std::string children_of_this() { return support::content_of(fmt::format("/proc/{0}/task/{0}/children", ::getpid())); }

}  // namespace

// --- Commands and replies -------------------------------------------------------------------------------------------

TEST_CASE("redis wire: commands and replies of every kind, over unix socket and TCP") {
  const RedisServer server({.tcp = true});
  const std::string url = url_of(server, GENERATE(Over::unix_socket, Over::tcp, Over::localhost));
  CAPTURE(url);
  Wire wire(address_of(url), nullptr);
  CHECK_FALSE(wire.is_connected());

  const Reply pong = reply_of(wire, {"PING"});
  CHECK(pong.kind == Reply::Kind::status);
  CHECK(pong.text == "PONG");
  CHECK(wire.is_connected());

  const std::string bytes("a\0\r\n$-1\r\n\xff", 10);
  const Reply echo = reply_of(wire, {"ECHO", bytes});
  CHECK(echo.kind == Reply::Kind::bulk);
  CHECK(echo.text == bytes);
  CHECK(text_of(wire, {"ECHO", ""}).empty());

  CHECK(reply_of(wire, {"GET", "nothing"}).kind == Reply::Kind::nil);
  const Reply number = reply_of(wire, {"DECRBY", "n", "9007199254740993"});
  CHECK(number.kind == Reply::Kind::integer);
  CHECK(number.integer == -9007199254740993);

  const Reply error = reply_of(wire, {"LPUSH", "n", "x"});
  CHECK(error.kind == Reply::Kind::error);
  CHECK_THAT(error.text, Catch::Matchers::StartsWith("WRONGTYPE"));

  const Reply nested =
      reply_of(wire, {"EVAL", "return {1, {'a', {}, {false, 'b'}}, {ok='fine'}, {err='BAD thing'}, ''}", "0"});
  REQUIRE(nested.kind == Reply::Kind::array);
  REQUIRE(nested.elements.size() == 5);
  CHECK(nested.elements[0].integer == 1);
  REQUIRE(nested.elements[1].elements.size() == 3);
  CHECK(nested.elements[1].elements[0].text == "a");
  CHECK(nested.elements[1].elements[1].kind == Reply::Kind::array);
  CHECK(nested.elements[1].elements[1].elements.empty());
  REQUIRE(nested.elements[1].elements[2].elements.size() == 2);
  CHECK(nested.elements[1].elements[2].elements[0].kind == Reply::Kind::nil);
  CHECK(nested.elements[1].elements[2].elements[1].text == "b");
  CHECK(nested.elements[2].kind == Reply::Kind::status);
  CHECK(nested.elements[3].kind == Reply::Kind::error);
  CHECK(nested.elements[3].text == "BAD thing");
  CHECK(nested.elements[4].kind == Reply::Kind::bulk);
}

TEST_CASE("redis wire: commands and replies larger than any buffer") {
  const RedisServer server({.tcp = true});
  const std::string url = url_of(server, GENERATE(Over::unix_socket, Over::tcp));
  Wire wire(address_of(url), nullptr);
  std::string large;
  for (int i = 0; i < 5'000'000; ++i) {
    large += static_cast<char>(i * 7);
  }
  CHECK(text_of(wire, {"ECHO", large}) == large);
  const Reply many =
      reply_of(wire, {"EVAL", "local t = {} for i = 1, 7000 do t[i] = {i, 'element ' .. i} end return t", "0"});
  REQUIRE(many.elements.size() == 7000);
  CHECK(many.elements[6999].elements[1].text == "element 7000");
}

TEST_CASE("redis wire: a reply that comes byte by byte is put together") {
  const ScriptedServer server([](int peer) {
    if (hear(peer, ping)) {
      for (const char c : std::string_view("*3\r\n$3\r\nabc\r\n:-7\r\n*1\r\n$-1\r\n")) {
        say(peer, {&c, 1});
        ::usleep(1000);
      }
      hear_all(peer);
    }
  });
  Wire wire(address_of(server.url()), nullptr);
  const Reply reply = reply_of(wire, {"PING"});
  REQUIRE(reply.elements.size() == 3);
  CHECK(reply.elements[0].text == "abc");
  CHECK(reply.elements[1].integer == -7);
  CHECK(reply.elements[2].elements.at(0).kind == Reply::Kind::nil);
}

TEST_CASE("redis wire: a reply without measure is trouble, not a crash") {
  const std::string reply = GENERATE(as<std::string>{},
                                     "*2000000000\r\n:1\r\n",  // promises what it never sends
                                     "*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n:1\r\n",
                                     "$-7\r\n",
                                     "*-7\r\n",
                                     ":12345678901234567890123\r\n",
                                     "$3\r\nabcdef\r\n",
                                     "%1\r\n+a\r\n+b\r\n",
                                     ",1.5\r\n",
                                     "#t\r\n");
  const ScriptedServer server([&](int peer) {
    if (hear(peer, ping)) {
      say(peer, "+PONG\r\n");
      hear(peer, ping);
      say(peer, reply);
    }
  });
  CAPTURE(reply);
  Wire wire(address_of(server.url()), nullptr);
  CHECK(text_of(wire, {"PING"}) == "PONG");
  // "abcdef" is a reply of three bytes and a mess behind it, which must not be taken for the next reply.
  if (reply.substr(0, 2) == "$3") {
    const auto first = ask(wire, {"PING"});
    if (first) {
      CHECK(first->text == "abc");
      CHECK(text_of(wire, {"PING"}) == "PONG");
    }
    return;
  }
  const StoreError error = trouble_of(wire);
  CHECK(error.what == Trouble::unreachable);
  CHECK(error.maybe_done);
}

TEST_CASE("redis wire: an endless reply ends in trouble") {
  const ScriptedServer server([](int peer) {
    hear(peer, ping);
    say(peer, "*2\r\n:1\r\n$500000000\r\n");
    const std::string piece(1'000'000, 'x');
    for (int i = 0; i < 100; ++i) {
      say(peer, piece);
    }
    hear_all(peer);
  });
  const StoreError error = trouble_at(server.url() + "?op_timeout=20s");
  CHECK_THAT(error.detail, ContainsSubstring("more than"));
}

// --- Users, passwords, databases ------------------------------------------------------------------------------------

TEST_CASE("redis wire: a password that is missing or wrong is refused, and never shown") {  // R15
  const RedisServer server({.tcp = true, .arguments = {"--requirepass", "s3cret"}});
  const std::string port = std::to_string(server.port());

  CHECK(answers_at("redis://:s3cret@127.0.0.1:" + port));
  CHECK(answers_at("redis://default:s3cret@127.0.0.1:" + port));

  for (const std::string_view user_info : {":hunter2@", "default:hunter2@", "nobody:s3cret@", "hunter2@"}) {
    CAPTURE(user_info);
    const StoreError error = trouble_at(fmt::format("redis://{}127.0.0.1:{}", user_info, port));
    CHECK(error.what == Trouble::refused);
    CHECK_THAT(error.detail, ContainsSubstring("WRONGPASS"));
    CHECK(error.detail.find("hunter2") == std::string::npos);
    CHECK(error.detail.find("s3cret") == std::string::npos);
  }

  // Without one it is the command that is refused: an answer, which `translate` understands.
  Wire without(address_of(server.tcp_url()), nullptr);
  const Reply reply = reply_of(without, {"GET", "k"});
  CHECK(reply.kind == Reply::Kind::error);
  CHECK(stores::redis::translate(reply.text, without.address()).what == Trouble::refused);
}

TEST_CASE("redis wire: a password for a server that has none is refused") {
  const RedisServer server({.tcp = true});
  const StoreError error = trouble_at(fmt::format("redis://:hunter2@127.0.0.1:{}", server.port()));
  CHECK(error.what == Trouble::refused);
  CHECK_THAT(error.detail, ContainsSubstring("no password set"));
  CHECK(error.detail.find("hunter2") == std::string::npos);
}

TEST_CASE("redis wire: a user of the ACL, also one without a password") {
  const RedisServer server({.tcp = true});
  server.cli({"ACL", "SETUSER", "deploy", "on", ">p@ss:w/rd", "~*", "+@all"});
  server.cli({"ACL", "SETUSER", "open", "on", "nopass", "~*", "+@all"});
  Wire deploy(address_of(fmt::format("redis://deploy:p%40ss%3Aw%2Frd@127.0.0.1:{}", server.port())), nullptr);
  CHECK(text_of(deploy, {"ACL", "WHOAMI"}) == "deploy");
  Wire open(address_of(fmt::format("redis://open@127.0.0.1:{}", server.port())), nullptr);
  CHECK(text_of(open, {"ACL", "WHOAMI"}) == "open");
}

TEST_CASE("redis wire: nothing but AUTH, SELECT and the command is ever sent") {  // R20
  const RedisServer server(
      {.tcp = true,
       .arguments = {
           "--rename-command", "HELLO", "", "--rename-command", "CLIENT", "", "--rename-command", "INFO", ""}});
  Wire wire(address_of(server.tcp_url() + "/3"), nullptr);
  CHECK(text_of(wire, {"PING"}) == "PONG");
}

TEST_CASE("redis wire: no command leaves before AUTH and SELECT are answered") {
  constexpr std::string_view greeting = "*3\r\n$4\r\nAUTH\r\n$1\r\nu\r\n$1\r\np\r\n*2\r\n$6\r\nSELECT\r\n$1\r\n3\r\n";
  const ScriptedServer server([&](int peer) {
    std::string heard(greeting.size(), '\0');
    if (::recv(peer, heard.data(), heard.size(), MSG_WAITALL) != static_cast<ssize_t>(heard.size()) ||
        heard != greeting) {
      return;
    }
    const auto is_quiet = [&] {
      pollfd more{peer, POLLIN, 0};
      return ::poll(&more, 1, 100) == 0;
    };
    const bool before = is_quiet();
    say(peer, "+OK\r\n");
    const bool between = is_quiet();
    say(peer, "+OK\r\n");
    hear(peer, ping);
    say(peer, before && between ? "+in order\r\n" : "+too early\r\n");
    hear_all(peer);
  });
  Wire wire(address_of(server.url_with("u:p", "/3")), nullptr);
  CHECK(text_of(wire, {"PING"}) == "in order");
}

TEST_CASE("redis wire: a refused AUTH or SELECT ends the connection before any command") {
  const std::string answer =
      GENERATE(as<std::string>{}, "-WRONGPASS no\r\n+OK\r\n", "+OK\r\n-ERR DB index is out of range\r\n");
  const ScriptedServer server([&](int peer) {
    hear(peer, "SELECT\r\n$1\r\n3\r\n");
    say(peer, answer);
    // A command that comes nevertheless gets its reply, which the test would see.
    if (hear(peer, "PING")) {
      say(peer, "+PONG\r\n");
    }
  });
  Wire wire(address_of(server.url_with("u:p", "/3")), nullptr);
  const StoreError error = trouble_of(wire);
  CHECK((error.what == Trouble::refused || error.what == Trouble::misconfigured));
}

TEST_CASE("redis wire: a db that the server has not is an error before anything is written") {  // R25
  const RedisServer server({.tcp = true});
  const StoreError error = trouble_at(server.tcp_url() + "/16", {"SET", "k", "v"});
  CHECK(error.what == Trouble::misconfigured);
  CHECK_THAT(error.detail, ContainsSubstring("no db 16"));
  CHECK(server.cli({"DBSIZE"}) == "0");
}

TEST_CASE("redis wire: the db is selected again on every connection") {  // R30
  const RedisServer server({.tcp = true});
  const std::string url = url_of(server, GENERATE(Over::unix_socket, Over::tcp), "3");
  Wire wire(address_of(url), nullptr);
  CHECK(text_of(wire, {"SET", "a", "1"}) == "OK");
  REQUIRE(server.cli({"CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"}) == "1");
  CHECK(text_of(wire, {"SET", "b", "1"}) == "OK");
  CHECK(server.cli({"-n", "3", "DBSIZE"}) == "2");
  CHECK(server.cli({"DBSIZE"}) == "0");
}

TEST_CASE("redis wire: a cluster node has no db but 0") {  // R25
  const RedisServer server({.tcp = true, .arguments = {"--cluster-enabled", "yes"}});
  const StoreError error = trouble_at(server.tcp_url() + "/1");
  CHECK(error.what == Trouble::misconfigured);
  CHECK_THAT(error.detail, ContainsSubstring("Redis Cluster"));
}

// --- What real servers refuse ---------------------------------------------------------------------------------------

TEST_CASE("redis wire: what a real server says is understood") {
  const RedisServer server({.tcp = true, .arguments = {"--rename-command", "EVALSHA", "", "--save", "3600 1"}});
  Wire wire(address_of(server.tcp_url()), nullptr);
  const auto trouble = [&](const std::vector<std::string_view>& words) {
    const Reply reply = reply_of(wire, words);
    CAPTURE(reply.text);
    REQUIRE(reply.kind == Reply::Kind::error);
    return stores::redis::translate(reply.text, wire.address());
  };
  constexpr std::string_view set = "return redis.call('SET', KEYS[1], 'v', 'PX', 1000)";
  const std::vector<std::string_view> script{"EVAL", set, "1", "k"};

  SECTION("no EVALSHA") {
    const StoreError error = trouble({"EVALSHA", "71fa", "0"});
    CHECK(error.what == Trouble::refused);
    CHECK_THAT(error.detail, ContainsSubstring("EVALSHA"));
  }
  SECTION("a read-only replica") {  // R11
    server.cli({"REPLICAOF", "127.0.0.1", "1"});
    const StoreError error = trouble(script);
    CHECK(error.what == Trouble::unreachable);
    CHECK_THAT(error.detail, ContainsSubstring("READONLY"));
    server.cli({"CONFIG", "SET", "replica-serve-stale-data", "no"});
    CHECK_THAT(trouble({"GET", "k"}).detail, ContainsSubstring("MASTERDOWN"));
  }
  SECTION("no memory") {  // R13
    server.cli({"CONFIG", "SET", "maxmemory", "1"});
    const StoreError error = trouble(script);
    CHECK(error.what == Trouble::full);
    CHECK_THAT(error.detail, ContainsSubstring("OOM"));
  }
  SECTION("too few replicas") {  // R47
    server.cli({"CONFIG", "SET", "min-replicas-to-write", "1"});
    const StoreError error = trouble(script);
    CHECK(error.what == Trouble::unreachable);
    CHECK_THAT(error.detail, ContainsSubstring("NOREPLICAS"));
  }
  SECTION("a disk that takes nothing") {  // R46
    std::filesystem::create_directory(server.folder() + "/dump.rdb");
    server.cli({"BGSAVE"});
    REQUIRE(wait_until([&] {
      return server.cli({"INFO", "persistence"}).find("rdb_last_bgsave_status:err") != std::string::npos;
    }));
    const StoreError error = trouble(script);
    CHECK(error.what == Trouble::unreachable);
    CHECK_THAT(error.detail, ContainsSubstring("MISCONF"));
  }
  SECTION("a script that does not end") {
    server.cli({"CONFIG", "SET", "busy-reply-threshold", "1"});
    Limits limits;
    limits.op_timeout = Millis(1);
    Wire other(address_of(server.tcp_url()), &limits);
    other.begin();
    (void)other.call({"EVAL", "while true do end", "0"});
    std::optional<StoreError> error;
    REQUIRE(wait_until([&] {
      const Reply reply = reply_of(wire, {"GET", "k"});
      if (reply.kind == Reply::Kind::error) {
        error = stores::redis::translate(reply.text, wire.address());
      }
      return error.has_value();
    }));
    CHECK(error->what == Trouble::unreachable);
    CHECK_THAT(error->detail, ContainsSubstring("BUSY"));
  }
  SECTION("rights that are missing") {  // R18, R19
    server.cli({"ACL", "SETUSER", "default", "-set"});
    const StoreError inside = trouble(script);
    CHECK(inside.what == Trouble::refused);
    CHECK_THAT(inside.detail, ContainsSubstring("NOPERM"));
    server.cli({"ACL", "SETUSER", "default", "-eval"});
    const StoreError outside = trouble(script);
    CHECK(outside.what == Trouble::refused);
    CHECK_THAT(outside.detail, ContainsSubstring("EVAL (NOPERM)"));
    server.cli({"ACL", "SETUSER", "default", "resetkeys", "~other:*"});
    const StoreError key = trouble({"GET", "k"});
    CHECK(key.what == Trouble::refused);
    CHECK_THAT(key.detail, ContainsSubstring("the keys"));
  }
}

TEST_CASE("redis wire: a cluster that serves no slots") {  // R23
  const RedisServer server({.arguments = {"--cluster-enabled", "yes", "--port", std::to_string(support::free_port())}});
  Wire wire(address_of(server.socket_url()), nullptr);
  const Reply reply = reply_of(wire, {"GET", "k"});
  CHECK_THAT(stores::redis::translate(reply.text, wire.address()).detail, ContainsSubstring("CLUSTERDOWN"));
}

TEST_CASE("redis wire: a server that takes no more clients says so") {  // R44
  const RedisServer server({.tcp = true, .arguments = {"--maxclients", "1"}});
  Wire first(address_of(server.tcp_url()), nullptr);
  REQUIRE(wait_until([&] {
    const auto reply = ask(first, {"PING"});  // until the server has noticed that the start's own question is over
    return reply && reply->text == "PONG";
  }));
  const std::string url = url_of(server, GENERATE(Over::unix_socket, Over::tcp));
  const StoreError error = trouble_at(url);
  CHECK(error.what == Trouble::unreachable);
  CHECK_THAT(error.detail, ContainsSubstring("max number of clients"));
  CHECK(text_of(first, {"PING"}) == "PONG");
}

TEST_CASE("redis wire: protected mode turns strangers away with its reason") {  // R21
  const ScriptedServer scripted([](int peer) {
    say(peer,
        "-DENIED Redis is running in protected mode because protected mode is enabled. In this mode connections are "
        "only …\r\n");
  });
  for (const std::string& url : {scripted.url(), scripted.url_with(":pw", "/2")}) {
    const StoreError error = trouble_at(url);
    CHECK(error.what == Trouble::refused);
    CHECK_THAT(error.detail, ContainsSubstring("DENIED Redis is running in protected mode"));
  }
}

TEST_CASE("redis wire: a real server in protected mode") {  // R21
  std::string host;
  ifaddrs* all = nullptr;
  REQUIRE(::getifaddrs(&all) == 0);
  for (const ifaddrs* one = all; one != nullptr; one = one->ifa_next) {
    if (one->ifa_addr != nullptr && one->ifa_addr->sa_family == AF_INET) {
      sockaddr_in place{};
      std::memcpy(&place, one->ifa_addr, sizeof place);
      if ((ntohl(place.sin_addr.s_addr) >> 24) != 127) {
        std::array<char, 64> text{};
        ::getnameinfo(one->ifa_addr, sizeof place, text.data(), text.size(), nullptr, 0, NI_NUMERICHOST);
        host = text.data();
      }
    }
  }
  ::freeifaddrs(all);
  if (host.empty()) {
    WARN("this machine has no address but the loopback's");
    return;
  }
  const RedisServer server({.tcp = true, .arguments = {"--bind", "0.0.0.0", "--protected-mode", "yes"}});
  const StoreError error = trouble_at(server.tcp_url(host));
  CHECK(error.what == Trouble::refused);
  CHECK_THAT(error.detail, ContainsSubstring("DENIED Redis is running in protected mode"));
}

// --- Deadlines ------------------------------------------------------------------------------------------------------

TEST_CASE("redis wire: a server that hangs costs one op_timeout, and its late reply is never taken") {  // R33
  RedisServer server({.tcp = true});
  const std::string url = url_of(server, GENERATE(Over::unix_socket, Over::tcp));
  const bool connected = GENERATE(true, false);
  CAPTURE(url, connected);
  Limits limits;
  limits.op_timeout = Millis(300);
  Wire wire(address_of(url), &limits);
  if (connected) {
    CHECK(text_of(wire, {"PING"}) == "PONG");
  }
  server.suspend();
  const Stopwatch watch;
  const StoreError error = trouble_of(wire, {"ECHO", "late"});
  CHECK(watch.elapsed() >= Millis(290));
  CHECK(watch.elapsed() < Millis(300) + slack);
  CHECK(error.what == Trouble::timed_out);
  CHECK(error.maybe_done);
  CHECK_THAT(error.detail, ContainsSubstring("did not answer within 300ms"));
  server.resume();
  limits.op_timeout = Millis(10'000);
  CHECK(text_of(wire, {"ECHO", "own"}) == "own");
}

TEST_CASE("redis wire: a network that swallows everything costs one op_timeout") {  // R34
  const RedisServer server;
  Proxy proxy(server.socket());
  Limits limits;
  Wire wire(address_of(proxy.url()), &limits);
  CHECK(text_of(wire, {"PING"}) == "PONG");
  proxy.stall();
  limits.op_timeout = Millis(200);
  const Stopwatch watch;
  const StoreError first = trouble_of(wire, {"SET", "k", "v"});
  CHECK(first.what == Trouble::timed_out);
  CHECK(first.maybe_done);
  CHECK(trouble_of(wire, {"SET", "k", "v"}).what == Trouble::timed_out);
  CHECK(watch.elapsed() >= Millis(390));
  CHECK(watch.elapsed() < Millis(400) + slack);
  proxy.pass();
  limits.op_timeout = Millis(10'000);
  CHECK(text_of(wire, {"ECHO", "own"}) == "own");
}

TEST_CASE("redis wire: slow replies are waited for as long as the limit allows") {
  const RedisServer server;
  Proxy proxy(server.socket());
  proxy.delay_replies(Millis(150));
  Limits limits;
  limits.op_timeout = Millis(10'000);
  Wire wire(address_of(proxy.url()), &limits);
  const Stopwatch watch;
  CHECK(text_of(wire, {"PING"}) == "PONG");
  CHECK(watch.elapsed() >= Millis(150));
  limits.op_timeout = Millis(50);
  CHECK(trouble_of(wire).what == Trouble::timed_out);
}

TEST_CASE("redis wire: the deadline is the verb's, however many commands and bytes it takes") {
  const ScriptedServer server([](int peer) {
    for (int i = 0; hear(peer, "PING") && i < 3; ++i) {
      ::usleep(100'000);
      say(peer, "+PONG\r\n");
    }
    while (true) {
      say(peer, "*1\r\n");
      ::usleep(20'000);
    }
  });
  Limits limits;
  limits.op_timeout = Millis(250);
  Wire wire(address_of(server.url()), &limits);
  const Stopwatch watch;
  wire.begin();
  CHECK(wire.call({"PING"}));
  CHECK(wire.call({"PING"}));
  const auto third = wire.call({"PING"});
  REQUIRE_FALSE(third);
  CHECK(third.error().what == Trouble::timed_out);
  CHECK(third.error().maybe_done);
  CHECK(watch.elapsed() >= Millis(240));
  CHECK(watch.elapsed() < Millis(250) + slack);
}

TEST_CASE("redis wire: the shorter of the URL's op_timeout and the limits' counts") {
  const Listener silent;
  Limits limits;
  limits.op_timeout = Millis(GENERATE(100, 20'000));
  Wire wire(address_of(silent.url() + (limits.op_timeout == Millis(100) ? "?op_timeout=20s" : "?op_timeout=100ms")),
            &limits);
  const Stopwatch watch;
  CHECK(trouble_of(wire).what == Trouble::timed_out);
  CHECK(watch.elapsed() < Millis(100) + slack);
}

TEST_CASE("redis wire: a handshake without an answer asked for nothing") {
  const Listener silent;
  const StoreError error = trouble_at(fmt::format("redis://:pw@127.0.0.1:{}?op_timeout=100ms", silent.port()));
  CHECK(error.what == Trouble::timed_out);
  CHECK_FALSE(error.maybe_done);
  CHECK_THAT(error.detail, ContainsSubstring("did not answer within 100ms"));
}

TEST_CASE("redis wire: a host that does not answer a connection costs one connect_timeout") {
  Listener full(INADDR_LOOPBACK, 0, 0);
  full.fill();
  const Stopwatch watch;
  const StoreError error = trouble_at(full.url() + "?connect_timeout=200ms");
  CHECK(watch.elapsed() >= Millis(190));
  CHECK(watch.elapsed() < Millis(200) + slack);
  CHECK(error.what == Trouble::timed_out);
  CHECK_FALSE(error.maybe_done);
  CHECK_THAT(error.detail, ContainsSubstring("no answer within 200ms"));
}

TEST_CASE("redis wire: connecting takes no longer than the verb may") {
  Listener full(INADDR_LOOPBACK, 0, 0);
  full.fill();
  Limits limits;
  limits.op_timeout = Millis(150);
  Wire wire(address_of(full.url()), &limits);
  const Stopwatch watch;
  CHECK(trouble_of(wire).what == Trouble::timed_out);
  CHECK(watch.elapsed() < Millis(150) + slack);
}

TEST_CASE("redis wire: a full queue at a unix socket is waited out") {
  const support::TempFolder folder;
  const std::string path = folder.path().string() + "/full.sock";
  sockaddr_un place{};
  place.sun_family = AF_UNIX;
  path.copy(place.sun_path, sizeof place.sun_path - 1);
  const os::Fd listener(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  REQUIRE(::bind(listener.get(), reinterpret_cast<const sockaddr*>(&place), sizeof place) == 0);
  REQUIRE(::listen(listener.get(), 0) == 0);
  const os::Fd first(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  REQUIRE(::connect(first.get(), reinterpret_cast<const sockaddr*>(&place), sizeof place) == 0);

  const std::string url = "redis+unix://" + path;
  const Stopwatch watch;
  const StoreError error = trouble_at(url + "?connect_timeout=100ms");
  CHECK(error.what == Trouble::timed_out);
  CHECK_FALSE(error.maybe_done);
  CHECK_THAT(error.detail, ContainsSubstring("no answer within 100ms"));
  CHECK(watch.elapsed() >= Millis(90));
  CHECK(watch.elapsed() < Millis(100) + slack);

  // Room comes while it waits.
  const pid_t pid = ::fork();
  if (pid == 0) {
    ::usleep(100'000);
    os::Fd taken(::accept(listener.get(), nullptr, nullptr));
    os::Fd next(::accept(listener.get(), nullptr, nullptr));
    if (hear(next.get(), ping)) {
      say(next.get(), "+PONG\r\n");
    }
    ::_exit(0);
  }
  CHECK(answers_at(url));
  ::waitpid(pid, nullptr, 0);
}

TEST_CASE("redis wire: whoever wants control back gets it at once, wherever a call waits") {
  const NoPipeSignal guard;
  const Bell bell;
  Limits limits;
  limits.op_timeout = Millis(20'000);
  limits.interrupt_fd = bell.fd();
  const Listener silent;
  Listener full(INADDR_LOOPBACK, 0, 0);
  full.fill();
  const std::vector<std::string> urls{silent.url(),
                                      silent.url() + "/3",
                                      silent.url("rediss") + "?connect_timeout=20s",
                                      full.url() + "?connect_timeout=20s",
                                      "redis://hangs.test?connect_timeout=20s"};
  const std::string url = urls.at(GENERATE(range<std::size_t>(0, 5)));
  CAPTURE(url);
  const NameService names(NameService::Kind::getent);
  Wire wire(address_of(url), &limits);
  bell.ring();
  const Stopwatch watch;
  CHECK(trouble_of(wire).what == Trouble::interrupted);
  CHECK(watch.elapsed() < slack);
}

TEST_CASE("redis wire: an answer that has come counts before the interruption") {
  const RedisServer server;
  const Bell bell;
  Limits limits;
  limits.interrupt_fd = bell.fd();
  Wire wire(address_of(server.socket_url()), &limits);
  CHECK(text_of(wire, {"PING"}) == "PONG");
  bell.ring();
  // The server may be slower than the first look: then it is an interruption, and the next call works again.
  int answered = 0;
  for (int i = 0; i < 200 && answered == 0; ++i) {
    wire.begin();
    const auto reply = wire.call({"ECHO", std::to_string(i)});
    if (reply) {
      CHECK(reply->text == std::to_string(i));
      ++answered;
    } else {
      CHECK(reply.error().what == Trouble::interrupted);
    }
  }
  bell.still();
  CHECK(text_of(wire, {"ECHO", "own"}) == "own");
}

// --- Names and places -----------------------------------------------------------------------------------------------

TEST_CASE("redis wire: nothing listens") {
  CHECK_THAT(trouble_at(fmt::format("redis://127.0.0.1:{}", support::free_port())).detail,
             ContainsSubstring("connection refused"));
  CHECK(trouble_at(fmt::format("redis://localhost:{}", support::free_port())).what == Trouble::unreachable);
  CHECK(trouble_at(fmt::format("rediss://127.0.0.1:{}", support::free_port())).what == Trouble::unreachable);

  const support::TempFolder folder;
  const std::string path = folder.path().string();
  const StoreError missing = trouble_at("redis+unix://" + path + "/no.sock");
  CHECK(missing.what == Trouble::unreachable);
  CHECK_THAT(missing.detail, ContainsSubstring("no socket"));
  std::ofstream(path + "/file") << "x";
  CHECK(trouble_at("redis+unix://" + path + "/file").what == Trouble::unreachable);

  const os::Fd datagrams(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  sockaddr_un place{};
  place.sun_family = AF_UNIX;
  (path + "/dgram").copy(place.sun_path, sizeof place.sun_path - 1);
  REQUIRE(::bind(datagrams.get(), reinterpret_cast<const sockaddr*>(&place), sizeof place) == 0);
  CHECK(trouble_at("redis+unix://" + path + "/dgram").what == Trouble::misconfigured);
}

TEST_CASE("redis wire: a socket that we may not use is refused") {
  const RedisServer server;
  REQUIRE(::chmod(server.folder().c_str(), 0) == 0);
  // Root may use everything.
  const bool is_root = ::geteuid() == 0;
  if (is_root) {
    REQUIRE(::seteuid(65534) == 0);
  }
  Wire wire(address_of(server.socket_url()), nullptr);
  const auto reply = ask(wire, {"PING"});
  if (is_root) {
    REQUIRE(::seteuid(0) == 0);
  }
  REQUIRE(::chmod(server.folder().c_str(), 0700) == 0);
  REQUIRE_FALSE(reply);
  CHECK(reply.error().what == Trouble::refused);
}

TEST_CASE("redis wire: localhost is either loopback address, IPv6 in brackets works") {  // R32
  const RedisServer ipv4({.tcp = true, .arguments = {"--bind", "127.0.0.1"}});
  CHECK(answers_at(ipv4.tcp_url("localhost")));
  CHECK(answers_at(ipv4.tcp_url("LocalHost.")));
  CHECK_FALSE(answers_at(ipv4.tcp_url("[::1]")));

  const os::Fd probe(::socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in6 place{};
  place.sin6_family = AF_INET6;
  place.sin6_addr = in6addr_loopback;
  if (::bind(probe.get(), reinterpret_cast<const sockaddr*>(&place), sizeof place) != 0) {
    WARN("this machine has no IPv6");
    return;
  }
  const RedisServer ipv6({.tcp = true, .arguments = {"--bind", "::1"}});
  CHECK(answers_at(ipv6.tcp_url("localhost")));
  CHECK(answers_at(ipv6.tcp_url("[::1]")));
  CHECK_FALSE(answers_at(ipv6.tcp_url("127.0.0.1")));
}

TEST_CASE("redis wire: a name with a dead address still leads to the living one") {
  const RedisServer server({.tcp = true, .arguments = {"--bind", "127.0.0.1"}});
  const NameService names(either());
  const std::string url = server.tcp_url("two.test") + "?connect_timeout=4s";
  SECTION("nothing listens at it") { CHECK(answers_at(url)); }
  SECTION("it does not answer, and is given up after its share of the time") {
    Listener dead(INADDR_LOOPBACK + 1, server.port(), 0);
    dead.fill();
    const Stopwatch watch;
    CHECK(answers_at(url));
    CHECK(watch.elapsed() >= Millis(1900));
    CHECK(watch.elapsed() < Millis(2000) + slack);
  }
}

TEST_CASE("redis wire: a host that no name service knows") {
  const NameService names(either());
  const StoreError unknown = trouble_at("redis://unknown.test");
  CHECK(unknown.what == Trouble::unreachable);
  CHECK_THAT(unknown.detail, ContainsSubstring("host unknown.test") && ContainsSubstring("not known"));
  CHECK(trouble_at("redis://crashes.test").what == Trouble::unreachable);
  CHECK(trouble_at("redis://-help.test").what == Trouble::unreachable);
  CHECK_THAT(trouble_at("redis://[fe80::1%25nowhere]").detail, ContainsSubstring("fe80::1%nowhere"));
}

TEST_CASE("redis wire: a host whose name cannot be asked for, as no file can be opened") {
#ifdef __SANITIZE_ADDRESS__
  WARN("not under the sanitizers, which need descriptors themselves");
  return;
#endif
  rlimit before{};
  REQUIRE(::getrlimit(RLIMIT_NOFILE, &before) == 0);
  const rlimit none{0, before.rlim_max};
  REQUIRE(::setrlimit(RLIMIT_NOFILE, &none) == 0);
  const StoreError error = trouble_at("redis://broken.test");
  REQUIRE(::setrlimit(RLIMIT_NOFILE, &before) == 0);
  CHECK(error.what == Trouble::exhausted);
  CHECK_THAT(error.detail, ContainsSubstring("host broken.test") && ContainsSubstring("Too many open files"));
}

TEST_CASE(
    "redis wire: a name service that does not answer costs one connect_timeout, and leaves no process and no signal") {
  const NameService names(either());
  sigset_t child;
  sigset_t before;
  sigemptyset(&child);
  sigaddset(&child, SIGCHLD);
  REQUIRE(::sigprocmask(SIG_BLOCK, &child, &before) == 0);
  const std::string children = children_of_this();

  const Stopwatch watch;
  const StoreError error = trouble_at("redis://hangs.test?connect_timeout=200ms");
  CHECK(watch.elapsed() >= Millis(190));
  CHECK(watch.elapsed() < Millis(200) + slack);
  CHECK(error.what == Trouble::timed_out);
  CHECK_FALSE(error.maybe_done);
  CHECK_THAT(error.detail, ContainsSubstring("no answer from the name service within 200ms"));
  CHECK(trouble_at("redis://unknown.test").what == Trouble::unreachable);

  sigset_t pending;
  REQUIRE(::sigpending(&pending) == 0);
  CHECK(sigismember(&pending, SIGCHLD) == 0);
  CHECK(children_of_this() == children);
  REQUIRE(::sigprocmask(SIG_SETMASK, &before, nullptr) == 0);
}

TEST_CASE("redis wire: the process that asks the name service dies with us and holds nothing of ours") {
  const NameService names(either());
  std::array<int, 2> pipe{};
  REQUIRE(::pipe(pipe.data()) == 0);
  const os::Fd reader(pipe[0]);
  const os::Fd writer(pipe[1]);
  const os::Fd copy(::fcntl(pipe[1], F_DUPFD, 500));
  const pid_t pid = ::fork();
  if (pid == 0) {
    Limits limits;
    limits.op_timeout = std::chrono::hours(1);
    Wire wire(address_of("redis://hangs.test?connect_timeout=1h"), &limits);
    (void)ask(wire, {"PING"});
    ::_exit(0);
  }
  const auto helpers = [&] { return support::content_of(fmt::format("/proc/{0}/task/{0}/children", pid)); };
  REQUIRE(wait_until([&] { return !helpers().empty(); }));
  const auto helper = static_cast<pid_t>(std::stol(helpers()));
  const auto holds = [&](const os::Fd& ours) {
    struct stat here {};
    struct stat there {};
    return ::fstat(ours.get(), &here) == 0 &&
           ::stat(fmt::format("/proc/{}/fd/{}", helper, ours.get()).c_str(), &there) == 0 &&
           here.st_ino == there.st_ino;
  };
  CHECK(wait_until([&] { return !holds(writer) && !holds(copy); }));
  CHECK(support::process_runs(helper));
  const std::string asked = support::content_of(fmt::format("/proc/{0}/task/{0}/children", helper));
  ::kill(pid, SIGKILL);
  ::waitpid(pid, nullptr, 0);
  CHECK(wait_until([&] { return !support::process_runs(helper); }));
  CHECK((asked.empty() || wait_until([&] { return !support::process_runs(static_cast<pid_t>(std::stol(asked))); })));
}

// --- Connections that end -------------------------------------------------------------------------------------------

TEST_CASE("redis wire: a connection that ended between two calls is made anew") {
  RedisServer server({.tcp = true});
  const std::string url = url_of(server, GENERATE(Over::unix_socket, Over::tcp));
  Wire wire(address_of(url), nullptr);
  CHECK(text_of(wire, {"PING"}) == "PONG");
  server.kill();
  const StoreError gone = trouble_of(wire);
  CHECK(gone.what == Trouble::unreachable);
  CHECK_FALSE(gone.maybe_done);
  server.start();
  CHECK(text_of(wire, {"ECHO", "a"}) == "a");
  server.kill();
  server.start();
  CHECK(text_of(wire, {"ECHO", "b"}) == "b");
  wire.disconnect();
  CHECK_FALSE(wire.is_connected());
  CHECK(text_of(wire, {"ECHO", "c"}) == "c");
}

TEST_CASE("redis wire: a reset between two calls is noticed before the command is sent") {
  const RedisServer server;
  Proxy proxy(server.socket());
  Wire wire(address_of(proxy.url()), nullptr);
  CHECK(text_of(wire, {"INCR", "n"}) == "");
  proxy.cut();
  REQUIRE(proxy.connections() == 1);
  CHECK(reply_of(wire, {"INCR", "n"}).integer == 2);
  CHECK(proxy.connections() == 2);
}

TEST_CASE("redis wire: what came unasked is never taken for a reply") {
  const ScriptedServer server([](int peer) {
    hear(peer, ping);
    say(peer, "+PONG\r\n+stray\r\n");
    hear(peer, ping);
  });
  Wire wire(address_of(server.url()), nullptr);
  for (int i = 0; i < 3; ++i) {
    CHECK(text_of(wire, {"PING"}) == "PONG");
  }
}

TEST_CASE("redis wire: a lost reply is told from a command that was never sent") {  // R37
  const RedisServer server;
  Proxy proxy(server.socket());
  Wire wire(address_of(proxy.url()), nullptr);
  const bool first = GENERATE(true, false);
  if (!first) {
    CHECK(text_of(wire, {"PING"}) == "PONG");
  }
  proxy.drop_next_reply();
  const StoreError error = trouble_of(wire, {"SET", "k", "v"});
  CHECK(proxy.dropped_replies() == 1);
  CHECK(error.what == Trouble::unreachable);
  CHECK(error.maybe_done);
  CHECK_THAT(error.detail, ContainsSubstring(first ? "before its first answer" : "before it answered"));
  CHECK(server.cli({"GET", "k"}) == "v");
  CHECK(text_of(wire, {"GET", "k"}) == "v");
}

TEST_CASE("redis wire: a server that closes at once") {
  const ScriptedServer server([](int) {});
  const StoreError plain = trouble_at(server.url());
  CHECK(plain.what == Trouble::unreachable);
  CHECK_THAT(plain.detail, ContainsSubstring("before its first answer") && ContainsSubstring("rediss://"));
  const StoreError greeting = trouble_at(server.url_with("u:p"));
  CHECK(greeting.what == Trouble::unreachable);
  CHECK_FALSE(greeting.maybe_done);
  const NoPipeSignal guard;
  const StoreError tls = trouble_at(server.url("rediss"));
  CHECK(tls.what == Trouble::unreachable);
  CHECK_THAT(tls.detail, ContainsSubstring("during the TLS handshake"));
}

TEST_CASE("redis wire: something else than Redis answers") {
  struct Case {
    std::string_view answer;
    std::string_view says;
  };
  const auto each =
      GENERATE(Case{"HTTP/1.1 400 Bad Request\r\n\r\n", "no Redis server: it answered \"HTTP/1.1 400 Bad Request"},
               Case{"SSH-2.0-OpenSSH_9.2\r\n", "no Redis server: it answered \"SSH-2.0-OpenSSH_9.2\\x0d\\n\""},
               Case{"\x1b[31mred\n", "it answered \"\\e[31mred\\n\""},
               Case{"\x15\x03\x01\x02\x02\x46", "expects TLS: use rediss://"});
  const ScriptedServer server([&](int peer) {
    hear(peer, ping);
    say(peer, each.answer);
    hear_all(peer);
  });
  const StoreError error = trouble_at(server.url());
  CHECK(error.what == Trouble::misconfigured);
  CHECK_FALSE(error.maybe_done);
  CHECK_THAT(error.detail, ContainsSubstring(std::string(each.says)));
}

// --- Subscribers ----------------------------------------------------------------------------------------------------

TEST_CASE("redis wire: a subscriber reads what it is sent, and only that") {
  const NoPipeSignal guard;
  const support::TempFolder folder;
  const Authority authority(folder.path().string(), "ca");
  const RedisServer server({.tcp = true, .tls = authority.issue({.name = "server", .alt_names = {"IP:127.0.0.1"}})});
  const bool tls = GENERATE(false, true);
  const std::string url =
      tls ? server.tls_url() + "?ca=" + authority.file() : url_of(server, GENERATE(Over::unix_socket, Over::tcp));
  CAPTURE(url);
  Wire subscriber(address_of(url), nullptr);
  Wire speaker(address_of(server.socket_url()), nullptr);

  CHECK_FALSE(subscriber.read_push());
  const Reply subscribed = reply_of(subscriber, {"SUBSCRIBE", "bell"});
  REQUIRE(subscribed.elements.size() == 3);
  CHECK(subscribed.elements[0].text == "subscribe");
  auto nothing = subscriber.read_push();
  REQUIRE(nothing);
  CHECK_FALSE(*nothing);

  const auto is_readable = [&] {
    pollfd fd{subscriber.fd(), POLLIN, 0};
    return ::poll(&fd, 1, 0) == 1;
  };
  CHECK_FALSE(is_readable());
  for (const std::string_view text : {"one", "two", "three"}) {
    CHECK(reply_of(speaker, {"PUBLISH", "bell", text}).integer == 1);
  }
  std::vector<std::string> heard;
  REQUIRE(wait_until([&] {
    while (true) {
      auto push = subscriber.read_push();
      REQUIRE(push);
      if (!*push) {
        return heard.size() == 3;
      }
      heard.push_back((*push)->elements.at(2).text);
    }
  }));
  CHECK(heard == std::vector<std::string>{"one", "two", "three"});
  CHECK_FALSE(is_readable());

  server.cli({"CLIENT", "KILL", "TYPE", "pubsub"});
  REQUIRE(wait_until(is_readable));
  const auto killed = subscriber.read_push();
  REQUIRE_FALSE(killed);
  CHECK(killed.error().transient());
  CHECK(subscriber.fd() == -1);
}

// --- TLS ------------------------------------------------------------------------------------------------------------

#ifdef __x86_64__
// OPENSSL_info(3) remembers what it said first, so each question is a process of its own.
TEST_CASE("redis tls: OpenSSL asks what the processor can once TLS is wanted, and not before") {
  const auto knows_the_processor = [](const std::string& url) {
    const pid_t pid = ::fork();
    if (pid == 0) {
      (void)trouble_at(url);
      const char* const processor = ::OPENSSL_info(OPENSSL_INFO_CPU_SETTINGS);
      ::_exit(processor != nullptr && std::string_view(processor).find("=0x0:") == std::string_view::npos ? 1 : 2);
    }
    int status = 0;
    REQUIRE(::waitpid(pid, &status, 0) == pid);
    REQUIRE(WIFEXITED(status));
    return WEXITSTATUS(status) == 1;
  };
  const Listener silent;
  CHECK_FALSE(knows_the_processor(silent.url() + "?op_timeout=50ms"));
  CHECK(knows_the_processor(silent.url("rediss") + "?connect_timeout=50ms&op_timeout=50ms"));
}
#endif

TEST_CASE(
    "redis tls: a good certificate, by name and by address, with an authority from a file or a hashed folder") {  // R28
  const NoPipeSignal guard;
  const support::TempFolder folder;
  const Authority authority(folder.path().string(), "ca");
  const Certificate good = authority.issue({.name = "good", .alt_names = {"DNS:localhost", "IP:127.0.0.1", "IP:::1"}});
  const RedisServer server({.tls = good});
  CHECK(answers_at(server.tls_url("localhost") + "?ca=" + authority.file()));
  CHECK(answers_at(server.tls_url("localhost.") + "?ca=" + authority.file()));
  CHECK(answers_at(server.tls_url("127.0.0.1") + "?ca=" + authority.file()));
  CHECK(answers_at(server.tls_url("127.0.0.1") + "?ca=" + authority.hashed_folder()));
  CHECK(answers_at(server.tls_url("[::1]") + "?ca=" + authority.file()));
  CHECK(answers_at(server.tls_url("127.0.0.1") + "?sni=localhost&ca=" + authority.file()));

  Wire wire(address_of(server.tls_url() + "?ca=" + authority.file()), nullptr);
  std::string large(3'000'000, 'x');
  CHECK(text_of(wire, {"ECHO", large}) == large);
  CHECK(text_of(wire, {"ECHO", "again"}) == "again");
  CHECK(server.cli({"CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"}) == "1");
  CHECK(text_of(wire, {"ECHO", "anew"}) == "anew");
}

TEST_CASE("redis tls: a certificate that proves nothing is not accepted, unless the URL says so") {  // R28
  const NoPipeSignal guard;
  const support::TempFolder folder;
  const Authority authority(folder.path().string(), "ca");
  const Authority stranger(folder.path().string(), "stranger");
  const std::vector<std::string> local{"DNS:localhost", "IP:127.0.0.1"};
  using std::chrono::hours;
  struct Case {
    Certificate certificate;
    std::string says;
  };
  const std::vector<Case> bad{
      {authority.issue({.name = "wrong_name", .alt_names = {"DNS:redis.example", "IP:127.0.0.9"}}),
       "is not for 127.0.0.1"},
      {authority.issue({.name = "name_only", .alt_names = {"DNS:localhost"}}), "is not for 127.0.0.1"},
      {authority.issue({.name = "127.0.0.1", .alt_names = {}}), "is not for 127.0.0.1"},
      {authority.issue({.name = "expired", .alt_names = local, .from_now = -hours(9), .until_now = -hours(1)}),
       "has expired"},
      {authority.issue({.name = "early", .alt_names = local, .from_now = hours(1), .until_now = hours(9)}),
       "not valid yet"},
      {authority.issue({.name = "self", .alt_names = local, .self_signed = true}), "self-signed"},
      {stranger.issue({.name = "foreign", .alt_names = local}), "not trusted here"},
  };
  const RedisServer server({.tls = bad.front().certificate});
  for (const Case& each : bad) {
    CAPTURE(each.certificate.cert);
    REQUIRE(
        server.cli({"CONFIG", "SET", "tls-cert-file", each.certificate.cert, "tls-key-file", each.certificate.key}) ==
        "OK");
    const StoreError error = trouble_at(server.tls_url() + "?ca=" + authority.file());
    CHECK(error.what == Trouble::misconfigured);
    CHECK_THAT(error.detail,
               ContainsSubstring("the TLS certificate of " + server.tls_url() + " ") && ContainsSubstring(each.says));
    CHECK(answers_at(server.tls_url() + "?insecure=1"));
  }
  // Without ca it is the system's authorities that count.
  const Certificate good = authority.issue({.name = "good", .alt_names = local});
  REQUIRE(server.cli({"CONFIG", "SET", "tls-cert-file", good.cert, "tls-key-file", good.key}) == "OK");
  const StoreError unknown = trouble_at(server.tls_url());
  CHECK(unknown.what == Trouble::misconfigured);
  CHECK_THAT(unknown.detail, ContainsSubstring("not trusted here"));
  CHECK_THAT(trouble_at(server.tls_url("localhost") + "?sni=redis.example&ca=" + authority.file()).detail,
             ContainsSubstring("is not for redis.example"));
}

TEST_CASE("redis tls: the system's authorities are found in a hashed folder and in a bundle") {
  const NoPipeSignal guard;
  const support::TempFolder folder;
  const Authority authority(folder.path().string(), "ca");
  const RedisServer server({.tls = authority.issue({.name = "good", .alt_names = {"IP:127.0.0.1"}})});
  const bool hashed = GENERATE(true, false);
  const char* const variable = hashed ? "SSL_CERT_DIR" : "SSL_CERT_FILE";
  const char* const before = std::getenv(variable);
  const std::optional<std::string> kept = before != nullptr ? std::optional<std::string>(before) : std::nullopt;
  ::setenv(variable, (hashed ? authority.hashed_folder() : authority.file()).c_str(), 1);
  CHECK(answers_at(server.tls_url()));
  if (kept) {
    ::setenv(variable, kept->c_str(), 1);
  } else {
    ::unsetenv(variable);
  }
}

TEST_CASE("redis tls: files that cannot serve are named") {
  const NoPipeSignal guard;
  const support::TempFolder folder;
  const std::string path = folder.path().string();
  const Authority authority(path, "ca");
  const Certificate me = authority.issue({.name = "me", .alt_names = {}});
  const Certificate other = authority.issue({.name = "other", .alt_names = {}});
  std::ofstream(path + "/junk") << "no certificate\n";
  std::filesystem::create_directory(path + "/empty");
  const Listener silent;
  const auto says = [&](const std::string& settings) {
    const StoreError error = trouble_at(silent.url("rediss") + "?" + settings);
    CHECK(error.what == Trouble::misconfigured);
    return error.detail;
  };
  CHECK_THAT(says("ca=/no/such.pem"), ContainsSubstring("/no/such.pem: No such file"));
  CHECK_THAT(says("ca=" + path + "/junk"), ContainsSubstring("/junk (ca) has no certificate"));
  CHECK_THAT(says("ca=" + path + "/empty"), ContainsSubstring("openssl rehash"));
  CHECK_THAT(says("cert=/no/me.pem&key=" + me.key), ContainsSubstring("/no/me.pem: No such file"));
  CHECK_THAT(says("key=/no/me.key&cert=" + me.cert), ContainsSubstring("/no/me.key: No such file"));
  CHECK_THAT(says("key=" + me.key + "&cert=" + me.key), ContainsSubstring("(cert) has no certificate"));
  CHECK_THAT(says("key=" + other.key + "&cert=" + me.cert), ContainsSubstring("(key) has no key"));
}

TEST_CASE("redis tls: a server that wants a client certificate gets it") {
  const NoPipeSignal guard;
  const support::TempFolder folder;
  const Authority authority(folder.path().string(), "ca");
  const Authority stranger(folder.path().string(), "stranger");
  const RedisServer server(
      {.tls = authority.issue({.name = "good", .alt_names = {"IP:127.0.0.1"}}), .client_authority = authority.file()});
  const std::string versions = GENERATE("TLSv1.2", "TLSv1.3");
  CAPTURE(versions);
  REQUIRE(server.cli({"CONFIG", "SET", "tls-protocols", versions}) == "OK");
  const std::string url = server.tls_url() + "?ca=" + authority.file();
  const Certificate me = authority.issue({.name = "me", .alt_names = {}});
  const Certificate wrong = stranger.issue({.name = "wrong", .alt_names = {}});
  CHECK(answers_at(url + "&cert=" + me.cert + "&key=" + me.key));
  const StoreError without = trouble_at(url);
  CHECK_THAT(without.detail,
             ContainsSubstring("client certificate (cert and key") || ContainsSubstring("wants a client certificate"));
  const StoreError refused = trouble_at(url + "&cert=" + wrong.cert + "&key=" + wrong.key);
  CHECK_THAT(refused.detail,
             ContainsSubstring("refused our client certificate") || ContainsSubstring("closed the connection"));
}

TEST_CASE("redis tls: TLS before 1.2 is not spoken") {
  const NoPipeSignal guard;
  // A server's hello in TLS 1.1, to which a client that has nothing below 1.2 answers with an alert.
  const ScriptedServer server([](int peer) {
    std::array<char, 5> header{};
    ::recv(peer, header.data(), header.size(), MSG_WAITALL);
    std::string hello("\x16\x03\x02\x00\x2a\x02\x00\x00\x26\x03\x02", 11);
    hello += std::string(32, 'r');
    hello += std::string("\x00\xc0\x13\x00", 4);
    say(peer, hello);
    hear_all(peer);
  });
  const StoreError error = trouble_at(server.url("rediss") + "?insecure=1");
  CHECK(error.what == Trouble::misconfigured);
  CHECK_THAT(error.detail, ContainsSubstring("no TLS 1.2"));
}

TEST_CASE(
    "redis tls: plain words at a TLS port, and TLS at a plain port, are told apart from a dead server") {  // R26, R27
  const NoPipeSignal guard;
  const support::TempFolder folder;
  const Authority authority(folder.path().string(), "ca");
  const RedisServer server({.tcp = true, .tls = authority.issue({.name = "good", .alt_names = {"IP:127.0.0.1"}})});

  const StoreError plain = trouble_at(fmt::format("redis://127.0.0.1:{}", server.tls_port()));
  CHECK_THAT(plain.detail, ContainsSubstring("rediss://"));

  // Redis takes the greeting for a command. It answers where a line end happens to be in it, else it waits for one.
  const Stopwatch watch;
  const StoreError tls = trouble_at(fmt::format("rediss://127.0.0.1:{}?connect_timeout=300ms", server.port()));
  CHECK((tls.what == Trouble::misconfigured || tls.what == Trouble::timed_out));
  CHECK_FALSE(tls.maybe_done);
  CHECK_THAT(tls.detail, ContainsSubstring("use redis://"));
  CHECK(watch.elapsed() < Millis(300) + slack);

  const ScriptedServer talks([](int peer) {
    std::array<char, 5> greeting{};
    ::recv(peer, greeting.data(), greeting.size(), MSG_WAITALL);
    say(peer, "-ERR unknown command\r\n");
    hear_all(peer);
  });
  const StoreError answered = trouble_at(talks.url("rediss"));
  CHECK(answered.what == Trouble::misconfigured);
  CHECK_THAT(answered.detail, ContainsSubstring("does not speak TLS: use redis://"));

  const ScriptedServer web([](int peer) {
    std::array<char, 5> greeting{};
    ::recv(peer, greeting.data(), greeting.size(), MSG_WAITALL);
    say(peer, "HTTP/1.1 400 Bad Request\r\n\r\n");
    hear_all(peer);
  });
  CHECK(trouble_at(web.url("rediss")).what == Trouble::misconfigured);
}

TEST_CASE("redis tls: a silent port costs one connect_timeout") {  // R26
  const NoPipeSignal guard;
  const Listener silent;
  const Stopwatch watch;
  const StoreError error = trouble_at(silent.url("rediss") + "?connect_timeout=200ms");
  CHECK(watch.elapsed() >= Millis(190));
  CHECK(watch.elapsed() < Millis(200) + slack);
  CHECK(error.what == Trouble::timed_out);
  CHECK_FALSE(error.maybe_done);
  CHECK_THAT(error.detail, ContainsSubstring("TLS handshake within 200ms"));
}

TEST_CASE("redis tls: a server that hangs after the handshake costs one op_timeout") {
  const NoPipeSignal guard;
  const support::TempFolder folder;
  const Authority authority(folder.path().string(), "ca");
  RedisServer server({.tls = authority.issue({.name = "good", .alt_names = {"IP:127.0.0.1"}})});
  Limits limits;
  Wire wire(address_of(server.tls_url() + "?ca=" + authority.file()), &limits);
  CHECK(text_of(wire, {"PING"}) == "PONG");
  server.suspend();
  limits.op_timeout = Millis(200);
  const Stopwatch watch;
  const StoreError first = trouble_of(wire, {"ECHO", "late"});
  CHECK(first.what == Trouble::timed_out);
  CHECK(first.maybe_done);
  const StoreError second = trouble_of(wire, {"ECHO", "late"});  // not even TLS
  CHECK(second.what == Trouble::timed_out);
  CHECK_FALSE(second.maybe_done);
  CHECK(watch.elapsed() < Millis(400) + slack);
  server.resume();
  limits.op_timeout = Millis(10'000);
  CHECK(text_of(wire, {"ECHO", "own"}) == "own");
}
