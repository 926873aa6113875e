# SPDX-License-Identifier: BSD-2-Clause
"""Which blocks are lost and which are held. The truth comes from the target, from LeakSanitizer, or
from redis."""
import json
import os
import re
import struct
import time
from unittest import mock

from harness import (MEMTRACE, PROGS, ROOT, NotRunnable, Target, end, expect, expect_equal,
                     expect_words, memtrace, need_tool, place, read_line, run, start, test,
                     wait_until)
from test_heap import library, loader, other_glibcs
from test_json_schema import check
from test_real import Redis, libc_path

JEMALLOC = "/usr/lib/x86_64-linux-gnu/libjemalloc.so.2"
# Options of holders. jemalloc has four blocks of 5 KiB in a slab, and the larger blocks of --large
# have an extent each. Therefore many of the lost blocks are the first of their extent.
MANY = ("--count", 500, "--large", 20)
LOOKS = 3  # number of searches of a target at full speed
# Time limit for a search in these tests. memtrace's own limit is 90 s, and for 30 s of this time it
# holds back if other programs need the CPUs.
SEARCH_S = 120


def why(pid, *args):
    result = memtrace("why", "-p", pid, "--json", *args, timeout=SEARCH_S)
    expect_equal(result.status, 0, result)
    return json.loads(result.out), result.out


def ask(pid, ways):
    """Asks `memtrace why` for all blocks that the target holds or loses in these ways. Returns the
    document, the document's "asked", and the number of blocks."""
    addrs = [addr for way in ways.values() for addr in way]
    document, _ = why(pid, *(arg for addr in addrs for arg in ("--addr", hex(addr))))
    expect_equal(document["asked"]["missing"], 0, "blocks that are not found")
    return document, document["asked"], len(addrs)


def is_held(pid, ways):
    """Checks that none of the blocks is called lost, and that at most one block for each running
    thread is in doubt."""
    document, asked, n = ask(pid, ways)
    expect_equal(asked["lost_blocks"], 0, f"held blocks that are called lost: {document}")
    expect(asked["held_blocks"] >= n - document["running_threads"],
           f"held blocks in doubt: {document}")
    return document


def is_lost(pid, ways):
    document, asked, n = ask(pid, ways)
    expect_equal(asked["lost_blocks"], n, f"lost blocks that are called lost: {document}")
    expect_equal(document["lost_blocks"], n, f"blocks that are called lost: {document}")
    return document


def roots(document):
    return {(path["root_kind"], path["root"].split(" (")[0]) for path in document["asked"]["paths"]}


@test(beside=True)
def why_held_and_lost():
    with Target("holders") as target:
        truth = target.go()
        document = is_held(target.pid, truth["held"])
        expect_equal(document["doubt"], "", "doubt")
        expect(document["registers"], "registers were read")
        for wanted in ("array", "list", "tree", "table", "tagged", "interior"):
            expect(("global", f"global_{wanted}") in roots(document),
                   f"no path from global_{wanted}: {document}")
        expect({kind for kind, _ in roots(document)} ==
               {"global", "memory", "thread-local", "stack", "register"}, document)
        expect(("thread-local", "thread_array") in roots(document), document)
        for name in ("thread_array (holders) of thread holders", "in holder"):
            found = [path for path in document["asked"]["paths"] if name in path["root"]]
            expect_equal(sum(path["blocks"] for path in found),
                         sum(len(truth["held"][way]) for way in
                             (("stack",) if name == "in holder" else
                              ("thread_local", "thread_local_of_thread"))), name)
        table = [p for p in document["asked"]["paths"] if p["root"].startswith("global_table") and
                 len(p["steps"]) == 2]
        expect_equal(table[0]["blocks"], len(truth["held"]["table"]) - 1, "blocks behind the table")

        document = is_lost(target.pid, truth["lost"])
        # A list is one leak, and so is a tree. A circle and the blocks to which only the circle
        # points are one leak.
        leaks = sum(len(truth["lost"][way])
                    for way in ("single", "itself", "upwards", "hidden")) + 3
        expect_equal(sum(row["heads"] for row in document["leaks"]), leaks, "leaks")
        expect_equal(sum(row["circles"] for row in document["leaks"]), 1, "circles")

        size, text = why(target.pid, "--size", 72)
        check("why", text)
        expect_equal(size["asked"]["lost_blocks"], document["lost_blocks"],
                     "lost blocks of the size")
        # the block of global_table itself has another size
        held = sum(len(way) for way in truth["held"].values()) - 1
        expect_equal(size["asked"]["held_blocks"], held, "held blocks of the size")
        lines = memtrace("why", "-p", target.pid, "--size", 72, "-f", "collapsed").out.splitlines()
        paths = {path: int(number) for path, number in (line.rsplit(" ", 1) for line in lines)}
        expect_equal(paths["lost: no pointer is left;[72-byte block]"],
                     72 * document["lost_blocks"], "lost bytes")
        expect_equal(paths["global global_tagged (holders);[72-byte block]"],
                     72 * len(truth["held"]["tagged"]), paths)
        expect_equal(sum(paths.values()), 72 * (held + document["lost_blocks"]),
                     "bytes of all paths")
        expect_equal(memtrace("why", "-p", target.pid, "--exit-code").status, 3,
                     "status if something is lost")
        words = memtrace("why", "-p", target.pid, "--size", 72).out
        expect("-> chain of [72-byte block]" in words and "LOST: " in words, words)


