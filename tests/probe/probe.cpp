// A guarded command that proves it is alone: it holds a kernel lock while it lives, and says so where it could not get
// it.
//   probe INSIDE OVERLAP [stubborn] [once]
#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstring>

int main(int count, char** words) {
  const int inside = ::open(words[1], O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (inside < 0 || ::flock(inside, LOCK_EX | LOCK_NB) != 0) {
    const int overlap = ::open(words[2], O_WRONLY | O_CREAT | O_APPEND, 0600);
    ::dprintf(overlap, "%d\n", ::getpid());
    return 1;
  }
  bool once = false;
  for (int i = 3; i < count; ++i) {
    if (std::strcmp(words[i], "stubborn") == 0) {
      std::signal(SIGTERM, SIG_IGN);
    }
    once = once || std::strcmp(words[i], "once") == 0;
  }
  while (!once) {
    ::pause();
  }
  return 0;
}
