"""Arithmetic over measurements: medians, percentiles, ratios, and who came first."""
import statistics


def median(values):
    return statistics.median(values) if values else None


def percentile(values, percent):
    """Linear between neighbours. None of nothing."""
    if not values:
        return None
    values = sorted(values)
    place = (len(values) - 1) * percent / 100
    below = int(place)
    above = min(below + 1, len(values) - 1)
    return values[below] + (values[above] - values[below]) * (place - below)


def add_ratios(rows, field, base, name):
    """To each row `name`: its `field` as a multiple of that of the tool `base`."""
    of_base = next((row.get(field) for row in rows if row["tool"] == base), None)
    for row in rows:
        if of_base and row.get(field) is not None:
            row[name] = row[field] / of_base


def overlaps(grants):
    """How many commands began before the one before had ended. `grants` in order of start."""
    return sum(later.start < earlier.end for earlier, later in zip(grants, grants[1:]))


def in_order(grants):
    """The share of grants that went to the one who had asked first among all who were waiting then."""
    if not grants:
        return None
    waiting = sorted(grants, key=lambda grant: grant.asked)
    right = 0
    for grant in grants:
        right += waiting[0] is grant
        waiting.remove(grant)
    return right / len(grants)


def evenness(counts):
    """Jain's index: 1 if all have the same, 1/n if one has everything."""
    squares = sum(count * count for count in counts)
    return sum(counts) ** 2 / (len(counts) * squares) if squares else None
