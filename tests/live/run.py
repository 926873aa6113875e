#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Tests with real probes in real processes. Needs root, and `make all progs` before.

usage: tests/live/run.py [-l] [-v] [PATTERN...]

  -l  lists the tests     -v  traces of failures
  PATTERN  runs only the tests whose name contains it, or matches it as a shell pattern

What cannot run here is skipped with its reason; where nothing may be skipped (CI=true or
MEMTRACE_NO_SKIP=1 in the environment) it fails. Kinds of probe that this kernel does not have are
not in the list."""
import argparse
import fnmatch
import glob
import importlib
import os
import signal
import sys
import time
import traceback

sys.dont_write_bytecode = True
import harness  # noqa: E402


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


def run_one(name, reason, verbose):
    """passed, failed or skipped."""
    begin, why = time.monotonic(), ""
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
    return outcome


def main():
    parser = argparse.ArgumentParser(usage=__doc__.split("usage: ")[1], add_help=False)
    parser.add_argument("-l", action="store_true")
    parser.add_argument("-v", action="store_true")
    parser.add_argument("patterns", nargs="*")
    args = parser.parse_args()

    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # so that the targets are ended
    for module in sorted(glob.glob("test_*.py", root_dir=os.path.dirname(__file__))):
        importlib.import_module(module[:-len(".py")])
    names = [name for name in harness.tests
             if not args.patterns or
             any(p in name or fnmatch.fnmatch(name, p) for p in args.patterns)]
    if args.l:
        print("\n".join(names))
        return 0
    reason = missing()
    if reason and not names:
        print(f"cannot run: {reason}")
    count = {"passed": 0, "failed": 0, "skipped": 0}
    try:
        for name in names:
            count[run_one(name, reason, args.v)] += 1
    finally:
        harness.end_all()
    if not names:  # nothing tested is nothing passed
        count["failed"] += 1
    print(", ".join(f"{n} {outcome}" for outcome, n in count.items()))
    return 1 if count["failed"] else 0


if __name__ == "__main__":
    sys.exit(main())
