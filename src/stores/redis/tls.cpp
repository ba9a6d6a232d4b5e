// OpenSSL 3: contexts, trust, names, and the meaning of its errors.
#include "stores/redis/tls.hpp"

#include <arpa/inet.h>
#include <dirent.h>
#include <netinet/in.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <climits>
#include <cstdlib>
#include <cstring>
#include <string>
#include <string_view>
#include <utility>

#include <fmt/format.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509_vfy.h>
#include <openssl/x509v3.h>

#include "core/text.hpp"
#include "stores/redis/errors.hpp"
#include "stores/redis/openssl_start.hpp"

namespace stores::redis {

namespace {

using core::StoreError;
using core::Trouble;

struct FreeContext {
  void operator()(SSL_CTX* context) const noexcept { ::SSL_CTX_free(context); }
};
struct FreeSession {
  void operator()(SSL* session) const noexcept { ::SSL_free(session); }
};
using Context = std::unique_ptr<SSL_CTX, FreeContext>;
using Session = std::unique_ptr<SSL, FreeSession>;

// The bundles of Debian (and Alpine, Arch, SUSE), Fedora, and the BSDs.
constexpr std::array bundles{"/etc/ssl/certs/ca-certificates.crt",
                             "/etc/pki/tls/certs/ca-bundle.crt",
                             "/etc/ssl/ca-bundle.pem",
                             "/etc/ssl/cert.pem"};
constexpr const char* usual_folder = "/etc/ssl/certs";

std::string last_reason() {
  const unsigned long error = ::ERR_peek_last_error();
  const char* const reason = error != 0 ? ::ERR_reason_error_string(error) : nullptr;
  return reason != nullptr ? reason : "no reason given";
}

// Names of the form "0a1b2c3d.0", as `openssl rehash` makes them: OpenSSL then opens only the one certificate it needs.
bool has_hashed_links(const char* folder) {
  constexpr std::string_view suffix = ".0";
  constexpr std::size_t length = 8 + suffix.size();
  const std::unique_ptr<DIR, int (*)(DIR*)> listing(::opendir(folder), &::closedir);
  if (!listing) {
    return false;
  }
  while (const dirent* const entry = ::readdir(listing.get())) {
    const std::string_view name(entry->d_name);
    const auto is_hex = [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); };
    if (name.size() == length && name.substr(8) == suffix && std::all_of(name.begin(), name.begin() + 8, is_hex)) {
      return true;
    }
  }
  return false;
}

std::string bundle() {
  if (const char* const chosen = std::getenv(::X509_get_default_cert_file_env()); chosen != nullptr) {
    return chosen;
  }
  const auto readable = [](const char* file) { return ::access(file, R_OK) == 0; };
  const auto* const found = std::find_if(bundles.begin(), bundles.end(), readable);
  return found != bundles.end() ? *found : std::string();
}

// Whether the peer itself has sent the issuer, which is then looked at next: an authority in between, no root.
bool has_sent_issuer(X509_STORE_CTX* verification, X509* certificate) {
  const STACK_OF(X509)* const sent = ::X509_STORE_CTX_get0_untrusted(verification);
  for (int i = 0; i < sk_X509_num(sent); ++i) {
    X509* const candidate = sk_X509_value(sent, i);
    if (::X509_check_issued(candidate, certificate) == X509_V_OK && ::X509_self_signed(candidate, 0) == 0) {
      return true;
    }
  }
  return false;
}

int bundle_mark() {
  static const int index = CRYPTO_get_ex_new_index(CRYPTO_EX_INDEX_X509_STORE, 0, nullptr, nullptr, nullptr, nullptr);
  return index;
}

// The hashed folder costs nothing until a certificate is looked for in it. Parsing the whole bundle takes 85 ms, twenty
// times what the rest of the connection takes: it is done only for an issuer that the folder has not.
int find_trusted_issuer(X509** issuer, X509_STORE_CTX* verification, X509* certificate) {
  const int found = ::X509_STORE_CTX_get1_issuer(issuer, verification, certificate);
  X509_STORE* const store = ::X509_STORE_CTX_get0_store(verification);
  if (found == 1 || ::X509_STORE_get_ex_data(store, bundle_mark()) != nullptr ||
      has_sent_issuer(verification, certificate)) {
    return found;
  }
  static char mark;
  ::X509_STORE_set_ex_data(store, bundle_mark(), &mark);
  const std::string file = bundle();
  if (!file.empty()) {
    ::X509_STORE_load_file(store, file.c_str());
  }
  ::ERR_clear_error();
  return ::X509_STORE_CTX_get1_issuer(issuer, verification, certificate);
}

// SSL_CERT_DIR and SSL_CERT_FILE, as OpenSSL calls them, replace the system's folder and bundle.
void trust_the_system(SSL_CTX* context) {
  ::SSL_CTX_set_default_verify_dir(context);
  if (std::getenv(::X509_get_default_cert_dir_env()) == nullptr) {
    ::SSL_CTX_load_verify_dir(context, usual_folder);
  }
  ::X509_STORE_set_get_issuer(::SSL_CTX_get_cert_store(context), &find_trusted_issuer);
}

StoreError unreadable(std::string_view what, const std::string& path, int error) {
  return {error == EACCES ? Trouble::refused : Trouble::misconfigured,
          fmt::format("cannot read the {} {}: {}", what, core::escaped(path), std::strerror(error))};
}

core::Result<void> trust(SSL_CTX* context, const std::string& ca) {
  struct stat found {};
  if (::stat(ca.c_str(), &found) != 0 || ::access(ca.c_str(), R_OK) != 0) {
    return tl::unexpected(unreadable("authority (ca)", ca, errno));
  }
  if (S_ISDIR(found.st_mode)) {
    if (!has_hashed_links(ca.c_str())) {
      return tl::unexpected(StoreError{
          Trouble::misconfigured,
          fmt::format("the folder {} (ca) has no certificates under their hashes: run openssl rehash on it, or "
                      "name a file",
                      core::escaped(ca))});
    }
    ::SSL_CTX_load_verify_dir(context, ca.c_str());
  } else if (::SSL_CTX_load_verify_file(context, ca.c_str()) != 1) {
    return tl::unexpected(StoreError{
        Trouble::misconfigured,
        fmt::format("the file {} (ca) has no certificate that can be read: {}", core::escaped(ca), last_reason())});
  }
  return {};
}

// A key that is locked by a passphrase fails; nobody is asked on the terminal.
int no_passphrase(char*, int, int, void*) { return -1; }

core::Result<void> identify(SSL_CTX* context, const Address& address) {
  if (::access(address.cert.c_str(), R_OK) != 0) {
    return tl::unexpected(unreadable("client certificate (cert)", address.cert, errno));
  }
  if (::access(address.key.c_str(), R_OK) != 0) {
    return tl::unexpected(unreadable("key of the client certificate (key)", address.key, errno));
  }
  ::SSL_CTX_set_default_passwd_cb(context, &no_passphrase);
  if (::SSL_CTX_use_certificate_chain_file(context, address.cert.c_str()) != 1) {
    return tl::unexpected(StoreError{
        Trouble::misconfigured,
        fmt::format(
            "the file {} (cert) has no certificate that can be read: {}", core::escaped(address.cert), last_reason())});
  }
  if (::SSL_CTX_use_PrivateKey_file(context, address.key.c_str(), SSL_FILETYPE_PEM) != 1) {
    return tl::unexpected(
        StoreError{Trouble::misconfigured,
                   fmt::format("the file {} (key) has no key without a passphrase that fits the certificate {}: {}",
                               core::escaped(address.key),
                               core::escaped(address.cert),
                               last_reason())});
  }
  return {};
}

bool is_ip(const std::string& name) {
  in6_addr parsed{};
  return ::inet_pton(AF_INET, name.c_str(), &parsed) == 1 || ::inet_pton(AF_INET6, name.c_str(), &parsed) == 1;
}

// Whose certificate it must be: no zone of an IPv6 address, no final dot of a name.
std::string peer_name(const Address& address) {
  std::string name = address.sni.empty() ? address.host : address.sni;
  name.resize(std::min(name.find('%'), name.size()));
  if (name.size() > 1 && name.back() == '.') {
    name.pop_back();
  }
  return name;
}

bool expect_name(SSL* session, const std::string& name) {
  X509_VERIFY_PARAM* const wanted = ::SSL_get0_param(session);
  if (is_ip(name)) {
    return ::X509_VERIFY_PARAM_set1_ip_asc(wanted, name.c_str()) == 1;
  }
  ::X509_VERIFY_PARAM_set_hostflags(wanted, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS);
  return ::X509_VERIFY_PARAM_set1_host(wanted, name.c_str(), name.size()) == 1 &&
         ::SSL_set_tlsext_host_name(session, name.c_str()) == 1;
}

std::string distrust(long verdict, const Address& address) {
  switch (verdict) {
    case X509_V_ERR_CERT_HAS_EXPIRED:
      return "has expired";
    case X509_V_ERR_CERT_NOT_YET_VALID:
      return "is not valid yet: is the clock of this machine right?";
    case X509_V_ERR_DEPTH_ZERO_SELF_SIGNED_CERT:
      return "is self-signed: if it is the right one, name it as ca";
    case X509_V_ERR_SELF_SIGNED_CERT_IN_CHAIN:
    case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT_LOCALLY:
    case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT:
    case X509_V_ERR_UNABLE_TO_VERIFY_LEAF_SIGNATURE:
      return "is signed by an authority that is not trusted here: name the authority's certificate as ca";
    case X509_V_ERR_HOSTNAME_MISMATCH:
    case X509_V_ERR_IP_ADDRESS_MISMATCH:
      return fmt::format("is not for {}: use the name in the certificate, or give it as sni",
                         core::escaped(peer_name(address)));
    default:
      return fmt::format("cannot be trusted: {}", ::X509_verify_cert_error_string(verdict));
  }
}

}  // namespace

