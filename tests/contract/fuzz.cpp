// Random verbs: every store against the memory store, and many processes against one SQLite file and one server.
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>
#include <optional>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include <fmt/format.h>

#include "contract/scene.hpp"
#include "core/store_url.hpp"
#include "os/process.hpp"
#include "os/random.hpp"
#include "os/real_clock.hpp"
#include "stores/registry.hpp"
#include "support/redis_server.hpp"
#include "support/temp_folder.hpp"

using contract::Millis;
using contract::value;
using namespace std::chrono_literals;

namespace {

// --- one store against another --------------------------------------------------------------------------------------

std::string text(const std::optional<Millis>& time) { return time ? fmt::format("{}ms", time->count()) : "none"; }

std::string text(const std::optional<core::WallTime>& time) {
  return time ? fmt::format("{}", time->time_since_epoch().count()) : "none";
}

std::string text(const core::Occupant& by) {
  if (const auto* held = std::get_if<core::Held>(&by)) {
    return fmt::format("held by {}#{:x} fence {} durable {} note {} for {} since {} left {}",
                       held->owner.bytes(),
                       held->ask.value,
                       held->fence ? held->fence->value : 0,
                       held->durable,
                       held->who.note,
                       text(held->held_for),
                       text(held->since),
                       text(held->left));
  }
  if (const auto* promised = std::get_if<core::Promised>(&by)) {
    return fmt::format("promised to {} waiting {}", promised->who.note, promised->waiting_for.count());
  }
  return "foreign";
}

std::string text(const core::Answer& answer) {
  if (const auto* granted = std::get_if<core::Granted>(&answer)) {
    return fmt::format("granted {} again {}", granted->fence.value, granted->again);
  }
  if (const auto* queued = std::get_if<core::Queued>(&answer)) {
    return fmt::format("queued {} {}", queued->ahead, text(queued->by));
  }
  const auto& busy = std::get<core::Busy>(answer);
  return fmt::format("busy full {} {}", busy.line_full, text(busy.by));
}

std::string text(const core::Released& released) {
  return fmt::format("release {} by {} for {}",
                     static_cast<int>(released.what),
                     released.by ? text(*released.by) : "none",
                     text(released.expired_for));
}

std::string text(const core::LockState& state) {
  std::string out =
      fmt::format("{}: {}, {} waiting:", state.key.text(), state.by ? text(*state.by) : "free", state.waiting);
  for (const auto& waiter : state.line) {
    out += fmt::format(" {}#{:x} {} {} {} left {}",
                       waiter.owner.bytes(),
                       waiter.ask.value,
                       waiter.who.note,
                       waiter.waiting_for.count(),
                       text(waiter.since),
                       text(waiter.wait_left));
  }
  return out;
}

std::string text(const std::vector<core::LockState>& states) {
  std::string out;
  for (const auto& state : states) {
    out += text(state) + "; ";
  }
  return out;
}

// What ask_again_in must keep to, which the stores may fill differently.
void check_pause(const core::Answer& answer, Millis patience) {
  if (const auto* queued = std::get_if<core::Queued>(&answer)) {
    REQUIRE(queued->ask_again_in > Millis(0));
    if (patience > Millis(0)) {
      REQUIRE(queued->ask_again_in <= patience / 2);
    }
    const auto* held = std::get_if<core::Held>(&queued->by);
    if (queued->ahead == 0 && held != nullptr) {
      REQUIRE(queued->ask_again_in <= *held->left);
    }
  } else if (const auto* busy = std::get_if<core::Busy>(&answer)) {
    REQUIRE(busy->ask_again_in > Millis(0));
  }
}

// One world with five processes, driven by whoever decides what happens next.
class Side {
public:
  static constexpr std::size_t processes = 5;

  explicit Side(const contract::Bench& bench) : m_world(bench.make()) {
    for (std::size_t i = 0; i < processes; ++i) {
      m_stores.push_back(m_world->open());
    }
  }
  core::Store& store(std::size_t process) { return *m_stores[process]; }
  // The same process without what its store object remembers.
  void reopen(std::size_t process) { m_stores[process] = m_world->open(); }
  void advance(Millis by) { m_world->advance(by); }
  void step_wall(Millis by) { m_world->step_wall(by); }

