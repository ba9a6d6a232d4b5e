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
parser.add_argument("--kill", type=int, default=0, help="about how many of them, at random moments, die of SIGKILL")
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


def kill_one():
    # A process that has ended and was not reaped yet would take the signal and end as it did; however quick they are,
    # those who get it shall be alive.
    alive = [pid for pid in running if not os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)]
    if alive:
        os.kill(random.choice(alive), signal.SIGKILL)


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
            kill_one()
    if opener >= 0:
        os.close(opener)
        opener = -1
    reap()
