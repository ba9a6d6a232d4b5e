// Redis URLs: strict in, canonical out.
#include "stores/redis/address.hpp"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/un.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "core/text.hpp"

namespace stores::redis {

namespace {

using Transport = Address::Transport;
using Clause = tl::unexpected<std::string>;

constexpr std::string_view tcp_scheme = "redis";
constexpr std::string_view tls_scheme = "rediss";
constexpr std::string_view unix_scheme = "redis+unix";
constexpr std::uint16_t usual_port = 6379;
constexpr std::size_t longest_host = 253;  // RFC 1035
constexpr std::size_t longest_socket_path = sizeof(sockaddr_un::sun_path) - 1;

template <class... Arguments>
Clause clause(fmt::format_string<Arguments...> format, Arguments&&... arguments) {
  return Clause(fmt::format(format, std::forward<Arguments>(arguments)...));
}

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

tl::expected<int, std::string> number(std::string_view text, int smallest, std::string_view what) {
  constexpr int largest = 65535;
  int value = 0;
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  if (text.empty() || !std::all_of(text.begin(), text.end(), is_digit) || error != std::errc() || stop != end ||
      value < smallest || value > largest) {
    return clause("must have a number from {} to {} as its {}", smallest, largest, what);
  }
  return value;
}

tl::expected<std::string, std::string> percent_decoded(std::string_view text, std::string_view what) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%') {
      out += text[i];
      continue;
    }
    unsigned char byte = 0;
    const char* const digits = text.data() + i + 1;
    if (i + 2 >= text.size() || std::from_chars(digits, digits + 2, byte, 16).ptr != digits + 2) {
      return clause("has a % in the {} that no two hexadecimal digits follow: write %25 for %", what);
    }
    out += static_cast<char>(byte);
    i += 2;
  }
  return out;
}

std::string percent_encoded(std::string_view text, std::string_view plain) {
  std::string out;
  for (const char c : text) {
    if (is_digit(c) || is_letter(c) || plain.find(c) != std::string_view::npos) {
      out += c;
    } else {
      out += fmt::format("%{:02X}", static_cast<unsigned char>(c));
    }
  }
  return out;
}

// RFC 3986's unreserved marks, and those that also stand for themselves in a path.
constexpr std::string_view plain_marks = "-._~";
constexpr std::string_view plain_in_path = "-._~/:+,";

std::string_view scheme(Transport transport) {
  return transport == Transport::tls ? tls_scheme : transport == Transport::tcp ? tcp_scheme : unix_scheme;
}

std::string in_url(const std::string& host) {
  return host.find(':') == std::string::npos ? host : "[" + percent_encoded(host, "-._~:") + "]";
}

// --- The parts ------------------------------------------------------------------------------------------------------

tl::expected<void, std::string> take_user(Address& address, std::string_view info) {
  const std::size_t colon = info.find(':');
  auto user = percent_decoded(info.substr(0, colon), "user");
  if (!user) {
    return Clause(user.error());
  }
  if (!user->empty()) {
    address.user = *std::move(user);
  }
  if (colon != std::string_view::npos) {
    auto password = percent_decoded(info.substr(colon + 1), "password");
    if (!password) {
      return Clause(password.error());
    }
    if (!password->empty()) {
      address.password = *std::move(password);
    }
  }
  return {};
}

tl::expected<void, std::string> take_host(Address& address, std::string_view text) {
  std::string_view port;
  bool has_port = false;
  if (!text.empty() && text.front() == '[') {
    const std::size_t end = text.find(']');
    if (end == std::string_view::npos) {
      return clause("has a [ before the host and no ] after it");
    }
    auto host = percent_decoded(text.substr(1, end - 1), "host");
    if (!host) {
      return Clause(host.error());
    }
    // RFC 6874: "%25" leads the zone of a link-local address.
    const std::size_t zone = host->find('%');
    in6_addr parsed{};
    if (::inet_pton(AF_INET6, host->substr(0, zone).c_str(), &parsed) != 1 || host->find('\0') != std::string::npos ||
        zone == host->size() - 1) {
      return clause("has no IPv6 address between [ and ]");
    }
    address.host = *std::move(host);
    text.remove_prefix(end + 1);
    if (!text.empty() && text.front() != ':') {
      return clause("has something other than :PORT after the ] of the host");
    }
    has_port = !text.empty();
    port = has_port ? text.substr(1) : text;
  } else {
    const std::size_t colon = text.find(':');
    if (colon != text.rfind(':')) {
      return clause("must have an IPv6 address in brackets, like redis://[::1]:6379");
    }
    has_port = colon != std::string_view::npos;
    port = has_port ? text.substr(colon + 1) : std::string_view();
    text = text.substr(0, colon);
    if (text.empty()) {
      return clause("must name a host, like redis://127.0.0.1:6379");
    }
    const bool is_name = std::all_of(text.begin(), text.end(), [](char c) {
      return is_letter(c) || is_digit(c) || c == '-' || c == '.' || c == '_';
    });
    if (!is_name || text.size() > longest_host) {
      return clause("has a host that is no host name and no IP address");
    }
    address.host = text;
  }
  if (has_port) {
    const auto parsed = number(port, 1, "port");
    if (!parsed) {
      return Clause(parsed.error());
    }
    address.port = static_cast<std::uint16_t>(*parsed);
  }
  return {};
}

