#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Are the figures right that memtrace prints with default options? Runs memtrace on programs that
count their own memory. Writes each run as one line of JSON to build/truth/results.jsonl. A run that
this file already has for this binary is not run again. docs/windows.md says where the truth comes
from. Needs root, and `make all progs` before.

usage: tests/truth/truth.py [NAME=VALUE...] [--memtrace PATH]  or: make truth NAME=VALUE...
       tests/truth/truth.py list                               lists the cases
       tests/truth/truth.py tables [FILE]                      or: make truth-tables. Writes FILE
                                                               (docs/windows.md)

  SET=develop,judge,crowd,python  sets of cases  ONLY=redis_new,cache_*  cases (shell patterns)
  RUNS=4 of each     SECONDS=40 of tracing     JOBS=1 runs at a time: programs take a core each
  RESULTS=FILE       another file of results
  COMMIT=ID          (tables) runs of that commit (default: the last run's)

memtrace gets -p, -d, --json=FILE, -f pprof, -o, -v (to say when tracing begins) and the options of
the case: --leaks as a rule, never a limit, an interval or evidence. Each process is started and
ended here, by pid. Every wait is bounded."""
import fnmatch
import gzip
import hashlib
import json
import os
import re
import signal
import statistics
import subprocess
import sys
import threading
import time
import traceback

HERE = os.path.dirname(os.path.abspath(__file__))
sys.dont_write_bytecode = True
for room in ("live", "leaks"):
    sys.path.insert(0, os.path.join(HERE, "..", room))
sys.path.insert(0, HERE)
import harness  # noqa: E402
from harness import (ROOT, Failure, NotRunnable, end, end_all, place, run,  # noqa: E402
                     start, wait_until)
from leaks import keep_all, read_results  # noqa: E402
from judge import growth_between, judge, rows_of  # noqa: E402,F401
from account import MOST_GAP_S, Watch  # noqa: E402
import crowd  # noqa: E402
import parts  # noqa: E402
import pythons  # noqa: E402
import servers  # noqa: E402
import synthetic  # noqa: E402

RESULTS = os.path.join(ROOT, "build", "truth", "results.jsonl")
TWINS = os.path.join(ROOT, "build", "truth", "twins.json")
MOST_LOST = 1e-4  # events that a twin may lose, per operation
SETS = {"develop": {**synthetic.DEVELOP, **servers.DEVELOP},
        "judge": {**synthetic.JUDGE, **servers.JUDGE}, "crowd": crowd.CASES,
        "python": pythons.PYTHON}


# --- one run ---

def heap_mappings(pid):
    """Bytes of the mappings that may hold the heap: [heap] and writable private anonymous memory.
    size: mapped; rss: resident."""
    sizes = {"size": 0, "rss": 0}
    with open(f"/proc/{pid}/smaps", encoding="utf-8", errors="replace") as file:
        ours = False
        for line in file:
            head = re.match(r"[0-9a-f]+-[0-9a-f]+ (....) \S+ \S+ (\d+) *(.*)", line)
            if head:
                mode, inode, name = head.groups()
                ours = mode.startswith("rw") and mode[3] == "p" and inode == "0" and (
                    not name or name == "[heap]" or name.startswith("[anon:"))
            elif ours and line.startswith(("Size:", "Rss:", "Swap:")):
                key, kib = line.split()[:2]
                sizes["size" if key == "Size:" else "rss"] += int(kib) << 10
    return sizes


def largest_heap(pids, end):
    """heap_mappings() of each process, taken at time.monotonic() = end and half a second before:
    the larger of the two. memtrace reads the mappings some time before the end, and node unmaps
    memory all the time."""
    time.sleep(max(end - 0.5 - time.monotonic(), 0))
    before = [heap_mappings(pid) for pid in pids]
    time.sleep(max(end - time.monotonic(), 0))
    return [max(one, heap_mappings(pid), key=lambda heap: heap["size"])
            for one, pid in zip(before, pids)]


class Tracing:
    """A running memtrace, and the time when it began to trace."""

    def __init__(self, directory, memtrace, who, seconds, options):
        self.json_path, self.err_path = directory + "/json", directory + "/err"
        self.seconds = seconds
        with open(self.err_path, "w", encoding="utf-8") as err:
            self.process = start([memtrace, "-v", *who, "-d", seconds, "--json=" + self.json_path,
                                  "-f", "pprof", "-o", directory + "/out", *options],
                                 stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=err)
        wait_until(lambda: "; tracing\n" in self.log() or self.process.poll() is not None,
                   "memtrace came to trace")
        self.begin = time.monotonic()
        if self.process.poll() is not None:
            raise Failure(f"memtrace: status {self.process.returncode}, {self.log()[-300:]}")

    def log(self):
        with open(self.err_path, encoding="utf-8", errors="replace") as file:
            return file.read()

    def wait(self):
        wait_until(lambda: self.process.poll() is not None, "memtrace ended",
                   self.seconds + 2 * harness.PATIENCE_S)
        if self.process.returncode:
            raise Failure(f"memtrace: status {self.process.returncode}, {self.log()[-300:]}")
        with open(self.json_path, encoding="utf-8") as file:
            return [json.loads(line) for line in file if line.startswith("{")]


def profiles_without(directory):
    """Part of the model -> the profile that the same windows give without this part
    (--debug-parts)."""
    found = {}
    for name in sorted(os.listdir(directory)):
        with open(f"{directory}/{name}", encoding="utf-8") as file:
            found[name.removesuffix(".json")] = json.loads(file.readline())
    return found


def begin_of(path):
    """When tracing began, on this system's monotonic clock: pprof's time_nanos (field 9)."""
    with gzip.open(path) as file:
        data = file.read()
    i = 0

    def varint():
        nonlocal i
        value = shift = 0
        while True:
            byte = data[i]
            i += 1
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value

    while i < len(data):
        key = varint()
        if key & 7 == 2:
            n = varint()
            i += n
        elif key & 7 == 0:
            value = varint()
            if key >> 3 == 9:
                return value / 1e9 + time.monotonic() - time.time()
        else:
            break
    raise Failure(f"{path}: no time of its beginning")


def measure_twin(case, memtrace):
    """Traces each allocation continuously under the same load. Returns the bytes that are live at
    the end, by group, and the growth of the server's account (or its difference to the account of
    the server at rest)."""
    with place() as directory, case["subject"](case, servers.TWIN_S) as subject:
        os.chmod(directory, 0o755)
        subject.load()
        tracing = Tracing(directory, memtrace, ["-p", subject.pid], servers.TWIN_S,
                          ["-i", "1", "--max-overhead", "off", "--max-live", 4 << 20])
        try:
            series = [subject.sample()]
            while (left := tracing.begin + servers.TWIN_S - time.monotonic()) > 0:
                time.sleep(min(left, servers.TWIN_S / 20))
                series.append(subject.sample())
            before, after = series[0], series[-1]
            profile = tracing.wait()[0]
        finally:
            end(tracing.process)
    if profile["mode"] != "continuous":
        raise Failure(f"the twin was traced {profile['mode']}")
    groups = {group: row["live"][0] for group, row in rows_of(profile, case["groups"]).items()
              if group in case["groups"]}
    base = subject.rest["raw"] if case["truth"] == "above" else before["raw"]
    live, rest = profile["live_bytes"], groups.get(case.get("rest"), 0)
    grown = after["raw"] - base - rest
    ops = after["ops"] - before["ops"]
    slots, lost = case.get("slots"), harness.losses(profile)
    # lost events would be missing in the truth of every run
    if sum(lost.values()) > MOST_LOST * ops:
        raise Failure(f"the twin has lost too much: {lost}")
    return {"live": live, "groups": groups, "ops": ops,
            "per_slot": {group: n / servers.replaced_of(slots, ops) for group, n in groups.items()}
            if slots else {},
            "shares": {group: n / max(live, 1) for group, n in groups.items()},
            "per_op": {group: n / max(ops, 1) for group, n in groups.items()}, "grown": grown,
            "ratio": (live - rest) / (slope_of(series) * ops if "rest" in case else grown)
            if grown > 1e6 and case["truth"] != "constant" else 1}


def slope_of(series):
    """Bytes by which the account grows for each operation: the median of the steps from sample to
    sample. A table that doubles, or an old table that is freed, changes only a few steps."""
    steps = [(b["raw"] - a["raw"]) / max(b["ops"] - a["ops"], 1)
             for a, b in zip(series, series[1:])]
    slope = statistics.median(steps)
    if slope <= 0:
        raise Failure(f"the account does not grow steadily: {steps}")
    return slope


def twin_of(name, case, memtrace):
    """The twin's result, which is measured once and stored in a file."""
    if not case.get("twin"):
        return None
    with TWIN_LOCK:
        kept = {}
        if os.path.exists(TWINS):
            with open(TWINS, encoding="utf-8") as file:
                kept = json.load(file)
        key = hashlib.sha1(repr((name, case.get("load"), case.get("prime"), case["groups"],
                                 case["truth"], case.get("rest"), case.get("slots"),
                                 servers.TWIN_S)).encode()).hexdigest()[:12]
        if key not in kept:
            kept[key] = {"case": name, **measure_twin(case, memtrace)}
            os.makedirs(os.path.dirname(TWINS), exist_ok=True)
            with open(TWINS + ".new", "w", encoding="utf-8") as file:
                json.dump(kept, file, indent=1)
            os.rename(TWINS + ".new", TWINS)
        return kept[key]


