// The guardian's whole life.
#include "hold/guardian.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <system_error>
#include <utility>

#include <fmt/format.h>

#include "core/lease.hpp"
#include "os/boot_timer.hpp"
#include "os/family.hpp"
#include "os/process.hpp"
#include "os/title.hpp"

namespace hold {

namespace {

using core::Millis;

[[noreturn]] void fail(const char* what) { throw std::system_error(errno, std::generic_category(), what); }

os::Fd open_pidfd(pid_t pid) { return os::Fd(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0))); }

// What the guardian holds of lk's until it is needed, lk holds as well. To let go of it at its birth, and to take that
// down at its death, would be 3 % of a short command's processor time.
void sleep_until_needed(const os::Fd& lk, const os::Fd& channel, core::BootTime::duration longest) {
  os::BootTimer timer;
  timer.set(longest);
  std::array<pollfd, 3> watched{{{lk.get(), POLLIN, 0}, {timer.fd(), POLLIN, 0}, {channel.get(), POLLRDHUP, 0}}};
  while (::poll(watched.data(), watched.size(), -1) < 0 && errno == EINTR) {
  }
}

// Of everything lk had open the guardian keeps two descriptors; 0, 1 and 2 are /dev/null.
void keep_only(os::Fd& first, os::Fd& second) {
  first.reset(::fcntl(first.get(), F_DUPFD_CLOEXEC, 3));
  second.reset(::fcntl(second.get(), F_DUPFD_CLOEXEC, 3));
  const auto low = static_cast<unsigned>(std::min(first.get(), second.get()));
  const auto high = static_cast<unsigned>(std::max(first.get(), second.get()));
  ::close_range(high + 1, ~0U, 0);
  if (low + 1 < high) {
    ::close_range(low + 1, high - 1, 0);
  }
  ::close_range(0, low - 1, 0);
  for (int fd = 0; fd < 3; ++fd) {
    if (::open("/dev/null", O_RDWR) < 0) {
      return;
    }
  }
}

// SCM_RIGHTS (unix(7)): what was sent arrives even if the sender is gone.
void send_fd(int channel, int fd) noexcept {
  char byte = 0;
  iovec data{&byte, 1};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof fd)> space{};
  msghdr message{};
  message.msg_iov = &data;
  message.msg_iovlen = 1;
  message.msg_control = space.data();
  message.msg_controllen = space.size();
  cmsghdr* const header = CMSG_FIRSTHDR(&message);
  header->cmsg_level = SOL_SOCKET;
  header->cmsg_type = SCM_RIGHTS;
  header->cmsg_len = CMSG_LEN(sizeof fd);
  std::memcpy(CMSG_DATA(header), &fd, sizeof fd);
  ::sendmsg(channel, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
}

os::Fd receive_fd(int channel) noexcept {
  char byte = 0;
  iovec data{&byte, 1};
  int fd = -1;
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof fd)> space{};
  msghdr message{};
  message.msg_iov = &data;
  message.msg_iovlen = 1;
  message.msg_control = space.data();
  do {
    message.msg_controllen = space.size();
    if (::recvmsg(channel, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC) <= 0) {
      break;
    }
    if (const cmsghdr* const header = CMSG_FIRSTHDR(&message); header != nullptr && header->cmsg_type == SCM_RIGHTS) {
      std::memcpy(&fd, CMSG_DATA(header), sizeof fd);
    }
  } while (fd < 0);
  return os::Fd(fd);
}

class Life {
public:
  Life(Page& page, const core::Clock& clock, core::Instant looks_at, const OpenStore& open_store,
       const core::Claim& claim, os::Fd lk, os::Fd channel)
      : m_page(page),
        m_clock(clock),
        m_looks_at(looks_at),
        m_open_store(open_store),
        m_claim(claim),
        m_lk(std::move(lk)),
        m_channel(std::move(channel)) {}

  void live() {
    watch_lk();
    if (m_page.done) {
      return;
    }
    // lk is dead.
    find_family();
    if (is_left_to_stop()) {
      stop_family();
    }
    give_back();
  }

private:
  core::Instant deadline() const { return core::Instant(core::BootTime::duration(m_page.deadline.load())); }