  std::array<std::optional<core::Occupant>, 2> seen;  // per key, by status

private:
  std::unique_ptr<contract::World> m_world;
  std::vector<std::unique_ptr<core::Store>> m_stores;
};

// A store may spare itself the writing of each ask, so that a place outlives its last ask by half the patience only. So
// either the waiters are so patient that no place ever lapses, or every ask comes from a store object that remembers
// nothing.
enum class Waiters { patient, forgetful };

class Story {
public:
  Story(std::uint64_t seed, Waiters waiters, const contract::Bench& other)
      : m_random(seed),
        m_waiters(waiters),
        m_wall_can_be_stepped(other.wall_can_be_stepped),
        m_memory(contract::reference_for(other)),
        m_other(other) {}

  void tell() {
    // Short enough that nothing stays expired long enough to be swept.
    while (m_time < 9'000ms && m_steps < 120) {
      ++m_steps;
      step();
    }
  }

private:
  std::int64_t up_to(std::int64_t n) { return std::uniform_int_distribution<std::int64_t>(0, n)(m_random); }
  bool one_in(int n) { return up_to(n - 1) == 0; }

  template <class Verb>
  auto both(const std::string& what, Verb verb) {
    m_log += fmt::format("{} ms: {}\n", m_time.count(), what);
    auto expected = value(verb(m_memory));
    auto found = value(verb(m_other));
    if constexpr (std::is_enum_v<decltype(expected)>) {
      m_log += fmt::format("    {}\n", static_cast<int>(expected));
      INFO(m_log);
      REQUIRE(static_cast<int>(found) == static_cast<int>(expected));
    } else {
      m_log += fmt::format("    {}\n", text(expected));
      INFO(m_log);
      REQUIRE(text(found) == text(expected));
    }
    return std::pair(std::move(expected), std::move(found));
  }

  void step() {
    const auto process = static_cast<std::size_t>(up_to(Side::processes - 1));
    const auto which = static_cast<std::size_t>(one_in(4) ? 1 : 0);
    const core::Key key = contract::key(which == 0 ? "k" : "l");
    // Processes 0 and 1 use the same owner.
    core::Claim claim{key,
                      core::Owner::stored(process < 2 ? "shared" : fmt::format("owner-{}", process)),
                      {0x9e3779b97f4a7c15U * (process + 1)}};
    core::Claim maybe_any = claim;
    if (one_in(5)) {
      maybe_any.ask = {};
    }
    const std::string name =
        fmt::format("{} process {} ask {}", key.text(), process, maybe_any.ask.any() ? "any" : "own");

    switch (up_to(15)) {
      case 0:
      case 1:
      case 2:
      case 3:
      case 4:
      case 5: {
        const Millis patience = m_waiters == Waiters::patient ? 20'000ms : Millis(2 + up_to(10) * 100);
        core::Ask ask{claim, Millis(100 + up_to(20) * 100), one_in(3) ? 0ms : patience};
        if (one_in(4)) {
          ask.max_waiting = static_cast<std::size_t>(up_to(2));
        }
        if (process % 2 == 0) {
          ask.wait_left = 20s - m_time;
        }
        if (m_waiters == Waiters::forgetful) {
          m_other.reopen(process);
        }
        ask.durable = one_in(2);
        ask.who.note = fmt::format("note-{}", process);
        const auto answers = both(fmt::format("{} acquire ttl {} patience {} max {}",
                                              name,
                                              ask.ttl.count(),
                                              ask.patience.count(),
                                              ask.max_waiting ? static_cast<int>(*ask.max_waiting) : -1),
                                  [&](Side& side) { return side.store(process).acquire(ask); });
        INFO(m_log);
        check_pause(answers.first, ask.patience);
        check_pause(answers.second, ask.patience);
        if (const auto* granted = std::get_if<core::Granted>(&answers.first)) {
          m_fences.push_back(granted->fence);
        }
        return;
      }
      case 6:
      case 7: {
        const Millis ttl(100 + up_to(20) * 100);
        both(fmt::format("{} renew {}", name, ttl.count()),
             [&](Side& side) { return side.store(process).renew(maybe_any, ttl, std::nullopt); });
        return;
      }
      case 8:
      case 9: {
        std::optional<core::Fence> fence;
        if (one_in(3) && !m_fences.empty()) {
          fence = m_fences[m_fences.size() - 1 -
                           static_cast<std::size_t>(
                               up_to(std::min<std::int64_t>(3, static_cast<std::int64_t>(m_fences.size()) - 1)))];
        }
        both(fmt::format("{} release fence {}", name, fence ? fence->value : 0),
             [&](Side& side) { return side.store(process).release(maybe_any, fence); });
        return;
      }
      case 10: {
        const Millis after(one_in(3) ? 0 : up_to(15) * 100);
        both(fmt::format("{} leave {}", name, after.count()),
             [&](Side& side) { return side.store(process).leave(maybe_any, after); });
        return;
      }
      case 11: {
        const auto states = both(name + " status", [&](Side& side) { return side.store(process).status(key); });
        m_memory.seen[which] = states.first.by;
        m_other.seen[which] = states.second.by;
        return;
      }
      case 12:
        if (m_memory.seen[which]) {
          both(name + " evict", [&](Side& side) { return side.store(process).evict(key, *side.seen[which]); });
        }
        return;
      case 13: {
        const core::Glob keys(one_in(2) ? "*" : "k");
        both("list " + keys.pattern(), [&](Side& side) { return side.store(process).list(keys); });
        return;
      }
      default: {
        // Often exactly to an end, which is where stores differ.
        const Millis by(up_to(6) * 50);
        m_time += by;
        m_memory.advance(by);
        m_other.advance(by);
        if (m_wall_can_be_stepped && one_in(30)) {
          const Millis step(up_to(2000) - 1000);
          m_memory.step_wall(step);
          m_other.step_wall(step);
        }
        m_log += fmt::format("{} ms\n", m_time.count());
      }
    }
  }

