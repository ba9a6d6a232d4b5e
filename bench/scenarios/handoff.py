"""How soon the next waiter's command starts once the holder's has ended; what waiters cost while nothing happens."""
import os
import time

import processes
import records
from figures import add_ratios, in_order, median, overlaps, percentile
from session import Failed

ROUNDS = {1: 15, 10: 5, 50: 3, 200: 2}
LOOK_AT_IDLE = (50, 200)
SLOW_UP_TO = 50
QUICK_ROUNDS = {1: 3, 10: 2, 50: 1}
QUICK_SLOW_UP_TO = 10
APART = 0.02  # seconds from one waiter's start to the next one's: they arrive in a known order
SLOW_APART = 0.1
IDLE_SECONDS = 6  # longer than any heartbeat


def run(session):
    for waiters, rounds in (QUICK_ROUNDS if session.quick else ROUNDS).items():
        compare(session, waiters, rounds)


def compare(session, waiters, rounds):
    looked_at = set()

    def measure(tool):
        look = waiters in LOOK_AT_IDLE and tool not in looked_at
        looked_at.add(tool)
        return hand_on(session, tool, waiters, look)

    slow_up_to = QUICK_SLOW_UP_TO if session.quick else SLOW_UP_TO
    measured, left_out = session.without_slow(waiters > slow_up_to)
    results = session.in_turn(f"handoff, {waiters} waiting", measured, rounds, 60, measure)
    rows = []
    for tool, result in results.items():
        gaps = [gap for measure in result.measures for gap in measure["gaps"]]
        rows.append({
            "tool": tool.name, "waiters": waiters, "rounds": result.rounds(), "handoff_ms_p50": median(gaps),
            "handoff_ms_p99": percentile(gaps, 99), "handoff_ms_max": max(gaps, default=None),
            "in_order": median(result.values("in_order")),
            "two_inside": sum(result.values("two_inside")) if result.measures else None,
            "idle_cpu_percent": median(result.values("idle_cpu_percent")),
            "server_cpu_percent": median(result.values("server_cpu_percent")),
            "pss_kib_each": median(result.values("pss_kib_each")), "failed": result.failed(),
        })
    add_ratios(rows, "handoff_ms_p50", "flock", "x_flock")
    session.report.table("handoff", f"{waiters} waiting" + (f". {__doc__}" if waiters == 1 else ""), [
        ("rounds", "rounds", "d"), ("p50 ms", "handoff_ms_p50", ".2f"), ("x flock", "x_flock", ".2f"),
        ("p99 ms", "handoff_ms_p99", ".2f"), ("max", "handoff_ms_max", ".2f"), ("in order", "in_order", ".2f"),
        ("two inside", "two_inside", "d"), ("idle cpu %", "idle_cpu_percent", ".2f"),
        ("server cpu %", "server_cpu_percent", ".2f"), ("KiB each", "pss_kib_each", ".0f"),
    ], rows, left_out)


def start_holder(session, tool, key, **more):
    """(pid of the tool, pid of its command, the end of the FIFO whose closing ends the command)."""
    fifo = os.path.join(session.work, "gate")
    if os.path.exists(fifo):
        os.unlink(fifo)
    os.mkfifo(fifo)
    gate = os.open(fifo, os.O_RDWR)
    holder = session.start(session.words(tool, key, [session.stamp, "hold", fifo], **more), id="holder")
    try:
        processes.wait_until(lambda: records.lines(session.log, "hold") or processes.has_ended(holder), 20,
                             "the holder's command")
        held = records.grants(session.log, "hold")
        if not held:
            raise Failed(session.last_error())
    except BaseException:
        os.close(gate)
        raise
    return holder, held[0].pid, gate


def start_waiter(session, tool, key, number, **more):
    words = session.words(tool, key, [session.stamp, "work", "0"], **more)
    return session.start(words, id=number, asked=time.monotonic_ns())


def settle(pids, tool):
    """Until starting up is over: the waiters use next to no cpu, or (a tool that polls) as much as a moment before."""
    step, seconds = (0.25, 15) if tool.slow else (0.1, 5)
    end = time.monotonic() + seconds
    calm, rate_before, used = 0, None, processes.cpu_seconds(processes.family(pids))
    while calm < 2 and time.monotonic() < end:
        time.sleep(step)
        used_before, used = used, processes.cpu_seconds(processes.family(pids))
        rate = processes.cpu_between(used_before, used) / step
        steady = rate_before is not None and abs(rate - rate_before) < 0.2 * rate_before and rate < 1.5
        calm = calm + 1 if rate < 0.02 or steady else 0
        rate_before = rate


def look_at_idle(session, tool, waiters):
    servers = [session.server(tool.server).pid] if tool.server else []
    before, server_before = processes.cpu_seconds(processes.family(waiters)), processes.cpu_seconds(servers)
    began = time.monotonic()
    time.sleep(2 if session.quick else IDLE_SECONDS)
    seconds = time.monotonic() - began
    family = processes.family(waiters)
    after, server_after = processes.cpu_seconds(family), processes.cpu_seconds(servers)
    return {
        "idle_cpu_percent": 100 * processes.cpu_between(before, after) / seconds,
        "server_cpu_percent": 100 * processes.cpu_between(server_before, server_after) / seconds if servers else None,
        "pss_kib_each": processes.pss_kib(family) / len(waiters),
    }


def hand_on(session, tool, count, look):
    key = session.new_key(tool)
    holder, _, gate = start_holder(session, tool, key)
    try:
        waiters = []
        for number in range(count):
            waiters.append(start_waiter(session, tool, key, number))
            time.sleep(SLOW_APART if tool.slow else APART)
        settle(waiters, tool)
        idle = look_at_idle(session, tool, waiters) if look else {}
    finally:
        os.close(gate)
    statuses = processes.wait_for([holder, *waiters], 60)
    grants = records.grants(session.log)
    if any(statuses) or len(grants) != count + 1:
        bad = next((status for status in statuses if status), 0)
        raise Failed(f"{len(grants)} of {count + 1} commands ran, status {bad}: {session.last_error()}")
    return {
        "gaps": [(later.start - earlier.end) / 1e6 for earlier, later in zip(grants, grants[1:])],
        "in_order": in_order(grants[1:]), "two_inside": overlaps(grants), **idle,
    }