struct Tls::State {
  Address address;
  Context context;
  Session session;
  StoreError failure{Trouble::unreachable, {}};
  bool broken = false;

  Step judge(int result);
  StoreError explain(unsigned long error) const;
};

// What SSL_get_error(3) says of a call that did not succeed.
Tls::Step Tls::State::judge(int result) {
  switch (::SSL_get_error(session.get(), result)) {
    case SSL_ERROR_WANT_READ:
      return Step::wants_read;
    case SSL_ERROR_WANT_WRITE:
      return Step::wants_write;
    case SSL_ERROR_ZERO_RETURN:
    case SSL_ERROR_SYSCALL:
      broken = true;
      return Step::closed;
    default:
      broken = true;
      break;
  }
  const unsigned long error = ::ERR_peek_error();
  if (ERR_GET_REASON(error) == SSL_R_UNEXPECTED_EOF_WHILE_READING) {
    return Step::closed;
  }
  failure = explain(error);
  return Step::failed;
}

StoreError Tls::State::explain(unsigned long error) const {
  const std::string server = address.server();
  const long verdict = ::SSL_get_verify_result(session.get());
  switch (ERR_GET_REASON(error)) {
    case SSL_R_CERTIFICATE_VERIFY_FAILED:
      return {Trouble::misconfigured, fmt::format("the TLS certificate of {} {}", server, distrust(verdict, address))};
    case SSL_R_WRONG_VERSION_NUMBER:
    case SSL_R_HTTP_REQUEST:
    case SSL_R_PACKET_LENGTH_TOO_LONG:
    case SSL_R_RECORD_LENGTH_MISMATCH:
      return {Trouble::misconfigured, fmt::format("{} does not speak TLS: use redis://", server)};
    case SSL_R_UNSUPPORTED_PROTOCOL:
    case SSL_R_TLSV1_ALERT_PROTOCOL_VERSION:
      return {Trouble::misconfigured, fmt::format("{} offers no TLS 1.2 or newer", server)};
    case SSL_R_TLSV13_ALERT_CERTIFICATE_REQUIRED:
      return {Trouble::refused, fmt::format("{} wants a client certificate: give cert and key in the URL", server)};
    case SSL_R_SSLV3_ALERT_HANDSHAKE_FAILURE:
      return {Trouble::refused,
              fmt::format("{} refused the TLS handshake{}",
                          server,
                          address.cert.empty() ? ": it may want a client certificate (cert and key in the URL)" : "")};
    case SSL_R_TLSV1_ALERT_UNKNOWN_CA:
    case SSL_R_SSLV3_ALERT_BAD_CERTIFICATE:
    case SSL_R_SSLV3_ALERT_UNSUPPORTED_CERTIFICATE:
    case SSL_R_SSLV3_ALERT_CERTIFICATE_REVOKED:
    case SSL_R_SSLV3_ALERT_CERTIFICATE_EXPIRED:
    case SSL_R_SSLV3_ALERT_CERTIFICATE_UNKNOWN:
    case SSL_R_TLSV1_ALERT_ACCESS_DENIED:
      return {Trouble::refused, fmt::format("{} refused our client certificate: {}", server, last_reason())};
    default:
      return {Trouble::unreachable, fmt::format("TLS with {} failed: {}", server, last_reason())};
  }
}

