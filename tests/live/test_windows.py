# SPDX-License-Identifier: BSD-2-Clause
"""With a limit on its cost memtrace may trace in windows. Tests when it does so, and what it finds
in windows."""
import contextlib
import json
import math
import os
import pty
import re
import time

from harness import (MEMTRACE, PATIENCE_S, PROGS, Endless, Target, Tracer, by_function, expect,
                     expect_equal, expect_words, losses, memtrace, place, start, test)
from test_allocators import LIBRARIES, library
from test_harmless import changed_text

FUNCTIONS = ("set_up", "forget", "parse_request", "replace_cached", "open_connection")


BUSY = """
import time
end = time.monotonic() + 1.5
while time.monotonic() < end:
    [0] * 1000
"""


class Leaking(Endless):
    """The program tests/progs/leaking."""

    def __init__(self, *args):
        super().__init__("leaking", *args)


def growth_of(profile):
    """function -> growth per second and its interval."""
    growth = {}
    for stack in profile["stacks"]:
        name = next((f for f in stack["frames"] if f in FUNCTIONS), None)
        if name and stack.get("growth_low") is not None:
            sums = growth.setdefault(name, [0, 0, 0])
            for i, key in enumerate(("growth_bytes_per_s", "growth_low", "growth_high")):
                sums[i] += stack[key]
    return growth


def check_leak(profile, truth):
    """Checks that only the leak is found. (A 95 % interval misses at times, so here half the truth
    is enough.)"""
    growth = growth_of(profile)
    rate = truth["leaked_bytes"] / truth["seconds"]
    first = max(growth, key=lambda name: growth[name][0], default=None)
    expect_equal(first, "forget", f"what grows fastest of {growth}")
    estimate, low, high = growth["forget"]
    expect(low > 0, "the leak may be chance:", growth)
    expect(low < 1.5 * rate and high > 0.5 * rate, growth["forget"], "for", rate)
    return (f"{estimate / 1000:.0f} kB/s ({low / 1000:.0f} - {high / 1000:.0f}) for "
            f"{rate / 1000:.0f}")


def trace_in_windows(seconds):
    """Traces a program that runs at full speed for a twentieth of its time. Returns the profile and
    the truth."""
    with Leaking() as target:
        time.sleep(0.5)
        with Tracer("-p", target.pid, "--max-overhead", "5", "--json", "-f", "none") as tracer:
            time.sleep(seconds)
            descriptors = len(os.listdir(f"/proc/{tracer.process.pid}/fd"))
            profile = tracer.stop().json()
        expect_equal(changed_text(target.pid), [], "code changed after the end")
        truth = target.stop()
    # up to 80 descriptors while no window is open, and 16 links in removal (MAX_PAUSING in
    # user/session/budget.c)
    expect(descriptors <= 96, descriptors, "descriptors")
    return profile, truth


def status_and_table(pid, *options, meanwhile=lambda: None):
    """Traces with a terminal as standard error. Returns the run's status lines and its table."""
    master, slave = pty.openpty()
    process = start([MEMTRACE, "-p", pid, "-d", "6", "-f", "none", *options], stderr=slave)
    os.close(slave)
    time.sleep(2)
    meanwhile()
    table, said = process.communicate(timeout=PATIENCE_S)[0], b""
    with contextlib.suppress(OSError): # memtrace has closed the other end
        while piece := os.read(master, 1 << 16):
            said += piece
    os.close(master)
    return said.decode(), table


@test(long=True)
def windows_status_line():
    """In a continuous run the status line shows the table's live bytes. In windows it says which
    figure it shows. At the end it says what memtrace still does, and then it is cleared."""
    with Target("truth_basic") as target:
        said, table = status_and_table(target.pid, "-i", "1", "--max-overhead", "off",
                                       meanwhile=target.go)
    last = re.findall(r"  live ~([0-9.]+ [KM]?i?B) ", said)[-1]
    expect_words(table, f"live heap: {re.escape(last)} in ")
    expect("anonymous" not in said, said)
    with Leaking() as target:
        said, table = status_and_table(target.pid, "--max-overhead", "5")
        target.stop()
    expect_words(table, "live heap, from windows: ")
    shown = said.split("\r\033[K")
    ending = shown.index("tracing has ended; reading symbols")
    expect(ending < len(shown) - 1, "the last line is not cleared:", said)
    last = [line for line in shown[:ending] if line][-1]
    expect_words(last, r"  anonymous memory \+[0-9.]+ [KM]iB [+-]")
    expect("live ~" not in last, last)


@test(long=True)
def windows_find_a_leak():
    profile, truth = trace_in_windows(20)
    expect_equal(profile["mode"], "windowed", "mode")
    expect(profile["windows"]["n"] >= 8, "only", profile["windows"])
    expect(2 < profile["overhead_pct"] < 8, "overhead, %:", profile["overhead_pct"])
    lost = losses(profile)
    # losses that the ends of windows cause
    for name in ("blocks_changed", "freed_unobserved", "returns_missing"):
        lost.pop(name, None)
    expect_equal(lost, {}, "losses")
    return check_leak(profile, truth)


