"""Many processes at once: crowd.py [OPTION...] WORD...; each {} in the words becomes the number of the process's key.

Writes one line "KEY STATUS" into the file --ends for each process, STATUS being its exit status or -N for a death by signal N.
"""

import argparse
import os
import random
import signal

parser = argparse.ArgumentParser()
parser.add_argument("--processes", type=int, required=True)
parser.add_argument("--keys", type=int, default=1)
parser.add_argument("--at-a-time", type=int, default=0, help="0: all, let go at the same moment")
parser.add_argument("--kill", type=int, default=0, help="about how many of them, at random moments, get SIGKILL")
parser.add_argument("--ends", type=argparse.FileType("w"), required=True)
parser.add_argument("words", nargs=argparse.REMAINDER)
options = parser.parse_args()

signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # Python ignores it, and the processes would inherit that
gate, opener = os.pipe()
running = {}


def start(number, waits):
    key = number % options.keys
    pid = os.fork()
    if pid == 0:
        if waits:
            os.close(opener)
            os.read(gate, 1)  # until the last writer has closed it
        words = [word.replace("{}", str(key)) for word in options.words]
        try:
            os.execvp(words[0], words)
        finally:
            os._exit(111)
    running[pid] = key


def reap():
    pid, status = os.wait()
    print(running.pop(pid), os.waitstatus_to_exitcode(status), file=options.ends)


at_a_time = options.at_a_time or options.processes
started = 0
while started < options.processes or running:
    while started < options.processes and len(running) < at_a_time:
        start(started, options.at_a_time == 0)
        started += 1
        if random.random() < options.kill / options.processes:
            # A pid of ours that has not been reaped: it cannot have become another process.
            os.kill(random.choice(list(running)), signal.SIGKILL)
    if opener >= 0:
        os.close(opener)
        opener = -1
    reap()
