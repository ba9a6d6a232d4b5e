// Opening, creating, waiting for the file's write lock, and SQLite's errors.
#include "stores/sqlite/database.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <new>
#include <random>
#include <utility>

#include <fmt/format.h>
#include <sqlite3.h>

#include "core/duration.hpp"
#include "core/text.hpp"
#include "os/fd.hpp"
#include "os/random.hpp"
#include "stores/sqlite/location.hpp"
#include "stores/sqlite/schema.hpp"

namespace stores::sqlite {

namespace {

using core::StoreError;
using core::Trouble;

// https://www.sqlite.org/fileformat.html, "The Database Header".
constexpr off_t shortest_database = 100;

// A writer is in and out in well under a millisecond; waking up 20 times a second for one that is not costs nothing. In
// a crowd pauses of a millisecond at most are worse: 50 processes that look so often take the processor from the one
// that has the lock (124 grants a second instead of 210).
constexpr std::chrono::microseconds first_pause{200};
constexpr std::chrono::microseconds longest_pause{50'000};

// poll(2) for a pause that ends early when the caller wants control back. True: it does.
bool pause(std::chrono::microseconds span, int interrupt_fd) {
  pollfd watched{interrupt_fd, POLLIN, 0};
  const timespec time{span.count() / 1'000'000, span.count() % 1'000'000 * 1000};
  return ::ppoll(&watched, 1, &time, nullptr) > 0;
}

std::chrono::microseconds jittered(std::chrono::microseconds span) {
  static std::minstd_rand random{static_cast<std::minstd_rand::result_type>(os::random_u64())};
  return std::chrono::microseconds(std::uniform_int_distribution<std::int64_t>(span.count() / 2, span.count())(random));
}

// Before SQLite is first used: nobody asks how much memory it takes, and counting costs 20 us.
void configure_sqlite() { [[maybe_unused]] static const int once = ::sqlite3_config(SQLITE_CONFIG_MEMSTATUS, 0); }

}  // namespace

// The system's, under a name of its own.
struct Database::Vfs : ::sqlite3_vfs {
  explicit Vfs(Database& owner)
      : ::sqlite3_vfs(of_the_system()), database(owner), name(fmt::format("lk {}", static_cast<const void*>(this))) {
    zName = name.c_str();
    xSleep = &Vfs::sleep;
    ::sqlite3_vfs_register(this, 0);
  }
  ~Vfs() { ::sqlite3_vfs_unregister(this); }
  Vfs(const Vfs&) = delete;
  Vfs& operator=(const Vfs&) = delete;

  // SQLite starts with the first question for one.
  static const ::sqlite3_vfs& of_the_system() {
    const ::sqlite3_vfs* const found = ::sqlite3_vfs_find(nullptr);
    if (found == nullptr) {
      throw std::bad_alloc();
    }
    return *found;
  }

  // Once the verb's time is over it returns at once: SQLite gives up after a hundred tries.
  static int sleep(::sqlite3_vfs* self, int microseconds) {
    static_cast<Vfs*>(self)->database.sleep(std::chrono::microseconds(microseconds));
    return microseconds;
  }

