# SPDX-License-Identifier: BSD-2-Clause
"""Large blocks of processes that are traced in windows: those that no window saw are counted from
outside, and those that a window saw are counted once. The truth is malloc_usable_size() in the
target."""
import json
import time

from harness import Endless, Tracer, expect, expect_equal, test
from test_allocators import families, library

UNSEEN = "[large blocks that no window saw]"
MAKERS = ("make_old", "make_table", "make_part", "make_scratch", UNSEEN)


def trace(seconds, *args, preload=None):
    """Returns what the target's functions hold, as function -> [bytes, low, high, objects], and the
    truth."""
    with Endless("large_once", *args, preload=preload) as target:
        time.sleep(0.5)
        with Tracer("-p", target.pid, "--json", "-f", "none") as tracer:
            time.sleep(seconds)
            profile = json.loads(tracer.stop().out)
        truth = target.stop()
    expect_equal(profile["mode"], "windowed", "mode")
    expect(not preload or any("jemalloc" in name for name in families(profile)),
           "the allocator is not jemalloc:", families(profile))
    held = {}
    for stack in profile["stacks"]:
        name = next((f for f in stack["frames"] if f in MAKERS), "other")
        sums = held.setdefault(name, [0, 0, 0, 0])
        for i, key in enumerate(("live_bytes", "live_bytes_low", "live_bytes_high",
                                 "live_objects")):
            sums[i] += stack[key]
        if name == UNSEEN:
            # with few windows, growth is not known
            expect((stack.get("growth_low") or 0) <= 0,
                   "growth that nobody saw is said to be sure:", stack)
    return held, truth


def large(held):
    return sum(figure[0] for name, figure in held.items() if name in MAKERS)


def check_sum(held, true):
    """All large blocks together are counted exactly, whether windows saw them or not."""
    expect(abs(large(held) - true) <= 0.01 * true, "large blocks:", held, "for", true)
    for name in MAKERS:
        expect(name not in held or held[name][1] - 1 <= held[name][0] <= held[name][2] + 1, name,
               "is outside its interval:", held)


@test(long=True)
def large_blocks_unseen():
    """A table is made once, and windows take a hundredth of the time. Blocks from before the run
    do not count."""
    held, truth = trace(12, "--old", "3")
    check_sum(held, truth["table"])
    expect("make_old" not in held, held)
    return {name: held[name] for name in held if name in MAKERS}


@test(long=True)
def large_blocks_under_jemalloc():
    """jemalloc's extents of 2 MiB are large, too."""
    held, truth = trace(12, "--old", "3", "--parts", "40", "--every", "100", "--size", "2000000",
                        preload=library("libjemalloc.so.2"))
    check_sum(held, truth["table"] + truth["parts"])
    return {name: held[name] for name in held if name in MAKERS}


@test(long=True)
def large_blocks_of_which_windows_see_some():
    """Blocks of one function come all the time, so windows see some of them. By memtrace's figures,
    this function holds at most what the whole target holds."""
    held, truth = trace(20, "--parts", "60", "--every", "200", "--size", "40000000")
    check_sum(held, truth["table"] + truth["parts"])
    expect(held.get("make_part", [0, 0, 0])[2] <= 1.01 * (truth["table"] + truth["parts"]), held)
    return {name: held[name] for name in held if name in MAKERS}


@test(long=True)
def large_blocks_that_replace_each_other():
    """A block is freed and made again five times a second, so one such block lives at any time."""
    held, truth = trace(18, "--scratch")
    check_sum(held, truth["table"] + truth["scratch"])
    return {name: held[name] for name in held if name in MAKERS}