  std::mt19937_64 m_random;
  Waiters m_waiters;
  bool m_wall_can_be_stepped;
  Side m_memory;
  Side m_other;
  Millis m_time{0};
  int m_steps = 0;
  std::string m_log;
  std::vector<core::Fence> m_fences;
};

// --- many processes -------------------------------------------------------------------------------------------------

// Shared by all processes of one case; what a lock guards is plain memory on purpose.
struct Guarded {
  std::atomic<std::int64_t> inside_pid;
  std::atomic<std::int64_t> inside_started;
  volatile std::int64_t counter;
  volatile std::int64_t last_fence;
};
struct Page {
  static constexpr std::size_t keys = 3;
  static constexpr std::size_t processes = 8;
  std::array<Guarded, keys> guarded;
  std::array<std::atomic<std::int64_t>, keys> increments;
  std::array<std::atomic<std::int64_t>, processes> grants;
  std::atomic<std::int64_t> expired;
  std::atomic<bool> stop;
  std::atomic<bool> failed;
  std::array<char, 600> why;

  void fail(const std::string& sentence) {
    if (!failed.exchange(true)) {
      std::strncpy(why.data(), sentence.c_str(), why.size() - 1);
    }
  }
};

class SharedPage {
public:
  SharedPage() : m_page(::mmap(nullptr, sizeof(Page), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0)) {
    REQUIRE(m_page != MAP_FAILED);
    new (m_page) Page{};
  }
  ~SharedPage() { ::munmap(m_page, sizeof(Page)); }
  SharedPage(const SharedPage&) = delete;
  SharedPage& operator=(const SharedPage&) = delete;
  Page* operator->() const { return static_cast<Page*>(m_page); }
  Page& operator*() const { return *static_cast<Page*>(m_page); }

private:
  void* m_page;
};

struct Temper {
  bool crashes = false;  // may end while it holds
  bool waits = false;    // stands in line with a bell; else one try
  Millis ttl{5000};
};

// One process of its own: asks, counts while it holds, gives back.
class Worker {
public:
  Worker(Page& page, std::size_t number, const std::string& url, Temper temper, std::uint64_t seed)
      : m_page(page), m_number(number), m_temper(temper), m_random(seed) {
    core::StoreOptions options;
    options.durable = false;
    options.limits = &m_limits;
    m_store = must(stores::open(core::StoreUrl::parse(url).value(), options, m_clock));
    m_keepers = core::Keepers{os::own_realm(), os::own_process(), os::own_process(), os::own_process()};
  }

  void run() {
    while (!m_page.stop && !m_page.failed) {
      const auto key = static_cast<std::size_t>(m_random() % Page::keys);
      core::Ask ask{
          {contract::key(fmt::format("key-{}", key)), core::Owner::stored(os::random_uuid()), {os::random_u64()}},
          m_temper.ttl,
          m_temper.waits ? 3000ms : 0ms};
      ask.keepers = m_keepers;
      if (const auto fence = get(ask)) {
        hold(ask, m_page.guarded[key], *fence, m_page.increments[key]);
      }
    }
  }

private:
  std::optional<core::Fence> get(const core::Ask& ask) {
    std::unique_ptr<core::Watch> bell;
    if (m_temper.waits) {
      bell = must(m_store->watch(ask.claim));
    }
    while (!m_page.stop && !m_page.failed) {
      const auto answer = must(m_store->acquire(ask));
      if (const auto* granted = std::get_if<core::Granted>(&answer)) {
        return granted->fence;
      }
      if (!bell) {
        std::this_thread::sleep_for(1ms);
        return std::nullopt;
      }
      const auto pause = std::get<core::Queued>(answer).ask_again_in;
      pollfd ring{bell->fd(), POLLIN, 0};
      ::poll(&ring, 1, static_cast<int>(std::min<Millis>(pause, 100ms).count()));
      bell->drain();
    }
    must(m_store->release(ask.claim, std::nullopt));
    return std::nullopt;
  }

