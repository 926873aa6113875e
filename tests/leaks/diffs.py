#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Does memtrace diff report growth where there is none, and does it find a leak? Compares pairs of
real profiles of tests/progs/leaking.c. Writes the verdict on each pair, or on all pairs of one
traced run, as one line of JSON to build/leaks/diffs.jsonl. A run that is in this file is not run
again. Needs root, and `make all progs` before.

usage: tests/leaks/diffs.py [NAME=VALUE...]  or: make diffs NAME=VALUE...
       tests/leaks/diffs.py tables [FILE]    or: make diffs-tables. Writes FILE (docs/diff.md) from
                                             the results

  ONLY=store,cache,connections,leak   programs
  PAIRS=100          pairs of all programs that do not grow together, and as many pairs of leak
  SECONDS=8          of tracing, for each of the two processes of a pair that does not grow
  EVERY=30           seconds between the snapshots of leak
  JOBS=1             runs at a time: programs take a core each
  RESULTS=FILE       another file of results

A pair of a program that does not grow is two processes, one after the other, each traced from
before its first allocation. A pair of the program that leaks is two consecutive snapshots of one
traced run. Each run has ten such pairs, and the times between their snapshots do not overlap. A
pair is judged by the blocks that came and went in its time. Each process is started and ended here,
by pid. Every wait is bounded."""
import collections
import glob
import os
import sys
import time

import leaks
from leaks import Leaking, Recording, markdown, percent, read_results, spread
from harness import ROOT, Failure, end, expect_equal, memtrace, place, wait_until

RESULTS = os.path.join(ROOT, "build", "leaks", "diffs.jsonl")
RATE = 20000  # pairs of malloc and free a second
RUN_PAIRS = 10
WAIT_S = 120  # the longest wait for a snapshot that is due

# Scenarios, with the words that the table uses for them.
STILL = {
    "store": "churn of 50 MB, blocks of 200 to 1,800 bytes",
    "cache": "full caches, random replacement (40 s, 8 s)",
    "connections": "connection state living 5 s",
}
LEAK = "leak"
LEAK_RATE, STORE_RATE = 200000, 5000


def compared(*paths):
    result = memtrace("diff", "--json", *paths)
    expect_equal(result.status, 0, f"status of diff: {result.err}")
    return result.json()


def growing(diff):
    """[frames without the allocator's, from, to] of each stack that grows according to diff."""
    return [[[f for f in stack["frames"] if f not in leaks.ALLOCATORS][:3], stack["from"],
             stack["to"]]
            for stack in diff["stacks"] if stack["grows"]]


def verdict(diff):
    return {"total_grows": diff["total"]["grows"], "stacks_grow": growing(diff),
            "from": diff["total"]["from"],
            "to": diff["total"]["to"], "stacks": len(diff["stacks"]), "seconds": diff["seconds"]}


# --- a program that does not grow ---

def profile_of(directory, name, program, seconds):
    prefix = os.path.join(directory, name)
    with Leaking(program, "--leak", 0, "--rate", RATE, go=False) as target:
        recording = Recording(directory, "-p", str(target.pid), "--max-overhead", "off",
                              "-f", "pprof", "-o", prefix)
        try:
            target.say("go")
            time.sleep(seconds)
            recording.stop()
        finally:
            end(recording.process)
    return f"{prefix}.{target.pid}.pb.gz"


def measure_still(program, seconds):
    with place() as directory:
        return verdict(compared(*(profile_of(directory, name, program, seconds)
                                  for name in ("one", "other"))))


# --- a program that leaks ---

def measure_leak(every, pairs=RUN_PAIRS, leak_rate=LEAK_RATE, store_rate=STORE_RATE):
    """Takes snapshots until there is this number of pairs of consecutive ones. Returns the verdict
    on each pair."""
    with place() as directory, \
            Leaking("store", "--leak", leak_rate, "--rate", store_rate, go=False) as target:
        recording = Recording(directory, "-p", str(target.pid), "--max-overhead", "off",
                              "-f", "pprof",
                              "--every", f"{every:g}", "-o", os.path.join(directory, "out"))

        def snapshots():
            return sorted(glob.glob(os.path.join(directory, f"out.{target.pid}.[0-9]*.pb.gz")))

        try:
            target.say("go")
            for n in range(1, pairs + 2):
                wait_until(lambda: len(snapshots()) >= n or recording.ended(), f"snapshot {n}",
                           every + WAIT_S)
            files = snapshots()[:pairs + 1]
            recording.stop()
        finally:
            end(recording.process)
        if len(files) < pairs + 1:
            raise Failure(f"memtrace ended: {recording.log()[-300:]}")
        verdicts = [verdict(compared(*pair)) for pair in zip(files, files[1:])]
    for one in verdicts:
        one["found"] = any("forget" in frames for frames, _, _ in one["stacks_grow"])
        one["others"] = [row for row in one["stacks_grow"] if "forget" not in row[0]]
    return verdicts


# --- all runs ---

def claims(record):
    return record["total_grows"] or bool(record["stacks_grow"])


def missing_runs(settings, results):
    """Keys (program, seconds, number). The programs take turns, so that all have equally many
    pairs."""
    have = {(r["program"], r["asked_s"], r["number"]) for r in results}
    pairs, only = int(settings["PAIRS"]), settings["ONLY"].split(",")
    still = [program for program in STILL if program in only]
    keys = [(still[i % len(still)], float(settings["SECONDS"]), i // len(still))
            for i in range(pairs) if still]
    if LEAK in only:
        keys += [(LEAK, float(settings["EVERY"]), i) for i in range(-(-pairs // RUN_PAIRS))]
    return [key for key in keys if key not in have]


def measure(key):
    program, seconds, number = key
    what = {"pairs": measure_leak(seconds)} if program == LEAK else measure_still(program, seconds)
    return {"program": program, "asked_s": seconds, "number": number, **what}


def describe(record):
    if record["program"] == LEAK:
        return (f"leak {record['number']}: found in {sum(p['found'] for p in record['pairs'])} "
                f"of {len(record['pairs'])}, others said to grow in "
                f"{sum(bool(p['others']) for p in record['pairs'])}")
    return (f"{record['program']} {record['number']}: {record['from'] / 1e6:.1f} "
            f"to {record['to'] / 1e6:.1f} MB in {record['stacks']} stacks: "
            f"{'SAID TO GROW' if claims(record) else 'nothing grows'}")


def run_all(settings):
    path = settings["RESULTS"]
    missing = missing_runs(settings, read_results(path))
    return leaks.keep_all(path, int(settings["JOBS"]), missing, measure, describe)


# --- tables ---

def tables(results):
    groups = collections.defaultdict(list)
    for record in results:
        groups[record["program"]].append(record)
    still = [r for program in STILL for r in groups[program]]
    pairs = [pair for record in groups[LEAK] for pair in record["pairs"]]
    yield f"""# What grows: how often memtrace diff is right

`make diffs-tables` made this page from what `make diffs` has measured. The programs shared
{os.cpu_count()} cores, at a load average of {spread(r["load"] for r in results)}. The sampling
interval is the default, 512 KiB. The cost of tracing is not limited. The programs are those of
`tests/progs/leaking.c`, at {RATE:,} pairs of malloc and free a second ({STORE_RATE:,} in the
program that leaks).

## What does not grow

A pair is two runs of the same program: two processes, each traced from before its first allocation
for {spread((r["asked_s"] for r in still), "{:.0f}")} s. A claim means that
`memtrace diff` says of a stack, or of the total, that it surely grows. `memtrace diff` makes two
tests, each at a level of 2.5 %: one for all stacks together, one for the total. So both tests
together may make a claim by chance in 5 of 100 pairs. At most 7 of 100 pairs are accepted.
"""
    rows = [[program, what, spread((r["to"] / 1e6 for r in groups[program])),
             percent(claims(r) for r in groups[program]),
             percent(bool(r["stacks_grow"]) for r in groups[program]),
             percent(r["total_grows"] for r in groups[program])]
            for program, what in STILL.items() if groups[program]]
    rows.append(["**all**", "", "", percent(map(claims, still)),
                 percent(bool(r["stacks_grow"]) for r in still),
                 percent(r["total_grows"] for r in still)])
    yield from markdown(["program", "", "live, MB", "claims", "by a stack", "by the total"], rows)
    yield f"""## What leaks

The program leaks {LEAK_RATE // 1000} kB/s. It also holds 50 MB, of which it replaces
{STORE_RATE:,} blocks a second at random. A pair is two consecutive snapshots (`--every`),
{spread((r["asked_s"] for r in groups[LEAK]), "{:.0f}")} s apart, of one of {len(groups[LEAK])}
traced runs. Pairs do not overlap in time. `memtrace diff` judges a pair by what was allocated and
freed between its snapshots. *Found*: the function that leaks is said to grow, which should be so in
95 of 100 pairs. *Others*: anything else is said to grow.
"""
    yield from markdown(["pairs", "found", "others", "live, MB"], [
        [str(len(pairs)), percent(p["found"] for p in pairs),
         percent(bool(p["others"]) for p in pairs), spread(p["to"] / 1e6 for p in pairs)]])


def main():
    settings = {"ONLY": ",".join([*STILL, LEAK]), "PAIRS": "100", "SECONDS": "8", "EVERY": "30",
                "JOBS": "1", "RESULTS": RESULTS}
    return leaks.command(__doc__, settings, {"ONLY": [*STILL, LEAK]}, "diff.md", tables, run_all)


if __name__ == "__main__":
    sys.exit(main())
