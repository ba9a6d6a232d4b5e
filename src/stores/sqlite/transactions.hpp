// A verb's transaction: begun on the right file, under a clock that goes with the rows, its errors made ours.
#pragma once

#include <utility>

#include <SQLiteCpp/SQLiteCpp.h>
#include <fmt/format.h>

#include "core/clock.hpp"
#include "core/store.hpp"
#include "core/text.hpp"
#include "stores/sqlite/bell.hpp"
#include "stores/sqlite/database.hpp"
#include "stores/sqlite/location.hpp"
#include "stores/sqlite/rows.hpp"

namespace stores::sqlite {

class Transactions {
public:
  Transactions(Database& database, const Bells& bells, const core::Clock& clock)
      : m_database(database), m_bells(bells), m_clock(clock) {}

  // Runs `body` in one transaction that holds the write lock. Where there is no file and none is wanted, or the file is
  // replaced while it runs, nothing is changed and `otherwise` is the answer.
  template <class T, class Body>
  core::Result<T> write(Database::Missing missing, T otherwise, Body body);
  template <class T, class Body>
  core::Result<T> read(T otherwise, Body body);

private:
  Now look();
  // Brings rows of another boot up to date.
  Now settle();

  Database& m_database;
  const Bells& m_bells;
  const core::Clock& m_clock;
};

template <class T, class Body>
core::Result<T> Transactions::write(Database::Missing missing, T otherwise, Body body) {
  // The second round serves a file that was replaced between connect and BEGIN.
  for (int round = 0; round < 2; ++round) {
    auto connected = m_database.connect(missing);
    if (!connected) {
      return tl::unexpected(std::move(connected.error()));
    }
    if (!*connected) {
      return otherwise;
    }
    try {
      SQLite::Transaction transaction(*m_database, SQLite::TransactionBehavior::IMMEDIATE);
      if (m_database.moved()) {
        continue;
      }
      // SQLite turns the transaction of a connection that cannot write into a reading one, without a word.
      if (m_database.is_read_only()) {
        return tl::unexpected(explain_no_access(m_database.path()));
      }
      T answer = body(settle());
      transaction.commit();
      return answer;
    } catch (const SQLite::Exception& error) {
      return tl::unexpected(m_database.translate(error));
    }
  }
  return tl::unexpected(
      core::StoreError{core::Trouble::unreachable,
                       fmt::format("{} keeps being replaced by another file", core::escaped(m_database.path()))});
}

template <class T, class Body>
core::Result<T> Transactions::read(T otherwise, Body body) {
  auto connected = m_database.connect(Database::Missing::leave);
  if (!connected) {
    return tl::unexpected(std::move(connected.error()));
  }
  if (!*connected) {
    return otherwise;
  }
  try {
    SQLite::Transaction transaction(*m_database);
    T answer = body(look());
    transaction.commit();
    return answer;
  } catch (const SQLite::Exception& error) {
    return tl::unexpected(m_database.translate(error));
  }
}

}  // namespace stores::sqlite
