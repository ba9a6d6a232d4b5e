// Promise 2 where it costs something: what SQLite's verbs do while another process has the write lock.
#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <filesystem>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>

#include <sqlite3.h>

#include "core/store.hpp"
#include "core/store_url.hpp"
#include "os/fd.hpp"
#include "os/real_clock.hpp"
#include "stores/sqlite/store.hpp"
#include "support/catch.hpp"
#include "support/temp_folder.hpp"

using core::Trouble;
using namespace std::chrono_literals;

namespace {

using Clock = std::chrono::steady_clock;

// Any other program that has the database file open.
class Stranger {
public:
  explicit Stranger(const std::string& path) {
    REQUIRE(::sqlite3_open_v2(path.c_str(), &m_database, SQLITE_OPEN_READWRITE, nullptr) == SQLITE_OK);
  }
  ~Stranger() { ::sqlite3_close(m_database); }
  Stranger(const Stranger&) = delete;
  Stranger& operator=(const Stranger&) = delete;

  void takes_the_write_lock() { REQUIRE(exec("BEGIN IMMEDIATE") == SQLITE_OK); }
  int lets_go() { return exec("COMMIT"); }

private:
  int exec(const char* text) { return ::sqlite3_exec(m_database, text, nullptr, nullptr, nullptr); }
  sqlite3* m_database = nullptr;
};

struct Scene {
  Scene() {
    store = open();
    ask.claim.ask.value = 1;
    REQUIRE(store->acquire(ask));  // the file is there, the connection is up
  }
  std::unique_ptr<core::Store> open() {
    core::StoreOptions options;
    options.durable = false;
    options.limits = &limits;
    auto opened = stores::sqlite::open(core::StoreUrl::parse("sqlite:" + path).value(), options, clock);
    if (!opened) {
      throw std::runtime_error(opened.error().detail);
    }
    return std::move(*opened);
  }

  support::TempFolder folder;
  std::string path = (folder.path() / "locks.db").string();
  os::RealClock clock;
  core::Limits limits;
  core::Ask ask{{core::Key::stored("k"), core::Owner::stored("me"), {}}, 60s};
  std::unique_ptr<core::Store> store;
};

struct Verb {
  std::string name;
  std::function<std::optional<core::StoreError>(Scene&)> run;
};

template <class T>
std::optional<core::StoreError> trouble(core::Result<T> result) {
  return result ? std::nullopt : std::optional(std::move(result.error()));
}

const std::array<Verb, 5>& writing_verbs() {
  static const std::array<Verb, 5> all{{
      {"acquire", [](Scene& at) { return trouble(at.store->acquire(at.ask)); }},
      {"renew", [](Scene& at) { return trouble(at.store->renew(at.ask.claim, 60s, std::nullopt)); }},
      {"release", [](Scene& at) { return trouble(at.store->release(at.ask.claim, std::nullopt)); }},
      {"leave", [](Scene& at) { return trouble(at.store->leave(at.ask.claim, 1s)); }},
      {"evict", [](Scene& at) { return trouble(at.store->evict(at.ask.claim.key, core::Promised{})); }},
  }};
  return all;
}

}  // namespace

TEST_CASE("a verb that gets no write lock ends with its op_timeout") {
  Scene at;
  Stranger stranger(at.path);
  stranger.takes_the_write_lock();
  for (const Verb& verb : writing_verbs()) {
    CAPTURE(verb.name);
    at.limits.op_timeout = 150ms;
    const auto began = Clock::now();
    const auto error = verb.run(at);
    const auto took = Clock::now() - began;
    REQUIRE(error);
    CHECK(error->what == Trouble::timed_out);
    CHECK(error->transient());
    CHECK(took >= 140ms);
    CHECK(took < 1s);
  }
  CHECK(stranger.lets_go() == SQLITE_OK);
  // Nothing of all that was carried out.
  const auto state = at.store->status(at.ask.claim.key).value();
  REQUIRE(state.by);
  CHECK(std::get<core::Held>(*state.by).owner == at.ask.claim.owner);
}

namespace {

// As a process that is stopped while it opens the file: it holds the first lock of its index (UNIX_SHM_DMS, byte 128),
// for which SQLite itself waits. An open file description lock, which keeps off this very process, too.
class Opener {
public:
  explicit Opener(const std::string& path) : m_index(::open((path + "-shm").c_str(), O_RDWR | O_CLOEXEC)) {
    set(F_WRLCK);
  }
  void goes_on() { set(F_UNLCK); }

private:
  void set(int type) {
    struct flock lock {};
    lock.l_type = static_cast<short>(type);
    lock.l_start = 128;
    lock.l_len = 1;
    if (::fcntl(m_index.get(), F_OFD_SETLK, &lock) != 0) {
      throw std::runtime_error("the index cannot be locked");
    }
  }
  os::Fd m_index;
};

}  // namespace

