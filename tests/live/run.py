#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Tests with real probes in real processes. Needs root, and `make all progs` before.

usage: tests/live/run.py [-l] [-v] [-1|-2] [-s|-S] [PATTERN...]

  -l  lists the tests     -v  traces of failures
  -1  one at a time, all of them     -2  only those that run beside others
  -s  only short ones, as `make test`     -S  only the others, as `make test-long`
  PATTERN  runs only the tests whose name contains it, or matches it as a shell pattern

What cannot run here is skipped with its reason; where nothing may be skipped (CI=true or
MEMTRACE_NO_SKIP=1 in the environment) it fails. Tests that run alone cannot run beside another
tracer; their names are printed first. Kinds of probe that this kernel's version does not promise, and
memtrace does not find, are not in the list.

Tests that say that they may (harness.test) run beside others, first: two at a time, or of short ones as many
as CPUS_EACH allows. All others run alone after them.

Intervals of 95 % miss at times, and a machine may stand still for a moment: what has failed is tried again,
alone, at the end, up to MORE_ATTEMPTS times. If it passes then, the summary names it as unsteady, with what
failed first; more than MOST_UNSTEADY of them are no chance."""
import argparse
import collections
import fnmatch
import glob
import importlib
import os
import signal
import sys
import tempfile
import time
import traceback

sys.dont_write_bytecode = True
import harness  # noqa: E402

OUTCOMES = ("passed", "failed", "skipped")
MOST_UNSTEADY = 8  # of some two hundred, half of which are held to an interval
MORE_ATTEMPTS = 2  # with one, twenty tests that miss an interval in a tenth of their runs would fail every fifth run
CPUS_EACH = 0.5  # short ones wait for most of their time


def no_skips():
    return os.environ.get("CI") == "true" or os.environ.get("MEMTRACE_NO_SKIP") == "1"


def missing():
    """What keeps every test from running."""
    if os.geteuid():
        return "not root"
    if not os.path.exists(harness.MEMTRACE):
        return f"{harness.MEMTRACE} is not built: make all progs"
    if not harness.kinds():
        return "no kind of probe works here: build/memtrace check says why"
    return None


def beside_whom():
    """What keeps those that run alone from running."""
    others = harness.other_tracers()
    return f"{', '.join(others)} has probes in place" if others else None


def run_one(name, reason, verbose):
    """passed, failed or skipped; and why."""
    begin, why = time.monotonic(), ""
    reason = reason or (None if name in harness.sociable else beside_whom())
    try:
        if reason:
            raise harness.NotRunnable(reason)
        why = harness.tests[name]() or ""
        outcome = "passed"
    except harness.NotRunnable as e:
        outcome, why = ("failed" if no_skips() else "skipped"), f"cannot run: {e}"
    except Exception as e:
        outcome, why = "failed", str(e) if isinstance(e, harness.Failure) else repr(e)
        if verbose or not isinstance(e, harness.Failure):
            traceback.print_exc()
    finally:
        harness.end_all()
    print(f"{outcome:8}{time.monotonic() - begin:6.1f} s  {name}{':  ' if why else ''}{why}",
          flush=True)
    return outcome, why


def fork_one(name, reason, verbose):
    """The same in a process of its own, whose exit status is the outcome's number. Its pid, and the file that
    tells why."""
    sys.stdout.flush()
    told = tempfile.TemporaryFile("w+")
    pid = os.fork()
    if pid:
        return pid, told
    status = len(OUTCOMES)
    try:
        outcome, why = run_one(name, reason, verbose)
        told.write(why)
        told.flush()
        status = OUTCOMES.index(outcome)
    finally:  # also when it is told to end: run_one() has ended what it had started
        os._exit(status)


def run_beside(names, at_once, reason, verbose, note):
    """So many at once. Those with perf uprobes spend their time waiting for the kernel to remove these, which it
    does one after the other: they come from the one end and the others from the other, so that they
    meet only when nothing else is left; and of these the longest."""
    waiting = collections.deque(
        sorted(names, key=lambda name: (not name.endswith("[perf]"), name in harness.lengthy)))
    running = {}  # pid -> name, whether from the left, start, file
    try:
        while waiting or running:
            while waiting and len(running) < at_once:
                left = not any(left for _, left, _, _ in running.values())
                name = waiting.popleft() if left else waiting.pop()
                begin = time.monotonic()
                pid, told = fork_one(name, reason, verbose)
                running[pid] = name, left, begin, told
            pid, status = os.wait()
            if pid in running:
                name, _, begin, told = running.pop(pid)
                code = os.waitstatus_to_exitcode(status)
                known = 0 <= code < len(OUTCOMES)
                with told:
                    told.seek(0)
                    note(name, OUTCOMES[code] if known else "failed",
                         told.read() if known else f"ended with {code}", time.monotonic() - begin)
    finally:
        for pid in running:
            os.kill(pid, signal.SIGTERM)
            os.waitpid(pid, 0)


def print_slowest(seconds):
    print("the slowest of", f"{sum(seconds.values()):.0f} s:")
    for name in sorted(seconds, key=seconds.get, reverse=True)[:20]:
        print(f"{seconds[name]:14.1f} s  {name}")


def print_all(outcome, tests):
    """Once more, where whoever sees only the end of a log finds them."""
    for name, why in tests.items():
        print(f"{outcome}: {name}{':  ' if why else ''}{why[:2000]}")


def main():
    parser = argparse.ArgumentParser(usage=__doc__.split("usage: ")[1].replace("%", "%%"), add_help=False)
    parser.add_argument("-l", action="store_true")
    parser.add_argument("-v", action="store_true")
    parser.add_argument("-1", dest="single", action="store_true")
    parser.add_argument("-2", dest="beside", action="store_true")
    parser.add_argument("-s", dest="short", action="store_true")
    parser.add_argument("-S", dest="long", action="store_true")
    parser.add_argument("patterns", nargs="*")
    args = parser.parse_args()

    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # so that the targets are ended
    for module in sorted(glob.glob("test_*.py", root_dir=os.path.dirname(__file__))):
        importlib.import_module(module[:-len(".py")])
    names = [name for name in harness.tests
             if (not args.patterns or
                 any(p in name or fnmatch.fnmatch(name, p) for p in args.patterns))
             and (not args.beside or name in harness.sociable)
             and (not args.short or name not in harness.lengthy)
             and (not args.long or name in harness.lengthy)]
    if args.l:
        print("\n".join(names))
        return 0
    reason = missing()
    if reason and not names:
        print(f"cannot run: {reason}")
    outcomes, seconds, failures, failed_first, unsteady = {}, {}, {}, {}, {}

    def note(name, outcome, why, took):
        outcomes[name] = "failed" if name in failures and outcome == "skipped" else outcome
        seconds[name] = seconds.get(name, 0) + took
        if outcome == "failed":
            failures[name] = why
            failed_first.setdefault(name, why)
        elif outcome == "passed" and name in failures:
            unsteady[name] = failed_first.pop(name)
            del failures[name]

    beside = [name for name in names if name in harness.sociable and not args.single]
    alone = [name for name in names if name not in harness.sociable]
    others = None if reason or not alone else beside_whom()
    if others:
        print(f"{others}. While this is so, {len(alone)} tests cannot run: {', '.join(alone)}", flush=True)
    at_once = max(2, int(os.cpu_count() / CPUS_EACH)) if args.short else 2
    try:
        run_beside(beside, at_once, reason, args.v, note)
        for name in names:
            if name not in beside:
                begin = time.monotonic()
                note(name, *run_one(name, reason, args.v), time.monotonic() - begin)
        again = list(failures) if not reason and len(failures) <= MOST_UNSTEADY else ()
        for name in [name for name in again for _ in range(MORE_ATTEMPTS)]:
            if name in failures:
                print("once more:", flush=True)
                begin = time.monotonic()
                note(name, *run_one(name, reason, args.v), time.monotonic() - begin)
    finally:
        harness.end_all()
    if len(names) > 20:
        print_slowest(seconds)
    print_all("unsteady", unsteady)
    print_all("failed", failures)
    print(", ".join(f"{sum(o == outcome for o in outcomes.values())} {outcome}" for outcome in OUTCOMES) +
          (f", {len(unsteady)} of them at a later attempt" if unsteady else ""))
    return 0 if names and not failures else 1  # nothing tested is nothing passed


if __name__ == "__main__":
    sys.exit(main())
