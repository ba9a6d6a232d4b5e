// Lines of a terminal: what is broken, and what is left out.
#include <optional>
#include <string>

#include "cli/report.hpp"
#include "cli/table.hpp"
#include "support/catch.hpp"

using cli::display_width;
using cli::folded;
using core::Millis;

TEST_CASE("a line that fits, or is for no terminal, stays as it is") {
  CHECK(folded("", 10, 2).empty());
  CHECK(folded("one two", 7, 2) == "one two");
  CHECK(folded("one two three four", 0, 2) == "one two three four");
  // No room behind the hang.
  CHECK(folded("one two three four", 5, 5) == "one two three four");
}

TEST_CASE("a line is broken between words, and goes on under its column") {
  CHECK(folded("one two three", 7, 2) == "one two\n  three");
  CHECK(folded("one two three", 8, 2) == "one two\n  three");
  CHECK(folded("one two three", 12, 0) == "one two\nthree");
  CHECK(folded("  --key K  the name of it", 20, 11) == "  --key K  the name\n           of it");
  CHECK(folded("a    b    c", 6, 2) == "a    b\n  c");
}

TEST_CASE("a long word, and what stands before the hang, stay whole") {
  CHECK(folded("one seventeen-letters two", 8, 2) == "one\n  seventeen-letters\n  two");
  CHECK(folded("note     seventeen-letters", 12, 9) == "note     seventeen-letters");
  CHECK(folded("note     seventeen-letters two", 12, 9) == "note     seventeen-letters\n         two");
}

TEST_CASE("a wide letter takes two columns of a broken line") {
  CHECK(folded("発注 東京", 9, 0) == "発注 東京");
  CHECK(folded("発注 東京", 8, 0) == "発注\n東京");
}

namespace {

core::Occupant holder() {
  return core::Held{core::Owner::stored("me"),
                    core::AskId{},
                    core::Fence{17},
                    {"web3", "deploy", 4312, "rsync", "v1.9"},
                    true,
                    Millis(192000),
                    std::nullopt,
                    Millis(41000)};
}

std::string waiting(std::size_t columns, const core::Occupant& by) {
  return cli::sentence::waiting_within(columns, Millis(12000), *core::Key::parse("invoice:42"), 1, by);
}

}  // namespace

TEST_CASE("the line of a waiter has as much as fits") {
  const std::string whole =
      "lk: 12s, 2nd in line for invoice:42; held by deploy@web3 (pid 4312, rsync) for 3m12s, lease ends in 41s, fence "
      "17: \"v1.9\"";
  const std::string without_note = whole.substr(0, whole.find(": \"v1.9"));
  const std::string short_one = "lk: 12s, 2nd in line for invoice:42; deploy@web3 (pid 4312, rsync), ends in 41s";
  const std::string shorter = "lk: 12s, 2nd in line for invoice:42; deploy@web3, ends in 41s";
  const std::string nameless = "lk: 12s, 2nd in line; deploy@web3, ends in 41s";
  CHECK(waiting(200, holder()) == whole);
  CHECK(waiting(whole.size(), holder()) == whole);
  CHECK(waiting(whole.size() - 1, holder()) == without_note);
  CHECK(waiting(without_note.size() - 1, holder()) == short_one);
  CHECK(waiting(short_one.size() - 1, holder()) == shorter);
  CHECK(waiting(shorter.size() - 1, holder()) == nameless);
  CHECK(waiting(20, holder()) == "lk: 12s, 2nd in lin…");
}

TEST_CASE("the line of a waiter fits any terminal, whoever is in front") {
  const core::Held other{core::Owner::stored(std::string(300, 'o')),
                         core::AskId{},
                         std::nullopt,
                         {},
                         true,
                         std::nullopt,
                         std::nullopt,
                         Millis(41000)};
  const core::Promised promised{{"web3", "deploy", 4312, "rsync", ""}, Millis(1000)};
  const core::Foreign foreign{"zset", "", std::nullopt};
  for (const core::Occupant& by :
       {holder(), core::Occupant(other), core::Occupant(promised), core::Occupant(foreign)}) {
    for (std::size_t columns = 1; columns < 250; ++columns) {
      CHECK(display_width(waiting(columns, by)) <= columns);
    }
  }
  CHECK(waiting(200, foreign) ==
        "lk: 12s, 2nd in line for invoice:42; held by another program (redis zset), never expires");
  CHECK(waiting(60, promised) == "lk: 12s, 2nd in line for invoice:42; promised to deploy@web3");
}