TEST_CASE("a verb that cannot open the file, as another one does and comes to no end, ends with its op_timeout") {
  Scene at;
  at.store->rest();
  Opener opener(at.path);
  at.limits.op_timeout = 150ms;
  for (const Verb& verb : writing_verbs()) {
    CAPTURE(verb.name);
    const auto began = Clock::now();
    const auto error = verb.run(at);
    const auto took = Clock::now() - began;
    REQUIRE(error);
    CHECK(error->what == Trouble::timed_out);
    CHECK(took >= 140ms);
    CHECK(took < 1s);
  }
  // Nor does a signal wait for it.
  int ends[2];
  REQUIRE(::pipe(ends) == 0);
  const os::Fd reading(ends[0]);
  const os::Fd writing(ends[1]);
  REQUIRE(::write(writing.get(), "x", 1) == 1);
  at.limits.op_timeout = 20s;
  at.limits.interrupt_fd = reading.get();
  const auto began = Clock::now();
  const auto error = trouble(at.store->acquire(at.ask));
  REQUIRE(error);
  CHECK(error->what == Trouble::interrupted);
  CHECK(Clock::now() - began < 1s);

  at.limits.interrupt_fd = -1;
  opener.goes_on();
  CHECK_FALSE(trouble(at.store->acquire(at.ask)));
}

TEST_CASE("an op_timeout that is changed between two verbs counts for the next") {
  Scene at;
  Stranger stranger(at.path);
  stranger.takes_the_write_lock();
  at.limits.op_timeout = 10s;
  at.limits.op_timeout = 50ms;
  const auto began = Clock::now();
  CHECK(trouble(at.store->acquire(at.ask)));
  CHECK(Clock::now() - began < 1s);
}

TEST_CASE("a verb waits for the write lock while there is time, and then goes through") {
  Scene at;
  Stranger stranger(at.path);
  at.limits.op_timeout = 20s;
  for (const Verb& verb : writing_verbs()) {
    CAPTURE(verb.name);
    stranger.takes_the_write_lock();
    int let_go = SQLITE_ERROR;
    std::thread later([&] {
      std::this_thread::sleep_for(30ms);
      let_go = stranger.lets_go();
    });
    const auto error = verb.run(at);
    later.join();
    CHECK(let_go == SQLITE_OK);
    CHECK_FALSE(error);
  }
}

TEST_CASE("whoever looks needs no write lock") {
  Scene at;
  Stranger stranger(at.path);
  stranger.takes_the_write_lock();
  at.limits.op_timeout = 10s;
  const auto began = Clock::now();
  CHECK(at.store->status(at.ask.claim.key).value().by);
  CHECK(at.store->list(core::Glob::everything()).value().size() == 1);
  CHECK(Clock::now() - began < 5s);
}

TEST_CASE("a caller that wants control back gets it at once") {
  Scene at;
  Stranger stranger(at.path);
  stranger.takes_the_write_lock();
  int ends[2];
  REQUIRE(::pipe(ends) == 0);
  const os::Fd reading(ends[0]);
  const os::Fd writing(ends[1]);
  at.limits.op_timeout = 20s;
  at.limits.interrupt_fd = reading.get();
  std::thread signal([&] {
    std::this_thread::sleep_for(50ms);
    while (::write(writing.get(), "x", 1) != 1) {
    }
  });
  const auto began = Clock::now();
  const auto error = trouble(at.store->acquire(at.ask));
  const auto took = Clock::now() - began;
  signal.join();
  REQUIRE(error);
  CHECK(error->what == Trouble::interrupted);
  CHECK(error->transient());
  CHECK(took < 5s);
  SECTION("a signal that is still pending stops the next verb as well") {
    CHECK(trouble(at.store->acquire(at.ask))->what == Trouble::interrupted);
  }
  SECTION("a pending signal does not stop a verb that need not wait") {
    CHECK(stranger.lets_go() == SQLITE_OK);
    CHECK_FALSE(trouble(at.store->acquire(at.ask)));
  }
  SECTION("without the descriptor the next verb waits again") {
    at.limits.interrupt_fd = -1;
    at.limits.op_timeout = 50ms;
    CHECK(trouble(at.store->acquire(at.ask))->what == Trouble::timed_out);
  }
}

TEST_CASE("whoever holds or waits for long does not grow the log") {
  Scene at;
  const auto log_bytes = [&] { return std::filesystem::file_size(at.path + "-wal"); };
  constexpr std::uintmax_t bound = 1'000'000;
  for (int i = 0; i < 1500; ++i) {
    REQUIRE(at.store->renew(at.ask.claim, 60s, std::nullopt));
  }
  CHECK(log_bytes() > 0);
  CHECK(log_bytes() < bound);

  const auto store = at.open();
  core::Ask waits = at.ask;
  waits.claim.ask.value = 2;
  for (int i = 0; i < 3000; ++i) {
    // A place that would lapse before half of the patience is written anew.
    waits.patience = i % 2 == 0 ? 10s : 1000s;
    REQUIRE(std::holds_alternative<core::Queued>(store->acquire(waits).value()));
  }
  CHECK(log_bytes() > 0);
  CHECK(log_bytes() < bound);
}
