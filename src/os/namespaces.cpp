// namespaces(7): two processes are in the same one if the files have the same inode.
#include "os/namespaces.hpp"

#include <sys/stat.h>

namespace os {

namespace {

std::uint64_t inode_of(const char* path) noexcept {
  struct stat found {};
  return ::stat(path, &found) == 0 ? found.st_ino : 0;
}

}  // namespace

// Asked once: a process stays in the namespaces it was born in.
std::uint64_t pid_namespace() noexcept {
  static const std::uint64_t number = inode_of("/proc/self/ns/pid");
  return number;
}

std::uint64_t time_namespace() noexcept {
  static const std::uint64_t number = inode_of("/proc/self/ns/time");
  return number;
}

// PROC_TIME_INIT_INO of the kernel; all others get numbers from 0xf0000000 up.
bool is_in_first_time_namespace() noexcept { return time_namespace() == 0xeffffffa; }

}  // namespace os
