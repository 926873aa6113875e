# SPDX-License-Identifier: BSD-2-Clause
"""memtrace heap finds each block of a program, and its sums are equal to the allocator's own."""
import json
import os
import re
import resource
import struct
import time

from harness import (MEMTRACE, PROGS, ROOT, NotRunnable, end, expect, expect_equal, expect_words,
                     memtrace, need_tool, place, read_line, run, start, test, wait_until)
from test_capabilities import ROOT as FOR_NOBODY, TRACING, check_kept, children, status
from test_json_schema import check

JEMALLOC = "/usr/lib/x86_64-linux-gnu/libjemalloc.so.2"
LIBCS = os.path.join(ROOT, "build", "libcs")  # scripts/fetch-libcs
THREADS, BLOCKS = 4, 20000


def told(*args):
    result = memtrace("heap", *args)
    expect_equal(result.status, 0, f"status of heap {args}: {result.err}")
    return result.out


def census(pid):
    result = memtrace("heap", "-p", pid, "--json")
    expect_equal(result.status, 0, f"status of heap: {result.err}")
    return result.json()


def blocks_of(pid):
    pairs = (line.split() for line in told("-p", pid, "--debug-blocks").splitlines())
    return {int(addr, 16): int(size) for addr, size in pairs}


def faults(pid):
    with open(f"/proc/{pid}/stat", encoding="utf-8") as file:
        fields = file.read().rsplit(")", 1)[1].split()
    return int(fields[7]), int(fields[9])  # minor, major


class Held:
    """A process of the program held, which writes addresses and sizes of all its blocks to a
    file."""

    def __init__(self, directory, program, mode, preload=None, loader=()):
        path = program if "/" in program else os.path.join(PROGS, program)
        if not os.path.exists(path):
            raise NotRunnable(f"{path} is not built")
        file = os.path.join(directory, "held.bin")
        env = {**os.environ, "LD_PRELOAD": preload} if preload else None
        self.process = start([*loader, path, THREADS, BLOCKS, mode, file], env=env)
        self.pid = self.process.pid
        self.own = {}
        while (line := read_line(self.process, self.process.stdout)) != "ready\n":
            self.own.update((name, int(value)) for name, value in re.findall(r"(\w+) (\d+)", line))
        with open(file, "rb") as pairs:
            self.blocks = {addr: size
                           for addr, size in struct.iter_unpack("<QQ", pairs.read()) if addr}

    def __enter__(self):
        return self

    def __exit__(self, *_):
        end(self.process)


def expect_all(held, found, slack=4096):
    """Checks that each block of the program was found, and that its size is the requested size or a
    little more, because allocators round sizes up. Returns the other blocks that were found."""
    missing = [addr for addr in held.blocks if addr not in found]
    expect(not missing,
           f"{len(missing)} of {len(held.blocks)} blocks are missing, such as {missing[:3]}")
    for addr, size in held.blocks.items():
        expect(size <= found[addr] <= max(size * 5 / 4 + 24, size + slack),
               f"block {addr:x} of {size} has {found[addr]}")
    return [addr for addr in found if addr not in held.blocks]


def sums(allocator, *kinds):
    """Blocks and usable bytes of these kinds in all arenas."""
    counts = [arena[kind] for arena in allocator["arenas"] for kind in kinds]
    return sum(count["blocks"] for count in counts), sum(count["bytes"] for count in counts)


def expect_near(got, wanted, by, what):
    expect(abs(got - wanted) <= by, f"{what}: {got} instead of {wanted} (+- {by})")


def check_glibc(held):
    """In a program that sleeps, sums are exact to the byte, except for the arenas' own
    structures."""
    before = faults(held.pid)
    found = blocks_of(held.pid)
    extra = expect_all(held, found)
    # blocks of the C library itself: thread caches, buffers, threads
    expect(len(extra) < 12 * (THREADS + 1),
           f"{len(extra)} blocks in use that nobody holds, such as {extra[:3]}")
    # each thread has freed thousands of blocks of all sizes
    expect(sums(census(held.pid)["allocators"][0], "thread_cache")[0] > 200 * THREADS,
           "blocks in thread caches are missing")
    told_json = census(held.pid)
    glibc, = told_json["allocators"]
    quality = glibc["quality"]
    expect_equal(quality["doubt"], 0, "share in doubt")
    expect_equal(quality["own_bytes"], held.own["arena"],
                 "memory of the arenas, by memtrace and by mallinfo2()")
    expect_equal(quality["found_bytes"], held.own["arena"], "memory of the arenas that was walked")
    expect_equal(quality["found_large"], held.own["hblkhd"], "bytes in mappings of their own")
    for what, wanted, kinds in (("in use", "uordblks", ("in_use", "thread_cache")),
                                ("free", "fordblks", ("bins", "top", "fast_bins")),
                                ("fast bins", "fsmblks", ("fast_bins",))):
        blocks, nbytes = sums(glibc, *kinds)
        expect_near(nbytes + 8 * blocks, held.own[wanted],
                    4096 * THREADS if what == "in use" else 0, what)
    pages = glibc["pages"]
    expect_equal(pages["live"] + pages["whole_free"] + pages["between"], pages["resident"],
                 "sum of the pages")
    expect_equal(faults(held.pid), before, "page faults of the target")


