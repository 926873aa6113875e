# SPDX-License-Identifier: BSD-2-Clause
"""`memtrace report` reads memtrace's files, and files that jemalloc and gperftools write. It shows
the same figures as the run's own JSON, or as the other tool's own reader does."""
import glob
import json
import os
import re
import signal

from harness import (expect, expect_equal, expect_words, memtrace, need_tool, place, run, test,
                     trace_script, NotRunnable, PROGS)


def report(*args):
    result = memtrace("report", *args)
    expect_equal(result.status, 0, result)
    return result


def as_json(path):
    return json.loads(report("-f", "json", path).out)


def by_stack(profile):
    """The stacks with live memory: a run's JSON lists only these. A file also has stacks whose
    memory was all freed."""
    return {tuple(s["frames"]): (s["live_bytes"], s["live_objects"], s["alloc_bytes"])
            for s in profile["stacks"] if s["live_bytes"] or s["live_objects"]}


def pprof_total(path, index, directory):
    """The total that Go's pprof computes from the file."""
    result = run([need_tool("go"), "tool", "pprof", "-top", "-unit=B", "-symbolize=none",
                  "-sample_index=" + index, path],
                 env={**os.environ, "HOME": directory, "PPROF_TMPDIR": directory})
    expect_equal(result.status, 0, result)
    m = re.search(r"^Showing nodes accounting for .* of (\d+)B? total$", result.out, re.M)
    expect(m, "no total:", result.out)
    return int(m[1])


def check(program, args, options, tolerance):
    """tolerance: the allowed error of heap_v2, as a share of the whole."""
    with place() as directory:
        _, profile, files = trace_script(None, program, *args, prefix=directory + "/out",
                                         options=(*options, "-f", "heap,collapsed,pprof"))
        own = as_json(files["gz"])
        for key in ("what", "pid", "comm", "mode", "interval_bytes", "alloc_calls", "free_calls",
                    "samples", "live_bytes", "live_objects", "overhead_pct", "stacks_complete_pct",
                    "duration_s"):
            expect_equal(own[key], profile[key], key)
        for key in ("live_bytes_low", "live_bytes_high"):
            expect(abs(own[key] - profile[key]) <= 1e-4 * profile[key] + 1, key, own[key],
                   profile[key])
        expect_equal({k: v for k, v in own["lost"].items() if v},
                     {k: v for k, v in profile["lost"].items() if v}, "losses")
        ours, theirs = by_stack(own), by_stack(profile)
        expect_equal(ours.keys(), theirs.keys(), "stacks")
        for stack, numbers in theirs.items():
            expect(all(abs(a - b) <= 16 for a, b in zip(ours[stack], numbers)), stack,
                   ours[stack], numbers)
        expect_equal(pprof_total(files["gz"], "inuse_space", directory),
                     profile["live_bytes"], "pprof")
        expect_equal(pprof_total(files["gz"], "inuse_objects", directory),
                     profile["live_objects"], "pprof")
        expect_equal(pprof_total(files["gz"], "alloc_space", directory),
                     sum(s["alloc_bytes"] for s in own["stacks"]), "allocated by all stacks")

        heap = as_json(files["heap"])
        expect(abs(heap["live_bytes"] - profile["live_bytes"]) <= tolerance *
               profile["live_bytes"] + 1, "heap_v2:", heap["live_bytes"], profile["live_bytes"])
        # the program's file still exists, so heap_v2 gets the same names. heap_v2 leaves out blocks
        # of no bytes
        expect_equal(set(by_stack(heap)), {s for s, numbers in theirs.items() if numbers[0]},
                     "stacks of heap_v2")
        collapsed = as_json(files["collapsed"])
        expect(abs(collapsed["live_bytes"] - profile["live_bytes"]) <= len(theirs), "collapsed:",
               collapsed["live_bytes"], profile["live_bytes"])
        expect_equal(collapsed["live_objects"], None, "objects of collapsed")

        # pprof, converted to the other formats, is the same as the files that the run has written
        for name in ("heap", "collapsed"):
            report("-f", name, "-o", directory + "/again", files["gz"])
            again = as_json(directory + "/again")
            expect(abs(again["live_bytes"] - profile["live_bytes"]) <=
                   tolerance * profile["live_bytes"] + len(theirs), name, again["live_bytes"])
        with open(files["collapsed"], encoding="utf-8") as a, \
                open(directory + "/again", encoding="utf-8") as b:
            names = [[line.rsplit(" ", 1)[0] for line in file] for file in (a, b)]
            expect_equal(*names, "stacks of collapsed, written again")


@test(beside=True)
def report_exact():
    check("truth_basic", (), ("-i", "1"), 0.001)


@test(beside=True)
def report_sampled():
    check("truth_sampled", ("--scale", "25"), ("-i", "16K"), 0.005)


