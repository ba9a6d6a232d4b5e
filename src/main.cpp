// The program: everything happens in cli.
#include "cli/run.hpp"
#include "os/fd.hpp"

int main(int argc, char** argv) {
  os::occupy_closed_standard_fds();
  return cli::run(argc, argv);
}
