"""THE list of what is measured: how each tool takes a lock, what it needs, and how to install it."""
import functools
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass

PEERS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "peers")


@dataclass(frozen=True)
class Tool:
    """Words in braces are filled in when it runs; {command} stands for all the words of the command under the lock."""

    name: str
    words: str  # takes the lock {key}, waits for it if need be, runs {command}, gives it back
    package: str  # of Debian and Ubuntu
    pair: str = ""  # takes it and gives it back by two commands, "then" between them
    many: str = ""  # takes it {turns} times in one process
    server: str = ""
    slow: bool = False  # takes part in fewer rounds
    locks: bool = True

    def programs(self):
        """What must be installed for it."""
        servers = {"redis": ("redis-server", "redis-cli"), "etcd": ("etcd",), "": ()}
        return ("lk" if self.words.startswith("{lk}") else self.words.split()[0], *servers[self.server])


def _lk(name, store, server=""):
    head = "{lk} %s --store " + store + " --key {key} "
    return Tool("lk " + name, head % "exec" + "--ttl {ttl} --wait forever -- {command}", "tools/dev build",
                server=server, pair=head % "acquire" + "--owner bench -q then " + head % "release" + "--owner bench -q")


TOOLS = [
    Tool("true", "{command}", "", locks=False),
    Tool("flock", "flock {work}/{key}.flock {command}", "apt-get install util-linux"),
    _lk("sqlite", "sqlite:{work}/locks.db"),
    _lk("redis unix", "redis+unix://{redis_socket}", server="redis"),
    _lk("redis tcp", "redis://127.0.0.1:{redis_port}", server="redis"),
    Tool("etcdctl lock", "etcdctl --endpoints={etcd} lock {key} {command}",
         "apt-get install etcd-client etcd-server", server="etcd"),
    Tool("redis-cli sh", "sh {peers}/redis_cli_lock.sh {redis_socket} {key} {ttl}000 {command}",
         "apt-get install redis-server redis-tools", server="redis", slow=True),
    Tool("redis-py Lock", "{python_redis} {peers}/redis_py_lock.py {redis_socket} {key} {ttl} 1 {command}",
         "apt-get install python3-redis redis-server", server="redis", slow=True,
         many="{python_redis} {peers}/redis_py_lock.py {redis_socket} {key} {ttl} {turns} {command}"),
    Tool("sem", "sem --will-cite --fg --id {key} {command}", "apt-get install parallel", slow=True),
]


@functools.lru_cache(None)
def python_with_redis():
    """The first Python 3 that has redis-py: this one, or that of the system."""
    for python in (sys.executable, "/usr/bin/python3"):
        if os.path.exists(python) and subprocess.run([python, "-c", "import redis"], capture_output=True,
                                                     check=False).returncode == 0:
            return python
    return None


def path_of(program):
    """Where a program is, or None."""
    if program == "{command}":
        return program
    if program == "lk":
        program = os.environ.get("LK") or "lk"
    if program == "{python_redis}":
        return python_with_redis()
    found = shutil.which(program)
    return found and os.path.abspath(found)


def missing(tool):
    """What keeps it from being measured, or None."""
    for program in tool.programs():
        if not path_of(program):
            return {"{python_redis}": "redis-py", "lk": "lk ($LK)"}.get(program, program)
    return None


def filled(template, places, command):
    """The words of a template, the program by its whole path: a search of PATH would be measured too."""
    words, first = [], True
    for word in template.split():
        if word == "{command}":
            words += command
        elif first and not word.startswith("{"):
            words.append(path_of(word))
        else:
            words.append(word.format(**places))
        first = word == "then"
    return words