tl::expected<std::string, std::string> absolute_path(std::string_view value, std::string_view what) {
  auto path = percent_decoded(value, what);
  if (path && (path->empty() || path->front() != '/' || path->find('\0') != std::string::npos)) {
    return clause("must have an absolute path as {}", what);
  }
  return path;
}

tl::expected<core::Millis, std::string> time_out(std::string_view value, std::string_view name) {
  const auto duration = core::parse_duration(value);
  if (!duration) {
    return clause("has a bad {}: it {}", name, duration.error());
  }
  if (*duration == core::Millis(0)) {
    return clause("has a bad {}: it must be longer than 0", name);
  }
  return *duration;
}

template <class Value>
tl::expected<void, std::string> put(Value& place, tl::expected<std::remove_reference_t<Value>, std::string> value) {
  if (!value) {
    return Clause(std::move(value.error()));
  }
  place = *std::move(value);
  return {};
}

tl::expected<void, std::string> take_setting(Address& address, std::string_view name, std::string_view value) {
  if (name == "connect_timeout") {
    return put(address.connect_timeout, time_out(value, name));
  }
  if (name == "op_timeout") {
    const auto duration = time_out(value, name);
    if (!duration) {
      return Clause(duration.error());
    }
    address.op_timeout = *duration;
    return {};
  }
  if (name == "db") {
    if (address.transport != Transport::unix_socket) {
      return clause("must have the db as its path: redis://host:6379/2");
    }
    return put(address.db, number(value, 0, "db"));
  }
  constexpr std::array<std::string_view, 5> of_tls{"ca", "cert", "key", "sni", "insecure"};
  if (std::find(of_tls.begin(), of_tls.end(), name) == of_tls.end()) {
    return clause("has the unknown setting {}", core::escaped(name.substr(0, 40)));
  }
  if (address.transport != Transport::tls) {
    return clause("has the setting {}, which needs rediss://", name);
  }
  if (name == "ca") {
    return put(address.ca, absolute_path(value, name));
  }
  if (name == "cert") {
    return put(address.cert, absolute_path(value, name));
  }
  if (name == "key") {
    return put(address.key, absolute_path(value, name));
  }
  if (name == "sni") {
    auto sni = percent_decoded(value, name);
    if (sni && (sni->empty() || sni->size() > longest_host || sni->find('\0') != std::string::npos)) {
      return clause("must have a host name as sni");
    }
    return put(address.sni, std::move(sni));
  }
  if (value != "1" && value != "true" && value != "0" && value != "false") {
    return clause("must have 1 or 0 as insecure");
  }
  address.insecure = value == "1" || value == "true";
  return {};
}

tl::expected<void, std::string> take_settings(Address& address, std::string_view query) {
  std::vector<std::string_view> seen;
  while (true) {
    const std::size_t end = query.find('&');
    const std::string_view setting = query.substr(0, end);
    const std::size_t equals = setting.find('=');
    const std::string_view name = setting.substr(0, equals);
    if (name.empty() || equals == std::string_view::npos) {
      return clause("must have settings of the form name=value after the ?");
    }
    if (std::find(seen.begin(), seen.end(), name) != seen.end()) {
      return clause("has the setting {} twice", core::escaped(name));
    }
    seen.push_back(name);
    if (auto taken = take_setting(address, name, setting.substr(equals + 1)); !taken) {
      return taken;
    }
    if (end == std::string_view::npos) {
      break;
    }
    query.remove_prefix(end + 1);
  }
  if (address.cert.empty() != address.key.empty()) {
    return clause("must have both cert and key, or neither");
  }
  return {};
}

