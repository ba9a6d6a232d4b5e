// The command that runs under the locks, and what times the tools: so small that its own start costs next to nothing.
//
//   stamp work US                        be busy for US microseconds
//   stamp hold FIFO                      say that it runs, then stay until nobody has FIFO open for writing any more
//   stamp measure CMD...                 run CMD; tell its wall time, cpu and peak memory, all its descendants included
//   stamp turns COUNT CMD...             run CMD COUNT times, each time with BENCH_ASKED set to now
//   stamp repeat COUNT MS CMD... [then CMD...]  run the commands in turn, COUNT times or until MS milliseconds are over
//   stamp tied CMD...                    become CMD, and end when the one who started this ends
//
// Each appends a line to the file BENCH_LOG:
//   work ID ASKED START END PID | hold ID ASKED START 0 PID | measure WALL CPU PEAK_KIB STATUS | turns COUNT STATUS
//   repeat COUNT ELAPSED STATUS
// Times are CLOCK_MONOTONIC in ns; ID and ASKED are copied from BENCH_ID and BENCH_ASKED. {turn} in a word of CMD is
// the number of the turn. turns and repeat end at the first status that is not 0.
#define _GNU_SOURCE
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

extern char** environ;

enum { most_words = 64, longest_word = 512 };

static long long now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return time.tv_sec * 1000000000LL + time.tv_nsec;
}

static void fail(const char* what) {
  perror(what);
  exit(111);
}

static const char* variable(const char* name) {
  const char* value = getenv(name);
  return value ? value : "0";
}

static void record(const char* line) {
  int file = open(variable("BENCH_LOG"), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
  if (file < 0 || write(file, line, strlen(line)) < 0) {
    fail("stamp: BENCH_LOG");
  }
}

static void record_grant(const char* kind, long long start, long long end) {
  char line[256];
  snprintf(line,
           sizeof line,
           "%s %s %s %lld %lld %d\n",
           kind,
           variable("BENCH_ID"),
           variable("BENCH_ASKED"),
           start,
           end,
           (int)getpid());
  record(line);
}

static void end_with_parent(void) { prctl(PR_SET_PDEATHSIG, SIGTERM); }

static int status_of(int status) { return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status); }

static pid_t start(char** words) {
  pid_t pid;
  int error = posix_spawnp(&pid, words[0], NULL, NULL, words, environ);
  if (error != 0) {
    fprintf(stderr, "stamp: %s: %s\n", words[0], strerror(error));
    exit(127);
  }
  return pid;
}

static int run_turn(char** words, long long turn) {
  static char texts[most_words][longest_word];
  char* filled[most_words + 1];
  int count = 0;
  for (; words[count] && count < most_words; count++) {
    const char* mark = strstr(words[count], "{turn}");
    filled[count] = words[count];
    if (mark) {
      snprintf(texts[count], longest_word, "%.*s%lld%s", (int)(mark - words[count]), words[count], turn, mark + 6);
      filled[count] = texts[count];
    }
  }
  filled[count] = NULL;
  int status;
  waitpid(start(filled), &status, 0);
  return status_of(status);
}

static void work(long long microseconds) {
  long long began = now();
  while (now() < began + microseconds * 1000) {
  }
  record_grant("work", began, now());
}

static void hold(const char* fifo) {
  long long began = now();
  record_grant("hold", began, 0);
  char nothing;
  // Not to wait for a writer in open(): the benchmark may be dead already.
  int file = open(fifo, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
  if (file < 0 || fcntl(file, F_SETFL, 0) != 0 || read(file, &nothing, 1) < 0) {
    fail(fifo);
  }
  record_grant("work", began, now());
}

static long long microseconds(struct timeval time) { return time.tv_sec * 1000000LL + time.tv_usec; }

// What the command leaves behind (lk's guardian for a moment) becomes a child of this process, and is counted too.
static void measure(char** words) {
  prctl(PR_SET_CHILD_SUBREAPER, 1);
  struct rusage used;
  int status, other;
  long long began = now();
  wait4(start(words), &status, 0, &used);
  long long wall = now() - began, cpu = 0, peak = 0;
  do {
    cpu += (microseconds(used.ru_utime) + microseconds(used.ru_stime)) * 1000;
    peak = used.ru_maxrss > peak ? used.ru_maxrss : peak;
  } while (wait4(-1, &other, 0, &used) > 0);
  char line[256];
  snprintf(line, sizeof line, "measure %lld %lld %lld %d\n", wall, cpu, peak, status_of(status));
  record(line);
}

static void turns(long long count, char** words) {
  long long turn = 0;
  int status = 0;
  for (; turn < count && status == 0; turn++) {
    char asked[32];
    snprintf(asked, sizeof asked, "%lld", now());
    setenv("BENCH_ASKED", asked, 1);
    status = run_turn(words, turn);
  }
  char line[256];
  snprintf(line, sizeof line, "turns %lld %d\n", turn, status);
  record(line);
}

static void repeat(long long count, long long milliseconds, char** words) {
  char** second = NULL;
  for (char** word = words; *word; word++) {
    if (strcmp(*word, "then") == 0) {
      *word = NULL;
      second = word + 1;
      break;
    }
  }
  long long began = now(), turn = 0;
  int status = 0;
  while (status == 0 && turn < count && now() < began + milliseconds * 1000000) {
    status = run_turn(words, turn);
    if (status == 0 && second) {
      status = run_turn(second, turn);
    }
    turn++;
  }
  char line[256];
  snprintf(line, sizeof line, "repeat %lld %lld %d\n", turn, now() - began, status);
  record(line);
}

int main(int argc, char** argv) {
  const char* what = argc > 2 ? argv[1] : "";
  if (strcmp(what, "work") == 0) {
    work(atoll(argv[2]));
  } else if (strcmp(what, "hold") == 0) {
    hold(argv[2]);
  } else if (strcmp(what, "measure") == 0) {
    end_with_parent();
    measure(argv + 2);
  } else if (strcmp(what, "turns") == 0 && argc > 3) {
    end_with_parent();
    turns(atoll(argv[2]), argv + 3);
  } else if (strcmp(what, "repeat") == 0 && argc > 4) {
    end_with_parent();
    repeat(atoll(argv[2]), atoll(argv[3]), argv + 4);
  } else if (strcmp(what, "tied") == 0) {
    end_with_parent();
    execvp(argv[2], argv + 2);
    fail(argv[2]);
  } else {
    fprintf(stderr, "usage: stamp work|hold|measure|turns|repeat|tied ARG...\n");
    return 64;
  }
  return 0;
}