@test(beside=True, long=True)
def windows_are_not_needed():
    """A program that allocates little is traced continuously, and each of its blocks is sampled."""
    # some 600 calls a second, whose tracing costs half a percent of a core
    with Leaking("--rate", "200", "--size", "3000") as target:
        time.sleep(1)
        with Tracer("-p", target.pid, "-i", "1", "--max-overhead", "5", "--json", "-f",
                    "none") as tracer:
            time.sleep(12)
            profile = tracer.stop().json()
        truth = target.stop()
    expect_equal(profile["mode"], "continuous", "mode")
    expect(profile["overhead_pct"] < 5, "overhead, %:", profile["overhead_pct"])
    lost = losses(profile)
    expect(lost.pop("returns_missing", 0) <= 1, lost) # a call that was running when tracing ended
    expect_equal(lost, {}, "losses")
    return check_leak(profile, truth)


POOL = ("--alloc", "exe:pool_alloc(size=2)->ret", "--free", "exe:pool_free(ptr=2)")


@test(long=True) # alone: compares the rates of two runs
def windows_of_pools():
    """A pool on top of malloc is traced in windows. A window may end during a call of the pool. The
    next window sees the pool's calls all the same. In each window as many blocks end as begin,
    although memtrace sees two frees of a block that the pool takes from malloc: one by the pool,
    and one by free."""
    said = []
    for program, options in (("truth_alloc_pool", POOL), ("truth_alloc_python", ()),
                             ("truth_alloc_python_named", ())):
        with Endless(program, "--replace") as target:
            def trace(seconds, limit):
                return memtrace("-p", target.pid, "-d", seconds, "--max-overhead", limit, "--json",
                                "-f", "none", *options).json()
            begin = time.monotonic()
            continuous, profile = trace(1, "off"), trace(10, 10)
            begun = target.stop()["replaced"] / (time.monotonic() - begin)
        expect_equal(profile["mode"], "windowed", "mode")
        rate = profile["alloc_calls"] / profile["windows"]["seconds"]
        full_rate = continuous["alloc_calls"] / continuous["duration_s"]
        expect(rate > 0.4 * full_rate, program, f"{rate:.0f} calls a second are seen in windows,",
               f"but {full_rate:.0f} without a limit:", profile["windows"])
        blocks = profile["process_growth"]["blocks_per_s"]
        expect(abs(blocks) < 0.03 * begun, program, "keeps as many blocks as it has:", blocks,
               f"blocks/s, {begun:.0f} begin:", profile["windows"])
        said.append(f"{rate / full_rate:.2f}, {blocks:.0f}/s of {begun:.0f}/s")
    return "; ".join(said)


def images(*options, rate, seconds, event_s=None):
    """Traces a program that allocates large blocks at this rate, from event_s seconds of tracing on
    (None: from the beginning). Returns its profile and the bytes that it leaked, by its own
    count."""
    # the leak itself makes few calls
    with Leaking("images", "--rate", str(rate), "--size", "5000") as target:
        if event_s is None:
            target.say("event")
        time.sleep(0.5)
        with Tracer("-p", target.pid, "--json", "-f", "none", *options) as tracer:
            before = target.ask("truth")["leaked_bytes"]
            if event_s is not None:
                time.sleep(event_s)
                target.say("event")
            time.sleep(seconds - (event_s or 0))
            after = target.ask("truth")["leaked_bytes"]
            result = tracer.stop()
        target.stop()
    # a second line may have the profile of regions
    return json.loads(result.out.splitlines()[0]), after - before


def rate_of_images():
    """A rate at which tracing costs less than 4.4 % at the default interval, and more than 5 % at
    64K. The factors between each cost and its bound are equal. (Of the limit of 5 %, 0.6 points are
    reserved for samples: user/pace/thinning.c.) Both costs are measured first, because the samples'
    share of the cost depends on the cost of a trap."""
    costs = [images(*options, "--max-overhead", "off", rate=2000, seconds=4)[0]["overhead_pct"]
             for options in ((), ("--leaks",))]
    return int(min(max(2000 * math.sqrt(4.4 * 5 / costs[0] / costs[1]), 300), 6000))


def check_images(profile, leaked):
    """Checks that the sampling interval was made coarser and the profile says so, that the leak is
    named, and that the interval of live bytes contains the truth. (A 95 % interval misses at times,
    so here twice its width is allowed.)"""
    interval = profile["interval_bytes"]
    expect_equal(profile["mode"], "continuous", "mode")
    expect_equal(profile.get("asked_interval_bytes"), 65536, f"asked for, of {interval}")
    expect(interval > 65536, "interval", interval)
    expect(profile["overhead_pct"] < 6, "overhead, %:", profile["overhead_pct"])
    growth = growth_of(profile)
    first = max(growth, key=lambda name: growth[name][0], default=None)
    expect_equal(first, "forget", f"what grows fastest of {growth}")
    expect(growth["forget"][1] > 0, "the leak may be chance:", growth)
    low, live, high = (profile[f"live_bytes{end}"] for end in ("_low", "", "_high"))
    expect(2 * low - live <= leaked <= 2 * high - live, low, live, high, "for", leaked)
    return (f"{live / 1e6:.1f} MB ({low / 1e6:.1f} - {high / 1e6:.1f}) for {leaked / 1e6:.1f}, "
            f"interval {interval >> 10} KiB, cost {profile['overhead_pct']:.1f} %")


