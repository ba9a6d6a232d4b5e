// A real redis-server of one test, on a unix socket and, where wanted, on TCP and TLS ports of the loopback.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <vector>

#include "support/certificates.hpp"
#include "support/temp_folder.hpp"

namespace support {

struct RedisOptions {
  bool tcp = false;
  std::optional<Certificate> tls = std::nullopt;
  std::string client_authority{};          // a file: TLS clients need a certificate of this authority
  std::vector<std::string> arguments{};    // more of redis-server's options: "--requirepass", "x"
  std::vector<std::string> environment{};  // NAME=VALUE, beside that of the test
};

// What runs at the end of the test is killed; nothing else ever is. Nothing is saved unless the options say so.
class RedisServer {
public:
  // Ready: it answers, if only that it wants a password or is loading. Throws with the server's log where it does not
  // start.
  explicit RedisServer(RedisOptions options = {});
  ~RedisServer();
  RedisServer(const RedisServer&) = delete;
  RedisServer& operator=(const RedisServer&) = delete;

  pid_t pid() const noexcept { return m_pid; }
  const std::string& folder() const noexcept { return m_folder_path; }
  const std::string& socket() const noexcept { return m_socket; }
  int port() const noexcept { return m_port; }
  int tls_port() const noexcept { return m_tls_port; }
  std::string socket_url() const { return "redis+unix://" + m_socket; }
  std::string tcp_url(const std::string& host = "127.0.0.1") const;
  std::string tls_url(const std::string& host = "127.0.0.1") const;

  // The machine hangs: connections stay, nothing is answered.
  void suspend();
  void resume();
  void kill();   // -9
  void start();  // after kill: the same ports, socket and folder

  // redis-cli over the socket, with these words: what it prints, without the last line end.
  std::string cli(const std::vector<std::string>& words) const;

private:
  bool try_start();
  void choose_ports();
  std::string log() const;

  RedisOptions m_options;
  TempFolder m_folder;
  std::string m_folder_path;
  std::string m_socket;
  int m_port = 0;
  int m_tls_port = 0;
  pid_t m_pid = 0;
};

// A TCP port of the loopback at which nothing listens now.
int free_port();

}  // namespace support
