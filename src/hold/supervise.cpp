// One poll over signals and one timer; everything else is the machine's decision.
#include "hold/supervise.hpp"

#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <random>
#include <system_error>
#include <utility>

#include "os/boot_timer.hpp"
#include "os/child.hpp"
#include "os/family.hpp"
#include "os/process.hpp"
#include "os/random.hpp"

namespace hold {

namespace {

using core::Millis;

// When a renewal of its own tells the store who the child is, or the next in line that there is a new holder. A command
// that is done sooner saves it.
constexpr Millis soon{5};

std::int64_t number(core::Instant time) { return time.time_since_epoch().count(); }

template <class... Cases>
struct Overloaded : Cases... {
  using Cases::operator()...;
};
template <class... Cases>
Overloaded(Cases...) -> Overloaded<Cases...>;

class Supervision {
public:
  Supervision(core::Store& store, core::Limits& limits, const core::Clock& clock, os::Signals& signals,
              SharedPage& page, std::optional<Guardian>& guardian, const OpenStore& open_store, const Won& won,
              const Duty& duty, const Command& command, Narrator& narrator)
      : m_store(store),
        m_limits(limits),
        m_clock(clock),
        m_signals(signals),
        m_page(page),
        m_guardian(guardian),
        m_open_store(open_store),
        m_duty(duty),
        m_command(command),
        m_narrator(narrator),
        m_granted(won.sent),
        m_machine(core::Lease{duty.terms, won.sent}, duty.on_lost) {}

  // What may fail for want of descriptors, before anything is started. Throws std::system_error.
  void prepare() {
    m_timer.emplace();
    m_signals.also_for_a_child();
    if (!m_command.own_group) {
      m_siblings = os::adopt_orphans();
    }
  }

  // The lock is given back and nothing is started.
  Ended fail(int error) {
    stay_unborn(Ended::Start::no_process, error, 0);
    return m_ended;
  }

  Ended run() {
    m_page->kill_after = m_duty.terms.kill_after.count();
    m_page->kills_at_deadline = m_duty.on_lost != OnLost::warn;
    m_page->own_group = m_command.own_group;
    if (m_duty.min_hold > Millis(0)) {
      m_page->min_hold_until = number(m_granted + m_duty.min_hold);
    }
    publish_deadline();
    if (start()) {
      try {
        // lk may have stood still since the grant: the deadline comes before a renewal that could hide it.
        step(Tick{});
        m_store.tidy();
        while (!m_over) {
          wait();
        }
      } catch (const std::system_error& error) {
        give_up(error.code().value());
      }
    }
    m_ended.held = std::chrono::duration_cast<Millis>(m_clock.now() - m_granted);
    if (m_guardian && m_guardian_tries_on) {
      m_guardian->outlive();
    } else {
      m_page->done = true;
      if (m_guardian) {
        m_guardian->dismiss();
      }
    }
    return m_ended;
  }

private:
  // --- birth --------------------------------------------------------------------------------------------------------

  bool start() {
    // Nothing is started after a signal that came between the grant and here, nor when the lease could end before the
    // command could be stopped in time.
    while (const auto arrival = m_signals.next()) {
      if (ends_lk(arrival->number)) {
        return stay_unborn(Ended::Start::signalled, 0, arrival->number);
      }
    }
    mind_guardian();
    if (!m_guardian) {
      return stay_unborn(Ended::Start::no_process, m_guardian_error, 0);
    }
    m_guardian->watch_deadline();
    auto spawned = os::spawn(m_command.words,
                             m_command.environment,
                             m_signals,
                             m_command.own_group,
                             m_page->child,
                             m_clock,
                             core::Lease{m_duty.terms, m_granted}.stop_at());
    if (!spawned) {
      const os::SpawnFailure failure = spawned.error();
      switch (failure.what) {
        case os::SpawnFailure::What::no_process:
          return stay_unborn(Ended::Start::no_process, failure.error, 0);
        case os::SpawnFailure::What::too_late:
          return stay_unborn(Ended::Start::too_late, 0, 0);
        case os::SpawnFailure::What::not_executable:
          return stay_unborn(Ended::Start::not_executable, failure.error, 0);
      }
    }
    if (m_guardian) {
      m_guardian->watch_child(spawned->pidfd.get());
    }
    m_family.emplace(spawned->pid, std::move(spawned->pidfd), m_command.own_group, std::move(m_siblings));
    m_renews_early = m_store.wants_early_renewal();
    m_early_at = m_clock.now() + soon;
    return true;
  }

