"""Many processes that all want the same lock, again and again: grants a second, and who gets them."""
import processes
import records
from figures import add_ratios, evenness, in_order, median, overlaps, percentile
from session import Failed
from tools import Tool

WORK_US = "1000"
SECONDS = 20  # a tool that needs longer is judged by what it did until then
ONCE_SECONDS = 8  # one that needs longer than this is measured once
NO_LOCK = Tool("no lock, one by one", "{command}", "", locks=False)


def run(session):
    count, turns = (20, 5) if session.quick else (50, 20)

    def measure(tool):
        return one_by_one(session, tool, count * turns) if tool is NO_LOCK else herd(session, tool, count, turns)

    measured, left_out = session.without_slow(session.quick)
    results = session.in_turn("herd", [NO_LOCK, *measured], 1 if session.quick else 3, 120, measure)
    rows = []
    for tool, result in results.items():
        rows.append({"tool": tool.name, "processes": count, "turns": turns, "rounds": result.rounds(),
                     **{name: median(result.values(name)) for name in (
                         "grants", "grants_per_second", "in_order", "evenness", "wait_ms_p50", "wait_ms_p99",
                         "wait_ms_max")},
                     "two_inside": sum(result.values("two_inside")) if result.values("two_inside") else None,
                     "failed": result.failed()})
    add_ratios(rows, "grants_per_second", "flock", "x_flock")
    session.report.table("herd", f"{count} processes x {turns} turns of 1 ms. {__doc__}", [
        ("rounds", "rounds", "d"), ("grants", "grants", ".0f"), ("grants/s", "grants_per_second", ".0f"),
        ("x flock", "x_flock", ".2f"), ("in order", "in_order", ".2f"), ("evenness", "evenness", ".2f"),
        ("wait ms p50", "wait_ms_p50", ".0f"), ("p99", "wait_ms_p99", ".0f"), ("max", "wait_ms_max", ".0f"),
        ("two inside", "two_inside", "d"),
    ], rows, left_out)


def one_by_one(session, tool, turns):
    words = [session.stamp, "turns", str(turns), session.stamp, "work", WORK_US]
    processes.wait_for([session.start(words)], 60)
    grants = records.grants(session.log)
    return {"grants": len(grants), "grants_per_second": per_second(grants)}


def per_second(grants):
    return len(grants) / ((grants[-1].end - min(grant.asked for grant in grants)) / 1e9)


def herd(session, tool, count, turns):
    key = session.new_key(tool)
    work = [session.stamp, "work", WORK_US]
    if tool.many:  # a library spares itself the start of a program for each turn
        words = session.words(tool, key, work, tool.many, turns=turns)
    else:
        words = [session.stamp, "turns", str(turns), *session.words(tool, key, work)]
    pids = [session.start(words, id=number) for number in range(count)]
    try:
        processes.wait_for(pids, SECONDS)
        whole = True
    except processes.TooLong:
        whole = False
    grants = records.grants(session.log)
    ended_badly = [line for line in records.lines(session.log, "turns") if line[1] != "0"]
    if not grants or ended_badly or (whole and len(grants) != count * turns):
        raise Failed(f"{len(grants)} of {count * turns} commands ran: {session.last_error()}")
    waits = [(grant.start - grant.asked) / 1e6 for grant in grants]
    return {
        "grants": len(grants), "grants_per_second": per_second(grants), "in_order": in_order(grants),
        "evenness": evenness(shares_while_all_run(grants, count, turns)), "wait_ms_p50": median(waits),
        "wait_ms_p99": percentile(waits, 99), "wait_ms_max": max(waits), "two_inside": overlaps(grants),
        "enough": len(grants) / per_second(grants) > ONCE_SECONDS,
    }


def shares_while_all_run(grants, count, turns):
    """How many grants each process had when the first had had all of its own."""
    had = {str(number): 0 for number in range(count)}
    for grant in grants:
        had[grant.id] += 1
        if had[grant.id] == turns:
            break
    return list(had.values())
