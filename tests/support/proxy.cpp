// Pairs of sockets, a poll, and orders from a shared page.
#include "support/proxy.hpp"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <deque>
#include <list>
#include <new>
#include <stdexcept>
#include <system_error>
#include <utility>
#include <vector>

#include "support/run_lk.hpp"

namespace support {

// The orders are written by the test, the counts by the proxy.
struct Proxy::Page {
  std::atomic<bool> stalled{false};
  std::atomic<std::int64_t> delay_ms{0};
  std::atomic<bool> drops_next_reply{false};
  std::atomic<bool> cuts{false};
  std::atomic<unsigned> orders{0};
  std::atomic<unsigned> obeyed{0};
  std::atomic<std::size_t> connections{0};
  std::atomic<std::size_t> open{0};
  std::atomic<std::size_t> dropped{0};
};

namespace {

using Time = std::chrono::steady_clock::time_point;

[[noreturn]] void fail(const char* what) { throw std::system_error(errno, std::generic_category(), what); }

Time now() { return std::chrono::steady_clock::now(); }

// One direction of one connection.
struct Flow {
  struct Piece {
    Time due;
    std::string bytes;
  };
  std::deque<Piece> held;
  bool ended = false;  // the source says no more

  bool is_due() const { return !held.empty() && held.front().due <= now(); }
};

struct Link {
  os::Fd client;
  os::Fd server;
  Flow up;
  Flow down;
  bool closed = false;
};

void reset_on_close(const os::Fd& socket) {
  const linger at_once{1, 0};
  ::setsockopt(socket.get(), SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
}

os::Fd connect_to(const std::string& path, int port) {
  if (!path.empty()) {
    os::Fd socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_un place{};
    place.sun_family = AF_UNIX;
    path.copy(place.sun_path, sizeof place.sun_path - 1);
    return ::connect(socket.get(), reinterpret_cast<const sockaddr*>(&place), sizeof place) == 0 ? std::move(socket)
                                                                                                 : os::Fd();
  }
  os::Fd socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in place{};
  place.sin_family = AF_INET;
  place.sin_port = htons(static_cast<in_port_t>(port));
  place.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return ::connect(socket.get(), reinterpret_cast<const sockaddr*>(&place), sizeof place) == 0 ? std::move(socket)
                                                                                               : os::Fd();
}

// The proxy's process.
template <class Page>
class Life {
public:
  Life(Page& page, int listener, int control, std::string server_socket, int server_port)
      : m_page(page),
        m_listener(listener),
        m_control(control),
        m_server_socket(std::move(server_socket)),
        m_server_port(server_port) {}

  [[noreturn]] void live() {
    while (true) {
      step();
    }
  }

private:
  void step() {
    std::vector<pollfd> watched{{m_control, POLLIN, 0}, {m_listener, POLLIN, 0}};
    int wait_ms = -1;
    for (const Link& link : m_links) {
      watched.push_back({link.client.get(), events(link.up, link.down, wait_ms), 0});
      watched.push_back({link.server.get(), events(link.down, link.up, wait_ms), 0});
      if (m_page.stalled) {
        watched.end()[-1].fd = -1;  // not even a hang-up is passed on
        watched.end()[-2].fd = -1;
      }
    }
    ::poll(watched.data(), watched.size(), wait_ms);

    if (watched[0].revents != 0) {
      obey();
      return;  // what poll has seen may be gone by order
    }
    std::size_t i = 2;
    for (Link& link : m_links) {
      const short client = watched[i++].revents;
      const short server = watched[i++].revents;
      take(link, link.client, client, link.up, false);
      take(link, link.server, server, link.down, true);
      give(link, link.server, link.up);
      give(link, link.client, link.down);
    }
    m_links.remove_if([](const Link& link) { return link.closed; });
    if (watched[1].revents != 0) {
      accept();
    }
    m_page.open = m_links.size();
  }

  // Of a socket that fills `in` and is filled from `out`; `wait_ms` shrinks to the time when `out` is due.
  static short events(const Flow& in, const Flow& out, int& wait_ms) {
    short wanted = in.ended ? 0 : POLLIN;
    if (out.is_due()) {
      wanted = static_cast<short>(wanted | POLLOUT);
    } else if (!out.held.empty()) {
      const auto left = std::chrono::ceil<std::chrono::milliseconds>(out.held.front().due - now()).count();
      wait_ms = wait_ms < 0 ? static_cast<int>(left) : std::min(wait_ms, static_cast<int>(left));
    }
    return wanted;
  }

  void accept() {
    os::Fd client(::accept4(m_listener, nullptr, nullptr, SOCK_CLOEXEC));
    if (!client) {
      return;
    }
    ++m_page.connections;
    const int on = 1;
    ::setsockopt(client.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    os::Fd server = connect_to(m_server_socket, m_server_port);
    if (!server) {
      reset_on_close(client);
      return;
    }
    m_links.push_back({std::move(client), std::move(server), {}, {}, false});
  }

  void take(Link& link, const os::Fd& from, short seen, Flow& flow, bool is_reply) {
    if (link.closed || (seen & (POLLIN | POLLHUP | POLLERR)) == 0) {
      return;
    }
    std::array<char, 65536> buffer;
    const ssize_t got = ::recv(from.get(), buffer.data(), buffer.size(), MSG_DONTWAIT);
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) {
      return;
    }
    if (got < 0) {
      close(link, true);
      return;
    }
    if (got == 0) {
      flow.ended = true;
      return;
    }
    if (is_reply && m_page.drops_next_reply) {
      m_page.drops_next_reply = false;
      ++m_page.dropped;
      close(link, false);
      return;
    }
    const auto delay = std::chrono::milliseconds(is_reply ? m_page.delay_ms.load() : 0);
    flow.held.push_back({now() + delay, std::string(buffer.data(), static_cast<std::size_t>(got))});
  }

  void give(Link& link, const os::Fd& to, Flow& flow) {
    while (!link.closed && !m_page.stalled && flow.is_due()) {
      std::string& bytes = flow.held.front().bytes;
      const ssize_t sent = ::send(to.get(), bytes.data(), bytes.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
      if (sent < 0) {
        if (errno != EAGAIN && errno != EINTR) {
          close(link, true);
        }
        return;
      }
      bytes.erase(0, static_cast<std::size_t>(sent));
      if (bytes.empty()) {
        flow.held.pop_front();
      }
    }
    if (!link.closed && flow.ended && flow.held.empty()) {
      close(link, false);
    }
  }

  static void close(Link& link, bool reset) {
    if (reset) {
      reset_on_close(link.client);
    }
    link.client.reset();
    link.server.reset();
    link.closed = true;
  }

  void obey() {
    std::array<char, 64> orders;
    if (::read(m_control, orders.data(), orders.size()) <= 0) {
      ::_exit(0);
    }
    if (m_page.cuts) {
      m_page.cuts = false;
      for (Link& link : m_links) {
        close(link, true);
      }
      m_links.clear();
      m_page.open = 0;
    }
    if (m_page.delay_ms == 0) {
      for (Link& link : m_links) {
        for (Flow::Piece& piece : link.down.held) {
          piece.due = now();
        }
      }
    }
    m_page.obeyed = m_page.orders.load();
  }

  Page& m_page;
  int m_listener;
  int m_control;
  std::string m_server_socket;
  int m_server_port;
  std::list<Link> m_links;
};

}  // namespace

Proxy::Proxy(const std::string& server_socket) { start(server_socket, 0); }

Proxy::Proxy(int server_port) { start({}, server_port); }

void Proxy::start(const std::string& server_socket, int server_port) {
  const os::Fd listener(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in place{};
  place.sin_family = AF_INET;
  place.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof place;
  auto* const any = reinterpret_cast<sockaddr*>(&place);
  if (::bind(listener.get(), any, size) != 0 || ::listen(listener.get(), 128) != 0 ||
      ::getsockname(listener.get(), any, &size) != 0) {
    fail("proxy");
  }
  m_port = ntohs(place.sin_port);
  std::array<int, 2> pair{};
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair.data()) != 0) {
    fail("proxy");
  }
  m_control.reset(pair[0]);
  os::Fd control(pair[1]);
  void* const memory = ::mmap(nullptr, sizeof(Page), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) {
    fail("proxy");
  }
  m_page = new (memory) Page;

  const pid_t parent = ::getpid();
  m_pid = ::fork();
  if (m_pid == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (::getppid() != parent) {
      ::_exit(1);
    }
    // Nobody waits for the end of a pipe that only the proxy still holds.
    const std::array<int, 2> kept{std::min(listener.get(), control.get()), std::max(listener.get(), control.get())};
    ::close_range(3, static_cast<unsigned>(kept[0]) - 1, 0);
    if (kept[0] + 1 < kept[1]) {
      ::close_range(static_cast<unsigned>(kept[0]) + 1, static_cast<unsigned>(kept[1]) - 1, 0);
    }
    ::close_range(static_cast<unsigned>(kept[1]) + 1, ~0U, 0);
    Life(*m_page, listener.get(), control.get(), server_socket, server_port).live();
  }
  if (m_pid < 0) {
    fail("proxy");
  }
}

Proxy::~Proxy() {
  if (m_pid > 0) {
    ::kill(m_pid, SIGKILL);
    while (::waitpid(m_pid, nullptr, 0) < 0 && errno == EINTR) {
    }
  }
  ::munmap(m_page, sizeof(Page));
}

void Proxy::tell() {
  const unsigned order = ++m_page->orders;
  const char byte = 0;
  if (::send(m_control.get(), &byte, 1, MSG_NOSIGNAL) != 1 || !wait_until([&] { return m_page->obeyed >= order; })) {
    throw std::runtime_error("the proxy does not obey");
  }
}

void Proxy::pass() {
  m_page->stalled = false;
  m_page->delay_ms = 0;
  m_page->drops_next_reply = false;
  tell();
}

void Proxy::stall() {
  m_page->stalled = true;
  tell();
}

void Proxy::delay_replies(std::chrono::milliseconds by) {
  m_page->delay_ms = by.count();
  tell();
}

void Proxy::drop_next_reply() {
  m_page->drops_next_reply = true;
  tell();
}

void Proxy::cut() {
  m_page->cuts = true;
  tell();
}

std::size_t Proxy::connections() const noexcept { return m_page->connections; }
std::size_t Proxy::open_connections() const noexcept { return m_page->open; }
std::size_t Proxy::dropped_replies() const noexcept { return m_page->dropped; }

}  // namespace support
