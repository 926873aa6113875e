# SPDX-License-Identifier: BSD-2-Clause
"""Makes the tables of docs/windows.md from the records of truth.py. The text above the page's mark
is written by hand."""
import collections
import statistics

from crowd import flat
from judge import COUNTS
import parts
from leaks import markdown, percent, read_results, share

MARK = "<!-- Below this line: `make truth-tables`. -->"


def ratio(figure, truth):
    return figure[0] / truth if truth else None


def of(values, form="{:.2f}"):
    """The median and range of the known values; empty if there are none."""
    values = [v for v in values if v is not None]
    if not values:
        return ""
    texts = [form.format(v) for v in (statistics.median(values), min(values), max(values))]
    return texts[0] if texts[1] == texts[2] else f"{texts[0]} ({texts[1]} - {texts[2]})"


def between(values):
    ends = [f"{v:.0f}" for v in (values[0], values[-1])]
    return ends[0] if ends[0] == ends[1] else " to ".join(ends)


def mb(value):
    return f"{value / 1e6:.2g}" if abs(value) < 1e7 else f"{value / 1e6:.0f}"


def rows_that_count(records):
    """(record, name, row) of the rows that count."""
    return [(record, name, row) for record in records
            for name, row in record["stacks"].items() if row["counts"]]


def held(rows, key):
    """For each row where this is known: does its interval contain the truth?"""
    return [row[key] for _, _, row in rows if row[key] is not None]


def accused(records):
    return sum(len(r["accused"]) for r in records), sum(r["looks"] for r in records)


def summary(records):
    steady = [r for r in records if r["first_right"] is None]
    growing = [r for r in records if r["first_right"] is not None]
    rows = rows_that_count(records)
    blamed, looks = accused(steady)
    others, others_looks = accused(growing)
    modes = collections.Counter(r["mode"] for r in records)

    def line(what, bar, value):
        return [what, bar, value]

    yield line("runs", "",
               f"{len(records)}: " + ", ".join(f"{n} {mode}" for mode, n in sorted(modes.items())))
    yield line("steady: looks in which a stack is said to grow surely", "2 %",
               f"{100 * blamed / looks:.0f} % ({blamed}/{looks})" if looks else "-")
    yield line("growing: looks in which a stack that does not grow is said to grow surely", "2 %",
               f"{100 * others / others_looks:.0f} % ({others}/{others_looks})"
               if others_looks else "-")
    yield line("growing: what grows comes first", "95 %",
               percent(r["first_right"] for r in growing))
    yield line("growing: it is said to grow surely", "",
               percent(any(r["grows_surely"].values()) for r in growing))
    yield line("interval of live bytes holds the truth", "93 - 97 %",
               percent(held(rows, "live_in")))
    yield line("interval of the total holds the truth", "93 - 97 %",
               percent(r["total"]["in"] for r in records if r["total"]["in"] is not None))
    yield line("interval of growth holds the truth", "93 - 97 %", percent(held(rows, "growth_in")))
    yield line("estimate of live bytes / truth", "",
               of(ratio(row["live"], row["live_truth"]) for _, _, row in rows))
    yield line("width of the interval of live bytes / truth", "",
               of(row["live_width"] for _, _, row in rows))
    yield line("width of the interval of growth / truth", "",
               of(row["growth_width"] for _, _, row in rows))
    yield line("more said to be live than the heap's mappings hold", "none",
               share(r["live_above_heap"] for r in records))


def case_rows(cases, by_case):
    for case in cases:
        records = by_case.get(case)
        if not records:
            continue
        names = dict.fromkeys(name for _, name, _ in rows_that_count(records))
        for i, name in enumerate(names or [""]):
            rows = [row for _, n, row in rows_that_count(records) if n == name]
            grew = [row["growth_truth"] for row in rows if row["growth_truth"] is not None]
            live = [row["live_truth"] for row in rows if row["live_truth"] is not None]
            yield [case if not i else "", name or "-", str(len(records)) if not i else "",
                   of((r["n_windows"] for r in records), "{:.0f}") if not i else "",
                   of((r["overhead_pct"] for r in records), "{:.1f}") if not i else "",
                   mb(statistics.median(live)) if live else "",
                   of(ratio(r["live"], r["live_truth"]) for r in rows),
                   share(r["live_in"] for r in rows if r["live_in"] is not None),
                   mb(statistics.median(grew)) if grew else "",
                   of((r["growth"][0] / 1e6 for r in rows), "{:.2g}"),
                   share(r["growth_in"] for r in rows if r["growth_in"] is not None),
                   share(r["first_right"] for r in records if r["first_right"] is not None)
                   if not i else "",
                   "/".join(map(str, accused(records))) if not i else "",
                   share(r["live_above_heap"] for r in records) if not i else ""]


def tables(records, sets):
    if not list(flat(records)):
        yield "Nothing has been measured."
        return
    seconds = sorted({r["duration_s"] for r in flat(records)})
    load = [r["load"] for r in records]
    yield f"""## Measured

The code of memtrace is that of commit {records[0]["built_at"]}. A run takes {between(seconds)} s on
2 cores, which programs, their clients and other work share. The load average was
{of(load, "{:.1f}")}. Figures are medians and, in parentheses, the range. A row of a table is
judged if its stack leaks. It is also judged if it holds, in truth or as printed,
{100 * COUNTS:.0f} % of the live bytes or more.
"""
    for name, cases in sets.items():
        ours = list(flat(r for r in records if r["set"] == name and r["case"] in cases))
        yield f"### {name}\n"
        if not ours:
            yield "Not measured.\n"
            continue
        yield from markdown(["", "bar", "measured"], summary(ours))
        yield """Live bytes are in MB, growth in MB/s. *In*: intervals that hold the truth. *First*:
runs in which what grows comes first. *Accused*: looks in which a stack that does not grow is said
to grow surely. *Above*: runs in which more is said to be live than the heap's mappings hold.
"""
        by_case = collections.defaultdict(list)
        for record in ours:
            by_case[record["case"]].append(record)
        yield from markdown(
            ["case", "stacks", "runs", "windows", "cost, %", "live", "printed / truth",
             "in", "growth", "printed", "in", "first", "accused", "above"],
            case_rows(cases if by_case.keys() <= cases.keys() else by_case, by_case))
        windowed = [r for r in ours if r.get("without")]
        if windowed:
            yield f"#### What each part is worth: {name}\n"
            yield parts.TEXT
            yield from markdown(parts.HEADER, parts.rows(windowed))


def case_list(sets):
    yield "## The cases\n"
    for name, cases in sets.items():
        yield f"### Set {name}\n"
        yield from markdown(["case", "what it is", "what grows"],
                            ([case, c["what"], ", ".join(c["grows"])] for case, c in cases.items()))


def write(settings, path, sets):
    results = read_results(settings["RESULTS"])
    commit = settings["COMMIT"] or (results[-1]["built_at"] if results else "")
    records = [r for r in results if r["built_at"].startswith(commit)]
    with open(path, encoding="utf-8") as file:
        head, mark, _ = file.read().partition(MARK)
    if not mark:
        raise SystemExit(f"{path}: there is no line {MARK}")
    text = "\n".join([*case_list(sets), *tables(records, sets)])
    with open(path, "w", encoding="utf-8") as file:
        file.write(head + mark + "\n\n" + text.rstrip("\n") + "\n")
    return 0