  Database& database;
  std::string name;
};

Database::Database(std::string path, bool durable, const core::Limits* limits)
    : m_path(std::move(path)), m_durable(durable), m_limits(limits) {}

Database::~Database() = default;

core::Result<bool> Database::connect(Missing missing) {
  m_verb_began = std::chrono::steady_clock::now();
  m_interrupted = false;
  // Whoever writes asks again once it has the file to itself.
  if (m_connection && !m_moved && (missing == Missing::create || !moved())) {
    return true;
  }
  disconnect();
  struct stat found {};
  const bool there = ::stat(m_path.c_str(), &found) == 0;
  if (!there && errno != ENOENT && errno != ENOTDIR) {
    return tl::unexpected(explain_no_access(m_path));
  }
  if (there && !S_ISREG(found.st_mode)) {
    return tl::unexpected(
        StoreError{Trouble::misconfigured, fmt::format("{} is not a regular file", core::escaped(m_path))});
  }
  // SQLite would take a file that is shorter than its header for an empty one, and write over it.
  if (there && found.st_size > 0 && found.st_size < shortest_database) {
    return tl::unexpected(translate(SQLite::Exception("", SQLITE_NOTADB)));
  }
  const bool empty = !there || found.st_size == 0;
  if (empty && missing == Missing::leave) {
    return false;
  }
  if (!there) {
    if (auto made = make_folder(m_path); !made) {
      return tl::unexpected(std::move(made.error()));
    }
  }
  if (auto checked = check_location(m_path); !checked) {
    return tl::unexpected(std::move(checked.error()));
  }
  try {
    if (empty) {
      if (auto created = create(); !created) {
        return tl::unexpected(std::move(created.error()));
      }
    }
    open_file();
    int version = pragma("PRAGMA user_version");
    if (version == 0 && is_empty()) {
      // Its creator died half-way, or is at work right now.
      disconnect();
      if (missing == Missing::leave) {
        return false;
      }
      if (auto created = create(); !created) {
        return tl::unexpected(std::move(created.error()));
      }
      open_file();
      version = schema_version;
    }
    if (auto checked = check_schema(version); !checked) {
      disconnect();
      return tl::unexpected(std::move(checked.error()));
    }
    // From the first read on the log and its index are there, and stay as long as anybody has the file open.
    m_files = files_now();
  } catch (const SQLite::Exception& error) {
    StoreError told = translate(error);
    disconnect();
    return tl::unexpected(std::move(told));
  }
  return true;
}

void Database::open_file() {
  configure_sqlite();
  if (!m_vfs) {
    m_vfs = std::make_unique<Vfs>(*this);
  }
  const int flags = SQLite::OPEN_READWRITE | SQLITE_OPEN_NOMUTEX;
  m_connection = std::make_unique<SQLite::Database>(m_path, flags, 0, m_vfs->name);
  ::sqlite3* const handle = m_connection->getHandle();
  ::sqlite3_busy_handler(handle, &Database::on_busy, this);
  // Two fsyncs of a checkpoint in every short command would cost more than the command (2.7 ms against 0.7 ms). The
  // log stays behind instead, and `checkpoint` copies it from time to time outside the critical path.
  ::sqlite3_db_config(handle, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, nullptr);
  ::sqlite3_wal_hook(handle, &Database::on_commit, this);  // replaces the automatic checkpoint
  if (!m_durable) {
    m_connection->exec("PRAGMA synchronous = NORMAL");  // the compiled-in default is FULL
  }
}

int Database::pragma(const char* text) {
  SQLite::Statement query(*m_connection, text);
  return query.executeStep() ? query.getColumn(0).getInt() : 0;
}

bool Database::is_empty() { return pragma("SELECT count(*) FROM sqlite_master") == 0; }

core::Result<void> Database::check_schema(int version) {
  if (pragma("PRAGMA application_id") != application_id) {
    return tl::unexpected(StoreError{
        Trouble::corrupt,
        fmt::format("{} is the database of another program; name another file with --store", core::escaped(m_path))});
  }
  if (version > schema_version) {
    return tl::unexpected(
        StoreError{Trouble::corrupt,
                   fmt::format("{} was written by a newer lk (schema {}, this lk knows {}); update lk",
                               core::escaped(m_path),
                               version,
                               schema_version)});
  }
  if (version < schema_version) {
    SQLite::Transaction transaction(*m_connection, SQLite::TransactionBehavior::IMMEDIATE);
    migrate(*m_connection, pragma("PRAGMA user_version"));
    transaction.commit();
  }
  return {};
}

// flock(2) on the file itself serialises its creators: SQLite uses byte locks (fcntl), which do not see it. Switching a
// new file to WAL calls no busy handler, so that without this, processes that start at once would be told "database is
// locked".
core::Result<void> Database::create() {
  const mode_t mode = file_mode(m_path);
  os::Fd file(::open(m_path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, mode));
  if (file) {
    ::fchmod(file.get(), mode);
  } else {
    // It is there, or it is a link to what is not there yet.
    file.reset(::open(m_path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, mode));
  }
  if (!file) {
    return tl::unexpected(errno == ENOSPC || errno == EDQUOT
                              ? StoreError{Trouble::full, fmt::format("no room to create {}", core::escaped(m_path))}
                              : explain_no_access(m_path));
  }
  for (int tries = 0; ::flock(file.get(), LOCK_EX | LOCK_NB) != 0; ++tries) {
    if (on_busy(this, tries) == 0) {
      return tl::unexpected(translate(SQLite::Exception("", SQLITE_BUSY)));
    }
  }
  open_file();
  for (int tries = 0;; ++tries) {
    try {
      // A lock is a row of 300 bytes, and whoever opens the file first reads the whole log: small pages keep it short.
      m_connection->exec("PRAGMA page_size = 1024; PRAGMA journal_mode = WAL");
      SQLite::Transaction transaction(*m_connection, SQLite::TransactionBehavior::IMMEDIATE);
      if (pragma("PRAGMA user_version") == 0 && is_empty()) {
        migrate(*m_connection, 0);
      }
      transaction.commit();
      break;
    } catch (const SQLite::Exception& error) {
      if (error.getErrorCode() != SQLITE_BUSY || on_busy(this, tries) == 0) {
        throw;
      }
    }
  }
  checkpoint(0);
  // Closing `file` drops every byte lock this process has on it: SQLite's connection must be gone before.
  disconnect();
  return {};
}

SQLite::Statement& Database::statement(const char* text) {
  for (const auto& prepared : m_statements) {
    if (prepared->text == text) {
      prepared->statement.reset();
      return prepared->statement;
    }
  }
  return m_statements.emplace_back(std::make_unique<Prepared>(*m_connection, text))->statement;
}

Database::Files Database::files_now() const noexcept {
  Files files;
  struct stat found {};
  for (std::size_t i = 0; i < files.ids.size(); ++i) {
    constexpr std::array<const char*, 3> endings{"", "-wal", "-shm"};
    if (::stat((m_path + endings[i]).c_str(), &found) == 0) {
      files.ids[i] = {found.st_dev, found.st_ino};
      if (i == 0) {
        files.bytes = found.st_size;
      } else if (i == 1) {
        files.log_bytes = found.st_size;
        files.log_written = found.st_mtim.tv_sec * 1'000'000'000 + found.st_mtim.tv_nsec;
      }
    }
  }
  return files;
}

// SQLite looks at the path it resolved when it opened the file; a link on the way may lead elsewhere by now.
bool Database::moved() noexcept {
  int answer = 0;
  const Files now = files_now();
  m_moved = now.ids.front().inode == 0 || now.ids != m_files.ids || now.bytes < m_files.bytes ||
            (::sqlite3_file_control(m_connection->getHandle(), "main", SQLITE_FCNTL_HAS_MOVED, &answer) == SQLITE_OK &&
             answer != 0);
  return m_moved;
}

bool Database::is_read_only() noexcept { return ::sqlite3_db_readonly(m_connection->getHandle(), "main") == 1; }

void Database::disconnect() noexcept {
  m_statements.clear();
  m_connection.reset();
  m_moved = false;
  m_log_bytes = 0;
}

void Database::checkpoint(std::int64_t bytes) noexcept {
  if (!m_connection || m_log_bytes <= bytes) {
    return;
  }
  // TRUNCATE, as the next process finds no index that says how much of the log has been copied: it would read it all
  // again and append to it. Without a busy handler it waits for nobody, and copies what it may.
  ::sqlite3* const handle = m_connection->getHandle();
  ::sqlite3_busy_handler(handle, nullptr, nullptr);
  ::sqlite3_wal_checkpoint_v2(handle, nullptr, SQLITE_CHECKPOINT_TRUNCATE, nullptr, nullptr);
  ::sqlite3_busy_handler(handle, &Database::on_busy, this);
  m_log_bytes = 0;
}

int Database::on_commit(void* self, ::sqlite3* /*connection*/, const char* /*name*/, int pages) {
  constexpr std::int64_t frame_bytes = 1024 + 24;
  static_cast<Database*>(self)->m_log_bytes = pages * frame_bytes;
  return SQLITE_OK;
}

bool Database::sleep(std::chrono::microseconds span) {
  const auto spent =
      std::chrono::duration_cast<std::chrono::microseconds>(std::chrono::steady_clock::now() - m_verb_began);
  const std::chrono::microseconds left = op_timeout() - spent;
  if (m_interrupted || left <= std::chrono::microseconds(0)) {
    return false;
  }
  m_interrupted = pause(std::min(span, left), m_limits != nullptr ? m_limits->interrupt_fd : -1);
  return !m_interrupted;
}

int Database::on_busy(void* self, int tries) {
  return static_cast<Database*>(self)->sleep(jittered(std::min(first_pause * (1 << std::min(tries, 8)), longest_pause)))
             ? 1
             : 0;
}

// The errno of a file that could not be opened for want of a descriptor; 0: that was not it. SQLite knows it of the log
// and its index; where the database itself did not open there is nobody left to ask.
int Database::why_no_descriptor() const noexcept {
  if (m_connection) {
    const int error = ::sqlite3_system_errno(m_connection->getHandle());
    return os::is_shortage(error) ? error : 0;
  }
  return os::Fd(::open("/", O_PATH | O_CLOEXEC)) ? 0 : errno;
}

core::StoreError Database::translate(const SQLite::Exception& error) const {
  const std::string file = core::escaped(m_path);
  const auto no_memory = [&file] {
    return StoreError{Trouble::exhausted, fmt::format("cannot use {}: {}", file, std::strerror(ENOMEM))};
  };
  switch (error.getErrorCode()) {
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
    case SQLITE_PROTOCOL:
      return m_interrupted ? StoreError{Trouble::interrupted, "interrupted"}
                           : StoreError{Trouble::timed_out,
                                        fmt::format("another program kept the file {} locked for more than {}",
                                                    file,
                                                    core::to_text(op_timeout()))};
    case SQLITE_CORRUPT:
      return {
          Trouble::corrupt,
          fmt::format("{} is damaged (\"{}\"); nothing was changed, move it away to start afresh", file, error.what())};
    case SQLITE_NOTADB:
      return {Trouble::corrupt,
              fmt::format("{} is not a database; nothing was changed, name another file with --store", file)};
    case SQLITE_NOMEM:
      return no_memory();
    case SQLITE_FULL:
      return {Trouble::full, fmt::format("no room to write {}", file)};
    case SQLITE_READONLY:
    case SQLITE_CANTOPEN:
    case SQLITE_PERM:
    case SQLITE_AUTH: {
      if (const int shortage = why_no_descriptor(); shortage != 0) {
        return {Trouble::exhausted, fmt::format("cannot open {}: {}", file, std::strerror(shortage))};
      }
      StoreError told = explain_no_access(m_path);
      if (told.what == Trouble::unreachable) {
        told.detail += fmt::format(" ({})", error.what());
      }
      return told;
    }
    case SQLITE_IOERR: {
      // The file size limit (ulimit -f) cuts a write short, and SQLite calls that an I/O error.
      rlimit size{};
      const bool limited = ::getrlimit(RLIMIT_FSIZE, &size) == 0 && size.rlim_cur != RLIM_INFINITY;
      const int code = error.getExtendedErrorCode();
      if (code == SQLITE_IOERR_NOMEM) {
        return no_memory();
      }
      if (code == SQLITE_IOERR_SHMSIZE || (code == SQLITE_IOERR_WRITE && limited)) {
        return {Trouble::full, fmt::format("no room to write {} (disk, quota or file size limit)", file)};
      }
      StoreError told = explain_no_access(m_path);
      if (told.what == Trouble::unreachable) {
        told.detail = fmt::format("cannot read or write {}: {}", file, error.what());
      }
      return told;
    }
    default:
      return {Trouble::corrupt, fmt::format("{}: {}", file, error.what())};
  }
}

}  // namespace stores::sqlite