TWIN_LOCK = threading.Lock()


def measure(name, case, seconds, memtrace, twin=None):
    """One run; returns its record."""
    if "members" in case:
        return crowd.measure(case, seconds,
                             lambda directory, *more: Tracing(directory, memtrace, ["-a"], *more),
                             largest_heap, begin_of)
    case = {**case,
            "args": [str(a).replace("{half}", str(seconds / 2)) for a in case.get("args", [])]}
    twin = twin or twin_of(name, case, memtrace)
    with place() as directory, case["subject"](case, seconds) as subject:
        os.chmod(directory, 0o755)
        subject.load()
        with Watch([subject], subject.every_s) as watch:
            time.sleep(1)
            started = time.monotonic()
            os.mkdir(f"{directory}/parts")
            tracing = Tracing(directory, memtrace, ["-p", subject.pid], seconds,
                              [*case["options"], f"--debug-parts={directory}/parts"])
            try:
                mark = subject.mark()
                heap = largest_heap([subject.pid], tracing.begin + seconds)[0]
                profiles, log = tracing.wait(), tracing.log()
                begin = begin_of(f"{directory}/out.{subject.pid}.pb.gz")
                without = profiles_without(f"{directory}/parts")
            finally:
                end(tracing.process)
            wall_s = time.monotonic() - started
        if watch.error:
            raise Failure(f"{name}: no account: {watch.error}")
        subject.stop()
    if not profiles:
        raise Failure("memtrace wrote no profile")
    gap_s = mark["t"] - begin
    if gap_s > MOST_GAP_S:  # the account does not count blocks of this gap as new
        raise Failure(f"{name}: memtrace said {gap_s:.1f} s late that it traces: the machine "
                      "is too busy")
    series = subject.account(watch.series[0], begin, twin)
    record = judge(case, profiles[0], log, series, begin, heap)
    if record["mode"] == "windowed":
        record["without"] = {part: parts.brief(judge(case, profile, "", series, begin, heap))
                             for part, profile in without.items()}
        record["accused_at_end"] = judge(case, profiles[0], "", series, begin, heap)["accused"]
    return {"case": name, "options": case["options"], "wall_s": wall_s, "gap_s": gap_s,
            "twin": twin, **record}


