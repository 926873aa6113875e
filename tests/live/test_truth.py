# SPDX-License-Identifier: BSD-2-Clause
"""At -i 1 every number is exact. The truth is the counts that the targets of tests/progs report."""
import json
import math
import os
import re

from harness import (MEMTRACE, PROGS, Target, Tracer, by_function, expect, expect_equal, kinds,
                     losses, need_tool, place, run, test, test_each_kind, trace_script)


def check_exact(truth, profile):
    """The live memory of each function and the number of calls are exact, and nothing is lost."""
    functions = truth["functions"]
    held = by_function(profile, functions)
    expect(None not in held, "stacks of nobody:", held.get(None))
    for name, wanted in functions.items():
        nbytes, objects, _ = held.get(name, (0, 0, []))
        expect_equal((nbytes, objects), (wanted["live_bytes"], wanted["live_objects"]),
                     f"bytes and objects of {name}")
    expect_equal(profile["live_bytes"], sum(f["live_bytes"] for f in functions.values()), "total")
    # the figures are exact, so both ends of the interval are the number itself
    for stack in [profile, *profile["stacks"]]:
        expect_equal((stack["live_bytes_low"], stack["live_bytes_high"]),
                     (stack["live_bytes"],) * 2, f"interval of {stack.get('frames', 'all')}")
    check_calls(truth, profile)
    expect_equal(losses(profile), {}, "losses")


def check_calls(truth, profile):
    calls, failed = truth["alloc_calls"], truth["failed_calls"]
    expect(calls - failed <= profile["alloc_calls"] <= calls,
           f"{profile['alloc_calls']} allocating calls instead of {calls}, {failed} failed")


def read_heap_v2(path):
    """Reads a file as a reader of heap_v2 does, independently of memtrace. Returns [bytes, objects]
    by stack and by thread, and the threads' names."""
    scaled = {"stacks": {}, "threads": {}, "names": {}}
    stack = None
    with open(path, encoding="utf-8") as file:
        interval = int(re.fullmatch(r"heap_v2/(\d+)\n", next(file))[1])
        for line in file:
            if line == "\n":
                break
            if line.startswith("@ "):
                stack = tuple(int(a, 16) for a in line.split()[1:])
                expect(stack and all(stack), "a stack without addresses:", line)
                continue
            m = re.fullmatch(r"  t(\*|\d+): (\d+): (\d+) \[(\d+): (\d+)\](?: (.*))?\n", line)
            expect(m, "not a line of heap_v2:", line)
            who, n, s = m[1], int(m[2]), int(m[3])
            # the file's head: readers skip this line, but it has the threads' names
            if stack is None:
                scaled["names"][who] = m[6]
                continue
            factor = 1 / (1 - math.exp(-(s / n) / interval)) if n else 0
            key = ("stacks", stack) if who == "*" else ("threads", who)
            sums = scaled[key[0]].setdefault(key[1], [0, 0])
            sums[0] += s * factor
            sums[1] += n * factor
        expect_equal(next(file), "MAPPED_LIBRARIES:\n", "the line after the stacks")
        expect("/libc.so.6" in file.read(), "no libc among the mapped libraries")
    return scaled


def check_heap(path, profile):
    """A reader of the file gets the figures of the JSON. The file has a pair of integers for n
    blocks of x bytes. At an interval of 1, a reader multiplies both by 1/(1-e^-x). This is 1.58 for
    a block of one byte. So the reader shows at most 2 bytes, 1 too many. For a block of 8 bytes it
    is 1.0003. The file has no blocks of no bytes, because readers divide by the size."""
    heap = read_heap_v2(path)
    for i, (key, what) in enumerate((("live_bytes", "bytes"), ("live_objects", "objects"))):
        got = sum(sums[i] for sums in heap["stacks"].values())
        stacks = [s for s in profile["stacks"] if s["live_bytes"]]
        wanted = sum(s[key] for s in stacks)
        slack = len(stacks) + 0.001 * wanted
        expect(abs(got - wanted) <= slack, f"{what} in {path}: {got}, {wanted} in JSON")
    return heap


def check_collapsed(path, profile):
    with open(path, encoding="utf-8") as file:
        got = sum(int(line.rsplit(" ", 1)[1]) for line in file)
    expect_equal(got, profile["live_bytes"], f"sum of {path}")


@test_each_kind(beside=True)
def truth_basic(kind):
    """Bytes and objects of each function are exact, and the files have the same figures."""
    with place() as directory:
        truth, profile, files = trace_script(kind, "truth_basic", prefix=directory + "/out")
        check_exact(truth, profile)
        expect_equal({p["kind"] for p in profile["probes"] if p["function"] != "free"}, {kind},
                     "kinds of probes")
        check_heap(files["heap"], profile)
        check_collapsed(files["collapsed"], profile)


