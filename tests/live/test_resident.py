# SPDX-License-Identifier: BSD-2-Clause
"""The resident set explained: each row is compared with the target's truth, the sum with /proc."""
import json
import os
import re
import signal
import time

from harness import (MEMTRACE, PATIENCE_S, PROGS, NotRunnable, Target, Tracer, expect, expect_equal,
                     expect_words, memtrace, place, read_line, run, start, test,
                     wait_until)
from test_heap import loader

JEMALLOC = "/usr/lib/x86_64-linux-gnu/libjemalloc.so.2"
PAGE = 4096
MIB = 1 << 20
# The size of glibc's chunk for 200 bytes, and of jemalloc's size class for 200 bytes.
CHUNK = 208
# The largest error of VmRSS in pages. The kernel may have three counts (of file, anonymous and
# shared pages) on each CPU, and adds them to the total in batches of at least 32 pages. Before
# Linux 6.17 VmRSS lacks the counts that are not yet added.
VMRSS_PAGES = 3 * max(32, 2 * os.cpu_count()) * os.cpu_count()
# Pages of code with probes are private copies as long as the probes are in place. memtrace reads
# the resident set during this time. This is the largest number of such pages.
PROBED_PAGES = 64


def all_wait(pid):
    states = []
    for tid in os.listdir(f"/proc/{pid}/task"):
        with open(f"/proc/{pid}/task/{tid}/stat", encoding="utf-8") as file:
            states.append(file.read().rsplit(")", 1)[1].split()[0])
    return set(states) == {"S"}


def vmrss(pid):
    with open(f"/proc/{pid}/status", encoding="utf-8") as file:
        return 1024 * int(re.search(r"^VmRSS:\s+(\d+) kB", file.read(), re.M)[1])


def smaps_rss(pid):
    with open(f"/proc/{pid}/smaps", encoding="utf-8", errors="replace") as file:
        return 1024 * sum(int(n) for n in re.findall(r"^Rss:\s+(\d+) kB", file.read(), re.M))


class Rows:
    def __init__(self, resident):
        self.rows = resident["rows"]
        expect_equal(sum(row["bytes"] for row in self.rows), resident["smaps_bytes"],
                     "sum of the rows")
        expect_equal(resident["lines_skipped"], 0, "lines that were not understood")

    def all(self, kind, name=""):
        return [row for row in self.rows if row["kind"] == kind and name in row.get("name", "")]

    def bytes(self, kind, name=""):
        return sum(row["bytes"] for row in self.all(kind, name))

    def one(self, kind, name=""):
        rows = self.all(kind, name)
        expect_equal(len(rows), 1, f"rows {kind} {name} of {self.rows}")
        return rows[0]


def expect_near(got, wanted, less, more, what):
    expect(wanted - less <= got <= wanted + more,
           f"{what}: {got} instead of {wanted} (-{less}, +{more})")


def trace(*options, earlier=0, preload=None, prefix=()):
    """The target's truth, memtrace's JSON objects by their kind, and the resident set as this test
    reads it. The target does nothing between memtrace's reading and the test's."""
    with place() as directory:
        path = os.path.join(directory, "file")
        with open(path, "wb") as file:
            file.write(os.urandom(6 * MIB))
        with Target("truth_resident", "--file", path, "--earlier", earlier,
                    preload=preload, loader=prefix) as target:
            with Tracer("-p", target.pid, "-f", "none", "--rss", "--json", "--max-overhead", "off",
                        *options) as tracer:
                truth = target.go()
                # memtrace recognizes the stack of a thread only if the thread waits
                wait_until(lambda: all_wait(target.pid), "all threads wait")
                result = tracer.stop()
            outside = vmrss(target.pid), smaps_rss(target.pid)
            expect_equal(target.quit(), 0, "the target's status")
    profiles = {p["what"]: p for p in map(json.loads, result.out.splitlines())}
    return truth, profiles, outside


def check_sums(resident, outside):
    probed = PROBED_PAGES * PAGE
    expect_near(resident["smaps_bytes"], outside[1], probed, probed, "Rss of smaps")
    expect_near(resident["vmrss_bytes"], outside[0], VMRSS_PAGES * PAGE + probed,
                VMRSS_PAGES * PAGE + probed, "VmRSS")
    expect_near(resident["vmrss_bytes"], resident["smaps_bytes"], VMRSS_PAGES * PAGE,
                VMRSS_PAGES * PAGE, "VmRSS beside smaps")


