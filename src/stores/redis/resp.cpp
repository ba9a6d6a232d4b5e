// RESP2 by hiredis, which parses and calls back.
#include "stores/redis/resp.hpp"

#include <new>
#include <utility>

#include <hiredis/hiredis.h>

namespace stores::redis {

namespace {

constexpr int deepest_reply = 8;

}  // namespace

// They build the tree in the reader's m_root.
struct ReplyReader::Callbacks {
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

  static redisReplyObjectFunctions& all() {
    // No freeObject: every object lies in m_root.
    static redisReplyObjectFunctions functions = [] {
      redisReplyObjectFunctions made{};
      made.createString = &add_text;
      made.createArray = &add_array;
      made.createInteger = &add_integer;
      made.createNil = &add_nil;
      return made;
    }();
    return functions;
  }
};

void ReplyReader::Free::operator()(redisReader* reader) const noexcept { ::redisReaderFree(reader); }

void ReplyReader::reset() {
  m_reader.reset(::redisReaderCreateWithFunctions(&Callbacks::all()));
  if (m_reader == nullptr) {
    throw std::bad_alloc();
  }
  m_reader->privdata = this;
  m_waiting_bytes = 0;
}

void ReplyReader::feed(std::string_view bytes) {
  m_waiting_bytes += bytes.size();
  if (::redisReaderFeed(m_reader.get(), bytes.data(), bytes.size()) != REDIS_OK) {
    throw std::bad_alloc();
  }
}

ReplyReader::Found ReplyReader::next(Reply& reply) {
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

const char* ReplyReader::reason() const noexcept { return m_reader->errstr; }

void append_command(std::string& out, const std::vector<std::string_view>& words) {
  std::vector<const char*> texts;
  std::vector<std::size_t> lengths;
  texts.reserve(words.size());
  lengths.reserve(words.size());
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

}  // namespace stores::redis