@test_each_kind(beside=True)
def truth_threads(kind):
    """Eight threads free each other's blocks. Each thread has a line of its own in the heap
    file."""
    with place() as directory:
        truth, profile, files = trace_script(kind, "truth_threads", prefix=directory + "/out")
        check_exact(truth, profile)
        heap = check_heap(files["heap"], profile)
    held = {heap["names"][tid]: sums for tid, sums in heap["threads"].items()}
    for name, wanted in truth["threads"].items():
        # blocks have 16 to 1039 bytes: at an interval of 1 the factor of such blocks is nearly 1
        # (to 7 digits)
        expect_equal(tuple(round(x) for x in held.get(name, (0, 0))),
                     (wanted["live_bytes"], wanted["live_objects"]), f"lines of {name}")


@test_each_kind(beside=True)
def truth_exec(kind):
    """The old program's memory is gone after exec."""
    truth, profile, _ = trace_script(kind, "exec_chain")
    gone = truth["gone"]["before_exec"]["live_objects"]
    expect_equal(losses(profile), {"dropped_by_exec": gone}, "losses")
    held = by_function(profile, truth["functions"])
    for name, wanted in truth["functions"].items():
        expect_equal(tuple(held[name][:2]), (wanted["live_bytes"], wanted["live_objects"]),
                     f"bytes and objects of {name}")
    expect_equal(profile["live_bytes"], truth["functions"]["after_exec"]["live_bytes"], "total")


@test(beside=True)
def truth_exec_at_the_same_addresses():
    """Without address randomization, the new program's stacks are those of the old one. Memory that
    the exec freed must not count for the peaks, nor for the least that a stack held."""
    with Target("exec_chain", "--same", loader=(need_tool("setarch"), "-R")) as target:
        with Tracer("-p", target.pid, "-i", "1", "--json", "-f", "none", "--max-overhead",
                    "off") as tracer:
            truth = target.go()
            profile = tracer.stop().json()
        expect_equal(target.quit(), 0, "status of the target")
    wanted = truth["functions"]["before_exec"]
    held = wanted["live_bytes"]
    of = [stack for stack in profile["stacks"] if "before_exec" in stack["frames"]]
    expect_equal([stack["alloc_bytes"] for stack in of],
                 [truth["gone"]["before_exec"]["live_bytes"] + wanted["alloc_bytes"]],
                 "what the one stack allocated, before and after the exec")
    for name in ("live_bytes", "peak_bytes", "low_bytes"):
        expect_equal(of[0][name], held, name)
    # the process holds most at its end
    expect_equal(profile["peak_bytes"], held, "the process's peak")


@test_each_kind(beside=True)
def truth_fork(kind):
    """A child frees and reuses inherited addresses. This does not change its parent's profile."""
    truth, profile, _ = trace_script(kind, "fork_child")
    check_exact(truth, profile)


@test_each_kind(beside=True)
def truth_command(kind):
    """A program that memtrace starts is traced from its first allocation, exactly."""
    result = run([MEMTRACE, "-i", "1", "--json=-", "-f", "none", "--probe-kind", kind, "--",
                  os.path.join(PROGS, "truth_basic"), "--auto"])
    expect_equal(result.status, 0, result)
    truth, profile = result.out.splitlines()
    check_exact(json.loads(truth), json.loads(profile))


@test_each_kind(beside=True)
def truth_two_tracers(kind):
    """If two memtraces trace one target, both are exact."""
    with Target("truth_basic") as target:
        options = ("-p", target.pid, "-i", "1", "--json", "-f", "none", "--probe-kind", kind)
        with Tracer(*options) as first, Tracer(*options) as second:
            truth = target.go()
            profiles = [first.stop().json(), second.stop().json()]
        expect_equal(target.quit(), 0, "status of the target")
    for profile in profiles:
        check_exact(truth, profile)


@test(beside=True)
def truth_beside_another_tracer():
    """Another tracer has return probes on the same libc. So return addresses in this process are
    replaced by an address of the kernel. memtrace must still recognize an allocator's calls of
    its own functions."""
    other_kind = "multi" if "multi" in kinds() else "perf"
    with Target("churn") as other:
        with Tracer("-p", other.pid, "-q", "-f", "none", "--probe-kind", other_kind):
            truth, profile, _ = trace_script(None, "truth_basic", options=("-i", "64K"))
    check_calls(truth, profile)
    expect_equal(profile["stacks_complete_pct"], 100, "complete stacks, per cent")
