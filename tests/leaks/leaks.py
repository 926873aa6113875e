#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Does memtrace find the leak, how precise is its rate, and what does tracing cost? Runs the
scenarios of tests/progs/leaking.c with every method, again and again. Writes each run as one line
of JSON to build/leaks/results.jsonl. A run that is in this file is not run again. Needs root, and
`make all progs` before.

usage: tests/leaks/leaks.py [NAME=VALUE...]  or: make leaks NAME=VALUE...
       tests/leaks/leaks.py tables [FILE]    or: make leaks-tables. Writes FILE (docs/leaks.md) from
                                             the results

  ONLY=churn,cache   programs; METHODS=windowed,continuous,faults; RUNS=20 of each;
                     SECONDS=60 of tracing
  JOBS=1             runs at a time: programs take a core each, and threads two
  RESULTS=FILE       another file of results

In a run, the program warms up for two seconds. It is watched untraced for three seconds, then it is
traced, then it is watched for three seconds again. The truth is what the program reports when
tracing begins and when it ends. Each process is started and ended here, by pid. Every wait is
bounded."""
import collections
import concurrent.futures
import json
import os
import re
import signal
import statistics
import subprocess
import sys
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(HERE, "..", "live"))
from harness import (MEMTRACE, PATIENCE_S, ROOT, Failure, Target, end, end_all,  # noqa: E402
                     place, run, start, wait_until)

RESULTS = os.path.join(ROOT, "build", "leaks", "results.jsonl")
WARM_S, WATCH_S = 2, 3
EVENT_S = 3  # seconds from the start of tracing
ALLOCATORS = {"malloc", "calloc", "realloc", "free", "mmap", "mmap64", "munmap", "mremap",
              "brk", "sbrk"}

# The words of the tables for each program, and whether an event happens to the program while it is
# traced.
PROGRAMS = {
    "churn": ("fast churn of the same and other sizes", False),
    "cache": ("full caches, random replacement (40 ms, 8 s)", False),
    "cache_slow": ("full caches, random replacement (40 ms, 20 s)", False),
    "connections": ("connection state living 5 s", False),
    "threads": ("blocks freed by another thread", False),
    "vector": ("the leak: a log grown by realloc; a vector that is reset", False),
    "mmap": ("the leak: mmap; innocents map and unmap", False),
    "plugin": ("the leak in a plugin loaded with dlopen", False),
    "plugin_late": ("the same, loaded while traced", True),
    "burst": ("a burst of 40 MB that stays, while traced", True),
    "slow": ("a slow leak in a size class churning 10,000 times faster", False),
    "two": ("two leaks", False),
    "work": ("the leak driven by work, not the clock", False),
    "used": ("structures in use; a leak linked into a list", False),
    "batch": ("blocks gathered for 8 s and freed at once", False),
}
METHODS = {
    "windowed": ["--leaks", "--max-overhead", "5"],
    "continuous": ["--leaks", "--max-overhead", "off"],
    "faults": ["--what", "faults"],
}
STATUS = re.compile(r"^memtrace: (?:.*, )?(\d+) s, .*: fastest growth .*?\([^)]*\) (.+)$", re.M)


# --- one run ---

class Leaking(Target):
    def __init__(self, scenario, *args, go=True):
        super().__init__("leaking", scenario, *args)
        if go:
            self.say("go")

    def truth(self, word="truth"):
        self.say(word)
        return json.loads(self.line())


class Recording:
    """memtrace on a process, with its output in files. Its CPU time is the kernel's count, children
    included."""

    def __init__(self, directory, *args):
        self.err_path = os.path.join(directory, "err")
        self.out_path = os.path.join(directory, "out")
        with open(self.out_path, "w") as out, open(self.err_path, "w") as err:
            self.process = start([MEMTRACE, "-v", *args], stdin=subprocess.DEVNULL, stdout=out,
                                 stderr=err)
        wait_until(lambda: re.search(r"; tracing$", self.log(), re.M) or self.ended(),
                   "memtrace came to trace")
        if self.process.returncode is not None:
            raise Failure(f"memtrace {' '.join(args)}: {self.log()[-300:]}")

    def log(self):
        with open(self.err_path) as file:
            return file.read()

    def ended(self):
        if self.process.returncode is None:
            pid, status, self.usage = os.wait4(self.process.pid, os.WNOHANG)
            if pid:
                self.process.returncode = os.waitstatus_to_exitcode(status)
        return self.process.returncode is not None

    def stop(self):
        """Ends memtrace; returns the profiles as JSON, the log and its CPU time."""
        self.process.send_signal(signal.SIGINT)
        wait_until(self.ended, "memtrace ended")
        if self.process.returncode:
            raise Failure(f"memtrace: status {self.process.returncode}, {self.log()[-300:]}")
        with open(self.out_path) as file:
            profiles = [json.loads(line) for line in file if line.startswith("{")]
        return profiles, self.log(), self.usage.ru_utime + self.usage.ru_stime


def rates_between(before, after):
    """What the program did, per second of wall-clock time."""
    seconds = after["seconds"] - before["seconds"]
    cpu = after["cpu_s"] - before["cpu_s"]
    return {"seconds": seconds, "cpu_s": cpu,
            "pairs_per_s": (after["pairs"] - before["pairs"]) / seconds,
            "pairs_per_cpu_s": (after["pairs"] - before["pairs"]) / max(cpu, 1e-9)}


def leak_rate(name, before, after):
    """Bytes per second that the leak lost from `before` to `after`, or from the leak's beginning if
    this is later."""
    old, new = before["leaks"][name], after["leaks"][name]
    return ((new["bytes"] - old["bytes"]) /
            (after["seconds"] - max(before["seconds"], new["since_s"])))


def sum_of(a, b):
    """The sum of two figures [estimate, low, high] whose errors are independent. low and high may
    be unknown."""
    if None in a or None in b:
        return [(a[0] or 0) + (b[0] or 0), None, None]
    down, up = (sum((x[i] - x[0]) ** 2 for x in (a, b)) ** 0.5 for i in (1, 2))
    return [a[0] + b[0], a[0] + b[0] - down, a[0] + b[0] + up]


def rows_of(profiles, method):
    """[frames, estimate, low, high] in the order of --leaks: stacks that surely grow come first.
    Stacks with the same frames are one row. An allocator's own regions are left out, because its
    blocks are in them. The method "faults" gives no rates. So its estimate is the memory that
    became resident, per second."""
    rows = {}
    for profile in profiles:
        for stack in profile["stacks"]:
            key = tuple(f for f in stack["frames"] if f not in ALLOCATORS)
            if stack.get("allocators_own"):
                continue
            if method == "faults":
                figure = [stack["live_bytes"] / profile["duration_s"], None, None]
            else:
                figure = [stack.get(name)
                          for name in ("growth_bytes_per_s", "growth_low", "growth_high")]
            rows[key] = sum_of(rows[key], figure) if key in rows else [figure[0] or 0, *figure[1:]]
    return sorted(([list(key), *row] for key, row in rows.items()),
                  key=lambda row: (not (row[2] or 0) > 0, -row[1]))


def short(row):
    """The row with a short name instead of its frames."""
    return [" < ".join([f for f in row[0] if "+0x" not in f][:3]), *row[1:]]


def judge(profiles, log, method, truths):
    """What memtrace found of each leak, and which other stacks grow according to memtrace."""
    before, after = truths
    rows, found = rows_of(profiles, method), {}
    for name in after["leaks"]:
        ours = [(i + 1, row) for i, row in enumerate(rows) if name in row[0]]
        said = [int(s) for s, frames in STATUS.findall(log) if frames.split(" <")[0] == name]
        best = ours[0][1] if ours else [None, 0, None, None]
        found[name] = {"truth": leak_rate(name, before, after),
                       "rank": ours[0][0] if ours and best[1] > 0 else None,
                       "estimate": sum(row[1] for _, row in ours), "low": best[2], "high": best[3],
                       "stacks": len(ours), "first_s": said[0] if said else None}
    fastest = sorted(found, key=lambda name: -found[name]["truth"])
    return {"leaks": found, "lines": len(STATUS.findall(log)),
            "top": [short(row) for row in rows[:3]],
            "first": [found[name]["rank"] for name in fastest] == list(range(1, len(found) + 1)),
            "innocents": [short(row) for row in rows if row[2] is not None and row[2] > 0 and
                          not any(n in row[0] for n in found)]}


def options_of(program, method):
    options = list(METHODS[method])
    if program == "mmap" and method != "faults":
        options += ["--what", "heap,regions"]
    return options


def measure(program, method, seconds, warm_s=WARM_S, watch_s=WATCH_S):
    """One run: its record, without the fields that run_all() adds."""
    options = options_of(program, method)
    with place() as directory, Leaking(program) as target:
        time.sleep(warm_s)
        alone = [target.truth()]
        time.sleep(watch_s)
        alone.append(target.truth())
        recording = Recording(directory, "-p", str(target.pid), *options, "--json", "-f", "none")
        try:
            before = target.truth()
            if PROGRAMS[program][1]:
                time.sleep(EVENT_S)
                target.say("event")
            time.sleep(seconds - (EVENT_S if PROGRAMS[program][1] else 0))
            after = target.truth()
            profiles, log, own_cpu_s = recording.stop()
        finally:
            end(recording.process)
        alone.append(target.truth())
        time.sleep(watch_s)
        alone.append(target.truth("stop"))
        target.quit()
    traced = rates_between(before, after)
    alone = {name: (value + rates_between(*alone[2:])[name]) / 2
             for name, value in rates_between(*alone[:2]).items()}
    heap = profiles[0]
    windows = heap.get("windows", {"n": 0, "seconds": 0, "continuous_seconds": 0})
    return {"program": program, "method": method,
            "duration_s": heap["duration_s"], "mode": heap.get("mode"), "windows": windows,
            "duty": min((windows["seconds"] + windows["continuous_seconds"]) /
                        heap["duration_s"], 1) if windows["n"] else 1,
            "overhead_pct": heap["overhead_pct"], "samples": sum(p["samples"] for p in profiles),
            "alone": alone, "traced": traced, "own_cpu_s": own_cpu_s,
            "slower_pct": 100 * (1 - traced["pairs_per_s"] / alone["pairs_per_s"]),
            "slower_by_cpu_pct": 100 * (1 - traced["pairs_per_cpu_s"] / alone["pairs_per_cpu_s"]),
            "process_growth": heap.get("process_growth"), "evidence_counts": heap.get("evidence"),
            "lost": {name: n for name, n in heap["lost"].items() if n},
            **judge(profiles, log, method, (before, after))}


# --- all runs ---

def key_of(record):
    return tuple(record[name] for name in ("program", "method", "asked_s", "run"))


def read_results(path):
    try:
        with open(path) as file:
            records = [json.loads(line) for line in file if line.endswith("\n")]
    except FileNotFoundError:
        return []
    for record in records:
        if record.get("method") == "growth":  # the method's name in older files
            record["method"] = "faults"
    return records


def describe(record):
    leaks = ", ".join(f"{name} {leak['rank']}. {leak['estimate'] / 1000:.0f} "
                      + (f"({leak['low'] / 1000:.0f} - {leak['high'] / 1000:.0f}) "
                         if leak["low"] is not None and leak["high"] is not None else "")
                      + f"for {leak['truth'] / 1000:.0f} kB/s"
                      for name, leak in record["leaks"].items())
    others = "; ".join(f"{name} {low / 1000:.0f} - {high / 1000:.0f}"
                       for name, _, low, high in record["innocents"])
    return (f"{record['program']} {record['method']} {record.get('run', '')}: "
            f"{'first' if record['first'] else 'NOT FIRST'}; {leaks}; "
            f"duty {100 * record['duty']:.2f} %, said {record['overhead_pct']} %, "
            f"slower {record['slower_pct']:.1f} %, {record['samples']} samples"
            + (f"; INNOCENTS: {others}" if others else ""))


def missing_runs(settings, results):
    have = {key_of(record) for record in results}
    # all programs and methods once, then all again
    for number in range(1, int(settings["RUNS"]) + 1):
        for program in settings["ONLY"].split(","):
            for method in settings["METHODS"].split(","):
                key = (program, method, float(settings["SECONDS"]), number)
                if key not in have:
                    yield key


def keep_all(path, jobs, keys, measure_one, describe_one):
    """Measures every key; writes each record as a line of a file as soon as it exists."""
    lock, failed = threading.Lock(), []
    os.makedirs(os.path.dirname(os.path.abspath(path)), exist_ok=True)
    commit = run(["git", "-C", ROOT, "rev-parse", "--short", "HEAD"]).out.strip()

    def one(key):
        try:
            record = {**measure_one(key), "commit": commit, "load": os.getloadavg()[0]}
        except Failure as failure:
            failed.append(key)
            print(f"FAILED {key}: {failure}", flush=True)
            return
        with lock:
            with open(path, "a") as file:
                file.write(json.dumps(record) + "\n")
            print(describe_one(record), flush=True)

    pool = concurrent.futures.ThreadPoolExecutor(jobs)
    try:
        list(pool.map(one, keys))
    except BaseException:
        pool.shutdown(wait=False, cancel_futures=True)
        end_all()  # runs that have already begun then fail soon
        raise
    return 1 if failed else 0


def run_all(settings):
    def one(key):
        program, method, seconds, number = key
        return {**measure(program, method, seconds), "asked_s": seconds, "run": number}

    path = settings["RESULTS"]
    return keep_all(path, int(settings["JOBS"]), missing_runs(settings, read_results(path)),
                    one, describe)


# --- tables ---

def spread(values, form="{:.1f}"):
    """Median and range."""
    values = [v for v in values if v is not None]
    if not values:
        return "-"
    texts = [form.format(v) for v in (statistics.median(values), min(values), max(values))]
    return texts[0] if texts[1] == texts[2] else f"{texts[0]} ({texts[1]} - {texts[2]})"


def share(flags):
    flags = list(flags)
    return f"{sum(flags)}/{len(flags)}" if flags else "-"


def percent(flags):
    flags = list(flags)
    return f"{100 * sum(flags) / len(flags):.0f} % ({sum(flags)}/{len(flags)})" if flags else "-"


def leaks_of(records):
    return [leak for record in records for leak in record["leaks"].values()]


def covers(leak):
    return None not in (leak["low"], leak["high"]) and leak["low"] <= leak["truth"] <= leak["high"]


def grows(leak):
    return leak["low"] is not None and leak["low"] > 0


def growing(record):
    return any(low > 0 for _, _, low, _ in record["innocents"])


def markdown(head, rows):
    yield "| " + " | ".join(head) + " |"
    yield "|" + "---|" + "---:|" * (len(head) - 1)
    for row in rows:
        yield "| " + " | ".join(row) + " |"
    yield ""


def suite_rows(groups, method):
    for program in PROGRAMS:
        records = groups.get((program, method))
        if not records:
            continue
        leaks = leaks_of(records)
        fastest = [max(r["leaks"].values(), key=lambda leak: leak["truth"]) for r in records]
        truths = [statistics.median(r["leaks"][name]["truth"] for r in records)
                  for name in records[0]["leaks"]]
        yield [program, " + ".join(f"{truth / 1000:.0f}" for truth in truths),
               spread((100 * r["duty"] for r in records), "{:.2f}"),
               spread(r["overhead_pct"] for r in records), spread(r["slower_pct"] for r in records),
               spread((r["samples"] for r in records), "{:,.0f}"),
               share(r["first"] for r in records), share(grows(leak) for leak in leaks),
               spread((leak["rank"] for leak in fastest), "{:.0f}"),
               spread((leak["first_s"] for leak in fastest), "{:.0f}"),
               spread((leak["estimate"] / leak["truth"] for leak in leaks if leak["truth"]),
                      "{:.2f}"),
               share(growing(r) for r in records)]


def coverage_rows(groups, methods):
    def row(name, programs):
        for method in methods:
            leaks = leaks_of(r for p in programs for r in groups.get((p, method), []))
            yield percent(covers(leak) for leak in leaks)
    for program in PROGRAMS:
        if any((program, method) in groups for method in methods):
            yield [program, *row(program, [program])]
    yield ["**all**", *row("all", PROGRAMS)]


def faults_rows(groups, methods):
    for program in PROGRAMS:
        cells = []
        for method in methods:
            records = groups.get((program, method), [])
            fastest = [max(r["leaks"].values(), key=lambda leak: leak["truth"]) for r in records]
            cells += [share(r["first"] for r in records),
                      spread((leak["rank"] for leak in fastest), "{:.0f}"),
                      spread(r["slower_pct"] for r in records),
                      spread(r["own_cpu_s"] for r in records)]
        if all(cell == "-" for cell in cells):
            continue
        heads = collections.Counter(r["top"][0][0] if r["top"] else "nothing"
                                    for r in groups.get((program, "faults"), []) if not r["first"])
        yield [program, *cells,
               ", ".join(f"{head} ({n})" for head, n in heads.most_common(2)) or "-"]


def tables(results):
    groups = collections.defaultdict(list)
    seconds = max((r["asked_s"] for r in results), default=0)
    for record in results:
        if record["asked_s"] == seconds:
            groups[record["program"], record["method"]].append(record)
    methods = [m for m in METHODS if any(key[1] == m for key in groups)]
    timed = [m for m in methods if m != "faults"]
    yield f"""# Finding leaks

