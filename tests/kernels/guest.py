#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Runs the core of the live suite inside a guest of run.sh: tests of the suite, and a few of this
file.

usage: guest.py --files          prints the files that it needs of this machine, itself included
       guest.py --names KIND...  prints the tests that must pass if only these kinds of probe work
       guest.py RESULTS          runs the tests; writes a line of JSON to RESULTS after each
"""
import contextlib
import json
import os
import random
import signal
import sys
import time

sys.dont_write_bytecode = True
LIVE = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "live")
sys.path.insert(0, LIVE)
os.environ["MEMTRACE_NO_SKIP"] = "1"
import harness  # noqa: E402
import run  # noqa: E402
import test_budget  # noqa: E402,F401
import test_files  # noqa: E402
import test_harmless  # noqa: E402
import test_markers  # noqa: E402
import test_newborn  # noqa: E402
import test_processes  # noqa: E402
import test_regions  # noqa: E402,F401
import test_sampled  # noqa: E402
import test_stacks  # noqa: E402
import test_truth  # noqa: E402,F401
from harness import (MEMTRACE, PROGS, Tracer, expect, expect_equal, memtrace,  # noqa: E402
                     test, test_each_kind)

KINDS = ("session", "multi", "perf")
# Tests of the live suite, and the tests of this file. In the emulator everything takes fifty times
# as long. So only the best kind of probe runs all tests.
ALL = ("truth_basic", "truth_exec", "truth_fork", "stacks_as_declared", "threads_in_small",
       "regions_truth", "sampled_in_small", "harmless_in_small", "newborn_stacks",
       "markers_in_small")
OTHERS = ("truth_basic", "stacks_as_declared")


@test_each_kind
def threads_in_small(kind):
    """As truth_threads: several threads allocate and free each other's blocks."""
    truth, profile, _ = harness.trace_script(kind, "truth_threads", "--blocks", "300")
    test_truth.check_exact(truth, profile)


test_sampled.INTERVAL = "8K"
test_newborn.PROCESSES = 10


@test_each_kind
def sampled_in_small(kind):
    """A small copy of "sampled" in test_sampled.py: of 40 intervals 80 % must contain the truth. If
    each does in 95 of 100 cases, the test fails with a probability of 5e-4."""
    told = []
    for attempt in range(2):
        series = test_sampled.Series()
        for seed in range(2):
            series.run(kind, 1 + 2 * attempt + seed, 5)
        told.append(str(series))
        if series.good(0.8):
            return "; then ".join(told)
    return expect(False, "twice wrong:", "; ".join(told))


@test_each_kind
def harmless_in_small(kind):
    """Exceptions pass through the allocator, and a killed memtrace leaves no probe. The target is
    in the allocator all the time while memtrace ends normally, by SIGKILL while tracing, and by
    SIGKILL at a random moment of attaching. The target goes on, and no probe is left."""
    options = ("-q", "-i", "1", "-f", "none", "--probe-kind", kind)
    args = ("--rounds", "30", "--exit", "3")
    result = memtrace(*options, "--", os.path.join(PROGS, "cxx_throw"), "--auto", *args)
    expect_equal((result.status, result.out), harness.untraced("cxx_throw", *args), result)
    gone_s = 0
    with test_harmless.Busy(1) as target:
        for sig, status in (signal.SIGTERM, 0), (signal.SIGKILL, -signal.SIGKILL):
            begin = time.monotonic()
            with Tracer("-p", target.pid, *options) as tracer:
                attach_s = time.monotonic() - begin
                expect(test_harmless.changed_text(target.pid), "no probe in the target's code")
                tracer.process.send_signal(sig)
                expect_equal(tracer.wait().status, status, f"status after {sig.name}")
            gone_s = max(gone_s, test_harmless.wait_unchanged(target.pid))
            expect(target.alive(), "the target died")
        with Tracer("-p", target.pid, *options, wait=False) as tracer:
            time.sleep(random.uniform(0, attach_s))
            tracer.process.kill()
            tracer.wait()
        gone_s = max(gone_s, test_harmless.wait_unchanged(target.pid))
        target.stop()
    return f"traced after {attach_s:.1f} s, probes gone after {gone_s:.1f} s"


