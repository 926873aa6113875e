# SPDX-License-Identifier: BSD-2-Clause
"""Compares profiles of real processes: of processes that do the same, of processes that grow, and
of replicas, one of which behaves differently."""
import concurrent.futures
import os
import subprocess
import sys

from harness import (PROGS, ROOT, Tracer, expect, expect_equal, expect_words, memtrace, need_tool,
                     place, run, start, test, trace_script, wait_until)
from test_real import Redis

sys.path.insert(0, os.path.join(ROOT, "tests", "leaks"))
import diffs  # noqa: E402

LEAK = "session_cache_insert"


def diff(*args):
    result = memtrace("diff", *args)
    expect_equal(result.status, 0, f"status of diff: {result.err}")
    return result


def exact_run(directory, name, *args):
    """Runs every function of the malloc family once. Returns the run's truth and the path of its
    profile."""
    prefix = f"{directory}/{name}"
    truth, _, files = trace_script(None, "truth_basic", *args, prefix=prefix,
                                   options=("-i", "1", "-f", "pprof"))
    return truth["functions"], files["gz"]


@test(beside=True)
def diff_of_equal_runs():
    """Two processes did the same at different addresses. Both profiles have every stack, with equal
    figures."""
    with place() as directory:
        functions, one = exact_run(directory, "one")
        _, other = exact_run(directory, "other")
        compared = diff("--json", one, other).json()
        expect_equal(compared["total"]["change"], 0, "change")
        expect(compared["exact"] and not compared["one_run"],
               "exact profiles of two runs", compared)
        live = {name: books["live_bytes"]
                for name, books in functions.items() if books["live_bytes"]}
        found = {}
        for stack in compared["stacks"]:
            expect(stack["from"] == stack["to"] and not stack["grows"], "a stack differs:", stack)
            for frame in stack["frames"]:
                if frame in live:
                    found[frame] = found.get(frame, 0) + stack["to"]
        expect_equal(found, live, "bytes by function")
        expect_words(diff(one, other).out, "0 stacks surely grow, 0 surely shrink")
        few = memtrace("diff", "--per-process", one, other)
        expect_equal(few.status, 1, "status with two replicas")
        expect_words(few.err, f"{one}, {other}: .*give three or more")
        refused = memtrace("diff", one, __file__)
        expect_equal(refused.status, 1, "status with a file that is no profile")


@test # runs alone: on a busy machine the runs differ in length, and diff judges no such runs
def diff_names_the_leaking_replica():
    """The second of three servers leaks ten times as many sessions a second. From all three
    profiles, diff names this replica and the function that leaks. From two profiles, diff names the
    function, and so does `memtrace leaks` from one."""
    servers, rates = [], (300, 3000, 300)
    with place() as directory:
        for rate in rates:
            servers.append(start([os.path.join(PROGS, "leaky"), "--rate", rate],
                                 stdout=subprocess.DEVNULL))
        pids = [server.pid for server in servers]
        names = [f"/proc/{pid}/comm" for pid in pids]
        wait_until(lambda: all(open(n, encoding="utf-8").read() == "leaky\n" for n in names),
                   "the servers")
        traced = memtrace("-p", ",".join(map(str, pids)), "-d", "6", "-i", "4K", "-q", "-f",
                          "pprof", "--max-overhead", "off", "-o", directory + "/out")
        expect_equal(traced.status, 0, f"status of record: {traced.err}")
        files = [f"{directory}/out.{pid}.pb.gz" for pid in pids]
        for by in ("live", "growth"):
            odd = diff("--per-process", "--json", "--by", by, *files).json()
            first = odd["replicas"][0]
            expect_equal((first["profile"], first["pid"]), (2, pids[1]), f"odd replica by {by}")
            # six seconds may be too short to call a stack abnormal by its growth
            expect(odd["abnormal"] or by == "growth", "no stack is abnormal by", by,
                   odd["warnings"])
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


def measure_pairs(programs):
    """Traces two processes of each program. No program grows. Returns the programs that grow
    according to diff."""
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        return [program for program, pair in
                zip(programs, pool.map(lambda p: diffs.measure_still(p, 6), programs))
                if diffs.claims(pair)]


