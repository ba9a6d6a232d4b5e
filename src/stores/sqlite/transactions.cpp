// The store-wide row, and what a reboot changes.
#include "stores/sqlite/transactions.hpp"

#include <chrono>

namespace stores::sqlite {

namespace {

// How far two readings of (wall clock - boot clock) may lie apart within one boot: a container manager may give each
// container a boot id of its own, and this tells such a neighbour from a reboot.
constexpr Micros same_boot{2'000'000};

}  // namespace

Now Transactions::look() {
  Now now{m_clock.machine_now(), m_clock.wall(), {}, 0, {}, false};
  SQLite::Statement& row = m_database.statement("SELECT fence, boot, booted, swept, grants FROM store");
  row.executeStep();
  now.fence.value = row.getColumn(0).getInt64();
  now.swept = row.getColumn(3).getString();
  now.grants = row.getColumn(4).getInt64();
  if (row.getColumn(1).getString() != m_clock.boot_id()) {
    const Micros booted = now.wall.time_since_epoch() - now.boot.time_since_epoch();
    const Micros apart = booted - Micros(row.getColumn(2).getInt64());
    now.rebooted = apart > same_boot || apart < -same_boot;
  }
  row.reset();
  return now;
}

// After a reboot the boot clock started again: exec grants and places died with the machine, durable grants go on by
// the wall clock, never for longer than their ttl.
Now Transactions::settle() {
  Now now = look();
  if (now.rebooted) {
    (*m_database).exec("DELETE FROM place; DELETE FROM holder WHERE durable = 0");
    SQLite::Statement move(*m_database,
                           "UPDATE holder SET expires = ?1 + max(0, min(expires_wall - ?2, ttl * 1000)), "
                           "since = ?1 - max(0, ?2 - since_wall)");
    move.bind(1, number(now.boot));
    move.bind(2, number(now.wall));
    move.exec();
    SQLite::Statement mark(*m_database, "UPDATE store SET boot = ?, booted = ?");
    mark.bind(1, m_clock.boot_id());
    mark.bind(2, Micros(now.wall.time_since_epoch() - now.boot.time_since_epoch()).count());
    mark.exec();
    m_bells.take_down_all();
    now.rebooted = false;
  }
  return now;
}

}  // namespace stores::sqlite
