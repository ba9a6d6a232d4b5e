"""What `lk status` takes to show many held locks, on Redis among very many other keys."""
import contextlib
import json
import os
import sqlite3
import subprocess

import processes
import tools
from figures import median
from session import Failed

TEMPLATE = "bench:00000"

# Copies everything that the template's lock consists of, under other names; nothing of a key's name is in the values.
COPY_LOCK = """
for _, name in ipairs(redis.call('KEYS', '*' .. ARGV[1] .. '*')) do
  local from, to = string.find(name, ARGV[1], 1, true)
  local value, left = redis.call('DUMP', name), redis.call('PTTL', name)
  for i = 1, tonumber(ARGV[2]) - 1 do
    local other = string.gsub(name, ARGV[1], string.format('bench:%05d', i))
    redis.call('RESTORE', other, left, value)
  end
end
"""
OTHER_KEYS = "for i = 1, tonumber(ARGV[1]) do redis.call('SET', 'session:' .. i, 'a value of some length ' .. i) end"


def run(session):
    locks, others = (10_000, 100_000) if session.quick else (10_000, 1_000_000)
    rows, variants, server = [], [], None
    with contextlib.ExitStack() as at_end:
        for tool in session.lk():
            try:
                if tool.server and not server:
                    server = at_end.enter_context(session.own_redis("many"))
                variants += prepare(session, tool, server, locks, others)
            except (Failed, processes.TooLong, RuntimeError, sqlite3.Error) as failure:
                rows.append({"tool": tool.name, "failed": str(failure)})
        if server:
            variants.append(tools.Tool("redis-cli --scan", f"redis-cli -s {server.socket} --scan --pattern lk:*", "",
                                       locks=False))
        results = session.in_turn("status", variants, 3 if session.quick else 10, 60,
                                  lambda tool: session.timed(tools.filled(tool.words, {}, [])))
    for tool, result in results.items():
        rows.append({
            "tool": tool.name, "locks": locks, "other_keys": 0 if "sqlite" in tool.name else others,
            "rounds": result.rounds(), "wall_ms": median(result.values("wall_ms")),
            "cpu_ms": median(result.values("cpu_ms")), "peak_kib": median(result.values("peak_kib")),
            "failed": result.failed(),
        })
    session.report.table("status", f"of {locks:,} locks. {__doc__}", [
        ("rounds", "rounds", "d"), ("other keys", "other_keys", ",d"), ("wall ms", "wall_ms", ".1f"),
        ("cpu ms", "cpu_ms", ".1f"), ("peak KiB", "peak_kib", ".0f"),
    ], rows)


def prepare(session, tool, server, locks, others):
    """Fills the store of this tool, once for each store, and makes sure that lk shows it all."""
    places = dict(session.places(tool), work=session.work + "/many.sqlite")
    os.makedirs(places["work"], exist_ok=True)
    if tool.server:
        places.update(redis_socket=server.socket, redis_port=server.port)
    store = tool.words.split()[3].format(**places)
    lk = tools.path_of("lk")
    if not (tool.server and int(server.ask("DBSIZE"))):
        session.timed([lk, "acquire", "--store", store, "--key", TEMPLATE, "--ttl", "1d", "-q"])
        if tool.server:
            server.ask("EVAL", COPY_LOCK, 0, TEMPLATE, locks)
            server.ask("EVAL", OTHER_KEYS, 0, others)
        else:
            copy_rows(os.path.join(places["work"], "locks.db"), locks)
    shown = subprocess.run([lk, "status", "--store", store, "--json"], env=session.environment, capture_output=True,
                           text=True, check=False)
    if shown.returncode or len(json.loads(shown.stdout)) != locks:
        raise Failed(f"status {shown.returncode} of lk status: {shown.stderr.strip() or shown.stdout[:100]}")
    status = f"{{lk}} status --store {store}"
    return [tools.Tool(f"{tool.name}{name}", status.replace("{lk}", lk) + words, "")
            for name, words in (("", ""), (" --json", " --json"), (" KEY", " " + TEMPLATE))]


def copy_rows(path, locks):
    """Copies the row that the template's lock is, under other keys."""
    with contextlib.closing(sqlite3.connect(path)) as database, database:
        for (table,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall():
            columns = [row[1] for row in database.execute(f"PRAGMA table_info({table})")]
            if "key" not in columns:
                continue
            row = database.execute(f"SELECT * FROM {table} WHERE key = ?", [TEMPLATE]).fetchone()
            if row:
                at = columns.index("key")
                copies = ((*row[:at], f"bench:{number:05}", *row[at + 1:]) for number in range(1, locks))
                database.executemany(f"INSERT INTO {table} VALUES ({', '.join('?' * len(columns))})", copies)