  // Before the child is born, so that at its birth there is one.
  void mind_guardian() {
    while (const std::optional<pid_t> ended = os::peek_ended_child()) {
      os::collect(*ended);
      if (m_guardian && *ended == m_guardian->pid()) {
        m_guardian->reaped();
        replace_guardian();
      }
    }
  }

  static bool ends_lk(int number) {
    return number == SIGHUP || number == SIGINT || number == SIGQUIT || number == SIGTERM || number == SIGUSR1 ||
           number == SIGUSR2;
  }

  bool stay_unborn(Ended::Start why, int error, int signal) {
    m_ended.start = why;
    m_ended.error = error;
    m_ended.signal = signal;
    give_back(Millis(0));
    return false;
  }

  // --- the loop -----------------------------------------------------------------------------------------------------

  void wait() {
    const core::Instant now = m_clock.now();
    std::optional<core::Instant> next = m_machine.next();
    const auto consider = [&next](core::Instant time) { next = next ? std::min(*next, time) : time; };
    if (m_child_ended) {
      // What is left of the family tells nobody when it ends.
      consider(now + Millis(20));
    }
    if (!m_guardian) {
      consider(m_guardian_again);
    }
    if (m_renews_early) {
      consider(m_early_at);
    }
    if (next) {
      m_timer->set(*next - now);
    } else {
      m_timer->stop();
    }
    std::array<pollfd, 2> watched{{{m_signals.fd(), POLLIN, 0}, {m_timer->fd(), POLLIN, 0}}};
    if (::poll(watched.data(), watched.size(), -1) < 0 && errno != EINTR) {
      throw std::system_error(errno, std::generic_category(), "poll");
    }
    // Time comes first: after a stop of lk or a sleep of the machine the deadline is looked at before anything else is
    // done.
    step(Tick{});
    while (const auto arrival = m_signals.next()) {
      on_signal(*arrival);
    }
    reap();
    if (m_renews_early && !m_over && !m_machine.lost() && m_clock.now() >= m_early_at) {
      m_early_at = m_clock.now() + soon;
      renew();
    }
    if (!m_guardian && !m_over && m_clock.now() >= m_guardian_again) {
      replace_guardian();
    }
  }

  void on_signal(const os::SignalArrival& arrival) {
    if (arrival.number == SIGCHLD) {
      return;
    }
    const bool child_has_it = arrival_reached_child(arrival);
    if (!child_has_it) {
      step(Signalled{arrival.number});
    }
    // Ctrl-Z: the child has stopped itself; the shell waits for lk to stop as well.
    if (arrival.number == SIGTSTP && !m_command.own_group) {
      ::raise(SIGSTOP);
      step(Tick{});
    }
  }

  // In lk's own group the terminal's signals reach the child by themselves, and so does what a process of the group, or
  // an exec further up (the parent of the group's leader), sends to the whole group.
  bool arrival_reached_child(const os::SignalArrival& arrival) const {
    // A command may have left the group (timeout does).
    if (m_command.own_group || ::getpgid(m_family->child()) != ::getpgrp()) {
      return false;
    }
    if (arrival.from_kernel) {
      // A terminal that hangs up tells the session's leader alone.
      return arrival.number != SIGHUP || ::getsid(0) != ::getpid();
    }
    return !os::has_terminal() && arrival.sender > 0 && arrival.sender == os::parent_of(::getpgrp());
  }

  void reap() {
    while (const std::optional<pid_t> ended = os::peek_ended_child()) {
      if (*ended == m_family->child()) {
        m_page->child_ended = true;
        if (m_machine.killed()) {
          // Again, for what was started while the last KILL was on its way.
          stop(SIGKILL);
        }
        if (m_machine.lost() && m_duty.on_lost != OnLost::warn && m_family->others_run()) {
          // Not reaped yet: its number keeps the group's from being used again. The rest has the grace it is given.
          m_child_ended = true;
          return;
        }
        m_page->family_ended = true;
        m_ended.status = os::collect(*ended).status;
        step(ChildEnded{});
        return;
      }
      os::collect(*ended);
      if (m_guardian && *ended == m_guardian->pid()) {
        m_guardian->reaped();
        replace_guardian();
      }
    }
  }

