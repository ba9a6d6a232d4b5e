"""What the scenarios of one run share: the work folder, stamp, the servers, and measuring tools in turn."""
import contextlib
import os
import shutil
import subprocess
import tempfile
import time

import machine
import processes
import records
import servers
import tools
from report import progress

HERE = os.path.dirname(os.path.abspath(__file__))
MOST_SECONDS, MOST_SECONDS_QUICK = 13 * 60, 100  # after which every scenario makes do with one round
SLOW_EVERY = 5  # a slow tool takes part in the first of so many rounds


class Failed(Exception):
    """A tool did not do what it was asked to."""


class Results:
    """What a tool gave in the rounds of one scenario."""

    def __init__(self):
        self.measures = []
        self.failures = []
        self.enough = False

    def failed(self):
        if not self.failures:
            return None
        rounds = len(self.failures) + len(self.measures)
        return self.failures[0] if not self.measures else f"{len(self.failures)} of {rounds}: {self.failures[0]}"

    def rounds(self):
        return len(self.measures) or None

    def values(self, name):
        return [measure[name] for measure in self.measures if measure.get(name) is not None]


class Session:
    def __init__(self, report, folder, quick, rounds, chosen, alone):
        self.report, self.quick, self.rounds, self.tools = report, quick, rounds, chosen
        self.deadline = time.monotonic() + (MOST_SECONDS_QUICK if quick else MOST_SECONDS)
        self.alone = alone  # one scenario is all that runs
        self.work = tempfile.mkdtemp(prefix="lk-bench-", dir=folder)
        self.stamp = os.path.join(self.work, "stamp")
        self.log = os.path.join(self.work, "stamp.log")
        self.errors = os.path.join(self.work, "errors")
        self.servers = {}
        self.broken = {}  # servers that do not start, and why
        self.numbers = 0
        # Nothing of the caller's own settings but the locale: no LK_STORE, no configuration, no ~/.parallel.
        self.environment = {"PATH": os.environ["PATH"], "HOME": self.work, "LANG": machine.locale(),
                            "ETCDCTL_API": "3", "BENCH_LOG": self.log}

    def build_stamp(self):
        compiler = next(filter(None, map(shutil.which, ("cc", "gcc", "clang"))), None)
        if not compiler:
            raise SystemExit("bench: a C compiler is needed for stamp.c (apt-get install gcc libc6-dev)")
        words = [compiler, "-O2", "-o", self.stamp, os.path.join(HERE, "stamp.c")]
        if subprocess.run([*words, "-static"], capture_output=True, check=False).returncode:
            subprocess.run(words, check=True)  # no static libc here: it starts more slowly, for all tools alike

    def close(self):
        for server in self.servers.values():
            server.stop()
        processes.stop_all()
        shutil.rmtree(self.work, ignore_errors=True)

    # --- Tools --------------------------------------------------------------------------------------------------------

    def locking(self):
        return [tool for tool in self.tools if tool.locks]

    def without_slow(self, leave_out):
        """(the tools that take locks, those left out here for the time they would take)"""
        return ([tool for tool in self.locking() if not (tool.slow and leave_out)],
                [tool for tool in self.locking() if tool.slow and leave_out])

    def lk(self):
        return [tool for tool in self.tools if tool.pair]

    def server(self, name):
        if name in self.broken:
            raise Failed(self.broken[name])
        if name not in self.servers:
            kinds = {"redis": servers.Redis, "etcd": servers.Etcd}
            try:
                self.servers[name] = kinds[name](os.path.join(self.work, name), self.stamp)
            except servers.NotStarted as why:
                self.broken[name] = str(why)
                raise Failed(str(why)) from why
        return self.servers[name]

    @contextlib.contextmanager
    def own_redis(self, name):
        """A Redis that nobody else in this run uses."""
        try:
            server = self.servers[name] = servers.Redis(os.path.join(self.work, name), self.stamp)
        except servers.NotStarted as why:
            raise Failed(str(why)) from why
        try:
            yield server
        finally:
            self.servers.pop(name).stop()

    def places(self, tool):
        """What the words of a template are filled in with, but for the key."""
        places = {"work": self.work, "peers": tools.PEERS, "lk": tools.path_of("lk"), "ttl": "60",
                  "python_redis": tools.python_with_redis() if "{python_redis}" in tool.words else ""}
        if tool.server == "redis":
            places.update(redis_socket=self.server("redis").socket, redis_port=self.server("redis").port)
        elif tool.server:
            places[tool.server] = self.server(tool.server).address
        return places

    def new_key(self, tool):
        """A key that nobody used before: what another round left behind cannot matter."""
        self.numbers += 1
        return f"{tool.name.replace(' ', '-')}-{self.numbers}"

    def words(self, tool, key, command, template=None, **more):
        return tools.filled(template or tool.words, {**self.places(tool), "key": key, **more}, command)

    # --- Running ------------------------------------------------------------------------------------------------------

    def start(self, words, **variables):
        """Starts it with these BENCH_… variables."""
        more = {"BENCH_" + name.upper(): str(value) for name, value in variables.items()}
        return processes.start(words, {**self.environment, **more}, self.errors)

    def clear(self):
        """Nothing of the last measurement is left."""
        processes.stop_all(keep=[server.pid for server in self.servers.values()])
        for path in (self.log, self.errors):
            if os.path.exists(path):
                os.unlink(path)

    def last_error(self):
        try:
            with open(self.errors, encoding="utf-8", errors="replace") as file:
                said = [line.strip() for line in file if line.strip()]
        except FileNotFoundError:
            said = []
        return said[-1] if said else "it said nothing"

    def timed(self, words, seconds=60):
        """Runs it once: {"wall_ms", "cpu_ms", "peak_kib"}."""
        processes.wait_for([self.start([self.stamp, "measure", *words])], seconds)
        found = records.lines(self.log, "measure")
        if not found:
            raise Failed(self.last_error())
        wall, cpu, peak, status = map(int, found[-1])
        if status:
            raise Failed(f"status {status}: {self.last_error()}")
        return {"wall_ms": wall / 1e6, "cpu_ms": cpu / 1e6, "peak_kib": peak}

    def in_turn(self, what, measured, rounds, budget, measure, warm_up=False):
        """Measures A B C, A B C, …, so that a change of the machine's mood hits all alike. `measure(tool)` returns a
        dict of figures; with "enough" it is not asked again. `budget`: so many seconds after the first round no further
        one begins. `warm_up`: the first round does not count. The results by tool."""
        rounds = (self.rounds or rounds) + warm_up
        results = {tool: Results() for tool in measured}
        deadline = None
        for turn in range(rounds):
            if deadline is None and turn:
                deadline = min(time.monotonic() + budget, self.deadline)
            if deadline and time.monotonic() > deadline:
                break
            for tool in measured:
                result = results[tool]
                if result.enough or len(result.failures) > 1 or (tool.slow and (turn - warm_up) % SLOW_EVERY):
                    continue
                progress(f"{what}: round {turn + 1} of {rounds}, {tool.name}")
                self.clear()
                try:
                    figures = measure(tool)
                    if turn or not warm_up:
                        result.measures.append(figures)
                    result.enough = bool(figures.get("enough"))
                except (Failed, processes.TooLong) as failure:
                    result.failures.append(str(failure))
        self.clear()
        progress("")
        return results
