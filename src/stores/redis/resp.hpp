// The Redis serialization protocol (RESP2): commands into bytes, bytes into replies.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

struct redisReader;  // of hiredis

namespace stores::redis {

struct Reply {
  enum class Kind { status, error, integer, bulk, nil, array };
  Kind kind = Kind::nil;
  std::string text;  // of status, error, bulk
  std::int64_t integer = 0;
  std::vector<Reply> elements;
};

void append_command(std::string& out, const std::vector<std::string_view>& words);

// Takes the bytes of one connection as they come, and gives whole replies. What it keeps grows with what has arrived,
// never with what a length promises, and has bounds.
class ReplyReader {
public:
  // More than any page of a scan or status of a line that lk asks for.
  static constexpr std::size_t longest_reply = std::size_t{64} * 1024 * 1024;

  ReplyReader() { reset(); }
  ReplyReader(const ReplyReader&) = delete;
  ReplyReader& operator=(const ReplyReader&) = delete;

  // For another connection.
  void reset();
  void feed(std::string_view bytes);

  enum class Found {
    reply,
    incomplete,
    nonsense,  // no RESP2, or nested deeper than any reply to lk; what follows is lost too
    too_long,
  };
  // `reply` is written to where one is found.
  Found next(Reply& reply);
  // Nothing has come that was not taken as a reply.
  bool empty() const noexcept { return m_waiting_bytes == 0; }
  // After `nonsense`.
  const char* reason() const noexcept;

private:
  struct Free {
    void operator()(redisReader* reader) const noexcept;
  };
  struct Callbacks;

  std::unique_ptr<redisReader, Free> m_reader;
  Reply m_root;
  std::size_t m_waiting_bytes = 0;
};

}  // namespace stores::redis