  // --- what the machine wants ---------------------------------------------------------------------------------------

  void step(const Event& event) {
    const std::vector<Action> actions = m_machine.step(event, m_clock.now());
    for (const Action& action : actions) {
      std::visit(Overloaded{
                     [this](const Renew&) { renew(); },
                     [this](const Forward& action) { forward(action.number); },
                     [this](const Terminate&) {
                       if (const auto kill_at = m_machine.kill_at()) {
                         m_page->kill_at = number(*kill_at);
                         if (m_guardian) {
                           m_guardian->watch_kill();
                         }
                       }
                       m_page->terminated = true;
                       stop(SIGTERM);
                       stop(SIGCONT);
                     },
                     [this](const Kill&) {
                       m_page->terminated = true;
                       stop(SIGKILL);
                     },
                     [this](const TellLoss& loss) {
                       m_ended.lost = loss.why;
                       m_narrator.lost(loss.why, m_last_trouble);
                     },
                     [this](const GiveBack&) {
                       give_back(min_hold_left());
                       m_over = true;
                     },
                 },
                 action);
    }
  }

  // A command that is stopped cannot obey: like timeout(1), and unlike a plain kill, lk lets it go on.
  void forward(int number) {
    tell_if_denied(m_family->forward(number));
    if ((number == SIGTERM || number == SIGHUP || number == SIGINT || number == SIGQUIT) &&
        os::is_stopped({m_family->child(), 0})) {
      m_family->forward(SIGCONT);
    }
  }

  void stop(int number) { tell_if_denied(m_family->stop(number)); }

  void tell_if_denied(os::Family::Reach reach) {
    if (reach == os::Family::Reach::denied && !std::exchange(m_told_denied, true)) {
      m_narrator.out_of_reach();
    }
  }

  // No command runs on without somebody who watches its deadline.
  void give_up(int error) {
    m_ended.unsupervised = true;
    m_ended.error = error;
    m_page->terminated = true;
    m_family->stop(SIGKILL);
    m_page->child_ended = true;
    m_page->family_ended = true;
    m_ended.status = os::collect(m_family->child()).status;
    give_back(Millis(0));
  }

  Millis min_hold_left() const {
    const core::Instant until = m_granted + m_duty.min_hold;
    return std::max(std::chrono::duration_cast<Millis>(until - m_clock.now()), Millis(0));
  }

  void publish_deadline() { m_page->deadline = number(m_machine.deadline()); }

  core::Keepers keepers() const {
    core::Keepers all{os::own_realm(), os::own_process()};
    if (m_guardian) {
      all.guardian = m_guardian->process();
    }
    if (m_family) {
      all.child = os::process_of(m_family->child());
    }
    return all;
  }

  void renew() {
    const core::Instant sent = m_clock.now();
    // A slow store delays neither the next deadline nor, as any signal interrupts it, the child's end.
    const core::Instant next = m_machine.next().value_or(sent);
    const auto left = std::chrono::duration_cast<Millis>(next - sent);
    m_limits.interrupt_fd = m_signals.fd();
    m_limits.op_timeout = std::clamp(left, Millis(50), std::min(Millis(5000), m_duty.terms.ttl / 4));
    const auto renewal =
        m_store.renew(m_duty.claim,
                      m_duty.terms.ttl,
                      m_renews_early && m_store.looks_at_keepers() ? std::optional(keepers()) : std::nullopt);
    if (!renewal) {
      const bool interrupted = renewal.error().what == core::Trouble::interrupted;
      if (!interrupted) {
        m_last_trouble = renewal.error();
        m_narrator.renewal_failed(renewal.error());
      }
      step(RenewFailed{interrupted ? Millis(1) : retry_in()});
      return;
    }
    if (*renewal != core::Renewal::renewed) {
      step(RenewRefused{*renewal});
      return;
    }
    m_renews_early = false;
    m_last_trouble.reset();
    m_retries = 0;
    step(Renewed{sent});
    publish_deadline();
  }

  // 100 ms, doubling to a second: the renewals of many holders that failed together do not come back together.
  Millis retry_in() {
    const Millis longest = std::min(Millis(100) * (1 << std::min(m_retries++, 4)), Millis(1000));
    return Millis(std::uniform_int_distribution<Millis::rep>(longest.count() / 2, longest.count())(m_random));
  }