# --- all runs ---

def key_of(record):
    return tuple(record[key] for key in ("case", "asked_s", "run", "binary"))


def number(value):
    """value in thousands or millions, as a short text."""
    if value is None:
        return "-"
    for unit, name in ((1e9, " G"), (1e6, " M"), (1e3, " k")):
        if abs(value) >= 0.9995 * unit:
            return f"{value / unit:.3g}{name}"
    return f"{value:.0f}"


def interval(figure):
    return f"{number(figure[0])} ({number(figure[1])} - {number(figure[2])})"


def describe(record):
    if "processes" in record:
        return "\n".join(map(describe, crowd.flat([record])))
    lines = [f"{record['case']} {record['run']}: {record['mode']}, {record['n_windows']} windows, "
             f"cost {record['overhead_pct']} %; live {interval(record['total']['live'])} for "
             f"{number(record['total']['truth'])}; heap's mappings {number(record['heap']['size'])}"
             + ("; LIVE ABOVE HEAP" if record["live_above_heap"] else "")]
    for name, row in record["stacks"].items():
        if not row["counts"] and not row["sure"]:
            continue
        mark = {True: "", False: " MISSED", None: " ?"}
        lines.append(f"    {name}: live {interval(row['live'])} "
                     f"for {number(row['live_truth'])}{mark[row['live_in']]}; "
                     f"growth/s {interval(row['growth'])} for "
                     f"{number(row['growth_truth'])}{mark[row['growth_in']]}")
    if record["first_right"] is not None:
        lines.append(f"    first: {', '.join(record['first'][:2])}: "
                     f"{'right' if record['first_right'] else 'WRONG'}")
    if record["accused"]:
        lines.append(f"    FALSELY ACCUSED in {len(record['accused'])} of {record['looks']} looks: "
                     f"{sorted({n for names in record['accused'] for n in names})}")
    return "\n".join(lines)


