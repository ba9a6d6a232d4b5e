"""What it costs to run `true` under a lock that nobody else wants."""
import shutil

import instructions
from figures import add_ratios, median, percentile


def run(session):
    true = [shutil.which("true")]

    def measure(tool):
        return session.timed(session.words(tool, tool.name.replace(" ", "-"), true))

    results = session.in_turn("wrap", session.tools, 10 if session.quick else 100, 8 if session.quick else 60, measure,
                              warm_up=True)

    name, by = ("not with --quick", None) if session.quick else instructions.counter(session.work)
    rows, notes = [], []
    for tool, result in results.items():
        counted, why_not = None, None
        if by and result.measures:
            words = session.words(tool, "instructions", true)
            counted, why_not = instructions.count(by, words, session.environment, session.work)
            session.clear()
        if why_not:
            notes.append(f"  {tool.name}, instructions: failed: {why_not}")
        rows.append({
            "tool": tool.name, "rounds": result.rounds(), "wall_ms": median(result.values("wall_ms")),
            "wall_ms_p90": percentile(result.values("wall_ms"), 90), "cpu_ms": median(result.values("cpu_ms")),
            "peak_kib": median(result.values("peak_kib")), "instructions": counted,
            "instructions_failed": why_not, "failed": result.failed(),
        })
    add_ratios(rows, "wall_ms", "flock", "wall_x_flock")
    add_ratios(rows, "wall_ms", "true", "wall_x_true")
    add_ratios(rows, "cpu_ms", "flock", "cpu_x_flock")
    for row in rows:
        row["_instructions"] = "failed" if row["instructions_failed"] else row["instructions"]
    session.report.table("wrap", __doc__, [
        ("rounds", "rounds", "d"), ("wall ms", "wall_ms", ".2f"), ("x flock", "wall_x_flock", ".2f"),
        ("x true", "wall_x_true", ".2f"), ("p90", "wall_ms_p90", ".2f"), ("cpu ms", "cpu_ms", ".2f"),
        ("x flock", "cpu_x_flock", ".2f"), ("peak KiB", "peak_kib", ".0f"),
        (f"instructions ({name or 'no counter here'})", "_instructions", ","),
    ], rows)
    for note in notes:
        session.report.say(note)