  void hold(const core::Ask& ask, Guarded& guarded, core::Fence fence, std::atomic<std::int64_t>& increments) {
    const auto me = os::own_process();
    if (const core::ProcessId other{guarded.inside_pid.exchange(me.pid), guarded.inside_started.exchange(me.started)};
        other.pid != 0 && !os::certainly_gone(other)) {
      m_page.fail(fmt::format("{} and {} hold {} at the same time", me.pid, other.pid, ask.claim.key.text()));
      return;
    }
    if (fence.value <= guarded.last_fence) {
      m_page.fail(fmt::format("fence {} of {} after {}", fence.value, ask.claim.key.text(), guarded.last_fence));
      return;
    }
    guarded.last_fence = fence.value;
    const std::int64_t before = guarded.counter;
    ++m_page.grants[m_number];
    if (m_random() % 4 == 0) {
      ::sched_yield();
    }
    if (m_random() % 4 == 0 && must(m_store->renew(ask.claim, m_temper.ttl, std::nullopt)) != core::Renewal::renewed) {
      m_page.fail("a live holder could not renew");
      return;
    }
    if (m_random() % 8 == 0 && !must(m_store->status(ask.claim.key)).by) {
      m_page.fail("a held lock is shown as free");
      return;
    }
    guarded.counter = before + 1;
    ++increments;
    guarded.inside_started = 0;
    guarded.inside_pid = 0;
    if (m_temper.crashes && m_random() % 5 == 0) {
      ::_exit(0);
    }
    if (const auto released = must(m_store->release(ask.claim, fence)); released.what != core::Release::released) {
      m_page.fail(fmt::format("a holder's release answered {}", static_cast<int>(released.what)));
    }
  }

  template <class T>
  T must(core::Result<T> result) {
    if (!result) {
      throw std::runtime_error(result.error().detail);
    }
    return std::move(*result);
  }

  Page& m_page;
  std::size_t m_number;
  Temper m_temper;
  std::mt19937_64 m_random;
  os::RealClock m_clock;
  core::Limits m_limits;
  core::Keepers m_keepers;
  std::unique_ptr<core::Store> m_store;
};

pid_t start(Page& page, std::size_t number, const std::string& url, Temper temper, std::uint64_t seed) {
  const pid_t pid = ::fork();
  REQUIRE(pid >= 0);
  if (pid == 0) {
    ::signal(SIGPIPE, SIG_IGN);  // as lk does: a bell may lose its listener while it is rung
    try {
      Worker(page, number, url, temper, seed).run();
    } catch (const std::exception& error) {
      page.fail(error.what());
    }
    ::_exit(0);
  }
  return pid;
}

void reap(pid_t pid, int expected_signal = 0) {
  int status = 0;
  REQUIRE(::waitpid(pid, &status, 0) == pid);
  if (expected_signal == 0) {
    CHECK((WIFEXITED(status) && WEXITSTATUS(status) == 0));
  } else if (WIFSIGNALED(status)) {
    CHECK(WTERMSIG(status) == expected_signal);
  }
}

// The parent's random choices; the children's differ by their number.
std::uint64_t any_seed() {
  if (const char* given = std::getenv("LK_SEED")) {
    return std::strtoull(given, nullptr, 0);
  }
  return os::random_u64();
}

// Nobody overlapped, and each of the first ones, which wait, had its turns.
void check_counts(Page& page, std::size_t waiters) {
  INFO(page.why.data());
  REQUIRE_FALSE(page.failed);
  for (std::size_t key = 0; key < Page::keys; ++key) {
    CAPTURE(key);
    CHECK(page.guarded[key].counter == page.increments[key]);
    CHECK(page.guarded[key].counter > 0);
  }
  for (std::size_t i = 0; i < waiters; ++i) {
    CAPTURE(i);
    CHECK(page.grants[i] > 0);
  }
}

std::int64_t all_grants(Page& page) {
  std::int64_t sum = 0;
  for (const auto& grants : page.grants) {
    sum += grants;
  }
  return sum;
}

}  // namespace

