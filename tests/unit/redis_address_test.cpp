// Redis URLs: what is taken, what is refused and how, and that no password is ever shown.
#include <random>
#include <string>
#include <string_view>

#include "core/store_url.hpp"
#include "stores/redis/address.hpp"
#include "support/catch.hpp"

using Catch::Matchers::ContainsSubstring;
using core::Millis;
using stores::redis::Address;
using Transport = Address::Transport;

namespace {

tl::expected<Address, std::string> parse(std::string_view text) {
  const auto url = core::StoreUrl::parse(text);
  REQUIRE(url);
  return Address::parse(*url);
}

Address good(std::string_view text) {
  CAPTURE(text);
  const auto address = parse(text);
  INFO((address ? "" : address.error()));
  REQUIRE(address);
  return *address;
}

std::string clause(std::string_view text) {
  CAPTURE(text);
  const auto address = parse(text);
  REQUIRE_FALSE(address);
  return address.error();
}

}  // namespace

TEST_CASE("redis: a plain redis URL has defaults for all but the host") {
  const Address address = good("redis://db1");
  CHECK(address.transport == Transport::tcp);
  CHECK(address.host == "db1");
  CHECK(address.port == 6379);
  CHECK_FALSE(address.user);
  CHECK_FALSE(address.password);
  CHECK(address.db == 0);
  CHECK(address.connect_timeout == Millis(3000));
  CHECK_FALSE(address.op_timeout);
  CHECK_FALSE(address.insecure);
}

TEST_CASE("redis: every part of a URL is taken") {
  const Address address = good(
      "rediss://deploy:s3cret@db1.example:6380/12?connect_timeout=1.5s&op_timeout=250ms&ca=/etc/ca.pem"
      "&cert=/etc/me.pem&key=/etc/me.key&sni=redis.internal&insecure=true");
  CHECK(address.transport == Transport::tls);
  CHECK(address.user == "deploy");
  CHECK(address.password == "s3cret");
  CHECK(address.host == "db1.example");
  CHECK(address.port == 6380);
  CHECK(address.db == 12);
  CHECK(address.connect_timeout == Millis(1500));
  CHECK(address.op_timeout == Millis(250));
  CHECK(address.ca == "/etc/ca.pem");
  CHECK(address.cert == "/etc/me.pem");
  CHECK(address.key == "/etc/me.key");
  CHECK(address.sni == "redis.internal");
  CHECK(address.insecure);
  CHECK_FALSE(good("rediss://h?insecure=0").insecure);
  CHECK_FALSE(good("rediss://h?insecure=false").insecure);
  CHECK(good("rediss://h?insecure=1").insecure);
}

TEST_CASE("redis: the user info is a user, a password, both or neither") {
  CHECK(good("redis://deploy@h").user == "deploy");
  CHECK_FALSE(good("redis://deploy@h").password);
  CHECK_FALSE(good("redis://:pw@h").user);
  CHECK(good("redis://:pw@h").password == "pw");
  CHECK(good("redis://u:@h").user == "u");
  CHECK_FALSE(good("redis://u:@h").password);
  CHECK_FALSE(good("redis://@h").user);
  CHECK_FALSE(good("redis://:@h").password);
  CHECK(good("redis://u:a:b@h").password == "a:b");
  CHECK(good("redis://u:a@b@h").password == "a@b");
  CHECK(good("redis://u:a@b@h").host == "h");
}

TEST_CASE("redis: user, password and path are percent-decoded") {
  const Address address = good("redis://a%40b:%3a%2F%3f%23%25+%20%C3%A9@h");
  CHECK(address.user == "a@b");
  CHECK(address.password == ":/?#%+ \xc3\xa9");
  CHECK(good("redis+unix:///run/my%20redis/a%3Fb.sock?db=3").path == "/run/my redis/a?b.sock");
  CHECK(good("rediss://h?ca=%2Fetc%2Fca%26b.pem").ca == "/etc/ca&b.pem");
}

TEST_CASE("redis: a host is a name, an IPv4 address, or an IPv6 address in brackets") {  // R32
  CHECK(good("redis://localhost").host == "localhost");
  CHECK(good("redis://Db_1.Example.").host == "Db_1.Example.");
  CHECK(good("redis://127.0.0.1:1").port == 1);
  CHECK(good("redis://h:65535/").port == 65535);
  CHECK(good("redis://[::1]").host == "::1");
  CHECK(good("redis://[::1]").port == 6379);
  CHECK(good("redis://[::1]:7000/3").port == 7000);
  CHECK(good("redis://[::1]:7000/3").db == 3);
  CHECK(good("redis://u:p@[2001:db8::7]/1").host == "2001:db8::7");
  CHECK(good("redis://[fe80::1%25eth0]").host == "fe80::1%eth0");
}

