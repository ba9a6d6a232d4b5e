// stdout and stderr, written so that every failure is noticed.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace cli {

// A write into a pipe without reader, or beyond the limit of file sizes, fails instead of killing lk.
void let_writes_fail();

// 0 where the descriptor is no terminal, or one that does not know.
std::size_t terminal_columns(int fd);

// All of it, or false with errno set.
bool write_all(int fd, std::string_view bytes);

// For stderr, without ever standing still: what a full pipe or a stopped terminal does not take now is kept, in order,
// and offered again with the next call. Nothing that goes wrong here changes anything.
void offer_stderr(std::string_view bytes);
// At the end of lk: waits up to a second for stderr to take what is left. Then it is given up.
void finish_stderr();
// Whether stderr would take something now, with nothing kept before it.
bool stderr_is_ready();

// Data for stdout, then its end: what a file system only says at close(2) counts. A reader that went away early (as
// head does) is no failure. Throws Ending (74).
void print(std::string_view data);

enum class Delivery { done, failed, interrupted };
// What must not get lost: a reader that went away is a failure (errno says why), and a signal in `signal_fd` interrupts
// the waiting for a slow one. No more than a pipe takes at once.
Delivery deliver(std::string_view data, int signal_fd);

}  // namespace cli
