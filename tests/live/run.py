#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Tests with real probes in real processes. Needs root, and `make all progs` before.

usage: tests/live/run.py [-l] [-v] [-1|-2] [-s|-S] [PATTERN...]

  -l  lists the tests     -v  traces of failures
  -1  one at a time, all of them     -2  only those that run beside others
  -s  only short ones, as `make test`     -S  only the others, as `make test-long`
  PATTERN  runs only the tests whose name contains it, or matches it as a shell pattern

A test that cannot run here is skipped, and the reason is printed. With CI=true or
MEMTRACE_NO_SKIP=1 in the environment, such a test fails. While another tracer has probes in place,
tests that run alone cannot run. The names of these tests are then printed first. The list has the
tests of a kind of probe if this version of the kernel should have the kind, or if memtrace finds
it.

Tests that may run beside others (harness.test) run first: as many at a time as CPUS_EACH and
CPUS_EACH_LONG allow. Then come tests whose probes are in the code of all processes,
WIDE_AT_ONCE at a time. All other tests run alone after them.

A 95 % interval misses the truth at times, and a machine may stand still for a moment. So a test
that failed is tried again, alone, at the end, up to MORE_ATTEMPTS times. If it passes at last, the
summary names it as unsteady, with the first failure. If more than MOST_UNSTEADY tests fail, chance
is not the cause, and no test is tried again. A test that found harm to a target (HARM) is not tried
again either. A test that does not end within MEMTRACE_TEST_S seconds (default: LIMIT_S; 0: no
limit) has failed."""
import argparse
import fnmatch
import glob
import importlib
import os
import re
import signal
import sys
import tempfile
import time
import traceback

sys.dont_write_bytecode = True
import harness  # noqa: E402

OUTCOMES = ("passed", "failed", "skipped")
MOST_UNSTEADY = 8  # of about two hundred tests, half of which check an interval
# Suppose that each of twenty tests misses an interval in a tenth of its runs. With only one more
# attempt for each, every fifth run of the suite would fail.
MORE_ATTEMPTS = 2
# Words of failures that show harm to a target. Neither chance nor a busy machine explains them. The
# words also cover a target that ends early: its output ends, or its status is a signal.
HARM = re.compile(r"code changed after the end|code is still changed|code is changed|"
                  r"has probes after|probes are in place|is restored: not after|target is dead|"
                  r"died\b|its output ended|status -(4|5|6|7|8|11)\b|not what it wrote|"
                  r": \(?-(4|5|6|7|8|11)\b.* instead of|\"intact\": false|BrokenPipe|Sanitizer",
                  re.S)
# Words of failures in tests that try twice by themselves. With more attempts, wrong figures could
# pass by chance.
TRIED = re.compile(r"twice wrong|said to grow twice")
LIMIT_S = 900
CPUS_EACH = 0.4  # CPUs for each short test; such a test waits most of the time
CPUS_EACH_LONG = 0.65  # long tests work more
WIDE_AT_ONCE = 3


def no_skips():
    return os.environ.get("CI") == "true" or os.environ.get("MEMTRACE_NO_SKIP") == "1"


def missing():
    """The reason why no test can run here, or None."""
    if os.geteuid():
        return "not root"
    if not os.path.exists(harness.MEMTRACE):
        return f"{harness.MEMTRACE} is not built: make all progs"
    if not harness.kinds():
        return "no kind of probe works here: build/memtrace check says why"
    return None


def beside_whom():
    """The reason why tests that run alone cannot run now, or None."""
    others = harness.other_tracers()
    return f"{', '.join(others)} has probes in place" if others else None


class TooLong(BaseException):
    """Not an Exception, so that no test takes it for a failure that the test expects."""


def run_one(name, reason, verbose):
    """Returns passed, failed or skipped, and the reason."""
    def too_long(*_):
        raise TooLong(f"not finished after {limit} s")

    begin, why, limit = time.monotonic(), "", int(os.environ.get("MEMTRACE_TEST_S", LIMIT_S))
    reason = reason or (None if name in harness.sociable else beside_whom())
    try:
        if reason:
            raise harness.NotRunnable(reason)
        signal.signal(signal.SIGALRM, too_long)
        signal.alarm(limit)
        why = harness.tests[name]() or ""
        outcome = "passed"
    except harness.NotRunnable as e:
        outcome, why = ("failed" if no_skips() else "skipped"), f"cannot run: {e}"
    except (Exception, TooLong) as e:
        told = isinstance(e, (harness.Failure, TooLong))
        outcome, why = "failed", str(e) if told else repr(e)
        if verbose or not told:
            traceback.print_exc()
    finally:
        signal.alarm(0)
        harness.end_all()
    print(f"{outcome:8}{time.monotonic() - begin:6.1f} s  {name}{':  ' if why else ''}{why}",
          flush=True)
    return outcome, why


def fork_one(name, reason, verbose):
    """run_one() in a child process, whose exit status is the index of the outcome. Returns the
    child's pid, and the file that holds the reason."""
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
    finally:  # also after SIGTERM; run_one() has ended its processes by now
        os._exit(status)