@test(beside=True)
def heap_glibc():
    """All blocks of several arenas are found: in a dynamic program and in a static, stripped one,
    asleep and at full speed."""
    with place() as directory:
        stripped = os.path.join(directory, "stripped")
        run([need_tool("strip"), "-o", stripped, os.path.join(PROGS, "held_static")])
        for program in ("held", stripped):
            with Held(directory, program, "quiet") as held:
                check_glibc(held)
        with Held(directory, "held", "busy") as held:
            for _ in range(3):
                extra = expect_all(held, blocks_of(held.pid))
                # Each thread holds up to 1,000 further blocks at any time. In addition, its cache
                # (64 lists of 7 blocks) may have been filled again during the walk.
                expect(len(extra) < (1000 + 64 * 7) * THREADS, f"{len(extra)} other blocks in use")
            expect(held.process.poll() is None, "the target has ended")


@test(beside=True)
def heap_jemalloc():
    """All blocks are found in jemalloc. jemalloc's own statistics count blocks in thread caches as
    allocated. memtrace finds these caches: main's, and one of each thread."""
    if not os.path.exists(JEMALLOC):
        raise NotRunnable(f"{JEMALLOC} is missing")
    with place() as directory:
        with Held(directory, "held", "quiet", preload=JEMALLOC) as held:
            check_jemalloc(held, caches=THREADS + 1)
        with Held(directory, "held", "busy", preload=JEMALLOC) as held:
            expect_all(held, blocks_of(held.pid))


def check_jemalloc(held, slack=4096, caches=0):
    """caches: thread caches that must be found."""
    found = blocks_of(held.pid)
    extra = expect_all(held, found, slack)
    jemalloc, = census(held.pid)["allocators"]
    expect_equal(jemalloc["quality"]["thread_caches"], caches, "thread caches")
    if caches:
        expect(len(extra) < 12 * caches,
               f"{len(extra)} blocks in use that nobody holds, such as {extra[:3]}")
        expect(sums(jemalloc, "thread_cache")[0] > 200 * THREADS,
               "blocks in thread caches are missing")
    expect_equal(jemalloc["name"], "jemalloc", "allocator")
    expect_equal(jemalloc["quality"]["broken_slabs"], 0, "slabs that disagree with their own count")
    expect_equal(sums(jemalloc, "in_use", "large", "thread_cache")[1], held.own["allocated"],
                 "bytes allocated")


def library(suite, name):
    path = os.path.join(LIBCS, suite, "lib", name)
    if not os.path.exists(path):
        raise NotRunnable(f"{path} is not there: scripts/fetch-libcs build/libcs")
    return path


def loader(suite):
    """The command that starts a program with the C library of another Debian release."""
    paths = os.path.join(LIBCS, suite, "lib") + ":/usr/lib/x86_64-linux-gnu"
    return [library(suite, "ld-linux-x86-64.so.2"), "--library-path", paths]


def other_glibcs(directory, program):
    """For each of glibc 2.31, 2.41 and Debian testing's glibc: the Debian release, and a program of
    tests/progs. The program for 2.31 is linked with glibc 2.31, because programs linked with a
    newer glibc do not run on 2.31."""
    old = os.path.join(directory, program)
    libs = [library("bullseye", name)
            for name in ("libpthread.so.0", "libdl.so.2", "libc.so.6", "ld-2.31.so")]
    run([need_tool("cc"), "-O1", "-D_GNU_SOURCE",
         os.path.join(ROOT, "tests", "progs", program + ".c"), "-nodefaultlibs", "-o", old, *libs,
         "-lgcc"])
    return ("bullseye", old), ("trixie", program), ("testing", program)


