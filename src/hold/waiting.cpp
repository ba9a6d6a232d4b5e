// The waiting loop.
#include "hold/waiting.hpp"

#include <algorithm>
#include <random>
#include <utility>

#include "os/random.hpp"

namespace hold {

namespace {

using core::Millis;

// Three heartbeats of a waiter deep in the line (5 s each, the longest ask_again_in of any store).
constexpr Millis patience{15000};
// What is left of a wait when another ask is not worth beginning: its time-out would say nothing true of the store.
constexpr Millis shortest_ask{10};
// Leaving after a signal must not feel like a hang, whatever the store does.
constexpr Millis longest_farewell{300};

// After trouble: 50 ms, doubling to 2 s, each drawn from its upper half so that waiters that failed together do not
// come back together.
class BackOff {
public:
  Millis next() {
    const Millis longest = std::min(Millis(50) * (1 << std::min(m_tries, 6)), Millis(2000));
    ++m_tries;
    return Millis(std::uniform_int_distribution<Millis::rep>(longest.count() / 2, longest.count())(m_random));
  }
  void reset() { m_tries = 0; }

private:
  int m_tries = 0;
  std::minstd_rand m_random{static_cast<std::minstd_rand::result_type>(os::random_u64())};
};

class Loop {
public:
  Loop(core::Store& store, core::Limits& limits, const core::Clock& clock, Sleeper& sleeper, Progress& progress,
       const Wait& wait)
      : m_store(store),
        m_limits(limits),
        m_usual(limits),
        m_clock(clock),
        m_sleeper(sleeper),
        m_progress(progress),
        m_ask(wait.ask),
        m_find_keepers(wait.keepers),
        m_started(clock.now()) {
    m_queues = !wait.at_most || *wait.at_most > Millis(0);
    if (wait.at_most && m_queues) {
      m_end = m_started + *wait.at_most;
    }
  }
  ~Loop() { m_limits = m_usual; }
  Loop(const Loop&) = delete;
  Loop& operator=(const Loop&) = delete;

  Outcome run() {
    // One plain try first: where the lock is free, neither a place nor a bell is needed.
    m_ask.patience = Millis(0);
    std::unique_ptr<core::Watch> bell;
    for (bool in_line = false;; in_line = true) {
      if (in_line && m_ask.patience == Millis(0)) {
        // Opened before the first ask for a place, or a release between the two would ring nobody. Without a bell the
        // timer serves.
        limit_op(m_clock.now());
        if (auto opened = m_store.watch(m_ask.claim)) {
          bell = std::move(*opened);
        }
        m_ask.patience = patience;
        if (m_find_keepers) {
          m_ask.keepers = m_find_keepers();
        }
      }
      const core::Instant sent = m_clock.now();
      limit_op(sent);
      m_ask.wait_left = m_end ? std::optional<Millis>(left(sent)) : std::nullopt;
      auto answer = m_store.acquire(m_ask);
      const core::Instant now = m_clock.now();

      Millis sleep{0};
      if (!answer) {
        m_trouble = std::move(answer.error());
        m_unknown = m_unknown || m_trouble->maybe_done;
        if (m_trouble->what == core::Trouble::interrupted) {
          return stop(Woke::signal);
        }
        // What may have been carried out has to be taken back before the end, too.
        const bool no_time = m_unknown && m_end && *m_end - now <= longest_farewell;
        if (!m_queues || !m_trouble->transient() || no_time) {
          return give_up(now);
        }
        m_progress.trouble(*m_trouble, waited(now));
        sleep = m_back_off.next();
      } else if (const auto* const granted = std::get_if<core::Granted>(&*answer)) {
        // Where the store took so long that half of the lease has gone by, the same claim, asked again, gets a whole
        // one or its place in the line.
        if (!over(now) && (!m_queues || now - sent < m_ask.ttl / 2)) {
          return Won{granted->fence, sent, waited(now)};
        }
        m_unknown = true;
      } else {
        m_trouble.reset();
        m_unknown = false;
        m_back_off.reset();
        if (auto* const busy = std::get_if<core::Busy>(&*answer)) {
          m_by = std::move(busy->by);
          if (!m_queues || busy->line_full) {
            return Refused{std::move(*m_by), busy->line_full, waited(now)};
          }
          sleep = in_line ? busy->ask_again_in : Millis(0);
        } else {
          auto& queued = std::get<core::Queued>(*answer);
          m_progress.queued(queued, waited(now));
          sleep = queued.ask_again_in;
          m_by = std::move(queued.by);
        }
      }
      if (over(now)) {
        return give_up(now);
      }
      if (sleep <= Millis(0)) {
        continue;
      }

      const core::Instant until = now + sleep;
      const Woke why = m_sleeper.sleep_until(m_end ? std::min(until, *m_end) : until, bell.get());
      if (why == Woke::signal || why == Woke::hangup) {
        return stop(why);
      }
      if (const core::Instant woke = m_clock.now(); over(woke + shortest_ask)) {
        return give_up(woke);
      }
      if (bell) {
        bell->drain();
      }
    }
  }

private:
  bool over(core::Instant now) const { return m_end && now >= *m_end; }
  Millis waited(core::Instant now) const { return std::chrono::duration_cast<Millis>(now - m_started); }
  Millis left(core::Instant now) const { return std::max(std::chrono::duration_cast<Millis>(*m_end - now), Millis(0)); }

