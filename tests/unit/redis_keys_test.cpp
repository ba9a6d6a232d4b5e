// Names of lk's keys in Redis: one slot with their lock, one lock for each.
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "stores/redis/keys.hpp"
#include "support/catch.hpp"

using stores::redis::escaped_pattern;
using stores::redis::hash_slot;
using stores::redis::lock_of_helper;
using stores::redis::LockKeys;

namespace {

// All names of up to this many characters out of those that a hash tag is made of.
std::vector<std::string> names_of_at_most(std::size_t longest) {
  std::vector<std::string> all{""};
  for (std::size_t first = 0, length = 0; length < longest; ++length) {
    const std::size_t last = all.size();
    for (; first < last; ++first) {
      for (const char c : {'{', '}', 'a', '0'}) {
        all.push_back(all[first] + c);
      }
    }
  }
  all.erase(all.begin());
  return all;
}

}  // namespace

TEST_CASE("redis keys: slots are those of the Redis Cluster specification") {
  CHECK(hash_slot("123456789") == 0x31C3);
  CHECK(hash_slot("{user1000}.following") == hash_slot("user1000"));
  CHECK(hash_slot("foo{}{bar}") != hash_slot("bar"));
  CHECK(hash_slot("foo{{bar}}zap") == hash_slot("{bar"));
  CHECK(hash_slot("foo{bar}{zap}") == hash_slot("bar"));
}

TEST_CASE("redis keys: helpers lie in the slot of their lock and lead back to it") {
  std::vector<std::string> locks = names_of_at_most(4);
  for (const char* const lock : {"lk:invoice:42",
                                 "lk:{a}b",
                                 "lk:a}b{",
                                 "lk:{}x",
                                 "lk:{a",
                                 "lk:}",
                                 "x#lk",
                                 "x#",
                                 "{x}#lk",
                                 "}#lk",
                                 "#lk",
                                 "lk:ü 🔒",
                                 "own:",
                                 "slot:"}) {
    locks.emplace_back(lock);
  }
  locks.emplace_back(515, '}');
  for (const std::string& lock : locks) {
    const LockKeys keys(lock);
    CAPTURE(lock, keys.meta);
    CHECK(keys.lock == lock);
    for (const std::string& helper : {keys.meta, keys.line, keys.places}) {
      CHECK(hash_slot(helper) == hash_slot(lock));
      CHECK(lock_of_helper(helper) == lock);
    }
  }
}

TEST_CASE("redis keys: no two locks share a helper") {
  std::map<std::string, std::string> lock_of;
  std::vector<std::string> locks = names_of_at_most(4);
  // Whatever lk puts around a name may be another's name already.
  for (const char* const lock : {"a", "a}b", "{a}", "{a}b"}) {
    const LockKeys keys(lock);
    locks.push_back(keys.meta.substr(0, keys.meta.find("#lk:")));
  }
  for (const std::string& lock : locks) {
    const LockKeys keys(lock);
    for (const std::string& name : {keys.meta, keys.line, keys.places, keys.bell}) {
      const auto [known, is_new] = lock_of.emplace(name, lock);
      CAPTURE(name, lock, known->second);
      CHECK((is_new || known->second == lock));
    }
  }
}

TEST_CASE("redis keys: what only looks like a helper is none") {
  for (const std::string_view name : {"",
                                      "#lk:",
                                      "#lk:meta",
                                      "{}#lk:meta",
                                      "{a}#lk:",
                                      "{a}#lk:metal",
                                      "{a}#lk:bell:",
                                      "a#lk:meta",
                                      "a#lk:own:meta",
                                      "{a}#lk:own:",
                                      "{a#lk:own:meta",
                                      "{a}b#lk:meta",
                                      "{0}a}b#lk:slot:meta",
                                      "{a}#lk:slot:meta",
                                      "}#lk:slot:meta",
                                      "lk:a"}) {
    CAPTURE(name);
    CHECK_FALSE(lock_of_helper(name));
  }
}

TEST_CASE("redis keys: a pattern of literal bytes matches nothing else") {
  CHECK(escaped_pattern("lk:") == "lk:");
  CHECK(escaped_pattern("a*b?[c-d]\\^") == "a\\*b\\?\\[c\\-d\\]\\\\\\^");
}
