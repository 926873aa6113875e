# SPDX-License-Identifier: BSD-2-Clause
"""Memory that is mapped from the kernel is exact by stack, and adds up to the sum in
/proc/PID/smaps. Other tests check which pages of this memory become resident."""
import json
import os
import re
import time

from harness import (MEMTRACE, PROGS, Target, Tracer, by_function, expect, expect_equal,
                     expect_words, losses, memtrace, need_tool, place, read_line, run, start, test,
                     test_each_kind, wait_until)


def smaps_bytes(pid):
    """The sum of all mappings' sizes, without the tracer's page [uprobes]."""
    with open(f"/proc/{pid}/smaps", encoding="utf-8", errors="replace") as file:
        text = file.read()
    heads = re.findall(r"^([0-9a-f]+)-([0-9a-f]+) \S+ \S+ \S+ \S+ *(.*)$", text, re.M)
    return sum(int(end, 16) - int(start, 16) for start, end, name in heads
               if name != "[uprobes]")


def check_regions(truth, profile):
    """Checks that each function has its bytes, that every region has a function, and that nothing
    is lost."""
    expect_equal(profile["what"], "regions", "what was profiled")
    held = by_function(profile, truth["functions"])
    expect(None not in held, "regions of nobody:", held.get(None))
    for name, wanted in truth["functions"].items():
        expect_equal(held.get(name, [0])[0], wanted, f"bytes of {name}")
    expect_equal(profile["live_bytes"], truth["total"], "all live bytes")
    expect_equal(sum(profile["kinds"].values()), truth["total"], "live bytes of all kinds")
    expect_equal(profile["kinds"]["file"], truth["file"], "bytes of files")
    expect_equal(losses(profile), {}, "losses")


def trace(program, *options, prefix=None, arguments=(), limit=("--max-overhead", "off")):
    """Returns the truth, the profiles by their kind ("heap" ...), the change in smaps, and
    memtrace's log."""
    with Target(program, *arguments) as target:
        with Tracer("-p", target.pid, "--json", *limit, *options,
                    *(("-o", prefix) if prefix else ("-f", "none"))) as tracer:
            before = smaps_bytes(target.pid)
            truth = target.go()
            change = smaps_bytes(target.pid) - before
            result = tracer.stop()
        expect_equal(target.quit(), 0, f"status of {program}")
    profiles = [json.loads(line) for line in result.out.splitlines()]
    return truth, {p["what"]: p for p in profiles}, change, result.err


def check_all(truth, profiles, change):
    regions = profiles["regions"]
    check_regions(truth, regions)
    expect_equal(regions["earlier_gone_bytes"], truth["earlier_gone"],
                 "bytes from before given back")
    expect_equal(change, regions["live_bytes"] - regions["earlier_gone_bytes"], "change in smaps")


@test_each_kind(beside=True)
def regions_truth(kind):
    """Regions are exact with probes on libc's functions."""
    truth, profiles, change, log = trace("truth_regions", "--what", "regions", "--probe-kind", kind)
    expect_words(log, r"regions: at mmap, .* of /.*libc\.so\.6$")
    expect_equal(set(profiles), {"regions"}, "profiles")
    check_all(truth, profiles, change)
    expect(profiles["regions"]["kinds"]["stack"] > truth["stack"], "no bytes of thread stacks:",
           profiles["regions"]["kinds"])
    expect_equal({p["kind"] for p in profiles["regions"]["probes"]}, {kind}, "kinds of probes")
    expect_equal(profiles["regions"]["stacks_complete_pct"], 100, "complete stacks, per cent")


@test(beside=True)
def regions_truth_at_syscalls():
    """Tracepoints at the system calls give the same figures for the same program."""
    truth, profiles, change, log = trace("truth_regions", "--what", "regions",
                                         "--debug-regions-at", "syscalls")
    expect_words(log, "regions: at the system calls")
    check_all(truth, profiles, change)
    expect_equal({p["kind"] for p in profiles["regions"]["probes"]}, {"tracepoint"},
                 "kinds of probes")
    expect_equal(profiles["regions"]["stacks_complete_pct"], 100, "complete stacks, per cent")


@test(beside="wide")
def regions_of_static():
    """In a static program memtrace chooses the tracepoints at the system calls by itself."""
    truth, profiles, change, log = trace("truth_regions_static", "--what", "regions")
    expect_words(log, "regions: at the system calls .*static")
    check_all(truth, profiles, change)
    with Target("truth_regions_static") as target:
        expect_words(memtrace("check", target.pid).out, "regions .*system calls.*static")
        result = memtrace("-p", target.pid, "-d", "1", "--what", "regions",
                          "--debug-regions-at", "libc")
        expect_equal(result.status, 1, result)
        expect_words(result.err, "static")
        result = memtrace("-F", "-p", target.pid, "-d", "1", "--what", "regions",
                          "--debug-regions-at", "libc")
        expect_equal(result.status, 1, result)
        expect_words(result.err, "libc")


