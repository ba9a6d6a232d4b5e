// A TCP proxy of one test that can stand for a bad network.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstddef>
#include <string>

#include "os/fd.hpp"

namespace support {

// A process of its own, so that it goes on while the test waits. It passes everything until it is told otherwise; what
// it is told holds when the call returns. It ends with this object.
class Proxy {
public:
  // To the server at this unix socket, or at this TCP port of 127.0.0.1.
  explicit Proxy(const std::string& server_socket);
  explicit Proxy(int server_port);
  ~Proxy();
  Proxy(const Proxy&) = delete;
  Proxy& operator=(const Proxy&) = delete;

  int port() const noexcept { return m_port; }
  std::string url() const { return "redis://127.0.0.1:" + std::to_string(m_port); }

  void pass();   // everything, what was held back included, and without delay
  void stall();  // sockets stay open, new ones are taken; nothing goes either way
  void delay_replies(std::chrono::milliseconds by);
  void drop_next_reply();  // the next thing any server says is lost, and that connection with it
  void cut();              // all connections of now are reset

  std::size_t connections() const noexcept;  // taken so far
  std::size_t open_connections() const noexcept;
  std::size_t dropped_replies() const noexcept;

private:
  struct Page;
  void start(const std::string& server_socket, int server_port);
  void tell();

  Page* m_page = nullptr;
  os::Fd m_control;
  pid_t m_pid = 0;
  int m_port = 0;
};

}  // namespace support
