# SPDX-License-Identifier: BSD-2-Clause
"""Leaks that malloc and free alone do not show: vectors that realloc grows, and memory from mmap.
The targets also call malloc and free so often that they are traced in windows."""
import json
import time

from harness import Endless, Tracer, expect, expect_equal, expect_words, memtrace, test

INNOCENT = ("build_reply", "grow_session", "map_briefly", "parse_request")


class Vectors(Endless):
    """The program tests/progs/vectors."""

    def __init__(self, *args):
        super().__init__("vectors", *args)


def trace(seconds, arguments, options=()):
    """Returns the profiles by their kind ("heap" ...), and the truth."""
    with Vectors(*arguments) as target:
        time.sleep(0.5)
        with Tracer("-p", target.pid, "--max-overhead", "5", "--json", "-f", "none",
                    *options) as tracer:
            time.sleep(seconds)
            profiles = [json.loads(line) for line in tracer.stop().out.splitlines()]
        truth = target.stop()
    return {profile["what"]: profile for profile in profiles}, truth


def growth_of(profile):
    """function -> growth per second and its interval. Regions that allocators map for themselves
    are left out."""
    growth = {}
    for stack in profile["stacks"]:
        if stack.get("growth_low") is None or stack.get("allocators_own"):
            continue
        name = next((f for f in stack["frames"] if f in INNOCENT + (
            "grow_vector", "grow_many", "leak_map")), "other")
        sums = growth.setdefault(name, [0, 0, 0])
        for i, key in enumerate(("growth_bytes_per_s", "growth_low", "growth_high")):
            sums[i] += stack[key]
    return growth


def evidence(growth):
    """A sort key: functions that surely grow come first, then those that come nearest to sure
    growth, as in user/profile/growth.h."""
    rate, low, _ = growth
    return (low > 0, rate if low > 0 else rate / (rate - low) if rate > low else 0, rate)


def check_leak(profile, function, rate, sure=True):
    """The function's growth is found and comes first, and no other function surely grows. (For
    intervals see test_windows.)"""
    growth = growth_of(profile)
    first = max(growth, key=lambda name: evidence(growth[name]), default=None)
    expect_equal(first, function, f"what comes first of {growth}")
    estimate, low, high = growth[function]
    expect(low < 1.5 * rate and high > 0.5 * rate, growth[function], "for", rate)
    expect(low > 0 if sure else rate / 2 < estimate < 2 * rate, growth[function], "for", rate)
    for name in INNOCENT:
        expect(name not in growth or growth[name][1] <= 0, name, "grows:", growth)
    return (f"{estimate / 1000:.0f} kB/s ({low / 1000:.0f} - {high / 1000:.0f}) for "
            f"{rate / 1000:.0f}")


def find_vector(seconds, function, truth_key, arguments):
    """The target mostly calls malloc and free. Probes make it a hundred times slower, so its CPU
    time without the probes' cost (its net CPU time) is not known. The growth of the process shows
    how fast its vectors grow, but does not always prove that they grow. The vectors' live bytes
    follow from the growth of the process. Once 100 to 270 MB were printed instead of 7, because
    live bytes were computed from net CPU time. But the vectors grow by the wall clock."""
    profiles, truth = trace(seconds, arguments)
    heap = profiles["heap"]
    expect_equal(heap["mode"], "windowed", "mode")
    expect_equal(heap["lost"]["realloc_old_size_unknown"], 0, "sizes not known")
    said = check_leak(heap, function, truth[truth_key] / truth["seconds"], sure=False)
    live = [sum(stack[key] or 0 for stack in heap["stacks"] if function in stack["frames"])
            for key in ("live_bytes", "live_bytes_low", "live_bytes_high")]
    true = truth[truth_key] # counted from the target's start, just before tracing began
    expect(live[1] < true < live[2] or true / 2 < live[0] < 2 * true, "live:", live, "for", true)
    return (f"{said}; holds {live[0] / 1e6:.1f} MB ({live[1] / 1e6:.1f} - {live[2] / 1e6:.1f}) of "
            f"{true / 1e6:.1f}")


@test(beside=True, long=True)
def vectors_one_that_grows():
    return find_vector(20, "grow_vector", "vector",
                       ("--vector", "300000", "--sessions", "200"))


@test(beside=True, long=True)
def vectors_many_that_grow():
    return find_vector(30, "grow_many", "many",
                       ("--many", "300000", "--step", "200", "--sessions", "200"))


@test(beside=True, long=True)
def vectors_in_balance():
    """None of the vectors that are made and freed all the time grows."""
    profiles, _ = trace(15, ("--sessions", "200"))
    growth = growth_of(profiles["heap"])
    for name in INNOCENT:
        expect(name not in growth or growth[name][1] <= 0, name, "grows:", growth)


def find_map(seconds, arguments):
    profiles, truth = trace(seconds, arguments, ("--what", "heap,regions"))
    heap, regions = profiles["heap"], profiles["regions"]
    expect_equal(heap["mode"], "windowed", "mode of the heap")
    expect_equal(regions["mode"], "continuous", "mode of the regions")
    expect_equal(regions["lost"]["regions_stopped"], 0, "regions stopped")
    expect(regions["overhead_pct"] < 8, "overhead, %:", regions["overhead_pct"])
    own = [s for s in regions["stacks"] if s.get("allocators_own")]
    expect(own and all("leak_map" not in s["frames"] for s in own), "the allocator's own:", own)
    return check_leak(regions, "leak_map", truth["maps"] / truth["seconds"])


@test(beside=True, long=True)
def vectors_and_maps():
    """Finds a leak of buffers from mmap beside pairs of mmap and munmap, and a vector that realloc
    moves by mremap."""
    return find_map(20,
                    ("--maps", "300000", "--pairs", "50", "--vector", "100000", "--step", "4000"))


@test(long=True)
def vectors_regions_alone():
    """If there are few calls of mmap, regions are exact under any limit."""
    profiles, truth = trace(12, ("--maps", "300000", "--pairs", "50", "--rate", "1000"),
                            ("--what", "regions"))
    expect_equal(list(profiles), ["regions"], "profiles")
    expect(0 < profiles["regions"]["overhead_pct"] < 8, profiles["regions"]["overhead_pct"], "%")
    return check_leak(profiles["regions"], "leak_map", truth["maps"] / truth["seconds"])


@test(long=True)
def vectors_too_many_maps():
    """If there are so many calls that even to see them costs too much, memtrace stops tracing
    regions, and says so."""
    with Vectors("--maps", "300000", "--pairs", "50000") as target:
        result = memtrace("-p", target.pid, "-d", "6", "--what", "regions", "--max-overhead", "2",
                          "--json", "-f", "none")
        table = memtrace("-p", target.pid, "-d", "3", "--what", "regions", "--max-overhead", "2",
                         "-f", "none")
        target.stop()
    profile = result.json()
    expect_equal(profile["lost"]["regions_stopped"], 1, "regions stopped")
    expect(0 < profile["regions_followed_s"] < 4, profile["regions_followed_s"], "s")
    # may exceed the limit, because memtrace needs some tenths of a second on a busy machine to
    # remove the probes
    expect(profile["overhead_pct"] < 25, "overhead, %:", profile["overhead_pct"])
    # regions that were mapped for a short time are gone
    for stack in profile["stacks"]:
        expect("map_briefly" not in stack["frames"] or stack["live_objects"] < 5, stack)
    expect_words(table.out, "AT LEAST", r"followed for the first [0-9.]+ s only",
                 "regions_stopped 1")