@test(beside=True, long=True)
def why_other_glibcs():
    """As why_held_and_lost, with glibc 2.31, 2.41 and Debian testing's glibc, also at full
    speed."""
    with place() as directory:
        for suite, program in other_glibcs(directory, "holders"):
            for busy in 0, 2:
                with Target(program, "--busy", busy, loader=loader(suite)) as target:
                    truth = target.go()
                    is_held(target.pid, truth["held"])
                    is_lost(target.pid, truth["lost"])


@test(beside=True)
def why_at_full_speed():
    with Target("holders", "--busy", 2) as target:
        truth = target.go()
        for _ in range(LOOKS):
            is_lost(target.pid, truth["lost"])
        is_held(target.pid, truth["held"])


@test
def why_a_list_grows_meanwhile():
    """A list grows at its head during a scan. The scan does not know the new head. The rest of the
    list must not be called lost."""
    with Target("holders", "--push", 20000) as target:
        truth = target.go()
        is_held(target.pid, truth["held"])
        is_lost(target.pid, truth["lost"])


def check_many(target):
    """Checks what is called held and lost among many blocks of jemalloc. At most one lost block is
    missed: a thread's cache of the radix tree has an address that may lie in a large block."""
    truth = target.go()
    is_held(target.pid, {way: addrs[:200] for way, addrs in truth["held"].items()})
    document, asked, n = ask(target.pid, truth["lost"])
    expect(asked["lost_blocks"] >= n - 1, f"{asked['lost_blocks']} of {n} lost: {document}")
    expect_equal(document["lost_blocks"], asked["lost_blocks"],
                 f"blocks that are called lost: {document}")


@test(beside=True)
def why_jemalloc():
    """jemalloc's records of extents point to the first block of each slab and to each large block.
    So do jemalloc's bins of free extents: they still contain the addresses of extents that are in
    use again. These pointers hold no block."""
    if not os.path.exists(JEMALLOC):
        raise NotRunnable(f"no {JEMALLOC}")
    with Target("holders", "--busy", 2, preload=JEMALLOC) as target:
        truth = target.go()
        for _ in range(LOOKS):
            is_lost(target.pid, truth["lost"])
        is_held(target.pid, truth["held"])
    for options in ("", "hpa:true"):
        loader = ("env", f"LD_PRELOAD={JEMALLOC}", f"MALLOC_CONF={options}")
        with Target("holders", *MANY, loader=loader) as target:
            check_many(target)


@test(beside=True)
def why_other_jemallocs():
    """As why_jemalloc, with jemalloc 5.2.1, with a 5.3.0 whose tree has three levels, and with
    Debian testing's jemalloc."""
    for suite in ("bullseye", "trixie"):
        with Target("holders", *MANY, preload=library(suite, "libjemalloc.so.2")) as target:
            check_many(target)
    preload = library("testing", "libjemalloc.so.2")
    with Target("holders", *MANY, loader=loader("testing") + ["--preload", preload]) as target:
        check_many(target)


@test(beside=True)
def why_says_what_leaksanitizer_says():
    result = run([os.path.join(PROGS, "holders_lsan"), "--auto"], stdin=None)
    found = re.search(r"LeakSanitizer: (\d+) byte\(s\) leaked in (\d+) allocation", result.err)
    expect(found, f"no verdict of LeakSanitizer: {result}")
    with Target("holders") as target:
        target.go()
        document, _ = why(target.pid)
        expect_equal(document["lost_blocks"], int(found[2]),
                     f"blocks; LeakSanitizer: {result.err[-300:]}")
        # malloc_usable_size() of 72 is 72
        expect_equal(document["lost_bytes"], int(found[1]), "bytes")