  // No verb outlives the wait, and a part of it is kept for taking back what was asked.
  void limit_op(core::Instant now) {
    m_limits.op_timeout = m_usual.op_timeout;
    if (m_end) {
      const Millis for_farewell = std::min(longest_farewell, left(now) / 4);
      m_limits.op_timeout = std::clamp(left(now) - for_farewell, Millis(1), m_usual.op_timeout);
    }
  }

  // Leaves the line, and gives back what a late or lost reply granted. A pending signal must not stop this.
  bool take_back(Millis op_timeout) {
    m_limits.interrupt_fd = -1;
    m_limits.op_timeout = op_timeout;
    return m_store.release(m_ask.claim, std::nullopt).has_value();
  }

  Outcome stop(Woke why) {
    take_back(longest_farewell);
    return Stopped{why, waited(m_clock.now())};
  }

  // The deadline is kept to 50 ms.
  Millis farewell(core::Instant now) const {
    constexpr Millis tolerance{40};
    if (!m_unknown) {
      return tolerance;
    }
    return m_end ? std::clamp(left(now), tolerance, longest_farewell) : longest_farewell;
  }

  // After trouble the trouble is reported, not "held".
  Outcome give_up(core::Instant now) {
    // A place in the line ends by itself; a grant that nobody knows of would keep others out for its whole ttl.
    const bool taken_back = (m_unknown || m_queues) && take_back(farewell(now));
    if (m_trouble || !m_by) {
      return Failed{m_trouble.value_or(core::StoreError{core::Trouble::timed_out, "the store answered too late"}),
                    m_unknown && !taken_back,
                    waited(now)};
    }
    return Refused{std::move(*m_by), false, waited(now)};
  }

  core::Store& m_store;
  core::Limits& m_limits;
  const core::Limits m_usual;
  const core::Clock& m_clock;
  Sleeper& m_sleeper;
  Progress& m_progress;
  core::Ask m_ask;
  const std::function<core::Keepers()>& m_find_keepers;
  core::Instant m_started;
  std::optional<core::Instant> m_end;
  bool m_queues = false;
  bool m_unknown = false;  // a request may have been carried out without our knowing
  std::optional<core::Occupant> m_by;
  std::optional<core::StoreError> m_trouble;
  BackOff m_back_off;
};

}  // namespace

Outcome wait_for(core::Store& store, core::Limits& limits, const core::Clock& clock, Sleeper& sleeper,
                 Progress& progress, const Wait& wait) {
  return Loop(store, limits, clock, sleeper, progress, wait).run();
}

}  // namespace hold