@test(long=True)
def windows_come_after_coarser_samples():
    """A program can be traced continuously at the default interval, but not at the finer interval
    of --leaks, which takes more samples. So with --leaks it is traced continuously, too, but the
    interval is made coarser."""
    rate = rate_of_images()
    for _ in range(4):  # the rate may be wrong: the costs behind it were measured only once
        plain = images(rate=rate, seconds=3)[0]["mode"]
        profile, _ = images("--leaks", "-i", "64K", rate=rate, seconds=4)
        if (plain, profile["mode"]) == ("continuous", "windowed"):
            break
        rate = int(rate * (0.85 if plain == "windowed" else 1.15))
    expect_equal(plain, "continuous", "mode without --leaks")
    expect_equal(profile["mode"], "windowed", "mode with an interval that was asked for")
    expect_equal(profile["interval_bytes"], 65536, "that interval")
    return check_images(*images("--leaks", rate=rate, seconds=12))


@test(long=True)
def windows_do_not_come_when_samples_become_dear():
    """Blocks that were sampled before the interval became coarser count with the earlier
    interval."""
    return check_images(*images("--leaks", rate=rate_of_images(), seconds=14, event_s=7))


@test(beside=True, long=True)
def windows_leaks_without_limit():
    """In a run without a limit --leaks finds the same leak."""
    with Leaking("--rate", "20000") as target:
        result = memtrace("-p", target.pid, "-d", "10", "--leaks", "-f", "none", "-i", "16K",
                          "--max-overhead", "off")
        expect_equal(result.status, 0, result)
        truth = target.stop()
    expect_words(result.out, r"GROWTH/s +95 % INTERVAL +LIVE +OBJECTS +WHERE")
    rows = [line for line in result.out.splitlines() if " < main < " in line]
    expect(rows and "forget <" in rows[0], "the first of", rows, "for", truth)


@test(long=True)
def windows_not_of_a_command():
    """A command that memtrace starts is traced continuously, unless a limit is given. A running
    process has a limit by default."""
    options = ("--json", "-f", "none", "-d", "1.5")
    with contextlib.ExitStack() as stack:
        directory = stack.enter_context(place())
        target = stack.enter_context(Leaking())
        paths = [f"{directory}/{name}" for name in ("off", "limit")]
        for path, limit in zip(paths, ((), ("--max-overhead", "5"))):
            memtrace("-f", "none", f"--json={path}", *limit, "--", "python3", "-c", BUSY)
        modes = []
        for path in paths:
            with open(path, encoding="utf-8") as file:
                modes.append(json.load(file)["mode"])
        modes.append(memtrace("-p", target.pid, *options).json()["mode"])
        target.stop()
    expect_equal(modes, ["continuous", "windowed", "windowed"], "modes")


@test(long=True)
def windows_wrong_limits():
    for value in ("0", "-1", "101", "x", "", "5x"):
        result = memtrace("-p", "1", "--max-overhead", value)
        expect_equal(result.status, 2, result)
        expect_words(result.err, "share of CPU time")
    for options in (("-p", str(os.getpid()), "--what", "faults"), ("-a", "--what", "regions"),
                    ("-a", "--probe-kind", "perf")):
        result = memtrace(*options, "--max-overhead", "5", "-d", "1")
        expect_equal(result.status, 1, result)
        expect_words(result.err, "--max-overhead (works for the heap|off)")
    result = memtrace("-p", str(os.getpid()), "--probe-kind", "perf", "--max-overhead", "0.5",
                      "-d", "1")
    expect_equal(result.status, 1, result)
    expect_words(result.err, "perf uprobes", "--max-overhead 3", "off")
    # without --max-overhead memtrace refuses, too, because it would have to trace without the
    # default limit
    result = memtrace("-a", "--probe-kind", "perf", "-d", "1")
    expect_equal(result.status, 1, result)
    expect_words(result.err, "--max-overhead off")


@test(long=True)
def windows_of_perf_uprobes():
    """perf uprobes need one event per probe, and the kernel closes events one by one. So there are
    fewer and longer windows, within the limit."""
    with Leaking() as target:
        with Tracer("-p", target.pid, "--probe-kind", "perf", "--max-overhead", "10", "--json",
                    "-f", "none") as tracer:
            time.sleep(25)
            profile = tracer.stop().json()
        expect_equal(changed_text(target.pid), [], "code changed after the end")
        target.stop()
    expect_equal(profile["mode"], "windowed", "mode")
    expect(profile["windows"]["n"] >= 2, profile["windows"])
    expect(profile["overhead_pct"] < 15, "overhead, %:", profile["overhead_pct"])
    return f"{profile['windows']}, cost {profile['overhead_pct']} %"
