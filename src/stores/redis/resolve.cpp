// getaddrinfo(3), at arm's length.
#include "stores/redis/resolve.hpp"

#include <fcntl.h>
#include <netdb.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <memory>
#include <string>
#include <string_view>
#include <type_traits>

#include "os/fd.hpp"
#include "stores/redis/deadline.hpp"

namespace stores::redis {

namespace {

using Why = LookupFailure::Why;

// What the helper writes, in one piece: it fits PIPE_BUF.
struct Findings {
  int code = 0;
  int error = 0;
  std::size_t count = 0;
  std::array<Endpoint, 16> endpoints;
};
static_assert(std::is_trivially_copyable_v<Findings> && sizeof(Findings) <= 4096);

Findings look_up(const Address& address, int flags) {
  Findings found{};
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = flags | AI_NUMERICSERV;
  addrinfo* list = nullptr;
  errno = 0;
  found.code = ::getaddrinfo(address.host.c_str(), std::to_string(address.port).c_str(), &hints, &list);
  found.error = errno;
  if (found.code != 0) {
    return found;
  }
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> owner(list, &::freeaddrinfo);
  for (const addrinfo* entry = list; entry != nullptr && found.count < found.endpoints.size(); entry = entry->ai_next) {
    Endpoint& endpoint = found.endpoints[found.count];
    if (entry->ai_addrlen <= sizeof endpoint.address) {
      std::memcpy(&endpoint.address, entry->ai_addr, entry->ai_addrlen);
      endpoint.size = entry->ai_addrlen;
      ++found.count;
    }
  }
  if (found.count == 0) {
    found.code = EAI_NONAME;
  }
  return found;
}

tl::expected<std::vector<Endpoint>, LookupFailure> taken(const Findings& found) {
  if (found.code != 0) {
    return tl::unexpected(LookupFailure{Why::answered, found.code, found.error});
  }
  const auto first = found.endpoints.begin();
  return std::vector<Endpoint>(first, first + static_cast<std::ptrdiff_t>(found.count));
}

tl::expected<std::vector<Endpoint>, LookupFailure> system_trouble() {
  return tl::unexpected(LookupFailure{Why::answered, EAI_SYSTEM, errno});
}

bool is_localhost(std::string_view host) {
  constexpr std::string_view name = "localhost";
  if (!host.empty() && host.back() == '.') {
    host.remove_suffix(1);
  }
  return host.size() == name.size() && std::equal(host.begin(), host.end(), name.begin(), [](char a, char b) {
           return (a >= 'A' && a <= 'Z' ? static_cast<char>(a - 'A' + 'a') : a) == b;
         });
}

std::vector<Endpoint> loopback(in_port_t port) {
  Endpoint ipv4{};
  ipv4.address.ipv4.sin_family = AF_INET;
  ipv4.address.ipv4.sin_port = htons(port);
  ipv4.address.ipv4.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  ipv4.size = sizeof(sockaddr_in);
  Endpoint ipv6{};
  ipv6.address.ipv6.sin6_family = AF_INET6;
  ipv6.address.ipv6.sin6_port = htons(port);
  ipv6.address.ipv6.sin6_addr = in6addr_loopback;
  ipv6.size = sizeof(sockaddr_in6);
  return {ipv4, ipv6};
}

// A child without a signal for its end (clone(2)): lk's signal descriptor stays silent, and its search for ended
// children does not see this one. Only the calling thread goes on in it, and lk has no other.
class Helper {
public:
  explicit Helper(const Address& address) {
    std::array<int, 2> pipe{};
    if (::pipe2(pipe.data(), O_CLOEXEC) != 0) {
      return;
    }
    os::Fd reader(pipe[0]);
    os::Fd writer(pipe[1]);
    const pid_t parent = ::getpid();
    m_pid = static_cast<pid_t>(::syscall(SYS_clone, 0UL, nullptr, nullptr, nullptr, nullptr));
    if (m_pid == 0) {
      ask(address, writer.get(), parent);
    }
    if (m_pid > 0) {
      m_answer = std::move(reader);
    }
  }
  ~Helper() {
    if (m_pid > 0) {
      const int error = errno;
      ::kill(m_pid, SIGKILL);
      while (::waitpid(m_pid, nullptr, __WALL) < 0 && errno == EINTR) {
      }
      errno = error;
    }
  }
  Helper(const Helper&) = delete;
  Helper& operator=(const Helper&) = delete;

  int answer() const noexcept { return m_answer.get(); }

private:
  [[noreturn]] static void ask(const Address& address, int answer, pid_t parent) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (::getppid() != parent) {
      ::_exit(1);
    }
    // It may be the last to hold what lk had open, should lk be killed: no reader of lk's output waits for this
    // process.
    const auto kept = static_cast<unsigned>(answer);
    if (kept > 0) {
      ::close_range(0, kept - 1, 0);
    }
    ::close_range(kept + 1, ~0U, 0);
    const Findings found = look_up(address, 0);
    ::_exit(::write(answer, &found, sizeof found) == static_cast<ssize_t>(sizeof found) ? 0 : 1);
  }

  pid_t m_pid = -1;
  os::Fd m_answer;
};

}  // namespace

tl::expected<std::vector<Endpoint>, LookupFailure> resolve(const Address& address, core::Instant until,
                                                           int interrupt_fd) {
  if (is_localhost(address.host)) {
    return loopback(address.port);
  }
  if (const Findings numeric = look_up(address, AI_NUMERICHOST); numeric.code != EAI_NONAME) {
    return taken(numeric);
  }
  const Helper helper(address);
  if (helper.answer() < 0) {
    return system_trouble();
  }
  switch (wait_for(helper.answer(), POLLIN, until, interrupt_fd)) {
    case Ready::late:
      return tl::unexpected(LookupFailure{Why::late});
    case Ready::interrupted:
      return tl::unexpected(LookupFailure{Why::interrupted});
    case Ready::yes:
      break;
  }
  Findings found{};
  if (::read(helper.answer(), &found, sizeof found) != static_cast<ssize_t>(sizeof found)) {
    return tl::unexpected(LookupFailure{Why::answered, EAI_FAIL, 0});
  }
  return taken(found);
}

}  // namespace stores::redis