TEST_CASE("random verbs have the same answers in every store") {
  const std::uint64_t seed = any_seed();
  for (const contract::Bench& other : contract::benches()) {
    if (other.name == "memory") {
      continue;
    }
    DYNAMIC_SECTION("on " << other.name) {
      for (std::uint64_t i = 0; i < 60; ++i) {
        INFO("run again with LK_SEED=" << seed + i);
        Story(seed + i, Waiters::patient, other).tell();
        Story(seed + i, Waiters::forgetful, other).tell();
      }
    }
  }
}

TEST_CASE("processes that crash, wait and try once never overlap, and not one count is lost") {
  const std::uint64_t seed = any_seed();
  INFO("LK_SEED=" << seed);
  const support::TempFolder folder;
  const std::string url = "sqlite:" + (folder.path() / "locks.db").string();
  SharedPage page;
  // All of them create the file at the same time.
  std::vector<pid_t> pids;
  for (std::size_t i = 0; i < 6; ++i) {
    pids.push_back(start(*page, i, url, {false, i < 4, 5000ms}, seed + i));
  }
  std::this_thread::sleep_for(1500ms);
  // Two that crash now and then; their locks are free at once, long before their ttl of a minute.
  std::vector<pid_t> crashing;
  const auto end = std::chrono::steady_clock::now() + 1500ms;
  for (std::uint64_t round = 0; std::chrono::steady_clock::now() < end && !page->failed; ++round) {
    for (std::size_t i = 6; i < Page::processes; ++i) {
      crashing.push_back(start(*page, i, url, {true, i == 6, 60'000ms}, seed + 100 + round * 2 + i));
    }
    std::this_thread::sleep_for(100ms);
  }
  page->stop = true;
  for (const pid_t pid : pids) {
    reap(pid);
  }
  for (const pid_t pid : crashing) {
    reap(pid);
  }
  check_counts(*page, 4);
}

TEST_CASE("processes that wait and try once over one server never overlap, and not one count is lost") {
  const std::uint64_t seed = any_seed();
  INFO("LK_SEED=" << seed);
  const support::RedisServer server;
  SharedPage page;
  std::vector<pid_t> pids;
  for (std::size_t i = 0; i < Page::processes; ++i) {
    pids.push_back(start(*page, i, server.socket_url(), {false, i < 5, 60'000ms}, seed + i));
  }
  std::this_thread::sleep_for(2000ms);
  page->stop = true;
  for (const pid_t pid : pids) {
    reap(pid);
  }
  check_counts(*page, 5);
  // Who stopped waiting has left the line.
  os::RealClock clock;
  const auto store = value(stores::open(core::StoreUrl::parse(server.socket_url()).value(), {}, clock));
  for (const auto& state : value(store->list(core::Glob::everything()))) {
    FAIL_CHECK(text(state));
  }
}

TEST_CASE("processes that are killed at any moment never make two holders nor a lock that stays taken") {
  const std::uint64_t seed = any_seed();
  INFO("LK_SEED=" << seed);
  const support::TempFolder folder;
  const std::string url = "sqlite:" + (folder.path() / "locks.db").string();
  SharedPage page;
  std::mt19937_64 random(seed);
  std::array<pid_t, 4> pids{};
  for (std::size_t i = 0; i < pids.size(); ++i) {
    pids[i] = start(*page, i, url, {false, i % 2 == 0, 600'000ms}, seed + i);
  }
  for (int kills = 0; kills < 80 && !page->failed; ++kills) {
    std::this_thread::sleep_for(std::chrono::microseconds(random() % 40'000));
    const auto victim = static_cast<std::size_t>(random() % pids.size());
    ::kill(pids[victim], SIGKILL);
    reap(pids[victim], SIGKILL);
    pids[victim] = start(*page, victim, url, {false, victim % 2 == 0, 600'000ms}, random());
  }
  // Whatever the killed ones held is free at once, long before their ttl.
  const std::int64_t before = all_grants(*page);
  const auto patience = std::chrono::steady_clock::now() + 10s;
  while (all_grants(*page) < before + 100 && !page->failed && std::chrono::steady_clock::now() < patience) {
    std::this_thread::sleep_for(5ms);
  }
  CHECK(all_grants(*page) >= before + 100);
  page->stop = true;
  for (const pid_t pid : pids) {
    reap(pid);
  }
  INFO(page->why.data());
  REQUIRE_FALSE(page->failed);

  // Everybody is gone: nothing is held, and nobody waits.
  os::RealClock clock;
  core::StoreOptions options;
  options.durable = false;
  const auto store = value(stores::open(core::StoreUrl::parse(url).value(), options, clock));
  for (const auto& state : value(store->list(core::Glob::everything()))) {
    FAIL_CHECK(text(state));
  }
}