TEST_CASE("redis: a unix socket has a path, and its db in the query") {
  const Address address = good("redis+unix:///run/redis/redis.sock?db=2&op_timeout=1");
  CHECK(address.transport == Transport::unix_socket);
  CHECK(address.path == "/run/redis/redis.sock");
  CHECK(address.db == 2);
  CHECK(address.op_timeout == Millis(1000));
  CHECK(good("redis+unix:///run/a@b.sock").path == "/run/a@b.sock");
  CHECK(good("redis+unix://u:p@/run/r.sock").user == "u");
  CHECK(good("redis+unix://u:p@/run/r.sock").password == "p");
  CHECK(good("redis+unix:///run/" + std::string(102, 'x')).path.size() == 107);
}

TEST_CASE("redis: what is wrong with a URL is named by its part") {
  struct Case {
    std::string_view url;
    std::string_view says;
  };
  const auto bad = GENERATE(Case{"redis:///0", "must name a host"},
                            Case{"redis://:6379", "must name a host"},
                            Case{"redis://u:p@/0", "must name a host"},
                            Case{"redis://u:p@:6379", "must name a host"},
                            Case{"redis://?x=1", "must name a host"},
                            Case{"redis://h:", "as its port"},
                            Case{"redis://h:0", "from 1 to 65535 as its port"},
                            Case{"redis://h:65536", "as its port"},
                            Case{"redis://h:99999999999999999999", "as its port"},
                            Case{"redis://h:6379x", "as its port"},
                            Case{"redis://h:+1", "as its port"},
                            Case{"redis://h:-1", "as its port"},
                            Case{"redis://h: 1", "as its port"},
                            Case{"redis://h/abc", "from 0 to 65535 as its db"},
                            Case{"redis://h/-1", "as its db"},
                            Case{"redis://h/-0", "as its db"},
                            Case{"redis://h/65536", "as its db"},
                            Case{"redis://h/1.5", "as its db"},
                            Case{"redis://h/0/", "as its db"},
                            Case{"redis://h//1", "as its db"},
                            Case{"redis://h/%31", "as its db"},
                            Case{"redis://::1", "in brackets"},
                            Case{"redis://::1:6379", "in brackets"},
                            Case{"redis://2001:db8::7/0", "in brackets"},
                            Case{"redis://[::1", "no ]"},
                            Case{"redis://[::1]x", ":PORT"},
                            Case{"redis://[::1]6379", ":PORT"},
                            Case{"redis://[::1]:", "as its port"},
                            Case{"redis://[]", "no IPv6 address"},
                            Case{"redis://[localhost]", "no IPv6 address"},
                            Case{"redis://[127.0.0.1]", "no IPv6 address"},
                            Case{"redis://[::g]", "no IPv6 address"},
                            Case{"redis://[::1%00]", "no IPv6 address"},
                            Case{"redis://[fe80::1%25]", "no IPv6 address"},
                            Case{"redis://h1,h2", "no host name"},
                            Case{"redis://a b", "no host name"},
                            Case{"redis://h%41", "no host name"},
                            Case{"redis://caf\xc3\xa9", "no host name"},
                            Case{"redis://%zz@h", "in the user"},
                            Case{"redis://u:%4@h", "in the password"},
                            Case{"redis://u:%@h", "in the password"},
                            Case{"redis://u:a/b@h", "has an @ behind the host"},
                            Case{"redis://u:a?b@h", "has an @ behind the host"},
                            Case{"redis://u:a#b@h", "has an @ behind the host"},
                            Case{"redis+unix://:p/w@/run/r.sock", "has an @ behind the host"},
                            Case{"redis://h/0#1", "must not have a #"},
                            Case{"redis://h#", "must not have a #"},
                            Case{"redis://h?", "name=value"},
                            Case{"redis://h?db", "name=value"},
                            Case{"redis://h?=1", "name=value"},
                            Case{"redis://h?op_timeout=1&", "name=value"},
                            Case{"redis://h?db=1", "as its path"},
                            Case{"redis://h?tiemout=1", "unknown setting tiemout"},
                            Case{"redis://h?OP_TIMEOUT=1", "unknown setting OP_TIMEOUT"},
                            Case{"redis://h?password=x", "unknown setting password"},
                            Case{"redis://h?op_timeout=1&op_timeout=1", "op_timeout twice"},
                            Case{"redis://h?op_timeout=", "op_timeout"},
                            Case{"redis://h?op_timeout=soon", "must be a duration"},
                            Case{"redis://h?op_timeout=0", "longer than 0"},
                            Case{"redis://h?connect_timeout=-1", "connect_timeout"},
                            Case{"redis://h?ca=/x", "needs rediss://"},
                            Case{"redis://h?insecure=1", "needs rediss://"},
                            Case{"redis+unix:///s?sni=x", "needs rediss://"},
                            Case{"rediss://h?insecure=yes", "insecure"},
                            Case{"rediss://h?insecure=", "insecure"},
                            Case{"rediss://h?ca=", "absolute path as ca"},
                            Case{"rediss://h?ca=ca.pem", "absolute path as ca"},
                            Case{"rediss://h?ca=/a%00b", "absolute path as ca"},
                            Case{"rediss://h?ca=/%zz", "in the ca"},
                            Case{"rediss://h?cert=/c", "both cert and key"},
                            Case{"rediss://h?key=/k", "both cert and key"},
                            Case{"rediss://h?sni=", "as sni"},
                            Case{"redis+unix://run/redis.sock", "three slashes"},
                            Case{"redis+unix://u:p@run/redis.sock", "three slashes"},
                            Case{"redis+unix:///", "must name a socket"},
                            Case{"redis+unix:///run/", "must name a socket"},
                            Case{"redis+unix://?db=1", "absolute path as socket"},
                            Case{"redis+unix:///a%00b", "absolute path as socket"},
                            Case{"redis+unix:///s?db=x", "as its db"},
                            Case{"redis+unix:///s?db=70000", "as its db"});
  CAPTURE(bad.url);
  CHECK_THAT(clause(bad.url), ContainsSubstring(std::string(bad.says)));
}