`make leaks-tables` made this page from what `make leaks` has measured. Each run took
{seconds:.0f} s. The machine has {os.cpu_count()} cores and had a load average of
{spread(r["load"] for r in results)}, the programs included. Figures are medians and, in
parentheses, the range over all runs. The programs (`tests/progs/leaking.c`) do as much as they can:
tens of millions of pairs of malloc and free a second on one core. One function in each program
leaks. In the program `two`, two functions leak.

| program | |
|---|---|"""
    for name, (what, _) in PROGRAMS.items():
        yield f"| {name} | {what} |"
    yield ""
    words = {"windowed": "In windows: a limit of 5 %", "continuous": "Without a limit"}
    for method in timed:
        yield f"""## {words[method]}

- *Duty*: the share of time with probes in place.
- *Said*: the cost that memtrace prints.
- *Slower*: by how much less work the program did per second than in the untraced seconds before and
  after.
- *First*: runs in which the leak is in the first row of the table. Two leaks must be in the first
  two rows, the faster one first.
- *Grows*: leaks of which memtrace says that they surely grow (0 is below their interval).
- *Rank*: the place of the fastest leak in the table by growth.
- *After*: seconds until memtrace first says that the leak grows. memtrace prints a line
  about growth every 10 s.
- *Estimate*: the estimated rate of the leak, divided by the true rate.
- *Innocents*: runs in which memtrace says that any other stack surely grows.
"""
        yield from markdown(["program", "leak, kB/s", "duty, %", "said, %", "slower, %", "samples",
                             "first", "grows", "rank", "after, s", "estimate", "innocents"],
                            suite_rows(groups, method))
    if timed:
        yield """## Coverage