  // Of the command, if lk does not do it.
  core::Instant kill_at() const {
    const std::int64_t after_term = m_page.kill_at;
    return after_term != 0 ? std::min(core::Instant(core::BootTime::duration(after_term)), deadline()) : deadline();
  }

  // The child; or, where lk had begun to stop all of them, what outlives it.
  bool is_left_to_stop() const {
    return m_family && !m_page.family_ended && (!m_page.child_ended || m_page.terminated);
  }

  void adopt(os::Fd pidfd) {
    if (pidfd && !m_family) {
      m_family.emplace(m_page.child, std::move(pidfd), m_page.own_group);
    }
  }

  // A child whose pidfd has not come is found by the pid that it wrote before its first instruction.
  void find_family() {
    if (!m_family) {
      adopt(receive_fd(m_channel.get()));
    }
    if (const pid_t child = m_page.child; !m_family && child != 0 && !m_page.child_ended) {
      adopt(open_pidfd(child));
    }
  }

  // Until lk is gone. At the deadline lk may be stopped, or hang in a store that does not answer: then the KILL is
  // ours. It sleeps through a short command: each time it is woken costs lk 50 us.
  void watch_lk() {
    m_timer.set(m_looks_at - m_clock.now());
    bool knows_kill = false;
    while (true) {
      const bool waits_for_a_deadline = m_page.deadline == 0 && m_clock.now() >= m_looks_at;
      const auto awaited = static_cast<short>(waits_for_a_deadline ? POLLIN : POLLRDHUP);
      std::array<pollfd, 3> watched{
          {{m_lk.get(), POLLIN, 0}, {m_timer.fd(), POLLIN, 0}, {knows_kill ? -1 : m_channel.get(), awaited, 0}}};
      if (::poll(watched.data(), watched.size(), -1) < 0 && errno != EINTR) {
        return;
      }
      if (watched[0].revents != 0) {
        return;
      }
      knows_kill = knows_kill || (watched[2].revents & POLLRDHUP) != 0;
      if (m_page.deadline == 0 || !m_page.kills_at_deadline) {
        if (m_clock.now() >= m_looks_at) {
          m_timer.stop();
        }
        continue;
      }
      const core::BootTime::duration left = kill_at() - m_clock.now();
      if (left > core::BootTime::duration(0)) {
        m_timer.set(left);
        continue;
      }
      find_family();
      if (is_left_to_stop()) {
        m_family->stop(SIGKILL);
      }
      // Should a fork have escaped the snapshot, or a stopped machine the KILL.
      m_timer.set(Millis(100));
    }
  }

  void stop_family() {
    const core::Instant last_moment = std::min(m_clock.now() + Millis(m_page.kill_after), kill_at());
    const Millis ttl(m_page.ttl.load());
    core::Instant renew_at = deadline() - ttl / 2;
    if (!m_page.terminated) {
      m_family->terminate_after_lk();
      m_family->stop(SIGCONT);
    }
    while (m_family->child_runs() || m_family->others_run()) {
      const core::Instant now = m_clock.now();
      // What cannot be killed (another user's command, one that hangs in the kernel) must not run beside the next
      // holder's.
      if (now >= renew_at) {
        if (auto store = m_open_store(); store) {
          static_cast<void>((*store)->renew(m_claim, ttl, std::nullopt));
        }
        renew_at = now + core::renew_interval(ttl);
      }
      if (now >= last_moment) {
        m_family->stop(SIGKILL);
      }
      // The child's end is told by its pidfd; what is left of its group is looked for.
      pollfd child{m_family->child_runs() ? m_family->pidfd() : -1, POLLIN, 0};
      m_timer.set(now < last_moment
                      ? std::min<core::BootTime::duration>(last_moment - now, Millis(child.fd < 0 ? 10 : 1000))
                      : Millis(20));
      std::array<pollfd, 2> watched{{child, {m_timer.fd(), POLLIN, 0}}};
      ::poll(watched.data(), watched.size(), -1);
    }
  }

