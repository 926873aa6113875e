# SPDX-License-Identifier: BSD-2-Clause
"""Stacks of the first milliseconds of a process, while memtrace does not yet know the process."""
import contextlib
import json
import os
import shutil
import signal
import subprocess

from harness import (PATIENCE_S, PROGS, NotRunnable, Tracer, end, expect, expect_equal, place, run,
                     start, test, test_each_kind, wait_until)
from test_stacks import check_stack

NEWBORN = os.path.join(PROGS, "newborn")
LIBRARY = os.path.join(PROGS, "library.so")
PROCESSES = 100
ELDER_MS = 200000

# The program's stacks, as its source has them: size of the block -> the stack, in the form of
# test_stacks.
STACKS = {
    10001: ["allocate", "main"],
    10003: ["allocate", *["descend"] * 20, "compare", "*", "find_compare", "*", "main"],
    10005: ["allocate", "find_compare", "*", "main"],
}
LOADED = {20051: ["allocate", "call_back", "lib_middle", "lib_leaf", "use_library", "main"]}
OWN = {f for frames in (*STACKS.values(), *LOADED.values()) for f in frames} - {"*"}


@contextlib.contextmanager
def elder(program, *args):
    """An older process. It makes the program known to memtrace, and also the library that args may
    name."""
    process = start([program, ELDER_MS, *args])
    try:
        def is_mapped():
            with open(f"/proc/{process.pid}/maps", encoding="utf-8") as file:
                return (args[0] if args else "libc.so") in file.read()
        wait_until(is_mapped, f"{program} has loaded its libraries")
        yield process
    finally:
        end(process)


def live(program, *args, ms=5):
    """Runs the program to its end; returns its pid."""
    result = start([program, ms, *args])
    result.communicate(timeout=PATIENCE_S)
    expect_equal(result.returncode, 0, f"status of {program}")
    end(result)
    return result.pid


@contextlib.contextmanager
def asleep(tracer):
    """Stops memtrace (SIGSTOP). Until it goes on, its BPF programs do not learn of new
    processes."""
    tracer.process.send_signal(signal.SIGSTOP)
    try:
        yield
    finally:
        tracer.process.send_signal(signal.SIGCONT)


def profiles_of(tracer, pids):
    """The profiles in the order of the pids."""
    profiles = {p["pid"]: p for p in map(json.loads, tracer.stop().out.splitlines())}
    for pid in pids:
        expect(pid in profiles, f"no profile of pid {pid}, one of {len(pids)}")
    return [profiles[pid] for pid in pids]


def by_size(profile):
    return {s["live_bytes"] / s["live_objects"]: s for s in profile["stacks"] if s["live_objects"]}


def check_all(profiles, wanted):
    """Each process has all stacks, whole and named. One process of a hundred may have stacks that
    end early. While another tracer places probes, it holds the lock of the address space, and the
    kernel cannot look up a mapping."""
    early = 0
    for profile in profiles:
        if profile["stacks_complete_pct"] != 100:
            early += 1
            continue
        stacks = by_size(profile)
        for size, frames in wanted.items():
            expect(size in stacks, f"no block of {size} bytes in", profile["stacks"])
            check_stack(f"block of {size} bytes", stacks[size], frames, OWN)
    expect(early <= len(profiles) // 100,
           f"{early} of {len(profiles)} processes have stacks that end early:",
           {k: v for p in profiles for k, v in p["lost"].items() if v})
    return f"{len(profiles) * len(wanted)} stacks"