def lost_by_leaksanitizer(way):
    result = run([os.path.join(PROGS, "lost_ways_lsan"), way, "--auto"], stdin=None)
    found = re.search(r"LeakSanitizer: (\d+) byte\(s\) leaked in (\d+) allocation", result.err)
    return (int(found[2]), int(found[1])) if found else (0, 0)


@test(beside=True)
def why_small_programs_as_leaksanitizer():
    """Programs lose or hold blocks in one way each. memtrace finds as many lost blocks and bytes as
    LeakSanitizer finds in another build of the program."""
    program = os.path.join(PROGS, "lost_ways")
    if not os.path.exists(program):
        raise NotRunnable(f"{program} is not built")
    ways = run([program]).out.split()
    expect(len(ways) > 20, f"ways: {ways}")
    for way in ways:
        if way.endswith("_kept"):
            continue
        wanted = lost_by_leaksanitizer(way)
        expect_equal(wanted != (0, 0), way.endswith("_lost") or way == "shared_held",
                     f"LeakSanitizer finds something in {way}")
        target = start([program, way])
        expect_equal(read_line(target, target.stdout), "ready\n", way)
        document, _ = why(target.pid, "--freeze=5000")
        expect_equal((document["lost_blocks"], document["lost_bytes"]), wanted,
                     f"blocks and bytes lost in {way}")
        end(target)


@test(beside=True)
def why_what_epoll_keeps():
    """Only the kernel holds the first of three blocks, as data of epoll."""
    for args in ((), ("--freeze=5000",)):
        target = start([os.path.join(PROGS, "lost_ways"), "epoll_kept"])
        expect_equal(read_line(target, target.stdout), "ready\n", "the target's line")
        document, text = why(target.pid, "--size", 40, *args)
        check("why", text)
        expect_equal(document["lost_blocks"], 0, f"blocks that are called lost: {document}")
        expect_equal(document["asked"]["held_blocks"], 3, f"held blocks: {document}")
        expect("kernel" in {row["root_kind"] for row in document["asked"]["paths"]}, document)
        end(target)


@test(beside=True)
def why_redis_loses_nothing():
    for libc in (libc_path(), None):  # glibc's malloc, and jemalloc
        with place() as directory, Redis(directory, libc) as redis:
            redis.load()
            document, _ = why(redis.pid)
            expect_equal(document["doubt"], "", "doubt")
            expect_equal(document["lost_blocks"], 0,
                         f"blocks of redis that are called lost: {document}")
            expect(document["blocks"] > 10000, document)


@test(beside=True)
def why_finds_a_leak_planted_in_redis():
    """A library leaks a block at each hundredth read by the server, and counts these blocks. Only
    these blocks are lost, under load and at rest. (Words in the server's memory still point to a
    few of the last blocks: to 12 of 3,820.)"""
    shim = os.path.join(ROOT, "build", "truth", "shim.so")
    if not os.path.exists(shim):
        raise NotRunnable(f"{shim} is not built")
    for libc in (libc_path(), None):  # glibc's malloc, and jemalloc
        with place() as directory:
            account = os.path.join(directory, "account")
            with open(account, "wb") as file:
                file.write(bytes(4096))

            def leaked(path=account):
                with open(path, "rb") as file:
                    return struct.unpack("QQ", file.read(16))[1]

            environment = {"SHIM_ACCOUNT": account, "SHIM_EVERY": "100", "SHIM_SIZE": "200"}
            with mock.patch.dict(os.environ, environment), \
                    Redis(directory, f"{shim}:{libc}" if libc else shim) as redis:
                load = start([need_tool("redis-benchmark"), "-s", redis.path, "-t", "set", "-q",
                              "-c", "5", "-d", "100", "-r", "50000", "-n", "100000000"])
                wait_until(lambda: leaked() > 500, "the library leaks")
                before = leaked()
                document, _ = why(redis.pid)
                after = leaked()
                end(load)
                expect_equal(document["doubt"], "", f"doubt: {document}")
                expect(0.97 * before <= document["lost_blocks"] <= after,
                       f"{document['lost_blocks']} of {before} to {after} are called lost: "
                       f"{document}")
                document, _ = why(redis.pid)
                expect(0.99 * leaked() <= document["lost_blocks"] <= leaked(),
                       f"{document['lost_blocks']} of {leaked()} are called lost: {document}")


