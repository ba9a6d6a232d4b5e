"""What comes out: tables for people on stdout, one JSON object a line in a file."""
import json
import sys

FAILED_LENGTH = 110


class Report:
    def __init__(self, path):
        self.file = open(path, "w", encoding="utf-8") if path else None

    def close(self):
        if self.file:
            self.file.close()

    def json(self, fields):
        if self.file:
            rounded = {name: round(value, 4) if isinstance(value, float) else value
                       for name, value in fields.items() if not name.startswith("_")}
            self.file.write(json.dumps(rounded) + "\n")
            self.file.flush()

    def say(self, text=""):
        print(text, flush=True)

    def table(self, scenario, title, columns, rows, left_out=()):
        """`columns`: (heading, field, format). A row with "failed" says so, beside whatever figures it has. Fields
        that begin with "_" are for the table alone."""
        for row in rows:
            self.json({"scenario": scenario, **row})
        cells = [["", *(heading for heading, _, _ in columns)]]
        for row in rows:
            cells.append([row["tool"], *(_cell(row.get(field), form) for _, field, form in columns)])
        widths = [max(len(line[at]) for line in cells) for at in range(len(cells[0]))]
        self.say(f"\n{scenario}: {title}")
        for line, row in zip(cells, [{}, *rows]):
            shown = [line[0].ljust(widths[0])]
            if row.get("rounds") or not row.get("failed"):
                shown += [cell.rjust(width) for cell, width in zip(line[1:], widths[1:])]
            if row.get("failed"):
                shown.append("failed: " + row["failed"][:FAILED_LENGTH])
            self.say("  " + "  ".join(shown).rstrip())
        for tool in left_out:
            self.json({"scenario": scenario, "tool": tool.name, "left_out": "slow"})
        if left_out:
            self.say(f"  left out here, being slow: {', '.join(tool.name for tool in left_out)}")


def _cell(value, form):
    if value is None:
        return "-"
    return form(value) if callable(form) else str(value) if isinstance(value, str) else format(value, form)


def progress(text):
    """One line that is written over, on a terminal only."""
    if sys.stderr.isatty():
        sys.stderr.write("\r\033[K" + text)
        sys.stderr.flush()