@test(beside=True)
def heap_other_glibcs():
    """All blocks are found with glibc 2.31, 2.41, and Debian testing's glibc."""
    with place() as directory:
        for suite, program in other_glibcs(directory, "held"):
            with Held(directory, program, "quiet", loader=loader(suite)) as held:
                check_glibc(held)
            with Held(directory, program, "busy", loader=loader(suite)) as held:
                expect_all(held, blocks_of(held.pid))


@test(beside=True)
def heap_other_jemallocs():
    """All blocks are found with jemalloc 5.2.1, with a 5.3.0 whose tree has three levels, and with
    Debian testing's jemalloc. 5.2 uses 16 KiB for aligned blocks."""
    with place() as directory:
        for suite, slack in (("bullseye", 20480), ("trixie", 4096)):
            with Held(directory, "held", "quiet",
                      preload=library(suite, "libjemalloc.so.2")) as held:
                check_jemalloc(held, slack, caches=THREADS + 1)
        preload = ["--preload", library("testing", "libjemalloc.so.2")]
        with Held(directory, "held", "quiet", loader=loader("testing") + preload) as held:
            check_jemalloc(held, caches=THREADS + 1)


@test(beside=True)
def heap_classes():
    """Objects of C++ classes are found in dynamic programs, in static stripped ones, and without
    type_info."""
    source = os.path.join(ROOT, "tests", "progs", "typed.cc")
    with place() as directory:
        programs = {"typed": [], "stripped": ["-O2", "-s"], "static": ["-O2", "-s", "-static"],
                    "no type_info": ["-O2", "-no-pie", "-fno-rtti"]}
        for name, flags in programs.items():
            path = os.path.join(directory if flags else PROGS, name)
            if flags:
                run([need_tool("c++"), *flags, source, "-o", path])
            program = start([path])
            wanted = {}
            while (line := read_line(program, program.stdout)) != "ready\n":
                what, count = line.rsplit(" ", 1)
                wanted[what] = int(count)
            expect_equal({row["class"]: row["blocks"] for row in census(program.pid)["types"]},
                         wanted, f"objects, {name}")
            expect_words(told("-p", program.pid, "-n", 2),
                         r"1000 +\S+ KiB +(\S+ K?i?B  )?shop::Item",
                         r"\d+ +\S+ KiB +(\S+ K?i?B  )?4 others")
            end(program)


PYTHON = """
import ctypes, sys
held = [{str(i): "x" * (i % 300), "list": [i] * 5} for i in range(40000)]
held[::3] = [None] * len(held[::3])
class Info(ctypes.Structure):
    _fields_ = [(f"field{i}", ctypes.c_size_t) for i in range(10)]
mallinfo2 = ctypes.CDLL(None).mallinfo2
mallinfo2.restype = Info
print(mallinfo2().field7, flush=True)  # uordblks
sys.stdin.read()
"""


@test(beside=True)
def heap_python():
    """In a python3 that uses malloc, memtrace finds as many bytes as mallinfo2() counts, and no
    block is called lost."""
    python = start(["/usr/bin/python3", "-c", PYTHON], env={**os.environ, "PYTHONMALLOC": "malloc"})
    wanted = int(read_line(python, python.stdout))
    blocks, nbytes = sums(census(python.pid)["allocators"][0], "in_use", "thread_cache")
    expect_near(nbytes + 8 * blocks, wanted, wanted / 100, "bytes in use")
    result = memtrace("why", "-p", python.pid, "--json", "--freeze=5000")
    expect_equal(result.status, 0, result)
    expect_equal(result.json()["lost_blocks"], 0,
                 f"blocks that are called lost: {result.out[:500]}")


@test(beside=True)
def heap_redis():
    """redis-server has jemalloc, and prints how much jemalloc has allocated."""
    server, cli = need_tool("redis-server"), need_tool("redis-cli")
    with place() as directory:
        path = os.path.join(directory, "s")
        redis = start([server, "--port", "0", "--unixsocket", path, "--save", "",
                       "--enable-debug-command", "yes", "--dir", directory])
        wait_until(lambda: os.path.exists(path), "redis")

        def allocated():
            return int(re.search(r"^allocator_allocated:(\d+)",
                                 run([cli, "-s", path, "info", "memory"]).out, re.M)[1])

        run([cli, "-s", path, "debug", "populate", "200000", "key", "100"])
        jemalloc = next(one for one in census(redis.pid)["allocators"] if one["name"] == "jemalloc")
        wanted, got = allocated(), sums(jemalloc, "in_use", "large", "thread_cache")[1]
        expect_near(got, wanted, wanted / 100, "bytes in use")