  // The store may be away as well: try until the grant has ended by itself.
  void give_back() {
    const core::Instant until = deadline() + std::chrono::seconds(10);
    for (Millis pause(20);; pause = std::min(pause * 2, Millis(1000))) {
      if (auto store = m_open_store(); store) {
        const Millis left = std::chrono::duration_cast<Millis>(
            core::Instant(core::BootTime::duration(m_page.min_hold_until.load())) - m_clock.now());
        const auto released = m_page.child != 0 && left > Millis(0) ? (*store)->leave(m_claim, left)
                                                                    : (*store)->release(m_claim, std::nullopt);
        if (released || !released.error().transient()) {
          return;
        }
      } else if (!store.error().transient()) {
        return;
      }
      if (m_clock.now() >= until) {
        return;
      }
      m_timer.set(pause);
      pollfd timer{m_timer.fd(), POLLIN, 0};
      ::poll(&timer, 1, -1);
    }
  }

  Page& m_page;
  const core::Clock& m_clock;
  core::Instant m_looks_at;
  const OpenStore& m_open_store;
  const core::Claim& m_claim;
  os::Fd m_lk;
  os::Fd m_channel;
  os::BootTimer m_timer;
  std::optional<os::Family> m_family;
};

}  // namespace

SharedPage::SharedPage() {
  void* const memory = ::mmap(nullptr, sizeof(Page), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) {
    fail("mmap");
  }
  m_page = new (memory) Page;
}

SharedPage::~SharedPage() { ::munmap(m_page, sizeof(Page)); }

Guardian::Guardian(const SharedPage& page, const core::Clock& clock, const OpenStore& open_store,
                   const core::Claim& claim)
    : m_clock(clock), m_looks_at(clock.now() + (page->deadline == 0 ? Millis(page->ttl.load()) / 2 : Millis(0))) {
  std::array<int, 2> pair{};
  const pid_t lk_pid = ::getpid();
  os::Fd lk = open_pidfd(lk_pid);
  if (!lk || ::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair.data()) != 0) {
    fail("cannot start a guardian");
  }
  m_channel.reset(pair[0]);
  os::Fd channel(pair[1]);
  // From the fork on only SIGKILL and SIGSTOP reach the guardian.
  sigset_t every;
  sigset_t before;
  sigfillset(&every);
  ::sigprocmask(SIG_SETMASK, &every, &before);
  m_pid = ::fork();
  if (m_pid == 0) {
    // In a session of its own no terminal, no group kill and no shell's job control touches it.
    ::setsid();
    // Woken to die at the end of a short command, it does not take the processor from lk (95 us of kill(2) without).
    const sched_param none{};
    ::sched_setscheduler(0, SCHED_BATCH, &none);
    // Neither `pkill lk` nor `pkill -f` with words of the command hits it together with lk.
    os::set_title("lock-guardian", fmt::format("lock-guardian {}", lk_pid));
    try {
      sleep_until_needed(lk, channel, m_looks_at - clock.now());
      keep_only(lk, channel);
      // In / it keeps no disk busy.
      if (::chdir("/") == 0) {
        Life(*page, clock, m_looks_at, open_store, claim, std::move(lk), std::move(channel)).live();
      }
    } catch (...) {
      ::_exit(1);
    }
    ::_exit(0);
  }
  const int error = errno;
  ::sigprocmask(SIG_SETMASK, &before, nullptr);
  if (m_pid < 0) {
    m_pid = 0;
    errno = error;
    fail("cannot start a guardian");
  }
}

core::ProcessId Guardian::process() const { return os::process_of(m_pid); }

void Guardian::dismiss() noexcept {
  if (m_pid > 0 && !std::exchange(m_dismissed, true)) {
    ::kill(m_pid, SIGKILL);
  }
}

Guardian::~Guardian() {
  if (m_pid > 0) {
    dismiss();
    while (::waitpid(m_pid, nullptr, 0) < 0 && errno == EINTR) {
    }
  }
}

// In this order: should lk be stopped between the page and the clock, it comes too late by the clock and sends.
void Guardian::watch_deadline() noexcept {
  if (m_clock.now() < m_looks_at) {
    return;
  }
  const char byte = 0;
  ::send(m_channel.get(), &byte, 1, MSG_NOSIGNAL | MSG_DONTWAIT);
}

// The end of what lk says: it wakes the guardian, and what was said before can still be read.
void Guardian::watch_kill() noexcept { ::shutdown(m_channel.get(), SHUT_WR); }

void Guardian::watch_child(int pidfd) noexcept { send_fd(m_channel.get(), pidfd); }

}  // namespace hold
