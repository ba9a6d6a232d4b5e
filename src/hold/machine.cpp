// The transitions.
#include "hold/machine.hpp"

#include <algorithm>

namespace hold {

namespace {

template <class... Cases>
struct Overloaded : Cases... {
  using Cases::operator()...;
};
template <class... Cases>
Overloaded(Cases...) -> Overloaded<Cases...>;

}  // namespace

Machine::Machine(core::Lease lease, OnLost on_lost)
    : m_lease(lease), m_on_lost(on_lost), m_renew_at(lease.renew_at()) {}

std::vector<Action> Machine::step(const Event& event, core::Instant now) {
  std::vector<Action> actions;
  if (m_state == State::done) {
    return actions;
  }
  std::visit(Overloaded{
                 [](const Tick&) {},
                 [&](const Renewed& renewed) {
                   m_lease.sent = std::max(m_lease.sent, renewed.sent);
                   m_renew_at = m_lease.renew_at();
                 },
                 [&](const RenewFailed& failed) { m_renew_at = now + failed.retry_in; },
                 [&](const RenewRefused& refused) {
                   m_refused = true;
                   if (m_lost) {
                     return;
                   }
                   // Stopping comes before telling: nothing that is said may delay it.
                   if (m_on_lost == OnLost::term) {
                     actions.emplace_back(Terminate{});
                     m_state = State::stopping;
                     m_kill_at = now + m_lease.terms.kill_after;
                   } else if (m_on_lost == OnLost::kill) {
                     actions.emplace_back(Kill{});
                     m_state = State::killed;
                   }
                   lose(refused.why == core::Renewal::not_mine ? Loss::not_mine : Loss::gone, actions);
                 },
                 [&](const Signalled& signalled) { actions.emplace_back(Forward{signalled.number}); },
                 [&](const ChildEnded&) {
                   actions.emplace_back(GiveBack{});
                   m_state = State::done;
                 },
             },
             event);
  if (m_state != State::done) {
    check_time(now, actions);
  }
  return actions;
}

void Machine::lose(Loss why, std::vector<Action>& actions) {
  m_lost = why;
  actions.emplace_back(TellLoss{why});
}

// The deadline comes first: after a stop or a sleep of the machine nothing else may happen before it is looked at.
void Machine::check_time(core::Instant now, std::vector<Action>& actions) {
  if (m_state == State::running && !m_lost) {
    if (now >= m_lease.deadline()) {
      if (m_on_lost != OnLost::warn) {
        actions.emplace_back(Kill{});
        m_state = State::killed;
      }
      lose(Loss::unconfirmed, actions);
    } else if (m_on_lost == OnLost::term && now >= m_lease.stop_at()) {
      actions.emplace_back(Terminate{});
      m_state = State::stopping;
      m_kill_at = m_lease.deadline();
      lose(Loss::unconfirmed, actions);
    }
  } else if (m_state == State::stopping && now >= m_kill_at) {
    actions.emplace_back(Kill{});
    m_state = State::killed;
  }
  if (!m_refused && now >= m_renew_at) {
    actions.emplace_back(Renew{});
    // Until the answer is in, which moves it.
    m_renew_at = now + core::renew_interval(m_lease.terms.ttl);
  }
}

std::optional<core::Instant> Machine::next() const {
  std::optional<core::Instant> soonest;
  const auto consider = [&soonest](core::Instant time) { soonest = soonest ? std::min(*soonest, time) : time; };
  if (m_state == State::done) {
    return soonest;
  }
  if (!m_refused) {
    consider(m_renew_at);
  }
  if (m_state == State::running && !m_lost) {
    consider(m_on_lost == OnLost::term ? m_lease.stop_at() : m_lease.deadline());
  }
  if (m_state == State::stopping) {
    consider(m_kill_at);
  }
  return soonest;
}

}  // namespace hold