def makers_of(stacks):
    """The number of blocks that memtrace reports for each function of tests/progs/makers.c."""
    blocks = {}
    for row in stacks:
        maker = next((name for name in row["stack"] if name.startswith("make_")), None)
        expect(maker, f"a row of no function that makes blocks: {row}")
        blocks[maker] = blocks.get(maker, 0) + row["blocks"]
    return blocks


def expect_most_bytes(told, made, nbytes):
    whole = sum(size for name, size in nbytes.items() if told.get(name, 0) > 0.9 * made[name])
    expect(whole > 0.9 * sum(nbytes.values()),
           f"only {whole} of {sum(nbytes.values())} bytes are told: {told}")


def check_origins(origins, made, nbytes):
    """At most 5 % of the blocks are reported under a function that did not make them. made, nbytes:
    the truth, by function."""
    told = makers_of(origins["stacks"])
    wrong = sum(max(0, blocks - made[name]) for name, blocks in told.items())
    expect(wrong <= 0.05 * sum(told.values()),
           f"{wrong} of {sum(told.values())} blocks are told wrongly: {told}")
    expect("make_config" not in told,
           "blocks that tracing cannot have seen are told of make_config", told)
    expect_most_bytes(told, made, nbytes)
    in_use = sum(told.values()) + origins["unknown"]["blocks"]
    expect(in_use >= sum(made.values()), f"{in_use} blocks in use, of {sum(made.values())}")
    return f"{len(told)} of 9 functions, {100 * wrong / sum(told.values()):.2f} % wrong"


def check_makers(preload):
    """At the defaults memtrace heap and a run with --heap tell who made the blocks. So does a later
    memtrace heap that reads the run's file. Between the two, the program replaces the blocks that
    the run sampled. So the later memtrace heap names the makers of fewer blocks, but no wrong
    makers. A maker of few bytes may have no sample, and is then not named. So the named makers must
    have nearly all bytes, but not nearly all blocks."""
    env = {**os.environ, "LD_PRELOAD": preload} if preload else None
    process = start([os.path.join(PROGS, "makers"), 20000, 180], env=env)
    made, nbytes = {}, {}
    while (line := read_line(process, process.stdout)) != "ready\n":
        name, blocks, size = line.split()
        made[name], nbytes[name] = int(blocks), int(size)
    result = memtrace("heap", "-p", process.pid, "--stacks", "-d", 12, "--json")
    drawn = memtrace("heap", "-p", process.pid, "--stacks", "-d", 12, "-f", "collapsed")
    with place() as directory:
        prefix = os.path.join(directory, "run")
        recorded = memtrace("record", "-p", process.pid, "-d", 12, "--heap", "--json",
                            "-f", "pprof", "-o", prefix)
        file = f"{prefix}.{process.pid}.pb.gz"
        later = []
        for wait_s in 0, 15:
            time.sleep(wait_s)
            again = memtrace("heap", "-p", process.pid, "--profile", file, "--json")
            expect_equal(again.status, 0, again.err)
            told = makers_of(again.json()["origins"]["stacks"])
            wrong = sum(max(0, blocks - made[name]) for name, blocks in told.items())
            expect(wrong <= 0.05 * sum(told.values()), f"wrong: {wrong} of {told}, {wait_s} s")
            later.append(told)
        expect_most_bytes(later[0], made, nbytes)
        expect(later[1], "nothing is told", later)
    end(process)
    expect_words(drawn.out, r"^.*main;.*make_buffer;get [1-9]\d+$", r"^unknown \d+$")
    expect_equal(result.status, 0, result.err)
    check("profile", recorded.out)
    said = check_origins(result.json()["origins"], made, nbytes)
    return (f"{said}; record --heap: "
            f"{check_origins(recorded.json()['heap']['origins'], made, nbytes)}; by its file "
            f"{len(later[0])} functions, and after 15 s {len(later[1])}")


@test(beside=True, long=True)
def heap_names_who_made_old_blocks():
    """Finds who made blocks that are older than tracing. One block in 40 is made by make_config(),
    and looks like a block of make_entry()."""
    said = check_makers(None)
    if not os.path.exists(JEMALLOC):
        raise NotRunnable(f"{JEMALLOC} is missing")
    return f"{said}; jemalloc: {check_makers(JEMALLOC)}"