@test(beside=True)
def regions_beside_heap():
    """Heap and regions in one run have two JSON objects and six files, each with its own
    figures."""
    with place() as directory:
        truth, profiles, change, _ = trace("truth_regions", "--what", "heap,regions", "-i", "1",
                                           prefix=directory + "/out")
        check_all(truth, profiles, change)
        expect_equal(set(profiles), {"heap", "regions"}, "profiles")
        pid = profiles["heap"]["pid"]
        expect_equal(sorted(os.listdir(directory)),
                     sorted(f"out.{pid}.{what}{name}" for what in ("", "regions.")
                            for name in ("heap", "collapsed", "pb.gz")), "files")
        with open(f"{directory}/out.{pid}.regions.collapsed", encoding="utf-8") as file:
            collapsed = file.read()
    got = sum(int(line.rsplit(" ", 1)[1]) for line in collapsed.splitlines())
    expect_equal(got, truth["total"], "sum of the collapsed file")
    # the heap has only pthread_create's allocations
    expect(all("start_threads" in stack["frames"] for stack in profiles["heap"]["stacks"]),
           profiles["heap"]["stacks"])


@test(beside=True)
def regions_of_command():
    """A command's regions are exact from its first instruction to its end, also in the table."""
    program = os.path.join(PROGS, "truth_regions")
    for options in ((), ("--debug-regions-at", "syscalls")):
        result = run([MEMTRACE, "--what", "regions", "-f", "none", "--json=-",
                      "--max-overhead", "off", *options, "--", program, "--auto"])
        expect_equal(result.status, 0, result)
        truth, profile = (json.loads(line) for line in result.out.splitlines())
        held = by_function(profile, truth["functions"])
        for name, wanted in truth["functions"].items():
            expect_equal(held.get(name, [0])[0], wanted, f"bytes of {name}")
        expect_equal(losses(profile), {}, "losses")
    result = run([MEMTRACE, "--what", "regions", "-f", "none", "--max-overhead", "off", "--",
                  program, "--auto"])
    expect_words(result.err, r"^live regions: [0-9.]+ MiB in \d+ pieces: anonymous", "map_plain")


@test(beside=True)
def regions_of_go():
    """Go makes system calls itself, not through libc. So only probes at the system calls see its
    heap."""
    truth, profiles, change, log = trace("go_regions", "--what", "regions")
    expect_words(log, "regions: at the system calls .*Go")
    profile = profiles["regions"]
    grown = by_function(profile, truth["functions"])["main.grow"][0]
    wanted = truth["functions"]["main.grow"]
    # Go maps whole arenas of 64 MiB, and memory to manage them
    expect(wanted <= grown <= wanted + (128 << 20), f"{grown} bytes for {wanted}")
    expect_equal(change, profile["live_bytes"] - profile["earlier_gone_bytes"], "change in smaps")
    expect_equal(losses(profile), {}, "losses")


def trace_shell(commands, n, *options):
    """Traces a shell that runs n programs, one after the other. Returns their truths, and all
    profiles. Each program waits for a moment between its exec and its script. In this time,
    memtrace must load the unwind tables of the program's code."""
    shell = start(["/bin/sh", "-c", "read go; " + commands])
    truths = []
    with Tracer("-p", shell.pid, "--what", "regions", "-f", "none", "--json",
                "--max-overhead", "off", *options) as tracer:
        shell.stdin.write("go\n")
        shell.stdin.flush()
        for _ in range(n):
            expect_words(read_line(shell, shell.stdout), "ready")
            time.sleep(0.7)
            shell.stdin.write("go\n")
            shell.stdin.flush()
            truths.append(json.loads(read_line(shell, shell.stdout)))
            shell.stdin.write("quit\n")
            shell.stdin.flush()
        result = tracer.wait()
    expect_equal(result.status, 0, result)
    return truths, [json.loads(line) for line in result.out.splitlines()]


@test(beside=True)
def regions_after_exec():
    """At exec the old program's regions end, and leave the profile."""
    program = os.path.join(PROGS, "truth_regions")
    # the shell maps memory during the run before its exec
    (truth,), (profile,) = trace_shell(f"x=$(printf %0200000d 1); y=$x$x; exec {program}", 1)
    expect(profile["lost"]["dropped_by_exec"] > 0, "the shell's memory was not seen")
    profile["lost"]["dropped_by_exec"] = 0
    # the program starts during the run, so the memory that main maps before the script is seen, too
    truth["functions"]["main"] = truth["earlier_gone"]
    truth["total"] += truth["earlier_gone"]
    check_regions(truth, profile)
    expect_equal(profile["earlier_gone_bytes"], None, "bytes from before, of another program")


