"""Whether a store grows when very many keys, each new, are locked once and given back."""
import contextlib
import glob
import os
import shutil

import processes
import records
import tools
from session import Failed

PROCESSES = 8
SECONDS = 60  # for each store among other scenarios; what was not done by then is left out
SECONDS_ALONE = 600

# (keys, keys that never expire, longest time until a key expires in s)
LEFT_KEYS = """
local cursor, keys, forever, longest = '0', 0, 0, 0
repeat
  local found = redis.call('SCAN', cursor, 'COUNT', 1000)
  cursor = found[1]
  for _, key in ipairs(found[2]) do
    local left = redis.call('PTTL', key)
    keys = keys + 1
    if left < 0 then forever = forever + 1 end
    longest = math.max(longest, left)
  end
until cursor == '0'
return keys .. ' ' .. forever .. ' ' .. math.floor(longest / 1000)
"""


def run(session):
    keys = 2_000 if session.quick else 100_000
    rows = []
    for tool in session.lk():
        if tool.name == "lk redis tcp":
            continue  # the same memory as over the unix socket
        try:
            rows.append({"tool": tool.name, **grow(session, tool, keys)})
        except (Failed, processes.TooLong, RuntimeError) as failure:
            rows.append({"tool": tool.name, "failed": str(failure)})
        session.clear()
    session.report.table("growth", __doc__, [
        ("keys", "keys", ",d"), ("keys/s", "per_second", ".0f"), ("before KiB", "before_kib", ",.0f"),
        ("after KiB", "after_kib", ",.0f"), ("bytes a key", "bytes_a_key", ".1f"), ("keys left", "keys_left", ",d"),
        ("for ever", "left_for_ever", ",d"), ("longest s", "longest_s", ",d"),
    ], rows)


def grow(session, tool, keys):
    folder = os.path.join(session.work, "growth-sqlite")
    os.makedirs(folder, exist_ok=True)
    with session.own_redis("growth") if tool.server else contextlib.nullcontext() as server:
        return fill(session, tool, keys, folder, server)


def fill(session, tool, keys, folder, server):
    places = dict(session.places(tool), work=folder)
    if server:
        places["redis_socket"] = server.socket

    def size():
        if server:
            return server.info("used_memory")
        return sum(os.path.getsize(path) for path in glob.glob(os.path.join(folder, "locks.db*")))

    seconds = SECONDS_ALONE if session.alone else SECONDS

    def lock_each(name, each):
        """Locks so many new keys in each process: (how many were locked, how long the longest process took)."""
        pids = []
        for number in range(PROCESSES):
            words = tools.filled(tool.words, {**places, "key": f"{name}-{number}-{{turn}}"}, [shutil.which("true")])
            pids.append(session.start([session.stamp, "repeat", str(each), str(seconds * 1000), *words]))
        processes.wait_for(pids, seconds + 30)
        done = [tuple(map(int, line)) for line in records.lines(session.log, "repeat")]
        bad = [status for _, _, status in done if status]
        if bad or len(done) != PROCESSES:
            raise Failed(f"status {bad[0] if bad else '?'}: {session.last_error()}")
        session.clear()
        return sum(turns for turns, _, _ in done), max(elapsed for _, elapsed, _ in done) / 1e9

    lock_each("first", 10)  # the store exists
    before = size()
    done, took = lock_each("key", keys // PROCESSES)
    after = size()
    row = {"rounds": 1, "keys": done, "per_second": done / took, "before_kib": before / 1024, "after_kib": after / 1024,
           "bytes_a_key": (after - before) / done}
    if server:
        left, forever, longest = map(int, server.ask("EVAL", LEFT_KEYS, 0).split())
        row.update(keys_left=left, left_for_ever=forever, longest_s=longest)
    return row