@test(beside=True, long=True)
def heap_names_who_made_the_keys_of_redis():
    """Finds who made the keys that were set before tracing. More keys are set meanwhile. For each
    key there are four blocks: an entry, the key, an object and a value."""
    server, cli, bench = (need_tool("redis-server"), need_tool("redis-cli"),
                          need_tool("redis-benchmark"))
    with place() as directory:
        path = os.path.join(directory, "s")
        redis = start([server, "--port", "0", "--unixsocket", path, "--save", "",
                       "--dir", directory])
        wait_until(lambda: os.path.exists(path), "redis")
        options = ["-s", path, "-q", "-r", "10000000", "-d", "100", "-t", "set"]
        run([bench, *options, "-n", "300000", "-P", "16"])
        before = int(run([cli, "-s", path, "dbsize"]).out.split()[-1])
        load = start([bench, *options, "-n", "100000000", "-c", "2"])
        result = memtrace("heap", "-p", redis.pid, "--stacks", "-d", 40, "--json", timeout=120)
        end(load)
        keys = int(run([cli, "-s", path, "dbsize"]).out.split()[-1])
        expect_equal(result.status, 0, result.err)
    told = {row["stack"][0]: row["blocks"]
            for row in result.json()["origins"]["stacks"] if row["blocks"] > before / 2}
    expect(told, "no row of the keys: ", result.out[-2000:])
    for name, blocks in told.items():
        # the blocks were counted between the two counts of keys
        expect(before <= blocks <= 2 * keys,
               f"{name}: {blocks} blocks, but there were {before} keys before and {keys} after")
    return f"{before} keys before, {keys} after: {told}"


@test(beside=True)
def heap_by_a_profile():
    """--profile takes the known blocks from the file of an earlier run. That run must have traced
    the same process, with --heap."""
    with place() as directory:
        process = start([os.path.join(PROGS, "makers"), 2000, 30])
        while read_line(process, process.stdout) != "ready\n":
            pass
        files = {}
        for name, options in (("with", ["--heap"]), ("without", [])):
            prefix = os.path.join(directory, name)
            result = memtrace("record", "-p", process.pid, "-d", 4 if options else 1, *options,
                              "-f", "pprof", "-o", prefix)
            expect_equal(result.status, 0, result)
            files[name] = f"{prefix}.{process.pid}.pb.gz"
        result = memtrace("heap", "-p", process.pid, "--profile", files["with"])
        expect_equal(result.status, 0, result)
        expect_words(result.out, "Who probably made the blocks", r" make_\w+ ",
                     r"^Known blocks: [1-9]\d+ that tracing sampled and that live")
        for options, words in ((("--profile", files["without"]), "has no sampled blocks"),
                               (("--profile", files["with"], "--stacks"), "--profile replaces"),
                               (("--profile", files["with"] + "x"), "No such file")):
            result = memtrace("heap", "-p", process.pid, *options)
            expect(result.status and words in result.err, (options, result))
        result = memtrace("heap", "-p", os.getpid(), "--profile", files["with"])
        expect(result.status == 1 and f"of pid {process.pid} (makers)" in result.err, result)
        end(process)


@test(beside=True)
def heap_after_a_run():
    """The tables of --heap are below those of the run, also with --rss. If there are no tables of
    --heap, the output says why."""
    process = start([os.path.join(PROGS, "makers"), 2000, 30])
    while read_line(process, process.stdout) != "ready\n":
        pass
    result = memtrace("-p", process.pid, "-d", 2, "--heap", "--rss", "-f", "none", "-n", 3)
    end(process)
    expect_equal(result.status, 0, result.err)
    expect(result.out.find("resident set of pid") < result.out.find("census in"), result.out)
    expect_words(result.out, r"of it \S+: headers", r"blocks in use +\d",
                 "Who probably made the blocks", r"^ *\d+ +\S+ \S+ +unknown$", "^Known blocks: ")
    result = memtrace("record", "--heap", "--json", "-f", "none", "--", "true")
    expect_equal(json.loads(result.err.splitlines()[0])["heap_failed"], "the process had ended",
                 "failure")
    for options in (("-a",), ("-p", 1, "--what", "regions"), ("-p", 1, "--on-oom")):
        expect_equal(memtrace("record", "--heap", "-d", 1, *options).status, 2,
                     f"status of --heap {options}")


