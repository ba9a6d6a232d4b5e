"""The servers that some tools need: started for one run, on free ports of this machine alone, and stopped after it."""
import os
import shutil
import socket
import subprocess
import time

import processes


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class NotStarted(Exception):
    """A server does not run, and why."""


class Server:
    """A started program. `stamp tied` ends it should the benchmark be killed."""

    def __init__(self, name, words, folder, stamp, answers):
        os.makedirs(folder, exist_ok=True)
        self.log = os.path.join(folder, "log")
        words = [stamp, "tied", shutil.which(words[0]), *words[1:]]
        self.pid = processes.start(words, dict(os.environ), self.log, self.log)
        deadline = time.monotonic() + 20
        while not answers():
            if processes.has_ended(self.pid) or time.monotonic() > deadline:
                with open(self.log, encoding="utf-8", errors="replace") as file:
                    said = file.read().split("\n")
                raise NotStarted(f"{name} does not answer: {' '.join(said[-3:]).strip()}")
            time.sleep(0.02)

    def stop(self):
        if not processes.has_ended(self.pid):
            os.kill(self.pid, 15)
        try:
            processes.wait_for([self.pid], 10)
        except processes.TooLong:
            os.kill(self.pid, 9)
            processes.wait_for([self.pid], 10)


class Redis(Server):
    """A Redis that keeps everything in memory, over TCP and over a unix socket."""

    def __init__(self, folder, stamp):
        self.port = free_port()
        self.socket = os.path.join(folder, "socket")
        words = ["redis-server", "--port", str(self.port), "--bind", "127.0.0.1", "--unixsocket", self.socket,
                 "--dir", folder, "--save", "", "--appendonly", "no", "--daemonize", "no"]
        super().__init__("redis-server", words, folder, stamp, self.answers)

    def ask(self, *words):
        done = subprocess.run(["redis-cli", "-s", self.socket, *map(str, words)], capture_output=True, text=True,
                              check=False)
        if done.returncode or done.stdout.startswith("ERR"):
            raise RuntimeError(f"redis-cli {words[0]}: {done.stdout}{done.stderr}".strip())
        return done.stdout.strip()

    def answers(self):
        try:
            return self.ask("PING") == "PONG"
        except RuntimeError:
            return False

    def info(self, name):
        for line in self.ask("INFO").splitlines():
            if line.startswith(name + ":"):
                return int(line.partition(":")[2])
        raise RuntimeError(f"INFO of redis has no {name}")


class Etcd(Server):
    """One etcd, its data on the disk of the work folder."""

    def __init__(self, folder, stamp):
        self.address = f"127.0.0.1:{free_port()}"
        client, peer = "http://" + self.address, f"http://127.0.0.1:{free_port()}"
        words = ["etcd", "--data-dir", os.path.join(folder, "data"), "--log-level", "error",
                 "--listen-client-urls", client, "--advertise-client-urls", client, "--listen-peer-urls", peer,
                 "--initial-advertise-peer-urls", peer, "--initial-cluster", "default=" + peer]
        super().__init__("etcd", words, folder, stamp, self.answers)

    def answers(self):
        words = ["etcdctl", "--endpoints", self.address, "endpoint", "health"]
        return subprocess.run(words, env=dict(os.environ, ETCDCTL_API="3"), capture_output=True,
                              check=False).returncode == 0