def trace_newborns(program, wanted, *args, options=()):
    with elder(program, *args):
        with Tracer("--comm", os.path.basename(program), "-i", "1", "--json", "-f", "none",
                    *options) as tracer:
            with asleep(tracer):
                pids = [live(program, *args) for _ in range(PROCESSES // 2)]
            pids += [live(program, *args) for _ in range(PROCESSES // 2)]
            return check_all(profiles_of(tracer, pids), wanted)


@test_each_kind
def newborn_stacks(kind):
    """Stacks of a known program are whole from the first instructions of main on."""
    return trace_newborns(NEWBORN, STACKS, options=("--probe-kind", kind))


@test
def newborn_libraries():
    """If another process has loaded a library before, stacks through this library are whole from
    the end of dlopen on."""
    return trace_newborns(NEWBORN, {**STACKS, **LOADED}, LIBRARY)


@test
def newborn_in_container():
    """Stacks are whole if the program's file is on overlayfs, as in containers. There the kernel
    and /proc have different names for a file."""
    with place() as directory:
        parts = [os.path.join(directory, name) for name in ("lower", "upper", "work", "merged")]
        for part in parts:
            os.mkdir(part)
        shutil.copy(NEWBORN, parts[0])
        mounted = run(["mount", "-t", "overlay", "overlay", "-o",
                       "lowerdir={},upperdir={},workdir={}".format(*parts), parts[3]])
        if mounted.status:
            raise NotRunnable(f"no overlayfs: {mounted.err.strip()}")
        try:
            return trace_newborns(os.path.join(parts[3], "newborn"), STACKS)
        finally:
            subprocess.run(["umount", "-l", parts[3]], check=True)


@test
def newborn_of_changed_file():
    """A program is overwritten in place, and then replaced by another file. No stack is unwound by
    the table of the earlier contents."""
    with place() as directory:
        program, other = os.path.join(directory, "newborn"), os.path.join(directory, "other")
        contents = []
        for name in ("newborn", "newborn_large"):
            with open(os.path.join(PROGS, name), "rb") as file:
                contents.append(file.read())
        size = max(map(len, contents))
        contents = [content.ljust(size, b"\0") for content in contents]

        def put(content, path):
            with open(path, "r+b" if os.path.exists(path) else "wb") as file:
                file.write(content)
            os.chmod(path, 0o755)

        def lives(tracer):
            """Two short lives while memtrace is stopped, a longer one that makes the program known,
            another short one."""
            with asleep(tracer):
                pids = [live(program) for _ in range(2)]
            return pids + [live(program, ms=1000), live(program)]

        put(contents[0], program)
        with Tracer("--comm", "newborn", "-i", "1", "--json", "-f", "none") as tracer:
            live(program, ms=1000)
            put(contents[1], program)
            pids = lives(tracer)
            put(contents[0], other)
            os.replace(other, program)
            pids += lives(tracer)
            profiles = profiles_of(tracer, pids)
    for what, new in ("written over", profiles[:4]), ("replaced", profiles[4:]):
        for profile in new[:2]:
            ends = {k: v for k, v in profile["lost"].items() if v and k.startswith("stacks_end_")}
            expect_equal((profile["stacks_complete_pct"], ends), (0, {"stacks_end_no_table": 3}),
                         f"{what}: stacks, and their ends, of a program that is not known")
            expect_equal([s["frames"][1:] for s in profile["stacks"]], [["allocate"]],
                         f"{what}: frames above malloc")
        check_all(new[3:], STACKS)


@test(long=True)
def newborn_of_unloaded_table():
    """There is room for only some of the unwind tables. Tables of the programs that ended first are
    removed, and other tables get their room and their numbers. A later process of such a program
    has no table, but never another program's table."""
    n = 16
    with place() as directory:
        programs = []
        for i in range(n):
            os.mkdir(os.path.join(directory, str(i)))
            programs.append(os.path.join(directory, str(i), "newborn"))
            source = os.path.join(PROGS, ("newborn", "newborn_large")[i % 3 > 0])
            with open(source, "rb") as file, open(programs[i], "wb") as copy:
                copy.write(file.read() + bytes([i]))  # all files differ
            os.chmod(programs[i], 0o755)
        with Tracer("--comm", "newborn", "-i", "1", "--json", "-f", "none", "--max-unwind",
                    "512K") as tracer:
            for program in programs:
                live(program, ms=500)
            with asleep(tracer):
                pids = [live(program) for program in programs]
            profiles = profiles_of(tracer, pids)
    whole = [p for p in profiles if p["stacks_complete_pct"] == 100]
    for profile in profiles:
        if profile not in whole:
            expect_equal([s["frames"][1:] for s in profile["stacks"]], [["allocate"]],
                         "frames above malloc without a table")
    check_all(whole, STACKS)
    expect(0 < len(whole) < n - 2, f"{len(whole)} of {n} programs have a table")
    return f"{len(whole)} of {n} programs have a table"