The table tells how often the printed 95 % interval of growth contains the truth.
"""
        yield from markdown(["program", *timed], coverage_rows(groups, timed))
    if "faults" in methods:
        yield """## Page faults instead of probes

Do the stacks of `--what faults` name the leak, and what does that cost? *Slower*: how much slower
the program is, in per cent. *Own*: memtrace's own CPU time, s. If the leak is not first, the
leaked blocks lie in memory that other stacks have used and freed. A page counts for the stack that
wrote to it first, so such pages count for the other stacks.
"""
        yield from markdown(["program", *(f"{m}: {what}" for m in methods
                                          for what in ("first", "rank", "slower", "own")),
                             "faults: who else is first (runs)"], faults_rows(groups, methods))


def command(usage, settings, known, document, tables_of, run_them):
    """A command with settings NAME=VALUE. known: the allowed values of some settings. The command
    runs what the results lack or, with the word tables, writes the document from the results."""
    own, words = os.path.basename(sys.argv[0]), sys.argv[1:]
    for word in [w for w in words if "=" in w]:
        name, value = word.split("=", 1)
        if name not in settings:
            sys.exit(f"{own}: there is no {name}: " + ", ".join(settings))
        settings[name] = value
        words.remove(word)
    for name, values in known.items():
        for value in settings[name].split(","):
            if value not in values:
                sys.exit(f"{own}: there is no {value} in {name}: " + ", ".join(values))
    if words and words[0] == "tables":
        path = words[1] if len(words) > 1 else os.path.join(ROOT, "docs", document)
        text = "\n".join(tables_of(read_results(settings["RESULTS"])))
        os.makedirs(os.path.dirname(os.path.abspath(path)), exist_ok=True)
        with open(path, "w") as file:
            file.write(text.rstrip("\n") + "\n")
        return 0
    if words:
        sys.exit(usage)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # an exit ends the targets
    try:
        return run_them(settings)
    finally:
        end_all()


def main():
    settings = {"ONLY": ",".join(PROGRAMS), "METHODS": ",".join(METHODS), "RUNS": "20",
                "SECONDS": "60", "JOBS": "1", "RESULTS": RESULTS}
    return command(__doc__, settings, {"ONLY": PROGRAMS, "METHODS": METHODS}, "leaks.md",
                   tables, run_all)


if __name__ == "__main__":
    sys.exit(main())