def search(pid, seconds, *args):
    """Traces with --leaks --why. Returns the run's JSON, its answer for each function that
    allocates, and the output of `memtrace leaks` for the run's file."""
    with place() as directory:
        prefix = os.path.join(directory, "run")
        result = memtrace("record", "-p", pid, "-d", seconds, "--leaks", "--why", "--json",
                          "-o", prefix, "-f", "pprof", *args)
        expect_equal(result.status, 0, result)
        document = check("profile", result.out)[0]
        file = f"{prefix}.{pid}.pb.gz"
        again = check("leaks", memtrace("leaks", "--json", file).out)[0]
        told = {stack["frames"][1]: stack["why"] for stack in document["stacks"] if "why" in stack}
        expect_equal(again["why_search"], document["why_search"], "search, as the file tells it")
        expect_equal({stack["frames"][1]: stack["why"] for stack in again["stacks"]
                      if "why" in stack}, told, "answers, as the file tells them")
        return document, told, memtrace("leaks", file).out


@test # alone, as why_a_list_grows_meanwhile
def why_of_growing_stacks():
    """Blocks whose last pointer is dropped are lost. A list that only grows is held by its head."""
    options = ("-i", "4K", "--max-overhead", "off")
    target = start([os.path.join(PROGS, "leaky"), "--rate", "2000"])
    try:
        document, told, words = search(target.pid, 6, *options)
        leak = told["session_new"]
        expect(document["why_search"]["doubt"] == "" and document["why_search"]["registers"],
               document["why_search"])
        expect(leak["asked_blocks"] > 100 and
               leak["lost_blocks"] > 0.8 * leak["asked_blocks"], leak)
        expect(leak["held_blocks"] < 0.2 * leak["asked_blocks"], leak)
        expect("Lost: " in words and "who drops the last pointer" in words, words)
    finally:
        end(target)
    with Target("holders", "--push", 20000) as target:
        target.go()
        _, told, _ = search(target.pid, 6, *options)
        list_ = told["push_thread"]
        expect_equal(list_["lost_blocks"], 0, f"blocks of a list that are called lost: {list_}")
        expect(list_["held_blocks"] > 0.9 * list_["asked_blocks"] > 20, list_)


@test(beside=True, long=True)
def why_by_the_name_of_a_function():
    """--stack traces at the defaults, and asks only for blocks of the functions that it names.
    Sessions are leaked, pages are freed."""
    target = start([os.path.join(PROGS, "leaky"), "--rate", "2000"])
    try:
        result = memtrace("why", "-p", target.pid, "--stack", "^session_new$", "-d", 15, "--json")
        expect_equal(result.status, 0, result)
        asked = result.json()["asked"]
        # memtrace searches for at most WHY_MAX_ADDRS of these blocks
        n = min(4096, int(re.search(r"match '\^session_new\$': (\d+)", result.err).group(1)))
        expect(n >= 5 and asked["lost_blocks"] > 0.7 * n and asked["held_blocks"] < 0.3 * n,
               (n, asked))
        result = memtrace("why", "-p", target.pid, "--stack", "no_such_function", "-d", 0.5)
        expect_equal((result.status, result.out), (1, ""), result)
        expect("no_such_function" in result.err, result.err)
        expect(target.poll() is None, "the target has ended")
    finally:
        end(target)


@test(beside=True)
def why_names_who_made_the_holders():
    """While memtrace traces, one function allocates tables, and another one allocates the blocks
    that are put into them. The paths name both functions: the maker of a table, and the maker of
    the blocks in it."""
    with Target("holders", "--fill", 4000) as target:
        target.go()
        result = memtrace("why", "-p", target.pid, "--stack", "^value_new$", "-d", 6, "--json")
        expect_equal(result.status, 0, result)
        paths = check("why", result.out)[0]["asked"]["paths"]
        made = [path for path in paths if path["root"] == "global_tables (holders)"]
        expect_equal(len(made), 1, paths)
        table, value = made[0]["steps"]
        # windows on a busy machine may not see a table being allocated
        expect(table.get("maker") in (None, "table_grow") and value["maker"] == "value_new" and
               value["made_blocks"] == made[0]["blocks"], made)
        _, told, _ = search(target.pid, 6, "-i", "4K", "--max-overhead", "off")
        expect(any(re.fullmatch(r"global global_tables \(holders\)( \+0x\w+)? -> "
                                r"\[\d+-byte block from table_grow\]( \+0x\w+)? -> "
                                r"\[72-byte block from value_new\]", holder["path"])
                   for holder in told["value_new"]["holders"]), told)


