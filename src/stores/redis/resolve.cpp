// getent(1), at arm's length.
#include "stores/redis/resolve.hpp"

#include <arpa/inet.h>
#include <fcntl.h>
#include <net/if.h>
#include <netdb.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <csignal>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>

#include <fmt/format.h>

#include "os/fd.hpp"
#include "stores/redis/deadline.hpp"

namespace stores::redis {

namespace {

using Why = LookupFailure::Why;

// Some 600 addresses.
constexpr std::size_t longest_listing = std::size_t{64} * 1024;

std::optional<Endpoint> numeric(const std::string& host, in_port_t port) {
  Endpoint endpoint{};
  if (::inet_pton(AF_INET, host.c_str(), &endpoint.address.ipv4.sin_addr) == 1) {
    endpoint.address.ipv4.sin_family = AF_INET;
    endpoint.address.ipv4.sin_port = htons(port);
    endpoint.size = sizeof(sockaddr_in);
    return endpoint;
  }
  const std::size_t percent = host.find('%');
  sockaddr_in6& ipv6 = endpoint.address.ipv6;
  if (::inet_pton(AF_INET6, host.substr(0, percent).c_str(), &ipv6.sin6_addr) != 1) {
    return std::nullopt;
  }
  ipv6.sin6_family = AF_INET6;
  ipv6.sin6_port = htons(port);
  endpoint.size = sizeof(sockaddr_in6);
  if (percent != std::string::npos) {
    const std::string zone = host.substr(percent + 1);
    const auto [end, error] = std::from_chars(zone.data(), zone.data() + zone.size(), ipv6.sin6_scope_id);
    if (error != std::errc() || end != zone.data() + zone.size()) {
      ipv6.sin6_scope_id = ::if_nametoindex(zone.c_str());
    }
    if (ipv6.sin6_scope_id == 0) {
      return std::nullopt;
    }
  }
  return endpoint;
}

// getent(1): "ADDRESS STREAM [NAME]", and the same for DGRAM and RAW.
std::vector<Endpoint> endpoints_in(std::string_view listing, in_port_t port) {
  std::vector<Endpoint> found;
  while (!listing.empty()) {
    const std::string_view line = listing.substr(0, listing.find('\n'));
    listing.remove_prefix(std::min(line.size() + 1, listing.size()));
    const std::size_t end = std::min(line.find_first_of(" \t"), line.size());
    if (line.find("STREAM", end) == std::string_view::npos) {
      continue;
    }
    if (const auto endpoint = numeric(std::string(line.substr(0, end)), port)) {
      found.push_back(*endpoint);
    }
  }
  return found;
}

// What getent would have written.
std::string list_addresses(const std::string& host) {
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* list = nullptr;
  if (::getaddrinfo(host.c_str(), nullptr, &hints, &list) != 0) {
    return {};
  }
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> owner(list, &::freeaddrinfo);
  std::string listing;
  std::array<char, NI_MAXHOST> text{};
  for (const addrinfo* entry = list; entry != nullptr; entry = entry->ai_next) {
    if (::getnameinfo(entry->ai_addr, entry->ai_addrlen, text.data(), text.size(), nullptr, 0, NI_NUMERICHOST) == 0) {
      listing += fmt::format("{} STREAM\n", text.data());
    }
  }
  return listing;
}

tl::unexpected<LookupFailure> system_trouble() { return tl::unexpected(LookupFailure{Why::system, errno}); }

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
  explicit Helper(const std::string& host) {
    std::array<int, 2> pipe{};
    if (::pipe2(pipe.data(), O_CLOEXEC) != 0) {
      return;
    }
    os::Fd reader(pipe[0]);
    os::Fd writer(pipe[1]);
    const pid_t parent = ::getpid();
    m_pid = static_cast<pid_t>(::syscall(SYS_clone, 0UL, nullptr, nullptr, nullptr, nullptr));
    if (m_pid == 0) {
      ask(host, writer.get(), parent);
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
  [[noreturn]] static void ask(const std::string& host, int answer, pid_t parent) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (::getppid() != parent) {
      ::_exit(1);
    }
    // It may be the last to hold what lk had open, should lk be killed: no reader of lk's output waits for this
    // process.
    const int nothing = ::open("/dev/null", O_RDWR | O_CLOEXEC);
    ::dup2(nothing, STDIN_FILENO);
    ::dup2(nothing, STDERR_FILENO);
    ::dup2(answer, STDOUT_FILENO);
    ::close_range(STDERR_FILENO + 1, ~0U, 0);
    // execve(2) gives a process back the signal for its end: that one is the helper's child, not ours.
    const pid_t helper = ::getpid();
    const pid_t getent = ::fork();
    if (getent == 0) {
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);
      if (::getppid() == helper) {
        ::execlp("getent", "getent", "ahosts", host.c_str(), nullptr);
      }
      ::_exit(127);
    }
    int status = 0;
    if (getent < 0 || ::waitpid(getent, &status, 0) != getent) {
      ::_exit(1);
    }
    std::string listing;
    if (WIFEXITED(status) && WEXITSTATUS(status) == 127) {
      // A container that has lk and little else. Our own libc knows the hosts file and DNS, and may crash where the
      // system's configuration names more: only this process.
      listing = list_addresses(host);
    }
    ::_exit(::write(STDOUT_FILENO, listing.data(), listing.size()) == static_cast<ssize_t>(listing.size()) ? 0 : 1);
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
  if (const auto endpoint = numeric(address.host, address.port)) {
    return std::vector<Endpoint>{*endpoint};
  }
  // No host name begins so (RFC 1123), and getent would take it for an option.
  if (address.host.front() == '-') {
    return tl::unexpected(LookupFailure{Why::unknown});
  }
  const Helper helper(address.host);
  if (helper.answer() < 0) {
    return system_trouble();
  }
  std::string listing;
  while (listing.size() < longest_listing) {
    switch (wait_for(helper.answer(), POLLIN, until, interrupt_fd)) {
      case Ready::late:
        return tl::unexpected(LookupFailure{Why::late});
      case Ready::interrupted:
        return tl::unexpected(LookupFailure{Why::interrupted});
      case Ready::yes:
        break;
    }
    std::array<char, 4096> piece{};
    const ssize_t got = ::read(helper.answer(), piece.data(), piece.size());
    if (got < 0 && errno == EINTR) {
      continue;
    }
    if (got < 0) {
      return system_trouble();
    }
    if (got == 0) {
      break;
    }
    listing.append(piece.data(), static_cast<std::size_t>(got));
  }
  auto found = endpoints_in(listing, address.port);
  if (found.empty()) {
    return tl::unexpected(LookupFailure{Why::unknown});
  }
  return found;
}

}  // namespace stores::redis
