# SPDX-License-Identifier: BSD-2-Clause
"""memtrace needs system calls to load its programs and to place its probes. In each run, one of
these calls fails as if the kernel refused it (tests/progs/faulty.c). Then memtrace ends with an
error message, or its figures are true, or it says what is missing. The target never notices, and no
probe is left."""
import errno
import json
import os
import re
import subprocess

from harness import (MEMTRACE, PATIENCE_S, PROGS, Failure, NotRunnable, Target, by_function, end,
                     expect, expect_equal, expect_words, kinds, place, read_line, start, test)
from test_harmless import wait_unchanged

FAULTY = os.path.join(PROGS, "faulty.so")
# Calls that place probes. Each of these calls is made to fail in turn. Of the calls that load
# programs, only some are made to fail, because the same code loads each program.
ALWAYS = ("link_create", "map_freeze")


def begin(target, options, at, error, log=None):
    env = {**os.environ, "LD_PRELOAD": FAULTY, "FAULT_AT": str(at), "FAULT_ERRNO": str(error)}
    if log:
        env["FAULT_LOG"] = log
    return start([MEMTRACE, "-v", "-p", target.pid, "-i", "1", "--max-overhead", "off", "--json",
                  "-f", "none", *options],
                 stdin=subprocess.DEVNULL, env=env)


def wait_tracing(tracer):
    """Waits until memtrace traces or has ended. Returns its messages, and whether it traces."""
    said = ""
    while not re.search(r"; tracing$", said, re.M):
        try:
            said += read_line(tracer, tracer.stderr)
        except Failure:
            return said, False
    return said, True


def check(profile, truth):
    """Checks that all live memory is in the profile, under the functions that allocated it. If it
    is not, a counter must say that stacks are incomplete."""
    expect_equal(profile["live_bytes"], sum(w["live_bytes"] for w in truth["functions"].values()),
                 "live bytes")
    if profile["stacks_complete_pct"] == 100:
        held = by_function(profile, truth["functions"])
        for name, wanted in truth["functions"].items():
            expect_equal(tuple(held[name][:2]) if name in held else (0, 0),
                         (wanted["live_bytes"], wanted["live_objects"]),
                         f"bytes and objects of {name}")
    else:
        ends = {name: n for name, n in profile["lost"].items() if name.startswith("stacks_") and n}
        expect(ends, "stacks are not whole, and nothing says why")


def with_fault(options, at, error, log=None):
    with Target("truth_basic") as target:
        tracer = begin(target, options, at, error, log)
        try:
            said, traces = wait_tracing(tracer)
            truth = target.go()
            if traces:
                tracer.send_signal(2)
            out, err = tracer.communicate(timeout=PATIENCE_S)
            said += err
            expect(tracer.returncode in (0, 1), "status", tracer.returncode, said)
            if tracer.returncode == 0:
                check(json.loads(out), truth)
            else:
                # more than the lines that -v prints
                expect_words(re.sub(r"^memtrace: (probe on|regions:|kind of probe).*\n?", "", said,
                                    flags=re.M), r"^memtrace: .*\w")
            wait_unchanged(target.pid)
            expect_equal(target.quit(), 0, "status of the target")
        except Failure as failure:
            raise Failure(f"fault {at} ({os.strerror(error)}): {failure}") from None
        finally:
            end(tracer)
    return tracer.returncode


def each_fault(options, error, always, every):
    if not os.path.exists(FAULTY):
        raise NotRunnable(f"{FAULTY} is not built")
    with place() as directory:
        log = directory + "/log"
        expect_equal(with_fault(options, 0, error, log), 0, "status without a fault")
        with open(log, encoding="utf-8") as file:
            calls = [line.split()[1] for line in file]
    expect({"map_create", "prog_load"} < set(calls), "calls:", set(calls))
    chosen = [i + 1 for i, name in enumerate(calls) if name in always or i % every == 0]
    statuses = [with_fault(options, at, error) for at in chosen]
    expect(1 in statuses, "no fault was ever felt")
    return f"{len(chosen)} of {len(calls)} calls, {sum(statuses)} of which are an error"


@test(beside=True, long=True)
def faults_out_of_memory():
    return each_fault((), errno.ENOMEM, ALWAYS, 5)


@test(beside=True, long=True)
def faults_of_perf_probes():
    """Perf uprobes are placed one by one, and probes of the other kinds all at once. If one perf
    uprobe cannot be placed, the others are removed."""
    if "perf" not in kinds():
        raise NotRunnable("no perf uprobes here")
    # only one call of every 8 is made to fail, because perf uprobes are slow
    return each_fault(("--probe-kind", "perf"), errno.EMFILE, (), 8)
