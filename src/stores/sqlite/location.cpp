// Folders, modes, file systems and mounts.
#include "stores/sqlite/location.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <optional>
#include <string_view>

#include <fmt/format.h>

#include "core/text.hpp"

namespace stores::sqlite {

namespace {

using core::StoreError;
using core::Trouble;

constexpr std::string_view way_out = "use a folder on a local disk, or Redis for locks between machines";

std::string folder_of(const std::string& path) {
  const std::size_t slash = path.rfind('/');
  return slash == std::string::npos ? "." : slash == 0 ? "/" : path.substr(0, slash);
}

struct NetworkFileSystem {
  std::uint32_t magic;
  std::string_view name;
};

// statfs(2) and linux/magic.h; where several machines may mount the same files.
constexpr std::array network_file_systems{
    NetworkFileSystem{0x6969, "NFS"},
    NetworkFileSystem{0x517b, "SMB"},
    NetworkFileSystem{0xfe534d42, "SMB"},
    NetworkFileSystem{0xff534d42, "SMB"},
    NetworkFileSystem{0x01021997, "9p"},
    NetworkFileSystem{0x786f4256, "vboxsf"},
    NetworkFileSystem{0xbacbacbc, "vmhgfs"},
    NetworkFileSystem{0x5346414f, "AFS"},
    NetworkFileSystem{0x6b414653, "AFS"},
    NetworkFileSystem{0x73757245, "Coda"},
    NetworkFileSystem{0x564c, "NCP"},
    NetworkFileSystem{0x00c36400, "Ceph"},
    NetworkFileSystem{0x0bd00bd0, "Lustre"},
    NetworkFileSystem{0x47504653, "GPFS"},
    NetworkFileSystem{0x01161970, "GFS2"},
    NetworkFileSystem{0x7461636f, "OCFS2"},
    NetworkFileSystem{0x19830326, "BeeGFS"},
    NetworkFileSystem{0x013111a8, "IBRIX"},
};
constexpr std::uint32_t fuse_magic = 0x65735546;

// FUSE file systems whose files are this machine's alone.
constexpr std::array<std::string_view, 3> local_fuse_types{"fuseblk", "fuse.fuse-overlayfs", "fuse.bindfs"};

std::uint64_t mount_id(const std::string& path) {
  struct statx found {};
  if (::statx(AT_FDCWD, path.c_str(), 0, STATX_MNT_ID, &found) != 0 || (found.stx_mask & STATX_MNT_ID) == 0) {
    return 0;
  }
  return found.stx_mnt_id;
}

// proc(5), mountinfo: "36 35 98:0 /root /mount/point options … - type source …". The first number is the mount id.
std::string mounted_type(std::uint64_t id) {
  const std::unique_ptr<FILE, int (*)(FILE*)> mounts(std::fopen("/proc/self/mountinfo", "re"), &std::fclose);
  if (!mounts) {
    return {};
  }
  std::string type;
  char* line = nullptr;
  std::size_t size = 0;
  while (::getline(&line, &size, mounts.get()) > 0) {
    if (std::strtoull(line, nullptr, 10) != id) {
      continue;
    }
    if (const char* const separator = std::strstr(line, " - ")) {
      const std::string_view rest(separator + 3);
      type = rest.substr(0, rest.find(' '));
    }
    break;
  }
  std::free(line);
  return type;
}

core::Result<void> check_file_system(const std::string& folder) {
  struct statfs found {};
  if (::statfs(folder.c_str(), &found) != 0) {
    return {};  // opening the file will say why
  }
  const auto magic = static_cast<std::uint32_t>(found.f_type);
  const auto known = std::ranges::find(network_file_systems, magic, &NetworkFileSystem::magic);
  if (known != network_file_systems.end()) {
    return tl::unexpected(
        StoreError{Trouble::misconfigured,
                   fmt::format("{} is on a network file system ({}), where SQLite's locks do not hold: {}",
                               core::escaped(folder),
                               known->name,
                               way_out)});
  }
  if (magic == fuse_magic) {
    const std::string type = mounted_type(mount_id(folder));
    if (std::ranges::find(local_fuse_types, type) == local_fuse_types.end()) {
      return tl::unexpected(StoreError{
          Trouble::misconfigured,
          fmt::format(
              "{} is on a file system that other machines may share ({}), where SQLite's locks may not hold: {}",
              core::escaped(folder),
              type.empty() ? "FUSE" : core::escaped(type),
              way_out)});
    }
  }
  return {};
}

}  // namespace

core::Result<void> make_folder(const std::string& path) {
  const std::string folder = folder_of(path);
  for (std::size_t slash = folder.find('/', 1);; slash = folder.find('/', slash + 1)) {
    const std::string part = folder.substr(0, slash);
    if (::mkdir(part.c_str(), 0700) != 0 && errno != EEXIST && errno != EISDIR) {
      const int error = errno;
      struct stat found {};
      if (::stat(part.c_str(), &found) != 0) {
        const bool denied = error == EACCES || error == EPERM || error == EROFS;
        return tl::unexpected(StoreError{error == ENOSPC || error == EDQUOT ? Trouble::full
                                         : denied                           ? Trouble::refused
                                                                            : Trouble::misconfigured,
                                         fmt::format("cannot create the folder {}: {}; name another file with --store",
                                                     core::escaped(part),
                                                     std::strerror(error))});
      }
    }
    if (slash == std::string::npos) {
      return {};
    }
  }
}

mode_t file_mode(const std::string& path) {
  struct stat folder {};
  constexpr mode_t shared = S_ISGID | S_IWGRP;
  return ::stat(folder_of(path).c_str(), &folder) == 0 && (folder.st_mode & shared) == shared ? 0660 : 0600;
}

core::Result<void> check_location(const std::string& path) {
  const std::string folder = folder_of(path);
  if (auto checked = check_file_system(folder); !checked) {
    return checked;
  }
  struct stat link {};
  if (::lstat(path.c_str(), &link) == 0 && S_ISLNK(link.st_mode)) {
    // SQLite follows the link and keeps -wal and -shm beside the file it leads to.
    const std::unique_ptr<char, void (*)(void*)> target(::realpath(path.c_str(), nullptr), &std::free);
    return target ? check_location(target.get()) : core::Result<void>{};
  }
  struct stat file {};
  if (::stat(path.c_str(), &file) == 0 && S_ISREG(file.st_mode) && file.st_nlink > 1) {
    return tl::unexpected(
        StoreError{Trouble::misconfigured,
                   fmt::format("{} has {} names (hard links): each would have locks of its own; leave it one",
                               core::escaped(path),
                               file.st_nlink)});
  }
  const std::uint64_t file_mount = mount_id(path);
  const std::uint64_t folder_mount = mount_id(folder);
  if (file_mount != 0 && folder_mount != 0 && file_mount != folder_mount) {
    return tl::unexpected(StoreError{Trouble::misconfigured,
                                     fmt::format("{} is mounted alone, without its folder: two containers would each "
                                                 "have locks of their own; mount the folder instead",
                                                 core::escaped(path))});
  }
  return {};
}

core::StoreError explain_no_access(const std::string& path) {
  const auto owner = [](const struct stat& found) {
    return fmt::format("owner uid {}, mode {:04o}", found.st_uid, found.st_mode & 07777);
  };
  const std::string folder = folder_of(path);
  struct stat found {};
  if (::stat(folder.c_str(), &found) != 0) {
    const int error = errno;
    return {error == EACCES ? Trouble::refused : Trouble::misconfigured,
            fmt::format("cannot reach the folder {}: {}", core::escaped(folder), std::strerror(error))};
  }
  if (!S_ISDIR(found.st_mode)) {
    return {Trouble::misconfigured, fmt::format("{} is not a folder", core::escaped(folder))};
  }
  const struct stat of_folder = found;
  std::string why;
  const auto trouble_with_files = [&](int mode) -> std::optional<core::StoreError> {
    for (const char* const suffix : {"", "-wal", "-shm"}) {
      const std::string file = path + suffix;
      if (::stat(file.c_str(), &found) != 0) {
        if (errno != ENOENT) {
          why = fmt::format(": {}", std::strerror(errno));
        }
      } else if (!S_ISREG(found.st_mode)) {
        return core::StoreError{Trouble::misconfigured, fmt::format("{} is not a regular file", core::escaped(file))};
      } else if (::access(file.c_str(), mode) != 0 && errno != EROFS) {
        return core::StoreError{
            Trouble::refused,
            fmt::format("no permission to read and write {} ({})", core::escaped(file), owner(found))};
      }
    }
    return std::nullopt;
  };
  // Who may not even read has no use for the folder.
  if (auto trouble = trouble_with_files(R_OK)) {
    return *std::move(trouble);
  }
  if (::access(folder.c_str(), W_OK | X_OK) != 0) {
    if (errno == EROFS) {
      return {Trouble::refused, fmt::format("{} is on a read-only file system", core::escaped(folder))};
    }
    return {Trouble::refused,
            fmt::format("no permission to write in the folder {} ({})", core::escaped(folder), owner(of_folder))};
  }
  if (auto trouble = trouble_with_files(R_OK | W_OK)) {
    return *std::move(trouble);
  }
  return {Trouble::unreachable, fmt::format("cannot open {}{}", core::escaped(path), why)};
}

}  // namespace stores::sqlite
