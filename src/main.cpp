// The program: everything happens in cli.
#include <malloc.h>
#include <unistd.h>

#include "cli/run.hpp"
#include "os/fd.hpp"
#include "os/title.hpp"

int main(int argc, char** argv) {
  os::know_command_line(argc, argv);
  // What a short command frees it needs again at once: to give pages back and fetch new ones costs 60 us.
  ::mallopt(M_TOP_PAD, 512 * 1024);
  ::mallopt(M_TRIM_THRESHOLD, 4 * 1024 * 1024);
  os::occupy_closed_standard_fds();
  const int status = cli::run(argc, argv);
#ifdef __SANITIZE_ADDRESS__
  return status;  // leaks are looked for at the end of the process
#else
  // Nothing is buffered, and the kernel takes back what is left 30 us sooner than its destructors would.
  ::_exit(status);
#endif
}