def chosen(settings):
    patterns = settings["ONLY"].split(",")
    for name in settings["SET"].split(","):
        if name not in SETS:
            sys.exit(f"truth.py: there is no set {name}: " + ", ".join(SETS))
        for case in SETS[name]:
            if any(fnmatch.fnmatch(case, pattern) for pattern in patterns):
                yield case, name


def identity(memtrace):
    """The last commit of memtrace's code in the binary's tree, and a digest of the binary."""
    with open(memtrace, "rb") as file:
        digest = hashlib.sha1(file.read()).hexdigest()[:10]
    where = os.path.dirname(os.path.abspath(memtrace))
    root = run(["git", "-C", where, "rev-parse", "--show-toplevel"]).out.strip() or where
    code = ["--", "user", "bpf", "vmlinux"]
    commit = run(["git", "-C", root, "log", "-1", "--format=%h", *code]).out.strip() or "unknown"
    changed = run(["git", "-C", root, "status", "--porcelain", *code]).out.strip()
    return {"built_at": commit + ("-dirty" if changed else ""), "binary": digest}


def run_all(settings, memtrace):
    who, path = identity(memtrace), settings["RESULTS"]
    cases, have = dict(chosen(settings)), {key_of(r) for r in read_results(path)}
    if not cases:
        sys.exit("truth.py: no case is called so; `truth.py list` names them")
    if "crowd" in cases and settings["JOBS"] != "1":
        sys.exit("truth.py: -a traces what runs beside it: JOBS=1, or other sets")
    keys = [(name, float(settings["SECONDS"]), i + 1) for i in range(int(settings["RUNS"]))
            for name in cases]

    def one(key):
        name, seconds, i = key
        try:
            record = measure(name, SETS[cases[name]][name], seconds, memtrace)
        except NotRunnable as missing:
            raise Failure(f"cannot run: {missing}") from None
        # the other runs continue
        except (OSError, LookupError, ValueError, ArithmeticError) as error:
            traceback.print_exc()
            raise Failure(repr(error)) from None
        return {**record, "set": cases[name], "asked_s": seconds, "run": i,
                "unix_s": time.time(), **who}

    return keep_all(path, int(settings["JOBS"]),
                    [k for k in keys if (*k, who["binary"]) not in have], one, describe)


def main():
    settings = {"SET": "develop,judge,crowd,python", "ONLY": "*", "RUNS": "4", "SECONDS": "40",
                "JOBS": "1", "RESULTS": RESULTS, "COMMIT": ""}
    words, memtrace = sys.argv[1:], harness.MEMTRACE
    if "--memtrace" in words:
        i = words.index("--memtrace")
        memtrace = os.path.abspath(words[i + 1]) if i + 1 < len(words) else sys.exit(__doc__)
        del words[i:i + 2]
    for word in [w for w in words if re.match(r"[A-Z]+=", w)]:
        name, value = word.split("=", 1)
        if name not in settings:
            sys.exit(f"truth.py: there is no {name}: " + ", ".join(settings))
        settings[name] = value
        words.remove(word)
    if words == ["list"]:
        for name, kind in chosen(settings):
            print(f"{kind:8} {name:24} {SETS[kind][name]['what']}")
        return 0
    if words and words[0] == "tables":
        import tables
        return tables.write(settings, words[1] if len(words) > 1
                            else os.path.join(ROOT, "docs", "windows.md"), SETS)
    if words:
        sys.exit(__doc__)
    others = harness.other_tracers()
    if others:  # beside other runs, calls cost more than memtrace assumes (docs/limits.md)
        sys.exit(f"truth.py: {', '.join(others)} has probes in place: end this process first")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # an exit ends the targets
    try:
        return run_all(settings, memtrace)
    finally:
        end_all()


if __name__ == "__main__":
    sys.exit(main())