tl::expected<void, std::string> take_socket(Address& address, std::string_view authority, std::string_view path) {
  if (!authority.empty()) {
    return clause("must have three slashes before the path of a socket: redis+unix:///run/redis.sock");
  }
  auto decoded = absolute_path(path, "socket");
  if (!decoded) {
    return Clause(std::move(decoded.error()));
  }
  if (decoded->back() == '/') {
    return clause("must name a socket, like redis+unix:///run/redis.sock");
  }
  if (decoded->size() > longest_socket_path) {
    return clause("must have a socket whose path has at most {} bytes", longest_socket_path);
  }
  address.path = *std::move(decoded);
  return {};
}

tl::expected<void, std::string> take_server(Address& address, std::string_view authority, std::string_view path) {
  if (auto taken = take_host(address, authority); !taken) {
    return taken;
  }
  if (path.empty() || path == "/") {
    return {};
  }
  return put(address.db, number(path.substr(1), 0, "db"));
}

}  // namespace

tl::expected<Address, std::string> Address::parse(const core::StoreUrl& url) {
  Address address;
  address.transport = url.scheme() == tls_scheme    ? Transport::tls
                      : url.scheme() == unix_scheme ? Transport::unix_socket
                                                    : Transport::tcp;
  std::string_view rest = url.rest();
  rest.remove_prefix(2);

  // A password with bare '/', '?' or '#' would end the host early, and what follows would be shown as a part of the
  // URL.
  const std::size_t authority_end = std::min(rest.find_first_of("/?#"), rest.size());
  const std::string_view authority = rest.substr(0, authority_end);
  const std::string_view behind = rest.substr(authority_end);
  const bool at_is_plain = address.transport == Transport::unix_socket && authority.empty();
  if (!at_is_plain && behind.find('@') != std::string_view::npos) {
    return clause("has an @ behind the host: write @ / ? # % in user and password as %40 %2F %3F %23 %25");
  }
  if (behind.find('#') != std::string_view::npos) {
    return clause("must not have a #: write it as %23");
  }

  const std::size_t at = authority.rfind('@');
  if (at != std::string_view::npos) {
    if (auto taken = take_user(address, authority.substr(0, at)); !taken) {
      return Clause(std::move(taken.error()));
    }
  }
  const std::string_view place = at == std::string_view::npos ? authority : authority.substr(at + 1);
  const std::size_t mark = behind.find('?');
  const std::string_view path = behind.substr(0, mark);
  auto taken = address.transport == Transport::unix_socket ? take_socket(address, place, path)
                                                           : take_server(address, place, path);
  if (taken && mark != std::string_view::npos) {
    taken = take_settings(address, behind.substr(mark + 1));
  }
  if (!taken) {
    return Clause(std::move(taken.error()));
  }
  return address;
}

std::string Address::redacted() const {
  const std::string name = user ? percent_encoded(*user, plain_marks) + "@" : "";
  std::string settings;
  const auto set = [&](std::string_view setting, std::string_view value) {
    settings += fmt::format("{}{}={}", settings.empty() ? "?" : "&", setting, value);
  };
  const auto set_path = [&](std::string_view setting, const std::string& value) {
    if (!value.empty()) {
      set(setting, percent_encoded(value, plain_in_path));
    }
  };
  const bool local = transport == Transport::unix_socket;
  if (local && db != 0) {
    set("db", fmt::to_string(db));
  }
  if (connect_timeout != Address().connect_timeout) {
    set("connect_timeout", fmt::format("{}ms", connect_timeout.count()));
  }
  if (op_timeout) {
    set("op_timeout", fmt::format("{}ms", op_timeout->count()));
  }
  set_path("ca", ca);
  set_path("cert", cert);
  set_path("key", key);
  set_path("sni", sni);
  if (insecure) {
    set("insecure", "1");
  }
  if (local) {
    return fmt::format("{}://{}{}{}", unix_scheme, name, percent_encoded(path, plain_in_path), settings);
  }
  return fmt::format("{}://{}{}{}{}{}",
                     scheme(transport),
                     name,
                     in_url(host),
                     port != usual_port ? fmt::format(":{}", port) : "",
                     db != 0 ? fmt::format("/{}", db) : "",
                     settings);
}

std::string Address::server() const {
  if (transport == Transport::unix_socket) {
    return fmt::format(
        "{}://{}{}", unix_scheme, percent_encoded(path, plain_in_path), db != 0 ? fmt::format("?db={}", db) : "");
  }
  return fmt::format("{}://{}:{}{}", scheme(transport), in_url(host), port, db != 0 ? fmt::format("/{}", db) : "");
}

}  // namespace stores::redis