@test(beside=True)
def report_filters():
    """--focus, --ignore, --min-bytes and --tree agree with the truth of truth_basic: see
    table_agrees()."""
    with place() as directory:
        _, profile, files = trace_script(None, "truth_basic", prefix=directory + "/out",
                                         options=("-i", "1", "-f", "pprof"))

        def total(*options):
            return sum(s["live_bytes"] for s in json.loads(
                report("-f", "json", *options, files["gz"]).out)["stacks"])

        whole = profile["live_bytes"]
        many = sum(s["live_bytes"] for s in profile["stacks"] if "many_blocks" in s["frames"])
        expect(many > 8000000, "many_blocks:", many)
        expect_equal(total(), whole, "all")
        expect_equal(total("--focus", "^many_b.*s$"), many, "--focus")
        expect_equal(total("--ignore", "^many_blocks$"), whole - many, "--ignore")
        expect_equal(total("--focus", "^many_blocks$", "--focus", "^keep_malloc$",
                           "--ignore", "keep"), many, "both")
        expect_equal(total("--min-bytes", "1M"),
                     sum(s["live_bytes"] for s in profile["stacks"] if s["live_bytes"] >= 1 << 20),
                     "--min-bytes")
        result = report("--tree", "--focus", "many_blocks", files["gz"])
        expect_words(result.out, r"^ +8\.0 MiB +100\.0% +many_blocks <")
        expect_words(result.err, r"filtered: .* stacks, 8\.0 MiB of ")
        result = memtrace("report", "--thread", "nobody", files["gz"])
        expect_equal(result.status, 1, result)
        expect_words(result.err, "no thread called 'nobody'")
        expect_equal(memtrace("report", "--focus", "(", files["gz"]).status, 2, "a bad expression")
        with open(files["gz"], "rb") as file:
            start = file.read()[:200]
        with open(directory + "/cut", "wb") as file:
            file.write(start)
        result = memtrace("report", directory + "/cut")
        expect_equal(result.status, 1, result)
        expect_words(result.err, "cut: byte 200: the gzip stream was cut short")


def others_heap(library, variables, pattern):
    """A heap profile of python3 that an allocator has written into the caller's directory."""
    paths = glob.glob("/usr/lib/*/" + library)
    if not paths:
        raise NotRunnable(f"{library} is not installed")
    result = run([need_tool("python3"), "-c", "x = [str(i) * 50 for i in range(20000)]"],
                 env={**os.environ, "LD_PRELOAD": paths[0], "PYTHONMALLOC": "malloc", **variables})
    expect_equal(result.status, 0, result)
    files = sorted(glob.glob(pattern), key=os.path.getsize)
    expect(files, "no profile was written:", result)
    return files[-1]


def readers_total(reader, path):
    result = run([need_tool(reader), "--text", "--show_bytes", need_tool("python3"), path],
                 timeout=300)
    expect_equal(result.status, 0, result)
    m = re.search(r"^Total: (\d+) B$", result.out, re.M)
    expect(m, "no total:", result)
    return int(m[1])


@test(beside=True)
def report_of_jemalloc():
    with place() as directory:
        path = others_heap("libjemalloc.so.2",
                           {"MALLOC_CONF": "prof:true,prof_final:true,lg_prof_sample:14,"
                                           f"prof_prefix:{directory}/j"},
                           directory + "/j*.heap")
        profile = as_json(path)
        expect_equal(profile["interval_bytes"], 1 << 14, "interval")
        expect(abs(profile["live_bytes"] - readers_total("jeprof", path)) <= len(profile["stacks"]),
               "total:", profile["live_bytes"])
        expect(profile["live_bytes_low"] < profile["live_bytes"] < profile["live_bytes_high"],
               "interval:", profile)
        # jemalloc's own stack walk does not always reach _start
        expect(any(re.match("_start$|_?Py", f) for s in profile["stacks"] for f in s["frames"]),
               "no names")
        # child processes read the names, which must work although the caller ignores SIGCHLD
        ignored = memtrace("report", "-f", "json", path,
                           preexec_fn=lambda: signal.signal(signal.SIGCHLD, signal.SIG_IGN))
        expect(json.loads(ignored.out)["stacks"] == profile["stacks"],
               "other names when SIGCHLD is ignored")


@test(beside=True, long=True)
def report_of_gperftools():
    with place() as directory:
        path = others_heap("libtcmalloc.so.4", {"HEAPPROFILE": directory + "/g"},
                           directory + "/g*.heap")
        profile = as_json(path)
        expect_equal(profile["live_bytes"], readers_total("google-pprof", path), "total")
        expect_equal(profile["live_bytes_low"], profile["live_bytes_high"], "it is exact")
