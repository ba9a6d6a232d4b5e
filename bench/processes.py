"""Starting, watching and stopping processes: whatever the benchmark starts, and what those leave behind, is its own."""
import ctypes
import os
import signal
import time

PR_SET_CHILD_SUBREAPER = 36

_ended = {}  # pid -> status, of processes started here that were reaped


class TooLong(Exception):
    """Something did not come about in time."""


def adopt_orphans():
    """What loses its parent becomes a child of this process, so that it can be found and stopped."""
    if ctypes.CDLL(None, use_errno=True).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl")
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGCHLD})  # wait_for() collects it


def start(words, environment, errors, output=os.devnull):
    """Starts a program in a session of its own, as cron does: no terminal, and Ctrl-C reaches the benchmark alone."""
    files = [
        (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
        (os.POSIX_SPAWN_OPEN, 1, output, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644),
        (os.POSIX_SPAWN_OPEN, 2, errors, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644),
    ]
    pid = os.posix_spawn(words[0], words, environment, file_actions=files, setsid=True, setsigmask=[],
                         setsigdef=[signal.SIGPIPE, signal.SIGXFSZ])
    _ended.pop(pid, None)
    return pid


def _reap():
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if pid == 0:
            return
        _ended[pid] = os.waitstatus_to_exitcode(status)


def wait_for(pids, seconds):
    """The exit statuses of processes started here, once all have ended (a negative one is a signal)."""
    deadline = time.monotonic() + seconds
    while True:
        _reap()
        if all(pid in _ended for pid in pids):
            return [_ended[pid] for pid in pids]
        left = deadline - time.monotonic()
        if left <= 0:
            running = sum(pid not in _ended for pid in pids)
            raise TooLong(f"{running} of {len(pids)} processes still ran after {seconds:g} s")
        signal.sigtimedwait({signal.SIGCHLD}, left)


def has_ended(pid):
    _reap()
    return pid in _ended


def wait_until(condition, seconds, what):
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            raise TooLong(f"{what} did not come about within {seconds:g} s")
        time.sleep(0.002)


def _stat(pid):
    """The fields of /proc/PID/stat from the state on, or None if there is no such process."""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
            return file.read().rpartition(")")[2].split()
    except OSError:
        return None


def runs(pid):
    fields = _stat(pid)
    return fields is not None and fields[0] not in "ZX"


def family(roots):
    """These processes and all their descendants, parents before children."""
    children = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            fields = _stat(name)
            if fields:
                children.setdefault(int(fields[1]), []).append(int(name))
    found = list(roots)
    for pid in found:
        found += children.get(pid, [])
    return found


def stop_all(keep=()):
    """Kills whatever descends from this process, but for the families of `keep`."""
    while True:
        _reap()
        kept = set(family(keep))
        doomed = [pid for pid in family([os.getpid()])[1:] if pid not in kept]
        if not doomed:
            return
        for pid in doomed:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        time.sleep(0.002)


def stand_still(pids):
    """Stops them, so that none can do anything between the deaths of the others."""
    for pid in reversed(pids):
        os.kill(pid, signal.SIGSTOP)
    wait_until(lambda: all((_stat(pid) or "Z")[0] in "TtZ" for pid in pids), 5, "standing still")


def cpu_seconds(pids):
    """Per process: its own time on a cpu (to the ns where the kernel keeps it) and that of its reaped children."""
    tick = 1 / os.sysconf("SC_CLK_TCK")
    used = {}
    for pid in pids:
        fields = _stat(pid)
        if not fields:
            continue
        try:
            own = 0.0
            for task in os.listdir(f"/proc/{pid}/task"):
                with open(f"/proc/{pid}/task/{task}/schedstat", encoding="ascii") as file:
                    own += int(file.read().split()[0]) / 1e9
        except OSError:
            own = (int(fields[11]) + int(fields[12])) * tick
        used[pid] = own + (int(fields[13]) + int(fields[14])) * tick
    return used


def cpu_between(before, after):
    return sum(used - before.get(pid, 0.0) for pid, used in after.items())


def pss_kib(pids):
    """Memory of all these processes, pages that several share counted once."""
    total = 0
    for pid in pids:
        try:
            with open(f"/proc/{pid}/smaps_rollup", encoding="ascii") as file:
                total += sum(int(line.split()[1]) for line in file if line.startswith("Pss:"))
        except OSError:
            pass  # it ended
    return total
