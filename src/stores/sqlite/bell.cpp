// FIFOs: ENXIO tells that nobody listens (fifo(7)).
#include "stores/sqlite/bell.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <cstdlib>
#include <cstring>

#include <fmt/format.h>

#include "core/text.hpp"
#include "os/fd.hpp"

namespace stores::sqlite {

namespace {

class FifoWatch : public core::Watch {
public:
  FifoWatch(std::string path, os::Fd fifo, std::shared_ptr<bool> rung)
      : m_path(std::move(path)), m_fifo(std::move(fifo)), m_rung(std::move(rung)) {}
  ~FifoWatch() override { ::unlink(m_path.c_str()); }
  FifoWatch(const FifoWatch&) = delete;
  FifoWatch& operator=(const FifoWatch&) = delete;

  int fd() const noexcept override { return m_fifo.get(); }
  void drain() noexcept override {
    char rings[64];
    while (::read(m_fifo.get(), rings, sizeof rings) > 0) {
      *m_rung = true;
    }
  }

private:
  std::string m_path;
  os::Fd m_fifo;
  std::shared_ptr<bool> m_rung;
};

}  // namespace

const std::string& Bells::folder() const {
  if (m_folder.empty()) {
    char resolved[PATH_MAX];
    m_folder =
        fmt::format("{}-bells", ::realpath(m_database_path.c_str(), resolved) != nullptr ? resolved : m_database_path);
  }
  return m_folder;
}

std::string Bells::path(core::AskId ask) const { return fmt::format("{}/{:016x}", folder(), ask.value); }

core::Result<std::unique_ptr<core::Watch>> Bells::hang(core::AskId ask, mode_t mode, std::shared_ptr<bool> rung) const {
  const bool shared = (mode & S_IWGRP) != 0;
  if (::mkdir(folder().c_str(), 0700) == 0 && shared) {
    ::chmod(folder().c_str(), 02770);
  }
  std::string name = path(ask);
  const bool made = ::mkfifo(name.c_str(), mode) == 0;
  // O_RDWR: the FIFO keeps a writer, so that poll(2) does not report a hang-up after each ring. A ringer still gets
  // ENXIO once this process is gone, as both ends are gone then.
  os::Fd fifo(made ? ::open(name.c_str(), O_RDWR | O_NONBLOCK | O_CLOEXEC) : -1);
  if (!fifo) {
    const int error = errno;
    if (made) {
      ::unlink(name.c_str());
    }
    return tl::unexpected(core::StoreError{
        core::Trouble::refused, fmt::format("cannot create {}: {}", core::escaped(name), std::strerror(error))});
  }
  if (shared) {
    ::fchmod(fifo.get(), mode);
  }
  return std::make_unique<FifoWatch>(std::move(name), std::move(fifo), std::move(rung));
}

Bells::Ring Bells::ring(core::AskId ask) const noexcept {
  const std::string name = path(ask);
  const os::Fd fifo(::open(name.c_str(), O_WRONLY | O_NONBLOCK | O_CLOEXEC | O_NOFOLLOW));
  if (!fifo) {
    return errno == ENXIO || errno == ENOENT ? Ring::nobody_listens : Ring::heard;
  }
  struct stat found {};
  if (::fstat(fifo.get(), &found) == 0 && S_ISFIFO(found.st_mode)) {
    // A full pipe has rung already.
    [[maybe_unused]] const ssize_t written = ::write(fifo.get(), "", 1);
  }
  return Ring::heard;
}

bool Bells::hangs(core::AskId ask) const noexcept { return ::access(path(ask).c_str(), F_OK) == 0; }

void Bells::take_down(core::AskId ask) const noexcept { ::unlink(path(ask).c_str()); }

void Bells::take_down_all() const noexcept {
  DIR* const opened = ::opendir(folder().c_str());
  if (opened == nullptr) {
    return;
  }
  while (const dirent* const entry = ::readdir(opened)) {
    if (entry->d_type == DT_FIFO) {
      ::unlinkat(::dirfd(opened), entry->d_name, 0);
    }
  }
  ::closedir(opened);
}

}  // namespace stores::sqlite