@test(beside=True, long=True)
def diff_claims_no_growth():
    """A short version of make diffs: programs that replace their memory all the time do not
    grow."""
    accused = measure_pairs(list(diffs.STILL))
    if accused:  # by chance, some of a hundred pairs seem to grow, but no program does so twice
        again = measure_pairs(accused)
        expect(not again, "said to grow twice:", again)
    return f"at the first attempt said to grow: {', '.join(accused)}" if accused else ""


@test(beside=True, long=True)
def diff_finds_the_leak_between_snapshots():
    """As in `make diffs`, a program leaks beside 50 MB of churn. Here it leaks ten times as fast,
    and snapshots come five times as often."""
    pairs = diffs.measure_leak(6, pairs=3, leak_rate=10 * diffs.LEAK_RATE, store_rate=20000)
    # the store is filled in the first pair, so its growth counts only from the second pair on
    expect(all(pair["found"] for pair in pairs), "not found between all snapshots:", pairs)
    accused = [pair["others"] for pair in pairs[1:] if pair["others"]]
    expect(len(accused) < 2, "others are said to grow:", accused)


# The odd server gets new keys with values of 200 bytes. The others get the same few keys again and
# again.
REPLICAS = {"one": (1000, 100), "odd": (10**9, 200), "other": (1500, 120)}  # keys, bytes of a value
SETS = 20000


@test(beside=True)
def diff_names_the_growing_redis():
    """Three real servers are under different load, and one always gets new keys. diff names this
    replica, and the code that stores the keys. The truth is the servers' own count of their
    memory."""
    benchmark = need_tool("redis-benchmark")
    with place() as directory:
        servers = []
        try:
            for name in REPLICAS:
                os.mkdir(f"{directory}/{name}")
                servers.append(Redis(f"{directory}/{name}"))

            def load(server, keys, size):
                result = run([benchmark, "-s", server.path, "-t", "set", "-q", "-P", 4, "-r", keys,
                              "-d", size, "-n", SETS], timeout=180)
                expect_equal(result.status, 0, result)

            # the first write of each key takes memory, too, so it is done before tracing
            with concurrent.futures.ThreadPoolExecutor(3) as pool:
                list(pool.map(load, servers, *zip(*REPLICAS.values())))
            before = [server.used_memory() for server in servers]
            with Tracer("-p", ",".join(str(server.pid) for server in servers), "-i", "16K", "-q",
                        "-f", "pprof", "--max-overhead", "off", "-o", directory + "/out") as tracer:
                with concurrent.futures.ThreadPoolExecutor(3) as pool:
                    list(pool.map(load, servers, *zip(*REPLICAS.values())))
                # a client's memory is freed a moment after its connection ends
                wait_until(lambda: all("connected_clients:1\r" in server.ask("INFO", "clients")
                                       for server in servers), "the end of the clients")
                tracer.stop()
            taken = [server.used_memory() - was for server, was in zip(servers, before)]
            expect(taken[1] > 5 * max(taken[0], taken[2], 500000),
                   "the odd server has taken", taken)
            files = [f"{directory}/out.{server.pid}.pb.gz" for server in servers]
            # On a busy machine the runs take longer. diff would then compare rates of growth by
            # default, but this test needs bytes.
            odd = diff("--per-process", "--by", "live", "--json", *files).json()
            first = odd["replicas"][0]
            expect_equal((first["profile"], first["pid"]), (2, servers[1].pid), "the odd replica")
            expect(odd["abnormal"], "no stack is abnormal:", odd["replicas"])
            for stack in odd["abnormal"]:
                expect_equal(stack["profile"], 2, f"replica of {stack}")
                # a value is allocated when the command is read, a new key when setCommand copies it
                expect(any(f in stack["frames"] for f in ("setCommand", "readQueryFromClient")),
                       "which code:", stack)
            excess = sum(stack["value"] - stack["others"] for stack in odd["abnormal"])
            expect(0.5 * taken[1] < excess < 1.5 * taken[1], "of", taken[1],
                   "bytes it explains", excess)
            expect_words(diff("--per-process", "--by", "live", *files).out,
                         rf"profile 2: {files[1]}: pid .*\n.*more than ordinary", "setCommand")
            return f"{excess / 1e6:.1f} of {taken[1] / 1e6:.1f} MB in {len(odd['abnormal'])} stacks"
        finally:
            for server in servers:
                server.__exit__()