def run_beside(names, choose, at_once, reason, verbose, note):
    """Runs at_once tests at a time. choose(waiting, running) returns the waiting test to start
    next, or None if no waiting test may run beside the running tests."""
    waiting, running = list(names), {}  # running: pid -> name, start, file
    try:
        while waiting or running:
            while waiting and len(running) < at_once:
                name = choose(waiting, [name for name, _, _ in running.values()])
                if name is None:
                    break
                waiting.remove(name)
                begin = time.monotonic()
                pid, told = fork_one(name, reason, verbose)
                running[pid] = name, begin, told
            pid, status = os.wait()
            if pid in running:
                name, begin, told = running.pop(pid)
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


def choose_sociable(waiting, running):
    """Tests with perf uprobes mostly wait for the kernel, which removes these probes one after the
    other. So only one of these tests runs at a time, or two when no other tests are left. Tests of
    `make test` run first."""
    perf = [name for name in waiting if name.endswith("[perf]")]
    others = [name for name in waiting if not name.endswith("[perf]")]
    if perf and not any(name.endswith("[perf]") for name in running):
        return min(perf, key=lambda name: name in harness.lengthy)
    return (others or perf)[-1]


def choose_wide(waiting, running):
    """Chooses a test whose file has no running test."""
    files = {harness.file_of(name) for name in running}
    return next((name for name in waiting if harness.file_of(name) not in files), None)


def print_slowest(seconds):
    print("the slowest of", f"{sum(seconds.values()):.0f} s:")
    for name in sorted(seconds, key=seconds.get, reverse=True)[:20]:
        print(f"{seconds[name]:14.1f} s  {name}")


def print_all(outcome, tests):
    """Prints the tests once more, at the end of the log, where they are easy to find."""
    for name, why in tests.items():
        print(f"{outcome}: {name}{':  ' if why else ''}{why[:2000]}")


def main():
    parser = argparse.ArgumentParser(usage=__doc__.split("usage: ")[1].replace("%", "%%"),
                                     add_help=False)
    parser.add_argument("-l", action="store_true")
    parser.add_argument("-v", action="store_true")
    parser.add_argument("-1", dest="single", action="store_true")
    parser.add_argument("-2", dest="beside", action="store_true")
    parser.add_argument("-s", dest="short", action="store_true")
    parser.add_argument("-S", dest="long", action="store_true")
    parser.add_argument("patterns", nargs="*")
    args = parser.parse_args()

    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # sys.exit() ends the targets
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
    outcomes, seconds, failures, unsteady = {}, {}, {}, {}

    def note(name, outcome, why, took):
        outcomes[name] = "failed" if name in failures and outcome == "skipped" else outcome
        seconds[name] = seconds.get(name, 0) + took
        if outcome == "failed":
            if name not in failures or HARM.search(why):
                failures[name] = why
        elif outcome == "passed" and name in failures:
            unsteady[name] = failures.pop(name)

    quiet = [name for name in names if name not in harness.sociable]
    others = None if reason or not quiet else beside_whom()
    if others:
        print(f"{others}. While this is so, {len(quiet)} tests cannot run: {', '.join(quiet)}",
              flush=True)
    sociable, wide = ([name for name in names if name in some and not args.single]
                      for some in (harness.sociable, harness.wide))
    alone = [name for name in names if name not in sociable + wide]
    each = CPUS_EACH if args.short else CPUS_EACH_LONG
    at_once = max(2, int(os.cpu_count() / each))
    try:
        run_beside(sociable, choose_sociable, at_once, reason, args.v, note)
        run_beside(wide, choose_wide, WIDE_AT_ONCE, reason, args.v, note)
        for name in alone:
            begin = time.monotonic()
            note(name, *run_one(name, reason, args.v), time.monotonic() - begin)
        for _ in range(MORE_ATTEMPTS):
            again = [name for name, why in failures.items()
                     if not (HARM.search(why) or TRIED.search(why))]
            for name in again if not reason and len(failures) <= MOST_UNSTEADY else ():
                print("once more:", flush=True)
                begin = time.monotonic()
                note(name, *run_one(name, reason, args.v), time.monotonic() - begin)
    finally:
        harness.end_all()
    if len(names) > 20:
        print_slowest(seconds)
    print_all("unsteady", unsteady)
    print_all("failed", failures)
    print(", ".join(f"{sum(o == outcome for o in outcomes.values())} {outcome}"
                    for outcome in OUTCOMES) +
          (f", {len(unsteady)} of them at a later attempt" if unsteady else ""))
    # a run in which no test passed is a failure
    return 0 if "passed" in outcomes.values() and not failures else 1


if __name__ == "__main__":
    sys.exit(main())