TEST_CASE("redis: a socket path that does not fit the system's structure is refused") {
  CHECK_THAT(clause("redis+unix:///run/" + std::string(103, 'x')), ContainsSubstring("at most 107 bytes"));
  CHECK_THAT(clause("redis://" + std::string(254, 'x')), ContainsSubstring("no host name"));
}

TEST_CASE("redis: no clause shows any of a password, wherever it slipped to") {
  const auto url = GENERATE(as<std::string>{},
                            "redis://u:hunter2",
                            "redis://hunter2:hunter2",
                            "redis://u:hunter2/x",
                            "redis://u:6379/hunter2",
                            "redis://u:x/hunter2@h",
                            "redis://u:x?hunter2=y@h",
                            "redis://u:x#hunter2@h",
                            "redis://u:%hunter2@h",
                            "redis://u:hunter2@h:x",
                            "redis://u:hunter2@h/x",
                            "redis://u:hunter2@h?x=1",
                            "redis://u:hunter2@[::1",
                            "redis+unix://u:hunter2@x",
                            "redis://h?password=hunter2",
                            "redis+unix://u:hunter2/r.sock");
  CHECK(clause(url).find("hunter2") == std::string::npos);
}

TEST_CASE("redis: a redacted URL parses to the same address without its password") {
  struct Case {
    std::string_view url;
    std::string_view redacted;
  };
  const auto each = GENERATE(
      Case{"redis://h", "redis://h"},
      Case{"redis://h:6379/0", "redis://h"},
      Case{"redis://:hunter2@h:7000/2", "redis://h:7000/2"},
      Case{"redis://a%40b:hunter2@h", "redis://a%40b@h"},
      Case{"redis://caf%c3%a9:hunter2@h", "redis://caf%C3%A9@h"},
      Case{"redis://u:hunter2@[::1]:7000/1", "redis://u@[::1]:7000/1"},
      Case{"redis://[fe80::1%25eth0]", "redis://[fe80::1%25eth0]"},
      Case{"redis+unix://u:hunter2@/run/my%20r%40x.sock?db=3", "redis+unix://u@/run/my%20r%40x.sock?db=3"},
      Case{"redis+unix:///run/a%3Fb%25.sock", "redis+unix:///run/a%3Fb%25.sock"},
      Case{"redis://h?op_timeout=1.5s&connect_timeout=250ms", "redis://h?connect_timeout=250ms&op_timeout=1500ms"},
      Case{"rediss://h/1?insecure=1&sni=x&key=/k&cert=/c&ca=/a%26b",
           "rediss://h/1?ca=/a%26b&cert=/c&key=/k&sni=x&insecure=1"});
  Address address = good(each.url);
  CHECK(address.redacted() == each.redacted);
  address.password.reset();
  CHECK(good(address.redacted()) == address);
}

TEST_CASE("redis: messages name the server without user and settings") {
  CHECK(good("redis://u:hunter2@h:7000/2?op_timeout=1").server() == "redis://h:7000/2");
  CHECK(good("rediss://u@[::1]?insecure=1").server() == "rediss://[::1]:6379");
  CHECK(good("redis+unix://u:p@/r.sock?db=2&op_timeout=3").server() == "redis+unix:///r.sock?db=2");
}

TEST_CASE("redis: any text either parses and comes back, or is refused in a clause") {
  std::mt19937 random(20260801);
  const std::string_view alphabet = "redis:/@?=&[]%#.0123456789abfh-_+unixdb";
  int taken = 0;
  for (int i = 0; i < 20'000; ++i) {
    std::string text(random() % 3 == 0 ? "redis+unix:///" : random() % 2 == 0 ? "redis://" : "rediss://h");
    for (auto length = random() % 14; length > 0; --length) {
      text += alphabet[random() % alphabet.size()];
    }
    const auto url = core::StoreUrl::parse(text);
    if (!url) {
      continue;
    }
    const auto address = Address::parse(*url);
    CAPTURE(text);
    if (!address) {
      REQUIRE_FALSE(address.error().empty());
      continue;
    }
    ++taken;
    Address open = *address;
    open.password.reset();
    REQUIRE(good(address->redacted()) == open);
  }
  CHECK(taken > 500);
}
