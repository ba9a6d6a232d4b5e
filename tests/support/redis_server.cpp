// fork, exec, and a first question.
#include "support/redis_server.hpp"

#include <fcntl.h>
#include <netinet/in.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <stdexcept>
#include <system_error>
#include <utility>

#include "os/fd.hpp"
#include "support/run_lk.hpp"

namespace support {

namespace {

// Runs `words[0]` with its output in `out`. It dies with the test program.
pid_t run(std::vector<std::string> words, int out, std::vector<std::string> environment = {}) {
  std::vector<char*> arguments;
  arguments.reserve(words.size() + 1);
  for (std::string& word : words) {
    arguments.push_back(word.data());
  }
  arguments.push_back(nullptr);
  const pid_t parent = ::getpid();
  const pid_t pid = ::fork();
  if (pid < 0) {
    throw std::system_error(errno, std::generic_category(), "fork");
  }
  if (pid == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (::getppid() != parent) {
      ::_exit(1);
    }
    sigset_t none;
    sigemptyset(&none);
    ::sigprocmask(SIG_SETMASK, &none, nullptr);
    const int null = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
    ::dup2(null, STDIN_FILENO);
    ::dup2(out, STDOUT_FILENO);
    ::dup2(out, STDERR_FILENO);
    for (std::string& variable : environment) {
      ::putenv(variable.data());
    }
    ::execvp(arguments[0], arguments.data());
    ::_exit(127);
  }
  return pid;
}

int wait_for_state(pid_t pid, int options) {
  int status = 0;
  while (::waitpid(pid, &status, options) < 0) {
    if (errno != EINTR) {
      throw std::system_error(errno, std::generic_category(), "waitpid");
    }
  }
  return status;
}

// Whether a server answers at the socket, whatever it says.
bool answers(const std::string& path) {
  const os::Fd socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_un place{};
  place.sun_family = AF_UNIX;
  path.copy(place.sun_path, sizeof place.sun_path - 1);
  if (::connect(socket.get(), reinterpret_cast<const sockaddr*>(&place), sizeof place) != 0) {
    return false;
  }
  constexpr std::array question{'P', 'I', 'N', 'G', '\r', '\n'};
  char answer = 0;
  return ::send(socket.get(), question.data(), question.size(), MSG_NOSIGNAL) > 0 &&
         ::read(socket.get(), &answer, 1) == 1;
}

}  // namespace

int free_port() {
  // A cluster node needs its port + 10000 too.
  constexpr int highest = 55535;
  std::vector<os::Fd> too_high;
  while (true) {
    os::Fd socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_in place{};
    place.sin_family = AF_INET;
    place.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof place;
    auto* const any = reinterpret_cast<sockaddr*>(&place);
    if (::bind(socket.get(), any, size) != 0 || ::getsockname(socket.get(), any, &size) != 0) {
      throw std::system_error(errno, std::generic_category(), "bind");
    }
    if (ntohs(place.sin_port) <= highest) {
      return ntohs(place.sin_port);
    }
    too_high.push_back(std::move(socket));
  }
}

RedisServer::RedisServer(RedisOptions options)
    : m_options(std::move(options)), m_folder_path(m_folder.path().string()), m_socket(m_folder_path + "/redis.sock") {
  // Between choosing a port and listening at it somebody else may take it.
  for (int tries = 0; tries < 5; ++tries) {
    choose_ports();
    if (try_start()) {
      return;
    }
    if (log().find("Address already in use") == std::string::npos) {
      break;
    }
  }
  throw std::runtime_error("redis-server does not start: " + log());
}

RedisServer::~RedisServer() {
  if (m_pid > 0) {
    ::kill(m_pid, SIGKILL);
    while (::waitpid(m_pid, nullptr, 0) < 0 && errno == EINTR) {
    }
  }
}

void RedisServer::choose_ports() {
  m_port = m_options.tcp ? free_port() : 0;
  m_tls_port = m_options.tls ? free_port() : 0;
}

std::string RedisServer::log() const { return content_of(m_folder_path + "/log"); }

bool RedisServer::try_start() {
  std::vector<std::string> words{
      "redis-server", "--dir", m_folder_path, "--unixsocket", m_socket, "--save", "", "--port", std::to_string(m_port)};
  const auto add = [&](std::initializer_list<std::string> more) { words.insert(words.end(), more); };
  if (m_options.tls) {
    add({"--tls-port",
         std::to_string(m_tls_port),
         "--tls-cert-file",
         m_options.tls->cert,
         "--tls-key-file",
         m_options.tls->key});
    if (m_options.client_authority.empty()) {
      add({"--tls-auth-clients", "no"});
    } else {
      add({"--tls-auth-clients", "yes", "--tls-ca-cert-file", m_options.client_authority});
    }
  }
  words.insert(words.end(), m_options.arguments.begin(), m_options.arguments.end());

  ::unlink(m_socket.c_str());
  const os::Fd out(::open((m_folder_path + "/log").c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600));
  m_pid = run(words, out.get(), m_options.environment);
  bool ended = false;
  const bool ready = wait_until([&] {
    ended = ::waitpid(m_pid, nullptr, WNOHANG) == m_pid;
    return ended || answers(m_socket);
  });
  if (ended) {
    m_pid = 0;
  } else if (!ready) {
    kill();
  }
  return m_pid > 0;
}

void RedisServer::start() {
  if (!try_start()) {
    throw std::runtime_error("redis-server does not start again: " + log());
  }
}

void RedisServer::suspend() {
  ::kill(m_pid, SIGSTOP);
  if (!WIFSTOPPED(wait_for_state(m_pid, WUNTRACED))) {
    throw std::runtime_error("redis-server ended instead of stopping");
  }
}

void RedisServer::resume() {
  ::kill(m_pid, SIGCONT);
  if (!WIFCONTINUED(wait_for_state(m_pid, WCONTINUED))) {
    throw std::runtime_error("redis-server ended instead of going on");
  }
}

void RedisServer::kill() {
  ::kill(m_pid, SIGKILL);
  wait_for_state(m_pid, 0);
  m_pid = 0;
}

std::string RedisServer::tcp_url(const std::string& host) const {
  return "redis://" + host + ":" + std::to_string(m_port);
}

std::string RedisServer::tls_url(const std::string& host) const {
  return "rediss://" + host + ":" + std::to_string(m_tls_port);
}

std::string RedisServer::cli(const std::vector<std::string>& words) const {
  std::array<int, 2> pipe{};
  if (::pipe2(pipe.data(), O_CLOEXEC) != 0) {
    throw std::system_error(errno, std::generic_category(), "pipe");
  }
  const os::Fd reader(pipe[0]);
  os::Fd writer(pipe[1]);
  std::vector<std::string> all{"redis-cli", "-s", m_socket};
  all.insert(all.end(), words.begin(), words.end());
  const pid_t pid = run(all, writer.get());
  writer.reset();
  std::string out;
  std::array<char, 4096> buffer;
  for (ssize_t got = 0; (got = ::read(reader.get(), buffer.data(), buffer.size())) > 0;) {
    out.append(buffer.data(), static_cast<std::size_t>(got));
  }
  wait_for_state(pid, 0);
  while (!out.empty() && out.back() == '\n') {
    out.pop_back();
  }
  return out;
}

}  // namespace support