@test(beside=True)
def heap_census_as_stacks():
    """-f without --stacks writes each block once, by place, class and size."""
    target = start([os.path.join(PROGS, "typed")])
    while read_line(target, target.stdout) != "ready\n":
        pass
    document = memtrace("heap", "-p", target.pid, "--json").json()
    lines = memtrace("heap", "-p", target.pid, "-f", "collapsed").out.splitlines()
    svg = memtrace("heap", "-p", target.pid, "-f", "svg").out
    end(target)
    rows = {tuple(path.split(";")): int(n) for path, n in (line.rsplit(" ", 1) for line in lines)}
    for row in document["types"]:
        found = sum(n for path, n in rows.items() if path[2] == row["class"])
        expect_equal(found, row["bytes"], f"bytes of {row['class']}")
    pinned = sum(size["pinned"] for allocator in document["allocators"]
                 for size in allocator["sizes"])
    expect(0 < sum(row["pinned"] for row in document["types"]) <= pinned,
           f"pinned: {document['types']}, in all {pinned}")
    in_use = sum(size["in_use"]["bytes"] for allocator in document["allocators"]
                 for size in allocator["sizes"])
    expect_equal(sum(n for path, n in rows.items() if path[1] == "in use"), in_use,
                 "bytes in use")
    expect("by place, class and size" in svg and "shop::Item" in svg, svg[:2000])


@test(beside=True)
def heap_keeps_a_limit_of_its_own():
    """--max-overhead limits the CPU time of heap and why, on idle CPUs, too. The limit does not
    change what they find."""
    script = "x = [str(i) * 10 for i in range(1000000)]; print('ready', flush=True); input()"
    target = start(["/usr/bin/python3", "-c", script],
                   env={**os.environ, "PYTHONMALLOC": "malloc"})
    try:
        expect_equal(read_line(target, target.stdout), "ready\n", "the target's first line")
        for command in "heap", "why":
            found = []
            for limit in None, "5":
                before, begin = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
                result = memtrace(command, "-p", target.pid, "--json",
                                  *(("--max-overhead", limit) if limit else ()))
                took = time.monotonic() - begin
                after = resource.getrusage(resource.RUSAGE_CHILDREN)
                expect_equal(result.status, 0, result)
                found.append(result.json())
                if limit:
                    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
                    # 0.1 s is for the start and the report
                    expect(took > 2 and cpu < 0.06 * took + 0.1, (command, cpu, took))
            for key in ("allocators",) if command == "heap" else ("blocks", "lost_blocks"):
                expect_equal(found[1][key], found[0][key], key)
    finally:
        end(target)


@test(beside=True)
def heap_gives_up_capabilities():
    """heap and why read another process's memory, and write what they have found, without the
    capabilities that only tracing needs."""
    script = "x = [str(i) * 10 for i in range(1000000)]; print('ready', flush=True); input()"
    target = start(["/usr/bin/python3", "-c", script],
                   env={**os.environ, "PYTHONMALLOC": "malloc"})
    wanted = TRACING - {"perfmon"} | FOR_NOBODY
    try:
        expect_equal(read_line(target, target.stdout), "ready\n", "the target's first line")
        for command in "heap", "why":
            # this limit makes the reading last for seconds, so that the child can be examined
            reader = start([MEMTRACE, command, "-p", target.pid, "--json", "--max-overhead", "5"])
            # among the children with this name, only the child that reads has a filter of system
            # calls
            wait_until(lambda: any(status(child)["Seccomp"] == "2"  # pylint: disable=W0640
                                   for child in children(reader.pid, "memtrace")),
                       "the child that reads")
            check_kept(reader.pid, wanted)
            out, err = reader.communicate(timeout=60)
            expect_equal(reader.returncode, 0, err)
            expect(json.loads(out), "no report")
    finally:
        end(target)


@test(beside=True)
def heap_words():
    """The words of the table, and the messages for processes that cannot be read."""
    with place() as directory:
        with Held(directory, "held", "quiet") as held:
            expect_words(told("-p", held.pid, "-n", 3), r"blocks in use +\d",
                         r"free, in thread caches", r"\d+ others",
                         r"Pinned pages of glibc", r"0\.000 % in doubt")
    musl = start([os.path.join(PROGS, "truth_basic_musl")])
    read_line(musl, musl.stdout)
    expect_words(told("-p", musl.pid), "Blocks of musl cannot be found from outside")
    gone = start(["true"])
    gone.wait()
    for args in (["-p", gone.pid], ["-p", "x"], [], ["-p", gone.pid, "-d", 3],
                 ["-p", gone.pid, "-f", "svg"], ["-p", gone.pid, "--stacks"]):
        expect(memtrace("heap", *args).status != 0, "heap", args, "succeeded")