Tls::Tls(std::unique_ptr<State> state) : m_state(std::move(state)) {}
Tls::~Tls() = default;

core::Result<std::unique_ptr<Tls>> Tls::open(const Address& address, int socket) {
  let_openssl_ask_the_processor();
  ::ERR_clear_error();
  const auto broken = [&] {
    return tl::unexpected(StoreError{Trouble::misconfigured, fmt::format("cannot prepare TLS: {}", last_reason())});
  };
  auto state = std::make_unique<State>();
  state->address = address;
  state->context.reset(::SSL_CTX_new(::TLS_client_method()));
  SSL_CTX* const context = state->context.get();
  if (context == nullptr || ::SSL_CTX_set_min_proto_version(context, TLS1_2_VERSION) != 1) {
    return broken();
  }
  ::SSL_CTX_set_mode(context, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
  // A tool of one connection resumes no session.
  ::SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_OFF);
  if (!address.insecure) {
    ::SSL_CTX_set_verify(context, SSL_VERIFY_PEER, nullptr);
    if (address.ca.empty()) {
      trust_the_system(context);
    } else if (auto trusted = trust(context, address.ca); !trusted) {
      return tl::unexpected(std::move(trusted.error()));
    }
  }
  if (!address.cert.empty()) {
    if (auto identified = identify(context, address); !identified) {
      return tl::unexpected(std::move(identified.error()));
    }
  }
  state->session.reset(::SSL_new(context));
  SSL* const session = state->session.get();
  if (session == nullptr || ::SSL_set_fd(session, socket) != 1 || !expect_name(session, peer_name(address))) {
    return broken();
  }
  return std::unique_ptr<Tls>(new Tls(std::move(state)));
}

Tls::Step Tls::shake_hands() {
  ::ERR_clear_error();
  const int result = ::SSL_connect(m_state->session.get());
  return result == 1 ? Step::done : m_state->judge(result);
}

Tls::Transfer Tls::read(char* into, std::size_t size) {
  ::ERR_clear_error();
  std::size_t bytes = 0;
  const int result = ::SSL_read_ex(m_state->session.get(), into, size, &bytes);
  return result == 1 ? Transfer{Step::done, bytes} : Transfer{m_state->judge(result)};
}

Tls::Transfer Tls::write(const char* from, std::size_t size) {
  ::ERR_clear_error();
  std::size_t bytes = 0;
  const int result = ::SSL_write_ex(m_state->session.get(), from, size, &bytes);
  return result == 1 ? Transfer{Step::done, bytes} : Transfer{m_state->judge(result)};
}

core::StoreError Tls::failure() const { return m_state->failure; }

void Tls::say_goodbye() noexcept {
  if (!m_state->broken && ::SSL_is_init_finished(m_state->session.get()) != 0) {
    ::ERR_clear_error();
    ::SSL_shutdown(m_state->session.get());
  }
}

}  // namespace stores::redis