  void replace_guardian() {
    m_guardian.reset();
    m_store.rest();
    try {
      m_guardian.emplace(m_page, m_clock, m_open_store, m_duty.claim);
    } catch (const std::system_error& error) {
      // Meanwhile lk itself keeps every deadline.
      m_guardian_error = error.code().value();
      m_guardian_again = m_clock.now() + Millis(500);
      if (m_family && !std::exchange(m_told_no_guardian, true)) {
        m_narrator.no_guardian(m_guardian_error);
      }
      return;
    }
    m_guardian->watch_deadline();
    if (m_family) {
      m_guardian->watch_child(m_family->pidfd());
      m_renews_early = m_store.wants_early_renewal();
      m_early_at = m_clock.now();
    }
  }

  // Where the last one has been dismissed too early, another one.
  bool has_guardian_again() {
    if (m_guardian && m_guardian->is_dismissed()) {
      replace_guardian();
    }
    return m_guardian.has_value();
  }

  // --- the end ------------------------------------------------------------------------------------------------------

  void give_back(Millis min_hold) {
    const core::Instant asked = m_clock.now();
    m_limits.interrupt_fd = -1;
    m_limits.op_timeout = Millis(2000);
    // The guardian dies while the server works: a twentieth of a short exec. Should the server not have done it, there
    // is another one.
    m_limits.sent = [this] {
      if (m_guardian) {
        m_guardian->dismiss();
      }
    };
    auto released = min_hold > Millis(0) && !m_ended.lost ? m_store.leave(m_duty.claim, min_hold)
                                                          : m_store.release(m_duty.claim, std::nullopt);
    m_limits.sent = nullptr;
    if (!released) {
      m_guardian_tries_on = released.error().transient() && has_guardian_again();
      m_narrator.not_released(released.error(), m_guardian_tries_on);
      return;
    }
    const bool ours = released->what == core::Release::released;
    m_ended.released = ours && min_hold == Millis(0);
    if (ours || m_ended.lost || m_ended.start != Ended::Start::started) {
      return;
    }
    // Either it ended or was taken before the command was done, and nobody had noticed yet; or the command was done in
    // time and the release came late.
    if (asked < m_machine.end() && (released->what == core::Release::expired || m_clock.now() >= m_machine.end())) {
      m_narrator.released_late();
    } else {
      m_ended.lost = released->what == core::Release::not_mine ? Loss::not_mine : Loss::gone;
      m_narrator.found_lost(*m_ended.lost);
    }
  }

  core::Store& m_store;
  core::Limits& m_limits;
  const core::Clock& m_clock;
  os::Signals& m_signals;
  SharedPage& m_page;
  std::optional<Guardian>& m_guardian;
  const OpenStore& m_open_store;
  const Duty& m_duty;
  const Command& m_command;
  Narrator& m_narrator;
  core::Instant m_granted;
  Machine m_machine;
  std::optional<os::BootTimer> m_timer;
  std::optional<os::Family> m_family;
  std::optional<core::StoreError> m_last_trouble;
  int m_retries = 0;
  std::minstd_rand m_random{static_cast<std::minstd_rand::result_type>(os::random_u64())};
  bool m_renews_early = false;
  core::Instant m_early_at;
  bool m_child_ended = false;
  bool m_told_denied = false;
  bool m_told_no_guardian = false;
  bool m_guardian_tries_on = false;
  int m_guardian_error = 0;
  core::Instant m_guardian_again;
  std::optional<std::vector<pid_t>> m_siblings;
  bool m_over = false;
  Ended m_ended;
};

}  // namespace

Ended supervise(core::Store& store, core::Limits& limits, const core::Clock& clock, os::Signals& signals,
                SharedPage& page, std::optional<Guardian>& guardian, const OpenStore& open_store, const Won& won,
                const Duty& duty, const Command& command, Narrator& narrator) {
  Supervision supervision(store, limits, clock, signals, page, guardian, open_store, won, duty, command, narrator);
  try {
    supervision.prepare();
  } catch (const std::system_error& error) {
    return supervision.fail(error.code().value());
  }
  return supervision.run();
}

}  // namespace hold
