"""The machine line: where the figures come from."""
import os
import platform
import re
import shutil
import subprocess
import time

import tools


VERSION = r"\d+\.\d[\w.]*"


def _said(words, pattern):
    try:
        done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=10,
                              env=dict(os.environ, ETCDCTL_API="3"), stdin=subprocess.DEVNULL)
    except (OSError, subprocess.TimeoutExpired):
        return None
    found = re.search(pattern, done.stdout + done.stderr)
    return found.group(0) if found else None


def _cpu_model():
    with open("/proc/cpuinfo", encoding="utf-8") as file:
        for line in file:
            if line.startswith(("model name", "Model", "cpu model")):
                return line.partition(":")[2].strip()
    return platform.machine()


def _system():
    try:
        with open("/etc/os-release", encoding="utf-8") as file:
            return dict(re.findall(r'^(\w+)="?(.*?)"?$', file.read(), re.MULTILINE)).get("PRETTY_NAME")
    except OSError:
        return None


def file_system(folder):
    """(type, source) of the mount that a folder is on."""
    folder = os.path.realpath(folder)
    best = ("", "?", "?")
    with open("/proc/self/mountinfo", encoding="utf-8") as file:
        for line in file:
            before, _, after = line.partition(" - ")
            point = before.split()[4]
            if (folder + "/").startswith(point.rstrip("/") + "/") and len(point) >= len(best[0]):
                best = (point, *after.split()[:2])
    return best[1], best[2]


def _memory_gib():
    return round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30)


def versions(found):
    asked = {
        "lk": ["lk", "--version"],
        "flock": ["flock", "--version"],
        "etcdctl": ["etcdctl", "version"],
        "etcd": ["etcd", "--version"],
        "redis-server": ["redis-server", "--version"],
        "redis-py": ["{python_redis}", "-c", "import redis; print(redis.__version__)"],
        "sem": ["sem", "--version"],
    }
    needed = {program for tool in found for program in tool.programs()}
    if "{python_redis}" in needed:
        needed.add("redis-py")
    shown = {name: _said([tools.path_of(words[0]), *words[1:]], r"\d{8}" if name == "sem" else VERSION)
             for name, words in asked.items() if name in needed}
    shown["cc"] = _said([shutil.which("cc") or "gcc", "--version"], r"\d+\.\d+\.\d+")
    shown["python"] = platform.python_version()
    return shown


def locale():
    """What the caller set: all but lk read the files of a locale that is not C at each start."""
    return next(filter(None, map(os.environ.get, ("LC_ALL", "LANG"))), "C")


def describe(folder, found, quick):
    kind, source = file_system(folder)
    return {
        "when": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()), "cpu": _cpu_model(), "cores": os.cpu_count(),
        "memory_gib": _memory_gib(), "system": _system(), "kernel": platform.release(), "file_system": kind,
        "device": source, "locale": locale(), "load1": round(os.getloadavg()[0], 2), "quick": quick, "versions": versions(found),
    }


def in_words(machine):
    shown = ", ".join(f"{name} {version or '?'}" for name, version in machine["versions"].items())
    return (f"{machine['cpu']}, {machine['cores']} cores, {machine['memory_gib']} GiB; {machine['system']}, kernel "
            f"{machine['kernel']}; {machine['file_system']} on {machine['device']}; locale "
            f"{machine['locale']}; load {machine['load1']:.2f}\n"
            f"{shown}")
