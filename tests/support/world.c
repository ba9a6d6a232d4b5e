// For LD_PRELOAD: the kernel as it would be on a network file system, after a sleep of the machine, or with an eye on
// one file.
//   WORLD_STATFS=0x6969    statfs says that everything lies on a file system with this magic number
//   WORLD_SLEPT=FILE       while FILE exists CLOCK_BOOTTIME is 1000 s ahead: the machine slept, CLOCK_MONOTONIC stood
//   still WORLD_BOOT_AHEAD=SECONDS  CLOCK_BOOTTIME is that far ahead: another machine's, or one that has rebooted since
//   WORLD_WATCH=FILE       each open of FILE is noted in FILE.opened, and whether it was open already
#define _GNU_SOURCE
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <time.h>
#include <unistd.h>

static void pretend(struct statfs* found) {
  const char* magic = getenv("WORLD_STATFS");
  if (magic != NULL) {
    found->f_type = (__typeof__(found->f_type))strtoul(magic, NULL, 0);
  }
}

int statfs(const char* path, struct statfs* found) {
  const long result = syscall(SYS_statfs, path, found);
  pretend(found);
  return (int)result;
}

int fstatfs(int fd, struct statfs* found) {
  const long result = syscall(SYS_fstatfs, fd, found);
  pretend(found);
  return (int)result;
}

int clock_gettime(clockid_t clock, struct timespec* now) {
  const long result = syscall(SYS_clock_gettime, clock, now);
  if (clock == CLOCK_BOOTTIME) {
    const char* slept = getenv("WORLD_SLEPT");
    const char* ahead = getenv("WORLD_BOOT_AHEAD");
    now->tv_sec += slept != NULL && syscall(SYS_access, slept, F_OK) == 0 ? 1000 : 0;
    now->tv_sec += ahead != NULL ? atol(ahead) : 0;
  }
  return (int)result;
}

static char is_watched[1024];

static int note(int fd, const char* path) {
  const char* watched = getenv("WORLD_WATCH");
  if (fd < 0 || fd >= (int)sizeof is_watched || watched == NULL || strcmp(path, watched) != 0) {
    return fd;
  }
  char name[PATH_MAX];
  char line[64];
  const char* how = memchr(is_watched, 1, sizeof is_watched) != NULL ? "again" : "once";
  is_watched[fd] = 1;
  snprintf(name, sizeof name, "%s.opened", watched);
  const int length = snprintf(line, sizeof line, "%s by %d\n", how, (int)getpid());
  const int log = (int)syscall(SYS_openat, AT_FDCWD, name, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
  if (write(log, line, (size_t)length) != length) {
    abort();
  }
  syscall(SYS_close, log);
  return fd;
}

#define WITH_MODE                                                                \
  va_list rest;                                                                  \
  va_start(rest, flags);                                                         \
  const int mode = (flags & (O_CREAT | O_TMPFILE)) != 0 ? va_arg(rest, int) : 0; \
  va_end(rest);

int open(const char* path, int flags, ...) {
  WITH_MODE
  return note((int)syscall(SYS_openat, AT_FDCWD, path, flags, mode), path);
}

int open64(const char* path, int flags, ...) {
  WITH_MODE
  return note((int)syscall(SYS_openat, AT_FDCWD, path, flags, mode), path);
}

int openat(int folder, const char* path, int flags, ...) {
  WITH_MODE
  return note((int)syscall(SYS_openat, folder, path, flags, mode), path);
}

int close(int fd) {
  if (fd >= 0 && fd < (int)sizeof is_watched) {
    is_watched[fd] = 0;
  }
  return (int)syscall(SYS_close, fd);
}
