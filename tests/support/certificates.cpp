// Certificates, by OpenSSL.
#include "support/certificates.hpp"

#include <cstdio>
#include <filesystem>
#include <stdexcept>
#include <utility>

#include <fmt/format.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>

namespace support {

namespace {

template <auto free>
struct Free {
  template <class Object>
  void operator()(Object* object) const noexcept {
    free(object);
  }
};
using Key = std::unique_ptr<EVP_PKEY, Free<&::EVP_PKEY_free>>;
using Cert = std::unique_ptr<X509, Free<&::X509_free>>;
using Extension = std::unique_ptr<X509_EXTENSION, Free<&::X509_EXTENSION_free>>;
using File = std::unique_ptr<FILE, Free<&std::fclose>>;

void require(bool good, const char* what) {
  if (!good) {
    throw std::runtime_error(std::string("certificates: ") + what);
  }
}

Key new_key() {
  Key key(::EVP_PKEY_Q_keygen(nullptr, nullptr, "EC", "P-256"));
  require(key != nullptr, "keygen");
  return key;
}

// Unsigned: valid from and until the given times, counted from now.
Cert new_cert(EVP_PKEY* key, const std::string& name, std::chrono::seconds from, std::chrono::seconds until) {
  static long serial = 1;
  Cert cert(::X509_new());
  require(cert != nullptr, "new");
  ::X509_set_version(cert.get(), X509_VERSION_3);
  ::ASN1_INTEGER_set(::X509_get_serialNumber(cert.get()), serial++);
  ::X509_gmtime_adj(::X509_getm_notBefore(cert.get()), from.count());
  ::X509_gmtime_adj(::X509_getm_notAfter(cert.get()), until.count());
  ::X509_set_pubkey(cert.get(), key);
  const auto* const text = reinterpret_cast<const unsigned char*>(name.c_str());
  ::X509_NAME_add_entry_by_txt(::X509_get_subject_name(cert.get()), "CN", MBSTRING_UTF8, text, -1, -1, 0);
  return cert;
}

void extend(X509* cert, X509* issuer, int what, const std::string& value) {
  X509V3_CTX context;
  X509V3_set_ctx(&context, issuer, cert, nullptr, nullptr, 0);
  const Extension extension(::X509V3_EXT_conf_nid(nullptr, &context, what, value.c_str()));
  require(extension != nullptr, "extension");
  ::X509_add_ext(cert, extension.get(), -1);
}

void write_cert(const std::string& path, X509* cert) {
  const File file(std::fopen(path.c_str(), "we"));
  require(file != nullptr && ::PEM_write_X509(file.get(), cert) == 1, "write");
}

void write_key(const std::string& path, EVP_PKEY* key) {
  const File file(std::fopen(path.c_str(), "we"));
  require(file != nullptr && ::PEM_write_PrivateKey(file.get(), key, nullptr, nullptr, 0, nullptr, nullptr) == 1,
          "write");
}

}  // namespace

struct Authority::Keys {
  Key key;
  Cert cert;
};

Authority::Authority(std::string folder, const std::string& name)
    : m_keys(std::make_unique<Keys>()),
      m_folder(std::move(folder)),
      m_file(fmt::format("{}/{}.pem", m_folder, name)),
      m_hashed_folder(fmt::format("{}/{}.hashed", m_folder, name)) {
  m_keys->key = new_key();
  m_keys->cert = new_cert(m_keys->key.get(), name, -std::chrono::hours(24), std::chrono::hours(48));
  X509* const cert = m_keys->cert.get();
  ::X509_set_issuer_name(cert, ::X509_get_subject_name(cert));
  extend(cert, cert, NID_basic_constraints, "critical,CA:TRUE");
  extend(cert, cert, NID_subject_key_identifier, "hash");
  require(::X509_sign(cert, m_keys->key.get(), ::EVP_sha256()) > 0, "sign");
  write_cert(m_file, cert);
  std::filesystem::create_directory(m_hashed_folder);
  write_cert(fmt::format("{}/{:08x}.0", m_hashed_folder, ::X509_subject_name_hash(cert)), cert);
}

Authority::~Authority() = default;

Certificate Authority::issue(const Wish& wish) const {
  const Key key = new_key();
  const Cert cert = new_cert(key.get(), wish.name, wish.from_now, wish.until_now);
  X509* const issuer = wish.self_signed ? cert.get() : m_keys->cert.get();
  ::X509_set_issuer_name(cert.get(), ::X509_get_subject_name(issuer));
  if (!wish.alt_names.empty()) {
    extend(cert.get(), issuer, NID_subject_alt_name, fmt::format("{}", fmt::join(wish.alt_names, ",")));
  }
  require(::X509_sign(cert.get(), wish.self_signed ? key.get() : m_keys->key.get(), ::EVP_sha256()) > 0, "sign");
  Certificate files{fmt::format("{}/{}.pem", m_folder, wish.name), fmt::format("{}/{}.key", m_folder, wish.name)};
  write_cert(files.cert, cert.get());
  write_key(files.key, key.get());
  return files;
}

}  // namespace support
