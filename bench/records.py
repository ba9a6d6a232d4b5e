"""What stamp wrote into its log."""
from dataclasses import dataclass


@dataclass(eq=False)
class Grant:
    """A command that ran under a lock; times in ns of the monotonic clock."""

    id: str
    asked: int
    start: int
    end: int
    pid: int


def lines(path, kind):
    """The fields of all lines of this kind; a line that is still being written is left out."""
    try:
        with open(path, encoding="ascii") as file:
            whole = file.read().rpartition("\n")[0]
    except FileNotFoundError:
        return []
    return [line.split()[1:] for line in whole.splitlines() if line.startswith(kind + " ")]


def grants(path, kind="work"):
    """In order of start."""
    found = [Grant(fields[0], *map(int, fields[1:])) for fields in lines(path, kind)]
    return sorted(found, key=lambda grant: grant.start)
