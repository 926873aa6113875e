# SPDX-License-Identifier: BSD-2-Clause
"""Programs that sample their own allocations, and report the samples by USDT probes. The target
program "reporter" knows which memory it holds, and how many of its reports no tracer received."""
import json
import signal
import time

from harness import (Endless, Tracer, by_function, expect, expect_equal, expect_words, losses,
                     memtrace, test, test_each_kind, wait_until)


class Reporter(Endless):
    """The target. It waits for begin(), which the caller calls when memtrace traces."""

    def __init__(self, *args):
        super(Endless, self).__init__("reporter", *args)
        self.program = "reporter"

    def begin(self):
        self.say("go")

    def semaphores(self):
        return self.ask("semaphores")["semaphores"]

    def finish(self):
        """The target was not harmed: it works, its semaphores are 0 again, and it ends as it
        should."""
        wait_until(lambda: self.semaphores() == [0, 0], "nobody listens to the target")
        expect_equal(self.quit(), 0, "status of reporter")


def trace(target, seconds, *options):
    """Traces the target from its first allocation on. Returns the truth, and the profile."""
    with Tracer("-p", target.pid, "--json", "-f", "none", *options) as tracer:
        target.begin()
        time.sleep(seconds)
        truth = target.ask("pause")
        profile = tracer.stop().json()
    return truth, profile


def check(truth, profile):
    """The intervals hold the truth. There are three 95 % intervals: of each of the two functions,
    and of the total. In one of ten runs, one of them would miss the truth. So each interval is
    widened here by its own width at both ends."""
    expect(set(losses(profile)) <= {"freed_unobserved"}, "losses:", losses(profile))
    expect_equal(profile["sampled_by_target"], True, "sampled_by_target")
    expect_equal(truth["unreported"], 0, "samples that the target could not report")
    expect_equal(profile["alloc_calls"], truth["samples"], "reports seen")
    expect_equal(profile["contradictions"], [], "contradictions")
    held = by_function(profile, truth["functions"])
    expect(None not in held, "stacks of nobody:", held.get(None))
    rows = [(name, wanted["live_bytes"], held[name][2][0])
            for name, wanted in truth["functions"].items()]
    rows.append(("all", sum(f["live_bytes"] for f in truth["functions"].values()), profile))
    for name, wanted, row in rows:
        low, high = row["live_bytes_low"], row["live_bytes_high"]
        expect(0 < low < high, f"{name}: no interval: {low} - {high}")
        expect(low - (high - low) <= wanted <= high + (high - low),
               f"{name}: {wanted} not near {low} - {high}")


@test_each_kind(beside=True, best=True)
def markers_at_defaults(kind):
    """A program's own samples are read at its USDT probes, and its semaphores are 0 before and
    after. No probe is on malloc, the leaking stack comes first, and the intervals hold the
    truth."""
    with Reporter() as target:
        truth, profile = trace(target, 8, "--probe-kind", kind)
        expect_equal(truth["semaphores"], [1, 1], "semaphores during the run")
        check(truth, profile)
        probes = sorted(p["function"] for p in profile["probes"])
        expect_equal(probes, ["otel_memory:alloc", "otel_memory:free"], "functions with probes")
        expect(any("leaks" in str(f) for f in profile["stacks"][0]["frames"]), "the first stack:",
               profile["stacks"][0])
        target.finish()
    return f"{profile['samples']} of {truth['samples']} reports, {profile['overhead_pct']:.2f} %"


@test(beside=True)
def markers_closer_and_farther():
    """A program may sample more often than memtrace, or less often. The figures are right at either
    interval."""
    for theirs, ours, printed in ((65536, "512K", 524288), (2097152, "64K", 2097152),
                                  (65536, "64K", 65536)):
        with Reporter("--interval", str(theirs), "--leak", "10000") as target:
            truth, profile = trace(target, 5, "-i", ours, "--max-overhead", "off")
            check(truth, profile)
            got = profile["interval_bytes"]
            expect(abs(got / printed - 1) < 0.01, f"R {theirs}, -i {ours}: the interval is {got}")
            target.finish()


@test(beside=True)
def markers_after_a_kill():
    """When memtrace is killed, the program's semaphores become 0 again, and the program goes on."""
    with Reporter() as target:
        with Tracer("-p", target.pid, "-f", "none") as tracer:
            target.begin()
            expect_equal(target.semaphores(), [1, 1], "semaphores during the run")
            tracer.process.send_signal(signal.SIGKILL)
            tracer.process.wait(10)
            target.finish()


@test(beside="wide")
def markers_not_used():
    """A program with USDT probes is traced by its calls of malloc in two cases: every allocation is
    wanted (-i 1), or processes are selected. `check` lists the probes and what a report costs."""
    with Reporter() as target:
        target.begin()
        result = memtrace("check", target.pid)
        expect_equal(result.status, 0, result)
        expect_words(result.out, r"takes samples itself.*reporter$",
                     r"otel_memory:alloc +at 0x.* ns, with a semaphore", r"otel_memory:free +at 0x",
                     r"allocator: glibc", r"not probed: the program reports")
        for options in (("-p", target.pid, "-i", "1"), ("--comm", "reporter")):
            with Tracer(*options, "--json", "-f", "none") as tracer:
                time.sleep(1)
                expect_equal(target.semaphores(), [0, 0], f"semaphores with {options}")
                text = tracer.stop().out
            expect("malloc" in text and "sampled_by_target" not in text, f"{options}: {text[:300]}")
            json.loads(text)
        target.finish()
