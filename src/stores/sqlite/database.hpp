// One connection to the database file: created once, checked, busy-waiting within the limits, noticing a replaced file.
#pragma once

#include <sys/types.h>

#include <array>
#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <SQLiteCpp/SQLiteCpp.h>

#include "core/store.hpp"

namespace stores::sqlite {

class Database {
public:
  // `limits` outlives it. Connects nothing yet.
  Database(std::string path, bool durable, const core::Limits* limits);
  ~Database();
  Database(const Database&) = delete;
  Database& operator=(const Database&) = delete;

  const std::string& path() const noexcept { return m_path; }

  enum class Missing { create, leave };
  // Begins a verb: op_timeout counts from here. Connects if need be, and again where the file was removed or replaced
  // since; a verb that writes (`create`) asks moved() within its transaction, and begins again if so. false: there is
  // no file, and none was wanted.
  core::Result<bool> connect(Missing missing);
  SQLite::Database& operator*() noexcept { return *m_connection; }
  // The statement for this text, prepared at its first use of this connection and reset before each further one.
  SQLite::Statement& statement(const char* text);

  // What the paths lead to at this moment.
  struct FileId {
    dev_t device = 0;
    ino_t inode = 0;  // 0: no such file
    bool operator==(const FileId&) const = default;
  };
  struct Files {
    std::array<FileId, 3> ids{};  // the file, its log, the log's index
    off_t bytes = 0;              // of the file; it never shrinks by itself
    off_t log_bytes = 0;
    std::int64_t log_written = 0;  // by the kernel's clock, ns
    bool operator==(const Files&) const = default;
  };
  // Where it equals an earlier one nobody has written in between, but perhaps within one tick of the kernel's clock.
  Files files_now() const noexcept;

  // Whether the path leads to another file than the one that is open, was cut short, or the log or its index beside it
  // was taken away: what is written now, nobody will see.
  bool moved() noexcept;
  // The file can be read but not written by us.
  bool is_read_only() noexcept;
  bool is_connected() const noexcept { return m_connection != nullptr; }
  void disconnect() noexcept;

  // Copies the log into the file if it has grown past `bytes`, as far as readers let it, without waiting for anybody.
  void checkpoint(std::int64_t bytes) noexcept;

  // The one place where SQLite's errors become ours.
  core::StoreError translate(const SQLite::Exception& error) const;

private:
  // SQLite sleeps by itself, up to 10 s in all and deaf to signals, while another process opens the file or reads the
  // log afresh and does not come to an end (walTryBeginRead in its source). In this file system its sleep is ours.
  struct Vfs;
  static int on_busy(void* self, int tries);
  // For `span` at most, while there is time and nobody wants control back. Whether to try again.
  bool sleep(std::chrono::microseconds span);
  static int on_commit(void* self, ::sqlite3* connection, const char* name, int pages);
  void open_file();
  core::Result<void> create();
  core::Result<void> check_schema(int version);
  int pragma(const char* text);
  int why_no_descriptor() const noexcept;
  bool is_empty();
  core::Millis op_timeout() const { return m_limits != nullptr ? m_limits->op_timeout : core::Limits{}.op_timeout; }

  std::string m_path;
  bool m_durable;
  const core::Limits* m_limits;
  std::unique_ptr<Vfs> m_vfs;
  std::unique_ptr<SQLite::Database> m_connection;
  struct Prepared {
    Prepared(const SQLite::Database& connection, const char* sql) : text(sql), statement(connection, sql) {}
    const char* text;  // compared by address: each verb's text is one constant
    SQLite::Statement statement;
  };
  std::vector<std::unique_ptr<Prepared>> m_statements;
  std::chrono::steady_clock::time_point m_verb_began;
  Files m_files;  // where the paths led to when they were opened
  bool m_moved = false;
  bool m_interrupted = false;
  std::int64_t m_log_bytes = 0;
};

}  // namespace stores::sqlite
