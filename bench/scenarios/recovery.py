"""How soon the next waiter's command starts after kill -9 of the holder."""
import os
import signal
import time

import processes
import records
from figures import median, percentile
from scenarios.handoff import settle, start_holder, start_waiter

TTL = "10"  # s, for all tools that have one
SLOW_MS = 2000  # what takes longer is measured once


def run(session):
    compare(session, "tool", "the tool alone; its command would end at once on TERM", whole=False)
    compare(session, "all", "the tool, its command, and all else it started", whole=True)


def compare(session, killed, title, whole):
    limit = 2 if session.quick else int(TTL) + 2
    measured, left_out = session.without_slow(session.quick)
    results = session.in_turn(f"recovery, {killed}", measured, 3 if session.quick else 25, 5 if session.quick else 60,
                              lambda tool: recover(session, tool, whole, limit))
    rows = []
    for tool, result in results.items():
        times = result.values("ms")
        late = len(result.measures) - len(times)
        rows.append({
            "tool": tool.name, "killed": killed, "rounds": result.rounds(),
            "ms_p50": median(times) if not late else None, "ms_p99": percentile(times, 99) if not late else None,
            "not_within_s": limit if late else None,
            "command_ran_on": sum(result.values("ran_on")) if result.measures else None,
            "two_inside": sum(result.values("two_inside")) if result.measures else None, "failed": result.failed(),
        })
    for row in rows:
        row["_p50"] = f"> {limit * 1000}" if row["not_within_s"] else row["ms_p50"]
    session.report.table("recovery", f"kill -9 of {title}. {__doc__}" if not whole else f"kill -9 of {title}", [
        ("rounds", "rounds", "d"), ("p50 ms", "_p50", ".1f"), ("p99 ms", "ms_p99", ".1f"),
        ("command ran on", "command_ran_on", "d"), ("two inside", "two_inside", "d"),
    ], rows, left_out)


def recover(session, tool, whole, limit):
    key = session.new_key(tool)
    holder, command, gate = start_holder(session, tool, key, ttl=TTL)
    try:
        waiter = start_waiter(session, tool, key, 0, ttl=TTL)
        settle([waiter], tool)
        doomed = [holder]
        if whole:
            doomed = processes.family([holder])
            processes.stand_still(doomed)
        killed = time.monotonic_ns()
        for pid in doomed:
            os.kill(pid, signal.SIGKILL)
        try:
            processes.wait_for([waiter], limit)
        except processes.TooLong:
            return {"ms": None, "ran_on": int(processes.runs(command)), "two_inside": 0, "enough": True}
        ran_on = int(processes.runs(command))
        waited = (records.grants(session.log)[0].start - killed) / 1e6
        return {"ms": waited, "ran_on": ran_on, "two_inside": ran_on, "enough": waited > SLOW_MS}
    finally:
        os.close(gate)
