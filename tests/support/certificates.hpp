// Certificates for tests: an authority, and what it signs.
#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <vector>

namespace support {

// Two PEM files.
struct Certificate {
  std::string cert;
  std::string key;
};

class Authority {
public:
  // Its certificate is NAME.pem in `folder`, and alone in the folder NAME.hashed under its hash.
  Authority(std::string folder, const std::string& name);
  ~Authority();
  Authority(const Authority&) = delete;
  Authority& operator=(const Authority&) = delete;

  const std::string& file() const noexcept { return m_file; }
  const std::string& hashed_folder() const noexcept { return m_hashed_folder; }

  struct Wish {
    std::string name;                    // of the files
    std::vector<std::string> alt_names;  // "DNS:localhost", "IP:127.0.0.1"
    std::chrono::seconds from_now = -std::chrono::hours(1);
    std::chrono::seconds until_now = std::chrono::hours(24);
    bool self_signed = false;
  };
  Certificate issue(const Wish& wish) const;

private:
  struct Keys;
  std::unique_ptr<Keys> m_keys;
  std::string m_folder;
  std::string m_file;
  std::string m_hashed_folder;
};

}  // namespace support