@test_each_kind
def markers_in_small(kind):
    """The samples that a program takes itself are read at its USDT probes. Its semaphores are 0
    afterwards, also when memtrace is killed."""
    with test_markers.Reporter("--interval", "65536") as target:
        truth, profile = test_markers.trace(target, 4, "-i", "64K", "--max-overhead", "off",
                                            "--probe-kind", kind)
        test_markers.check(truth, profile)
        target.finish()
    test_markers.markers_after_a_kill()
    return f"{profile['samples']} of {truth['samples']} reports"


@test
def best_kind_sampled():
    """memtrace chooses the best kind, and stacks are whole. The verifier sees the interval as a
    constant. 20,000 pairs of 4,000 bytes at 512 KiB: 152.6 samples, standard deviation 12.4.
    Only unwind tables lead through libc's own frames to the process's start."""
    profile = test_stacks.trace_command("512K", os.path.join(PROGS, "churn"), "--auto", "--pairs",
                                        "20000", "--size", "4000")
    kind = {p["kind"] for p in profile["probes"] if p["function"] != "free"}
    expect_equal(kind, {harness.kinds()[0]}, "kinds of probes")
    expect(20000 <= profile["alloc_calls"] <= 20100, profile["alloc_calls"], "calls of 20,000")
    expect(90 <= profile["samples"] <= 215, profile["samples"], "samples instead of 153")
    return (f"{profile['samples']} samples, "
            f"{test_stacks.check_complete(profile, 'churn', at_least=90)}")


@test
def containers_in_small():
    """Containers of one image layer run one file. Each call counts once, also of a process that
    begins later."""
    with test_files.containers(3) as (directory, paths), contextlib.ExitStack() as running:
        targets = []

        def begin(i):
            targets.append(running.enter_context(harness.Target(paths[i])))

        begin(0)
        begin(1)
        with Tracer("--exe", directory + "/*", "-i", "1", "--json", "-f", "none") as tracer:
            begin(2)
            truths = [(target.pid, target.go()) for target in targets]
            profiles = test_processes.by_pid(tracer.stop().out)
        for pid, truth in truths:
            test_files.check_counts(truth, profiles[pid])


def refused(kind):
    """A kind that this kernel lacks is refused in one line that names it."""
    result = memtrace("-f", "none", "--probe-kind", kind, "--", os.path.join(PROGS, "churn"),
                      "--auto", "--pairs", "10")
    lines = result.err.strip().splitlines()
    expect(result.status == 1 and len(lines) == 1 and kind in lines[0], result)
    return lines[0]


for missing in set(KINDS) - set(harness.kinds()):
    harness.tests[f"refused[{missing}]"] = lambda kind=missing: refused(kind)


def names(kinds):
    return [*(f"refused[{kind}]" for kind in KINDS if kind not in kinds), "best_kind_sampled",
            "containers_in_small", "budget_beside_other_tracers", "regions_truth_at_syscalls",
            "page_faults_truth",
            *(f"{name}[{kind}]" for kind in kinds
              for name in (ALL if kind == kinds[0] else OTHERS))]


def main():
    if sys.argv[1:] == ["--files"]:
        modules = [getattr(module, "__file__", None) for module in list(sys.modules.values())]
        print("\n".join(sorted({os.path.abspath(f) for f in modules if f})))
    elif sys.argv[1:2] == ["--names"]:
        print("\n".join(names(sys.argv[2:])))
    elif len(sys.argv) == 2:
        print(harness.run([MEMTRACE, "check"]).out, flush=True)
        with open(sys.argv[1], "w", encoding="utf-8") as results:
            for name in names(harness.kinds()):
                outcome = run.run_one(name, None, False)[0]
                print(json.dumps({"test": name, "outcome": outcome}), file=results, flush=True)
            print(json.dumps({"dmesg": harness.run(["dmesg"]).out}), file=results, flush=True)
    else:
        sys.exit(__doc__)


if __name__ == "__main__":
    main()
