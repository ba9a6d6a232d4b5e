// Adds one to the number in a file, the way a guarded job would; fails where another one is at it at the same moment.
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/file.h>
#include <unistd.h>

int main(int argc, char** argv) {
  int64_t count = 0;
  const int file = argc == 2 ? open(argv[1], O_RDWR | O_CREAT, 0600) : -1;
  if (file < 0) {
    perror("add_one");
    return 100;
  }
  // The kernel drops this lock with the process, however it ends: it is refused only while another one runs.
  if (flock(file, LOCK_EX | LOCK_NB) != 0) {
    fprintf(stderr, "overlap at %s\n", argv[1]);
    return 99;
  }
  if (pread(file, &count, sizeof count, 0) < 0) {
    return 100;
  }
  usleep(500);  // without a lock around it, two of them are sure to read the same number
  ++count;
  return pwrite(file, &count, sizeof count, 0) == sizeof count ? 0 : 100;
}