@test(beside="wide")
def regions_of_children():
    """With -F a child has a profile of its own, which begins empty. Its parent's profile does not
    change."""
    program = os.path.join(PROGS, "truth_regions")
    truths, profiles = trace_shell(f"(exec {program}); (exec {program} --threads 0); :", 2, "-F")
    children = [p for p in profiles if p["comm"] == "truth_regions"]
    expect_equal(len(children), 2, f"profiles of children in {[p['comm'] for p in profiles]}")
    for truth, profile in zip(truths, sorted(children, key=lambda p: p["pid"])):
        held = by_function(profile, truth["functions"])
        for name, wanted in truth["functions"].items():
            expect_equal(held.get(name, [0])[0], wanted, f"bytes of {name}")
    for profile in profiles:
        mapped = any("map_plain" in stack["frames"] for stack in profile["stacks"])
        expect_equal(mapped, profile in children, f"map_plain in the profile of {profile['comm']}")


# Allowance for faults in the program's other pages, such as its data and its stack. These faults
# are sampled, too, because a fault does not say to which mapping its page belongs.
FEW = 40 * 4096


@test(beside=True)
def page_faults_truth():
    """If every fault is sampled, the profile has each resident page at the function that touched
    the page first."""
    truth, profiles, _, _ = trace("truth_faults", "--what", "faults", "-i", "1")
    profile = profiles["faults"]
    held = by_function(profile, truth["functions"])
    for name, wanted in truth["functions"].items():
        expect_equal(held.get(name, [0])[0], wanted, f"bytes of {name}")
    expect(held.get(None, [0])[0] <= FEW, "too much of others:", held.get(None))
    expect_equal(losses(profile), {}, "losses")
    total = sum(truth["functions"].values())
    expect(abs(profile["resident_change_bytes"] - total) < total / 10 + (1 << 20),
           f"resident set: {profile['resident_change_bytes']} instead of {total}")
    expect_equal(profile["probes"], [], "probes")


@test(beside=True)
def page_faults_sampled():
    """One page in 16 is sampled: the largest function is right within 35 %, which is five standard
    errors (3,000 pages: 194 samples, so a standard error of 7 %)."""
    # once with regions, too; both runs have the default limit of overhead
    for what in ("faults", "faults,regions"):
        truth, profiles, _, _ = trace("truth_faults", "--what", what, "-i", "64K", limit=())
        profile = profiles["faults"]
        got = by_function(profile, truth["functions"])["touch"][0]
        wanted = truth["functions"]["touch"]
        expect(abs(got - wanted) < 0.35 * wanted, f"{got} instead of {wanted}")
        expect(profile["live_bytes_low"] < profile["live_bytes"] < profile["live_bytes_high"],
               profile)


@test(beside=True)
def page_faults_with_regions():
    """A command's faults and regions can be traced together. Faults and the heap cannot."""
    with place() as directory:
        result = run([MEMTRACE, "--what", "faults,regions", "-i", "1", "-o", directory + "/out",
                      "--", os.path.join(PROGS, "truth_faults"), "--auto"])
        expect_equal(result.status, 0, result)
        files = sorted(name.split(".", 2)[2] for name in os.listdir(directory))
        expect_equal(files, [f"{what}.{name}" for what in ("faults", "regions")
                             for name in ("collapsed", "heap", "pb.gz")], "files")
        collapsed = next(f for f in os.listdir(directory) if f.endswith("faults.collapsed"))
        with open(os.path.join(directory, collapsed), encoding="utf-8") as file:
            # the function that touched the page is the leaf, and stays in the stack
            expect_words(file.read(), r"main;touch \d+$")
    expect_words(result.err, "^first touched and still there: ", "^live regions: ")
    expect_equal(memtrace("--what", "heap,faults", "-p", "1").status, 2, "heap,faults")


@test(beside=True)
def regions_of_python():
    """In a program that was not written for these tests, the sum of all regions changes as smaps
    does."""
    script = ("import sys, threading\n"
              "print('up', flush=True); sys.stdin.readline()\n"
              "def work(): global kept; kept = [bytes(300000 + i) for i in range(200)]; "
              "junk = [bytes(100000) for i in range(3000)]\n"
              "threads = [threading.Thread(target=work) for i in range(4)]\n"
              "[t.start() for t in threads]; [t.join() for t in threads]\n"
              "print('done', flush=True); sys.stdin.readline()\n")
    for options in ((), ("--debug-regions-at", "syscalls")):
        target = start([need_tool("python3"), "-u", "-c", script])
        read_line(target, target.stdout)
        with Tracer("-p", target.pid, "--what", "regions", "-f", "none", "--json",
                "--max-overhead", "off", *options) as tracer:
            before = smaps_bytes(target.pid)
            target.stdin.write("\n")
            target.stdin.flush()
            read_line(target, target.stdout)
            # Python's join() returns before the threads end, and a thread's end unmaps memory
            wait_until(lambda: len(os.listdir(f"/proc/{target.pid}/task")) == 1, "threads' ends")
            change = smaps_bytes(target.pid) - before
            profile = tracer.stop().json()
        target.communicate("\n", 30)
        expect(profile["live_bytes"] > 200 * 300000, profile["live_bytes"], "bytes live")
        expect_equal(change, profile["live_bytes"] - profile["earlier_gone_bytes"],
                     "change in smaps")
        expect_equal(losses(profile), {}, "losses")