@test(beside=True)
def why_by_class():
    """--type asks for the objects of C++ classes, by the names that `memtrace heap` prints."""
    program = start([os.path.join(PROGS, "typed")])
    while read_line(program, program.stdout) != "ready\n":
        pass
    try:
        for pattern, n in (("^shop::Item$", 1000), ("^shop::(Item|Shelf<double>)$", 1070),
                           ("Hidden", 30)):
            result = memtrace("why", "-p", program.pid, "--type", pattern, "--json")
            expect_equal(result.status, 0, result)
            asked = result.json()["asked"]
            expect_equal((asked["held_blocks"], asked["lost_blocks"], asked["missing"]),
                         (n, 0, 0), asked)
            expect(all(path["root"].startswith("held") for path in asked["paths"]), asked["paths"])
            expect(all(re.search(pattern, path["steps"][-1]["class"]) for path in asked["paths"]),
                   asked["paths"])
        expect_words(memtrace("why", "-p", program.pid, "--type", "^shop::Book$").out,
                     r"-> \[shop::Book, \d+ bytes\]$")
        # class Plain has no virtual function
        result = memtrace("why", "-p", program.pid, "--type", "Plain")
        expect_equal((result.status, result.out), (1, ""), result)
    finally:
        end(program)


@test(beside=True)
def why_after_the_end():
    """A process that has ended cannot be searched. The profile says so."""
    with place() as directory:
        result = memtrace("record", "--leaks", "--why", "-i", "4K", "--max-overhead", "off",
                          "--json", "-f", "none", "-o", os.path.join(directory, "run"), "--",
                          os.path.join(PROGS, "leaky"), "--rate", "2000", "--seconds", "4")
        lines = [json.loads(line) for line in result.err.splitlines() if line.startswith("{")]
        document = next(line for line in lines if line["what"] == "heap")
        expect_equal(document["why_search"]["failed"], "the process had ended", "failure")


@test(beside=True)
def why_refuses():
    expect_equal(memtrace("record", "-p", 1, "--why").status, 2, "status without --leaks")
    expect_equal(memtrace("why").status, 2, "status without a process")
    expect_equal(memtrace("why", "-p", 1, "--addr", "zebra").status, 2, "status for a bad address")
    result = memtrace("why", "-p", 4000000)
    expect(result.status == 1 and "4000000" in result.err, result)


@test(beside=True)
def why_freeze():
    """With --freeze one scan of a target at full speed is exact. The target goes on afterwards,
    even if memtrace is killed while the target is stopped."""
    def runs():
        states = []
        for tid in os.listdir(f"/proc/{target.pid}/task"):
            with open(f"/proc/{target.pid}/task/{tid}/stat", encoding="utf-8") as file:
                states.append(file.read().rsplit(")", 1)[1].split()[0])
        return "t" not in states and "T" not in states

    with Target("holders", "--busy", 2) as target:
        truth = target.go()
        n = sum(len(way) for way in truth["lost"].values())
        document, text = why(target.pid, "--freeze=5000")
        check("why", text)
        expect_equal(document["lost_blocks"], n, f"blocks that are called lost: {document}")
        expect(0 < document["pause_seconds"] < 5 and document["scans"] == 1, document)
        expect(runs(), "the target runs")
        result = memtrace("why", "-p", target.pid, "--freeze=1")
        # status 0 or 1: a scan may take less time than this limit
        expect(result.status in (0, 1) and runs(), result)
        for delay in range(20):
            process = start([MEMTRACE, "why", "-p", str(target.pid), "--freeze"])
            time.sleep(delay / 400)
            process.kill()
            process.wait()
            wait_until(runs, "the target runs after memtrace was killed", timeout=5)
    with Target("holders") as target:
        truth = target.go()
        document, _ = why(target.pid, "--freeze=5000")
        expect_equal(document["lost_blocks"], n, f"blocks that are called lost: {document}")
        expect_equal(target.quit(), 0, "status of the target")
