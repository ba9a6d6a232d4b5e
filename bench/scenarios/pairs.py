"""How often a second processes that never meet get a lock and give it back, each with a key of its own."""
import shutil
from dataclasses import replace

import processes
import records
from figures import add_ratios, median
from session import Failed

COUNTS = [1, 8, 32]


def run(session):
    milliseconds = 300 if session.quick else 1000
    true = [shutil.which("true")]
    variants = {}  # how each takes and gives back, by name
    measured, left_out = session.without_slow(session.quick)
    for tool in measured:
        variants[replace(tool, name=tool.name + " true")] = tool.words
        if tool.pair:
            variants[replace(tool, name=tool.name + " acquire, release")] = tool.pair
    rows = {tool: {"tool": tool.name, "failed": None} for tool in variants}
    for count in COUNTS:
        results = session.in_turn(f"pairs, {count} processes", list(variants), 1 if session.quick else 2, 60,
                                  lambda tool: pairs(session, tool, variants[tool], count, milliseconds, true))
        for tool, result in results.items():
            rows[tool][f"per_second_{count}"] = median(result.values("per_second"))
            rows[tool]["rounds"] = result.rounds() or rows[tool].get("rounds")
            rows[tool]["failed"] = rows[tool]["failed"] or result.failed()
    rows = list(rows.values())
    for count in COUNTS:
        add_ratios(rows, f"per_second_{count}", "flock true", f"x_flock_{count}")
    session.report.table("pairs", __doc__, [
        column for count in COUNTS for column in (
            (f"{count} process{'es' if count > 1 else ''}/s", f"per_second_{count}", ".0f"),
            ("x flock", f"x_flock_{count}", ".2f"))
    ], rows, left_out)


def pairs(session, tool, template, count, milliseconds, true):
    pids = []
    for _ in range(count):
        words = session.words(tool, session.new_key(tool), true, template)
        pids.append(session.start([session.stamp, "repeat", "1000000", str(milliseconds), *words]))
    processes.wait_for(pids, milliseconds / 1000 + 60)
    done = [tuple(map(int, line)) for line in records.lines(session.log, "repeat")]
    bad = [status for _, _, status in done if status]
    if bad or len(done) != count:
        raise Failed(f"status {bad[0] if bad else '?'}: {session.last_error()}")
    return {"per_second": sum(turns / (elapsed / 1e9) for turns, elapsed, _ in done)}
