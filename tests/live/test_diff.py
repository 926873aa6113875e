# SPDX-License-Identifier: BSD-2-Clause
"""Profiles of real processes compared: what is the same, what has grown, and which of several is odd."""
import os
import subprocess

from harness import (PROGS, expect, expect_equal, expect_words, memtrace, place, start,
                     test, trace_script, wait_until)

LEAK = "session_cache_insert"


def diff(*args):
    result = memtrace("diff", *args)
    expect_equal(result.status, 0, f"status of diff: {result.err}")
    return result


def exact_run(directory, name, *args):
    """The truth of one run of every function of the malloc family, and the path of its profile."""
    prefix = f"{directory}/{name}"
    truth, _, files = trace_script(None, "truth_basic", *args, prefix=prefix,
                                   options=("-i", "1", "-f", "pprof"))
    return truth["functions"], files["gz"]


@test(beside=True)
def diff_of_equal_runs():
    """Two processes, at other addresses, that did the same: every stack is in both, and none differs."""
    with place() as directory:
        functions, one = exact_run(directory, "one")
        _, other = exact_run(directory, "other")
        compared = diff("--json", one, other).json()
        expect_equal(compared["total"]["change"], 0, "change")
        expect(compared["exact"] and not compared["one_run"], "exact profiles of two runs", compared)
        live = {name: books["live_bytes"] for name, books in functions.items() if books["live_bytes"]}
        found = {}
        for stack in compared["stacks"]:
            expect(stack["from"] == stack["to"] and not stack["grows"], "a stack differs:", stack)
            for frame in stack["frames"]:
                if frame in live:
                    found[frame] = found.get(frame, 0) + stack["to"]
        expect_equal(found, live, "bytes by function")
        expect_words(diff(one, other).out, "0 stacks surely grow, 0 surely shrink")
        refused = memtrace("diff", one, __file__)
        expect_equal(refused.status, 1, "status with a file that is no profile")


@test
def diff_names_the_leaking_replica():
    """Three servers, of which the second forgets ten times as many sessions a second: that replica and that
    function, by the three profiles, by two of them, and in a sentence of its own."""
    servers, rates = [], (150, 2000, 150)
    with place() as directory:
        for rate in rates:
            servers.append(start([os.path.join(PROGS, "leaky"), "--rate", rate],
                                 stdout=subprocess.DEVNULL))
        pids = [server.pid for server in servers]
        names = [f"/proc/{pid}/comm" for pid in pids]
        wait_until(lambda: all(open(n, encoding="utf-8").read() == "leaky\n" for n in names),
                   "the servers")
        traced = memtrace("-p", ",".join(map(str, pids)), "-d", "6", "-i", "16K", "-q", "-f", "pprof",
                          "--max-overhead", "off", "-o", directory + "/out", timeout=60)
        expect_equal(traced.status, 0, f"status of record: {traced.err}")
        files = [f"{directory}/out.{pid}.pb.gz" for pid in pids]
        for by in ("live", "growth"):
            odd = diff("--per-process", "--json", "--by", by, *files).json()
            first = odd["replicas"][0]
            expect_equal((first["profile"], first["pid"]), (2, pids[1]), f"odd replica by {by}")
            # six seconds of three servers tell little of growth, and of what is ordinary in it
            expect(odd["abnormal"] or by == "growth", "no stack is abnormal by", by)
            for stack in odd["abnormal"]:
                expect(stack["profile"] == 2 and LEAK in stack["frames"], "abnormal:", stack)
        grown = diff("--json", files[0], files[1]).json()
        surely = [stack for stack in grown["stacks"] if stack["grows"]]
        expect(surely and LEAK in surely[0]["frames"], "what grows:", surely)
        told = memtrace("leaks", files[1])
        expect_equal(told.status, 0, f"status of leaks: {told.err}")
        expect_words(told.out, "surely grow", LEAK, "To confirm:", "What could have been missed")
        collapsed = diff("-f", "collapsed", files[0], files[1]).out.splitlines()
        totals = [sum(int(line.rsplit(" ", 2)[i]) for line in collapsed) for i in (1, 2)]
        for total, key in zip(totals, ("from", "to")):
            expect(abs(total - grown["total"][key]) <= len(collapsed), "total of", key, total)