def check_mappings(truth, rows):
    """The rows of all mappings but the heap are exact to the page."""
    for name in ("map_first", "map_second"):
        row = rows.one("mapped", name + " < map_both < main")
        expect_equal(row["bytes"], truth[name], name)
        expect_equal(row["anonymous_bytes"], truth[name], f"{name}, anonymous")
    expect_equal(rows.bytes("mapped", "map_area"), 0, "what was mapped and taken over by others")
    file = rows.one("file", "/file")
    expect_equal((file["bytes"], file["anonymous_bytes"]), (truth["file"], truth["written"]),
                 "the file")
    expect_equal(rows.bytes("shared", "/memfd:truth"), truth["shared"], "shared memory")
    check_stacks(truth, rows)


def check_stacks(truth, rows):
    # each thread, main included, touches a few more pages of its stack than are in the truth
    threads = 2 if truth["earlier"] else 1
    expect_near(rows.bytes("stacks"), threads * truth["stack"], 0, (threads + 1) * 16 * PAGE,
                "thread stacks")


PARTS = ("in_use_bytes", "whole_free_bytes", "free_bytes", "header_bytes", "other_bytes")


def census_of(resident):
    """The parts of the row "heap", which add up to it."""
    expect("heap_census" in resident, "no census:", resident.get("heap_census_failed"))
    census = resident["heap_census"]
    expect_equal(sum(census[part] for part in PARTS), Rows(resident).bytes("heap"),
                 "sum of the parts")
    expect(census["trimmable_bytes"] <= census["whole_free_bytes"], census)
    return census


def check_census(resident, truth):
    """Checks the parts after the target has freed every second block: no page is free, and all
    pages were found."""
    census = census_of(resident)
    # older blocks of stdio and the loader are in use, or free
    expect_near(census["free_bytes"], truth["freed"], 0, 64 * PAGE, "free blocks")
    expect_near(census["in_use_bytes"], 0, PAGE, 64 * PAGE,
                "blocks in use, beyond those of the run")
    expect_near(census["header_bytes"], 2 * truth["blocks"] * (CHUNK - 200), PAGE, 4 * PAGE,
                "headers")
    expect_near(census["whole_free_bytes"], 0, 0, 64 * PAGE, "free pages")
    expect_near(census["other_bytes"], 0, PAGE, PAGE, "what the census has not found")


@test(beside=True)
def resident_glibc():
    """If every allocation is recorded, live memory is exact, and freed memory is in the allocator's
    row."""
    truth, profiles, outside = trace("-i", "1")
    resident = profiles["heap"]["resident"]
    rows = Rows(resident)
    check_sums(resident, outside)
    check_mappings(truth, rows)
    expect(resident["regions_followed"] and not resident["from_start"], resident)
    live, rest = rows.one("heap_live"), rows.one("heap")
    # pthread_create allocates a table for each thread, which is not in the truth
    expect_near(live["bytes"], truth["live"], 0, PAGE, "live")
    expect(live["low"] == live["bytes"] == live["high"], live)
    # the heap has the target's chunks, twice as many as are live, and older ones of stdio and the
    # loader
    expect_near(resident["heap_bytes"], 2 * truth["blocks"] * CHUNK, PAGE, 64 * PAGE,
                "the heap's mappings")
    expect(rest["bytes"] > truth["freed"], "what was freed is not among the rest:", rest)
    expect_equal(rest["bytes"] + live["bytes"], resident["heap_bytes"], "the heap's two rows")
    expect("resident" not in profiles["regions"], "it is there twice")
    check_census(resident, truth)


@test(beside=True)
def resident_sampled():
    """With a thousand samples, live memory is right within five standard errors. Its error moves
    bytes from one row of the heap to the other, but does not change their sum."""
    truth, profiles, outside = trace("-i", "8K")
    resident = profiles["heap"]["resident"]
    rows = Rows(resident)
    check_sums(resident, outside)
    check_mappings(truth, rows)
    live, rest = rows.one("heap_live"), rows.one("heap")
    expect_near(live["bytes"], truth["live"], 0.16 * truth["live"], 0.16 * truth["live"], "live")
    expect(live["low"] < live["bytes"] < live["high"], live)
    expect_equal(live["bytes"] + rest["bytes"], resident["heap_bytes"], "the heap's two rows")
    expect_near(rest["low"] + live["high"], resident["heap_bytes"], 1, 1, "the rest's lower end")
    expect_near(rest["high"] + live["low"], resident["heap_bytes"], 1, 1, "the rest's upper end")
    # the error of live memory moves bytes between the rows, and thus into the census's first part,
    # the blocks in use
    census = census_of(resident)
    expect_near(census["in_use_bytes"] + live["bytes"], truth["live"], PAGE, 64 * PAGE,
                "blocks in use")
    expect_near(census["free_bytes"], truth["freed"], 0, 64 * PAGE, "free blocks")


