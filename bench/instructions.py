"""Counting the user-space instructions of a command and all it starts: by perf where the cpu can, else by valgrind."""
import glob
import os
import re
import shutil
import subprocess

SECONDS = 40


def _run(words, environment):
    return subprocess.run(words, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False,
                          timeout=SECONDS, start_new_session=True)


def _by_perf(words, environment, folder):
    out = os.path.join(folder, "perf")
    done = _run(["perf", "stat", "-x,", "-e", "instructions:u", "-o", out, *words], environment)
    with open(out, encoding="utf-8") as file:
        found = re.search(r"^(\d+),", file.read(), re.MULTILINE)
    return (int(found.group(1)) if found else None), done


def _by_valgrind(words, environment, folder):
    out = os.path.join(folder, "callgrind.")
    done = _run(["valgrind", "--tool=callgrind", "--trace-children=yes", f"--callgrind-out-file={out}%p", *words],
                environment)
    counts = []
    for path in glob.glob(out + "*"):
        with open(path, encoding="utf-8", errors="replace") as file:
            counts += re.findall(r"^totals: (\d+)$", file.read(), re.MULTILINE)
        os.unlink(path)
    return sum(map(int, counts)) or None, done


def counter(folder):
    """(name, count) of what can count here, or (None, None)."""
    environment = dict(os.environ)
    if shutil.which("perf"):
        try:
            if _by_perf(["true"], environment, folder)[0]:
                return "perf", _by_perf
        except (OSError, subprocess.TimeoutExpired):
            pass
    if shutil.which("valgrind"):
        return "valgrind", _by_valgrind
    return None, None


def count(by, words, environment, folder):
    """(count, None), or (None, why not)."""
    try:
        counted, done = by(words, environment, folder)
    except subprocess.TimeoutExpired:
        return None, f"not counted within {SECONDS} s"
    if done.returncode or not counted:
        said = [line for line in done.stderr.splitlines() if re.match(r"\w.*[a-z]{3}", line)]
        return None, f"status {done.returncode} there" + (f": {said[0]}" if said else "")
    return counted, None
