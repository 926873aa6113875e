# SPDX-License-Identifier: BSD-2-Clause
"""Shows how much each part of the model of windows improves the results. The same windows are
judged with all parts, and without one of them. Pure arithmetic on the records of truth.py, as in
judge.py."""
import math
import statistics

from leaks import share

LEAST = 1e-3  # the smallest relative difference between figures that counts
FLOOR = 0.01  # estimates below this share of the true live bytes count as equally bad


def brief(record):
    """The part of the judge's record that is stored for a run without one part of the model."""
    rows = {name: {key: row[key] for key in ("live", "live_truth", "live_in", "live_width",
                                             "growth", "growth_truth", "growth_in", "growth_width")}
            for name, row in record["stacks"].items() if row["counts"]}
    return {"stacks": rows, "first_right": record["first_right"], "accused": record["accused"]}


def differs(a, b):
    """Do any figures of the two rows differ?"""
    return any(abs((x or 0) - (y or 0)) > LEAST * max(abs(x or 0), abs(y or 0))
               for key in ("live", "growth") for x, y in zip(a[key], b[key]))


def pairs(records, part):
    """Yields (with, without) for each row that the part changes. Only rows that count (judge.py) in
    the record with all parts are used."""
    for record in records:
        without = record.get("without", {}).get(part)
        for name, row in (without or {"stacks": {}})["stacks"].items():
            whole = record["stacks"].get(name)
            if whole and whole["counts"] and differs(whole, row):
                yield whole, row


def error(row):
    """|log(estimate / truth)| of live bytes; None: there is no truth."""
    if not row["live_truth"]:
        return None
    return abs(math.log(max(row["live"][0] / row["live_truth"], FLOOR)))


def score(row, key):
    """Score of an interval, in units of the truth: its width, plus 2 / 5 % = 40 times the distance
    by which it misses the truth (Gneiting and Raftery, Journal of the American Statistical
    Association 102, 2007, section 6.2). For growth the unit is the live bytes a second. Less is
    better; None: not known."""
    figure, truth, unit = row[key], row[key + "_truth"], row["live_truth"]
    if truth is None or not unit or None in figure[1:]:
        return None
    return (figure[2] - figure[1] + 40 * max(figure[1] - truth, truth - figure[2], 0)) / abs(unit)


def median_of(values):
    values = [v for v in values if v is not None]
    return f"{statistics.median(values):.2f}" if values else "-"


def both(found, of, form):
    """A figure with the part and without it, as text."""
    return " / ".join(form(of(row) for row in side) for side in zip(*found))


def held(key):
    return lambda values: share(v for v in values if v is not None)


def rows(records):
    """Yields a row of the table for each part."""
    names = dict.fromkeys(part for record in records for part in record.get("without", {}))
    for part in names:
        found = list(pairs(records, part))
        runs = [r for r in records if part in r.get("without", {})]
        # only accusations at the end of the run count, because earlier ones are not known without
        # the part
        accused = [sum(bool(r["accused_at_end"]) for r in runs),
                   sum(bool(r["without"][part]["accused"]) for r in runs)]
        first = [[side["first_right"] for side in sides if side["first_right"] is not None]
                 for sides in (runs, [r["without"][part] for r in runs])]
        if not found:
            yield [part, "0", *[""] * 7]
            continue
        yield [part, str(len(found)), both(found, lambda r: r["live_in"], held("live_in")),
               both(found, error, median_of), both(found, lambda r: score(r, "live"), median_of),
               both(found, lambda r: r["growth_in"], held("growth_in")),
               both(found, lambda r: score(r, "growth"), median_of),
               " / ".join(map(str, accused)), " / ".join(share(side) for side in first)]


HEADER = ["left out", "rows that change", "live held", "error of live", "score of live",
          "growth held", "score of growth", "runs that accuse", "first"]
TEXT = """The same windows were judged with all parts, and without one part at a time. A row counts
only those rows of the table above that change without this part. A cell has the figure with the
part / without it. *Error*: median of |log(printed / truth)|. *Score*: median of the interval's
width plus 40 times its distance from the truth, in units of the live bytes; less is better.
"""