@test(beside=True)
def resident_from_before():
    """Memory from before the run is in the right rows: blocks in main's heap and in a thread's
    arena, none of which is sampled; the thread's stack; and a mapping whose mmap was not seen."""
    earlier = 5 * MIB
    truth, profiles, outside = trace("-i", "1", earlier=earlier)
    resident = profiles["heap"]["resident"]
    rows = Rows(resident)
    check_sums(resident, outside)
    check_mappings(truth, rows)
    held = 2 * (earlier // 200) * CHUNK
    expect_near(resident["heap_bytes"], 2 * truth["blocks"] * CHUNK + held, PAGE, 96 * PAGE,
                "the heap's mappings")
    expect_near(rows.bytes("anonymous_earlier"), earlier, 0, 64 * PAGE, "the mapping from before")
    census = census_of(resident)
    # in each of the two arenas
    expect_near(census["in_use_bytes"], 2 * (earlier // 200) * 200, PAGE, 96 * PAGE,
                "blocks in use from before")
    expect_near(census["other_bytes"], 0, 4 * PAGE, 4 * PAGE, "what the census has not found")


@test(beside=True)
def resident_from_before_in_a_new_glibc():
    """In glibc 2.42 and newer no mapping guards a thread's stack: the guard is a part of the
    stack's own mapping."""
    if tuple(map(int, os.uname().release.split(".")[:2])) < (6, 15):
        raise NotRunnable("only Linux 6.15 and newer tell where such guards are")
    truth, profiles, outside = trace("-i", "1", earlier=5 * MIB, prefix=loader("testing"))
    rows = Rows(profiles["heap"]["resident"])
    check_sums(profiles["heap"]["resident"], outside)
    check_stacks(truth, rows)
    # This run does not follow calls of mmap, and the kernel puts new mappings right behind the
    # file's. The new mappings must not count as the file's data.
    expect_equal(rows.bytes("bss", "/file"), 0, "what was mapped, but is called data of a file")


@test(beside=True)
def resident_jemalloc():
    """jemalloc maps memory in its own way, also before the run. memtrace finds jemalloc's mappings
    by their blocks, and by the function that mapped them."""
    if not os.path.exists(JEMALLOC):
        raise NotRunnable("libjemalloc2 is not installed")
    truth, profiles, outside = trace("-i", "1", preload=JEMALLOC)
    resident = profiles["heap"]["resident"]
    rows = Rows(resident)
    check_sums(resident, outside)
    check_mappings(truth, rows)
    expect_near(rows.one("heap_live")["bytes"], truth["live"], 0, PAGE, "live")
    # jemalloc's own tables are included
    expect_near(resident["heap_bytes"], 2 * truth["blocks"] * CHUNK, 4 * PAGE, 6 * MIB,
                "the heap's mappings")
    expect(rows.one("heap")["bytes"] > truth["freed"], "what was freed is not among the rest:",
           rows.rows)
    # blocks are rounded up from 200 to 208 bytes, and some are in the thread's cache
    census = census_of(resident)
    expect_near(census["free_bytes"] + census["whole_free_bytes"], truth["blocks"] * CHUNK,
                64 * PAGE, 6 * MIB, "free memory")
    expect_equal([row["name"] for row in rows.all("mapped") if not row["name"].startswith("map_")],
                 [], "owners of other mappings")


@test(beside=True)
def resident_of_an_unknown_allocator():
    """The heap of musl cannot be read from outside. So the heap's row is not divided into parts,
    and memtrace says why."""
    with Target("truth_basic_musl") as target:
        with Tracer("-p", target.pid, "-f", "none", "--rss", "--json", "-i", "1",
                    "--max-overhead", "off") as tracer:
            target.go()
            result = tracer.stop()
        target.quit()
    resident = json.loads(result.out.splitlines()[0])["resident"]
    expect(resident["heap_bytes"] > 0 and "heap_census" not in resident, resident)
    expect_words(resident["heap_census_failed"], "musl")


def table_rows(text):
    """The numbers of the first column, and the three numbers below the rows: sum, difference,
    VmRSS."""
    lines = text.split("resident set of pid", 1)[1].split("WHAT\n", 1)[1].splitlines()
    numbers = [int(m[1].replace(",", ""))
               for m in (re.match(r" *(-?[\d,]+)  ", line) for line in lines) if m]
    return numbers[:-3], numbers[-3:]


@test(beside=True, long=True)
def resident_table():
    """The rows of the table add up, also for a command that is traced from its start, and without
    regions."""
    with Target("truth_resident") as target:
        for options in ((), ("--what", "heap"), ("--what", "regions"), ("--what", "faults")):
            result = memtrace("-p", target.pid, "-d", "0.5", "-f", "none", "--rss", *options)
            expect_equal(result.status, 0, result)
            rows, (total, difference, status) = table_rows(result.out)
            expect_equal(sum(rows), total, result.out)
            expect_equal(total + difference, status, result.out)
            followed = options in ((), ("--what", "regions"))
            expect_equal("not followed" in result.out, not followed, result.out)
            expect_equal("95 %: " in result.out or "allocated during the run" in result.out,
                         options in ((), ("--what", "heap")), result.out)
        expect_equal(target.quit(), 2, "status of a target that never ran its script")
    program = os.path.join(PROGS, "truth_resident")
    result = run([MEMTRACE, "-i", "1", "-f", "none", "--rss", "--", program, "--auto"])
    expect_equal(result.status, 0, result)
    expect_words(result.err,
                 r"^resident set of pid \d+ \(truth_resident\): not known, it ended before")
    result = memtrace("-a", "-d", "1", "--rss")
    expect_equal(result.status, 2, result)
    expect_words(result.err, "--rss .* one process")


@test(beside=True)
def resident_from_start():
    """In the profile of a command, or of a program that the command executes, no heap memory is
    from before the run."""
    program = os.path.join(PROGS, "truth_resident")
    for command in ([program], ["sh", "-c", f"trap '' INT; exec {program}"]):
        with place() as directory:
            path = os.path.join(directory, "json")
            process = start([MEMTRACE, "-i", "1", "-f", "none", "--rss", f"--json={path}",
                             "--max-overhead", "off", "--", *command])
            expect_words(read_line(process, process.stdout), "ready")
            process.stdin.write("go\n")
            process.stdin.flush()
            truth = json.loads(read_line(process, process.stdout))
            # memtrace passes the first SIGINT on to the command, and the second ends the tracing.
            # The command ignores them.
            for _ in range(int(2 * PATIENCE_S)):
                process.send_signal(signal.SIGINT)
                time.sleep(0.5)
                if os.path.exists(path):
                    break
            out, err = process.communicate("quit\n", PATIENCE_S)
            expect_equal(process.returncode, 0, f"status of {command}: {out} {err}")
            with open(path, encoding="utf-8") as file:
                resident = json.loads(file.readline())["resident"]
        rows = Rows(resident)
        expect(resident["from_start"] and resident["regions_followed"], resident)
    # blocks of stdio, the dynamic linker and the thread are not in the truth
        expect_near(rows.one("heap_live")["bytes"], truth["live"], 0, 32 * PAGE, "live")
        expect_near(resident["heap_bytes"], 2 * truth["blocks"] * CHUNK, PAGE, 64 * PAGE,
                    "the heap's mappings")
        expect_equal(rows.bytes("mapped", "map_second"), truth["map_second"], "map_second")
        expect(rows.bytes("anonymous_earlier") <= 16 * PAGE, "of nobody:", rows.rows)


@test(beside=True)
def resident_of_many_mappings():
    """A process has as many mappings as the default limit allows. All are in rows, within bounded
    time and memory."""
    with Target("truth_resident", "--mappings", 60000) as target:
        result = memtrace("-p", target.pid, "-d", "0.5", "-f", "none", "--rss", "--json")
        expect_equal(result.status, 0, result)
        profile = json.loads(result.out.splitlines()[0])
        outside = vmrss(target.pid), smaps_rss(target.pid)
        rows = Rows(profile["resident"])
        check_sums(profile["resident"], outside)
        expect_near(rows.bytes("anonymous_earlier"), 60000 * PAGE, 0, 64 * PAGE, "the mappings")
        expect(sum(row["mappings"] for row in rows.all("anonymous_earlier")) >= 60000, rows.rows)
        expect(profile["memtrace"]["user_bytes"] < 128 * MIB, profile["memtrace"])
        target.quit()
