"""Types at an interactive shell on a terminal of its own: typed.py [--see TEXT] [--screen FILE] LINE... -- SHELL WORD...

The shell prompts with "READY N> ", N counting from 0, and its lk leaves its words in the file `args` of the working
directory. Each LINE is typed at a prompt, with a return behind it once the terminal has shown --see, and what lk left is
printed. --screen gets all that the terminal showed.
"""

import argparse
import fcntl
import os
import pty
import select
import signal
import struct
import sys
import termios
import time

PATIENCE = 30

at = sys.argv.index("--")
parser = argparse.ArgumentParser()
parser.add_argument("--see")
parser.add_argument("--screen", type=argparse.FileType("wb"))
parser.add_argument("lines", nargs="+")
options = parser.parse_args(sys.argv[1:at])

screen = b""


def wait_for(what, condition):
    """Takes in what the terminal shows until the condition holds."""
    global screen
    end = time.monotonic() + PATIENCE
    while not condition():
        shown = b""
        if select.select([terminal], [], [], 0.01)[0]:
            try:
                shown = os.read(terminal, 65536)
            except OSError:  # the shell is gone
                end = 0
        screen += shown
        if time.monotonic() > end:
            sys.stdout.flush()
            sys.exit(f"never seen: {what}; the terminal showed:\n{screen.decode(errors='replace')}")


pid, terminal = pty.fork()
if pid == 0:
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # Python ignores it, and the shell would inherit that
    os.execvp(sys.argv[at + 1], sys.argv[at + 1 :])
fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 50, 200, 0, 0))

for number, line in enumerate(options.lines):
    prompt = f"READY {number}> ".encode()
    wait_for(prompt, lambda: prompt in screen)
    os.write(terminal, os.fsencode(line))
    if options.see is not None:
        wait_for(options.see, lambda: os.fsencode(options.see) in screen.partition(prompt)[2])
    os.write(terminal, b"\r")
    wait_for(f"what lk is given by {line!r}", lambda: os.path.exists("args"))
    with open("args", encoding="utf-8") as args:
        print(args.read(), end="")
    os.remove("args")

os.close(terminal)
os.waitpid(pid, 0)
if options.screen:
    options.screen.write(screen)
