# SPDX-License-Identifier: BSD-2-Clause
"""To reach every process, memtrace places probes in files. One program may exist as many files:
copies, containers, programs that are built and run once. A process is traced whichever file it
runs."""
import contextlib
import json
import os
import re
import shutil
import subprocess
import time

from harness import (PATIENCE_S, PROGS, NotRunnable, Target, Tracer, by_function, end, expect,
                     expect_equal, expect_words, losses, memtrace, need_tool, place, read_line, run,
                     start, test, wait_until)
from test_harmless import changed_in
from test_processes import FAMILY, by_pid, check_selected, leaker, trace_selected

STATIC = os.path.join(PROGS, "family_static")  # glibc's malloc is in the program itself
SOON_S = 2.5  # in this time, a process that allocates every 50 ms allocates some blocks


def copies(directory, n, distinct=False):
    """Makes n files with the same program; distinct: no two files have the same content."""
    paths = [os.path.join(directory, f"copy{i}") for i in range(n)]
    for i, path in enumerate(paths):
        shutil.copy(STATIC, path)
        if distinct:
            with open(path, "ab") as file:
                file.write(i.to_bytes(4, "little"))
    return paths


def untraced(sizes, profiles):
    """The processes whose profile is missing or wrong. (A static program's first allocations may be
    missing in its profile.)"""
    held = {pid: by_function(profiles[pid], {"keep"}).get("keep", [0])[0] if pid in profiles else 0
            for pid in sizes}
    return [pid for pid, size in sizes.items() if not held[pid] or held[pid] % size]


@test(beside="wide")
def files_with_equal_content():
    """Each copy of a program has its own probes, whether it ran before or runs later."""
    with place() as directory, contextlib.ExitStack() as running:
        paths = copies(directory, 20)

        def leakers(some):
            return [(running.enter_context(leaker(1000 + i, program=path)), 1000 + i)
                    for i, path in some]

        numbered = list(enumerate(paths))
        selected = leakers(numbered[::2])
        profiles, later = trace_selected("--exe", directory + "/*", during=lambda: leakers(
            numbered[1::2]))
        missing = untraced({process.pid: size for process, size in selected + later}, profiles)
        expect(not missing, f"{len(missing)} of {len(paths)} copies were not traced")


def c_library():
    return next(line.split()[2] for line in run(["ldd", FAMILY]).out.splitlines()
                if "libc.so" in line)


def bound(path, name):
    """The beginning of a command that runs in a mount namespace where `path` has this name."""
    inside = f'mount --bind {path} {name} && exec "$@"'
    return [need_tool("unshare"), "-m", "sh", "-c", inside, "sh"]


@contextlib.contextmanager
def second_libc():
    """The beginning of a command that runs in a mount namespace where the C library is a copy of
    the machine's."""
    libc = c_library()
    with place() as directory:
        yield bound(shutil.copy(libc, directory), libc)


@test(beside="wide")
def files_of_second_libc():
    """Containers of one distribution have equal libraries, but as separate files. Processes in all
    these containers are traced."""
    with second_libc() as inside, leaker(1000) as ours, leaker(1100, *inside) as there, \
            contextlib.ExitStack() as later:
        profiles, comes = trace_selected("-a", during=lambda: later.enter_context(
            leaker(1200, *inside)))
        check_selected(profiles, [(ours, 1000), (there, 1100), (comes, 1200)], [])


@contextlib.contextmanager
def overlays(directory, lower, n):
    """Mounts n file systems that share the layer `lower`, as containers of one image do. Returns
    the directories where they are mounted."""
    merged = []
    try:
        for i in range(n):
            parts = [os.path.join(directory, f"{name}{i}") for name in ("upper", "work", "merged")]
            for part in parts:
                os.mkdir(part)
            mounted = run(["mount", "-t", "overlay", "overlay", "-o",
                           "lowerdir={},upperdir={},workdir={}".format(lower, *parts[:2]),
                           parts[2]])
            if mounted.status:
                raise NotRunnable(f"no overlayfs: {mounted.err.strip()}")
            merged.append(parts[2])
        yield merged
    finally:
        for path in merged:
            subprocess.run(["umount", "-l", path], check=False, stderr=subprocess.DEVNULL)


@contextlib.contextmanager
def containers(n):
    """Yields a directory, and the paths in it of a program in n containers of one image."""
    with place() as directory:
        lower = os.path.join(directory, "lower")
        os.mkdir(lower)
        shutil.copy(os.path.join(PROGS, "truth_basic_static"), os.path.join(lower, "program"))
        with overlays(directory, lower, n) as merged:
            yield directory, [os.path.join(path, "program") for path in merged]


def check_counts(truth, profile, late=0):
    """The memory of each function and the number of calls are exact. late: how many allocators have
    got their probes while the program ran."""
    held = by_function(profile, truth["functions"])
    for name, wanted in truth["functions"].items():
        expect_equal(tuple(held.get(name, (0, 0))[:2]),
                     (wanted["live_bytes"], wanted["live_objects"]), f"memory of {name}")
    more = profile["alloc_calls"] - truth["alloc_calls"]
    # a program allocates a few blocks before its main function
    expect(-truth["failed_calls"] <= more <= 20, f"{more} calls too many")
    lost = losses(profile)
    # programs that other tests ran and that ended before memtrace could see what they were
    lost.pop("processes_unseen", None)
    expect_equal(lost, {"allocators_late": late} if late else {}, "losses")


@test(beside="wide")
def files_of_shared_layer():
    """Containers of one image run the same file, although each container sees a file of its own.
    Each call counts once. When the first container has ended, its file system can be unmounted, and
    processes of the others are still traced."""
    with containers(3) as (directory, paths), contextlib.ExitStack() as running:
        def begin(i):
            return running.enter_context(Target(paths[i]))

        first, second = begin(0), begin(1)
        with Tracer("--exe", directory + "/*", "-i", "1", "--json", "-f", "none") as tracer:
            third = begin(2)
            truths = {target.pid: target.go() for target in (first, second)}
            expect_equal(first.quit(), 0, "status of the first program")
            wait_until(lambda: not run(["umount", os.path.dirname(paths[0])]).status,
                       "it can be unmounted")
            time.sleep(1)  # for some milliseconds the probes are not in place
            truths.update({target.pid: target.go() for target in (third, begin(1))})
            profiles = by_pid(tracer.stop().out)
    for (pid, truth), late in zip(truths.items(), (0, 1, 1, 0)):
        check_counts(truth, profiles[pid], late)


@test(beside="wide")
def files_copied_in_a_container():
    """A container changes the mode of a file that it shares with another one. From then on it has a
    copy of its own. Processes of both containers are traced, whether they began before or after the
    change."""
    with containers(2) as (directory, paths), contextlib.ExitStack() as running:
        first = running.enter_context(Target(paths[0]))
        with Tracer("--exe", directory + "/*", "-i", "1", "--json", "-f", "none") as tracer:
            second = running.enter_context(Target(paths[1]))
            time.sleep(1)
            os.chmod(paths[0], 0o700)
            time.sleep(1)  # for some milliseconds the probes are not in place
            targets = [first, second, *(running.enter_context(Target(path)) for path in paths)]
            time.sleep(1)
            truths = {target.pid: target.go() for target in targets}
            profiles = by_pid(tracer.stop().out)
    # The first two lose their probes when the container through which these were placed changes the
    # file, and get new ones. The third one is the first to run the copy.
    for (pid, truth), late in zip(truths.items(), (1, 1, 1, 0)):
        check_counts(truth, profiles[pid], late)


@test(beside="wide")
def files_copied_in_the_only_container():
    """A container changes the mode of a file that no other container runs. The output says that
    calls of the earlier process are not seen any more. Later processes are traced, also those of
    other containers."""
    with containers(2) as (directory, paths), contextlib.ExitStack() as running:
        first = running.enter_context(Target(paths[0]))
        with Tracer("--exe", directory + "/*", "-i", "1", "--json", "-f", "none") as tracer:
            os.chmod(paths[0], 0o700)
            time.sleep(1)
            later = [running.enter_context(Target(path)) for path in paths]
            time.sleep(1)
            truths = {target.pid: target.go() for target in later}
            profiles = by_pid(tracer.stop().out)
    expect_words(profiles[first.pid].get("refused", ""), "was changed in its container")
    for pid, truth in truths.items():
        check_counts(truth, profiles[pid], late=1)  # each is the first to run its file
        expect("refused" not in profiles[pid], profiles[pid].get("refused"))


@contextlib.contextmanager
def hidden(n):
    """A shell in a mount namespace of its own, in a directory with n programs that exist in no
    other namespace."""
    with place() as directory:
        inside, stage = directory + "/inside", directory + "/stage"
        os.mkdir(inside)
        os.mkdir(stage)
        copies(stage, n, distinct=True)
        shell = start([need_tool("unshare"), "-m", "sh", "-c",
                       f"mount -t tmpfs none {inside} && cp {stage}/* {inside} && cd {inside} && "
                       "exec sh"])
        try:
            shell.stdin.write("echo ready\n")
            expect_equal(read_line(shell, shell.stdout), "ready\n", "the shell's first line")
            shutil.rmtree(stage)
            expect(not os.listdir(inside), "its files are seen from outside")
            yield shell
        finally:
            end(shell)


@test(beside="wide")
def files_of_short_first_process():
    """The first process of a program ends before memtrace can open the program's file. The path to
    the file disappears with the process. Later processes of the program are traced."""
    n, pids = 20, {}
    with hidden(n) as shell:
        with Tracer("-a", "-i", "1", "--json", "-f", "none") as tracer:
            shell.stdin.write(f"for i in $(seq 0 {n - 1}); do ./copy$i hold 1 100 8 9>/dev/null; "
                              "done; sleep 0.5; echo over\n")
            expect_equal(read_line(shell, shell.stdout), "over\n", "after the first processes")
            for i in range(n):
                shell.stdin.write(f"setpriv --pdeathsig KILL ./copy{i} leak 100000 {1000 + i} 50 & "
                                  "echo $!\n")
                pids[int(read_line(shell, shell.stdout))] = 1000 + i
            time.sleep(SOON_S)
            profiles = by_pid(tracer.stop().out)
    missing = untraced(pids, profiles)
    expect(not missing, f"{len(missing)} of {n} programs were not traced")


def live_through(paths, steps=15):
    """Runs all programs to their ends, side by side; each leaks blocks of its own size. Returns pid
    -> size."""
    running = [start([path, "leak", steps, 1000 + i, 20]) for i, path in enumerate(paths)]
    for process in running:
        _, err = process.communicate(timeout=PATIENCE_S)
        expect_equal((process.returncode, err), (0, ""), "status and errors of a program")
        end(process)
    return {process.pid: 1000 + i for i, process in enumerate(running)}


@test(long=True)
def files_by_the_hundred():
    """More programs run one after the other than the kernel's tables can hold at a time."""
    n, at_once = 300, 10
    with place() as directory:
        # without --no-inline, memtrace would read the lines of all programs for longer than the
        # programs live
        with Tracer("--exe", directory + "/*", "-i", "1", "--json", "-f", "none",
                    "--no-inline") as tracer:
            sizes = {}
            paths = copies(directory, n, distinct=True)
            for i in range(0, n, at_once):
                sizes.update(live_through(paths[i:i + at_once], steps=50))
                # delete each program after its run, as a build does
                for path in paths[i:i + at_once]:
                    os.unlink(path)
            profiles = by_pid(tracer.stop().out)
    missing = untraced(sizes, profiles)
    expect(not missing, f"{len(missing)} of {n} programs were not traced")


@test(beside="wide")
def files_of_a_program_after_exec():
    """A child of bash allocates, and then executes a program whose malloc is of no known allocator.
    bash was traced, but the program must not count as traced."""
    with place() as directory:
        path, out = os.path.join(directory, "stripped"), os.path.join(directory, "json")
        expect_equal(run(["strip", "-o", path,
                          os.path.join(PROGS, "truth_basic_static")]).status, 0, "strip")
        result = memtrace("-F", "-d", 2, f"--json={out}", "-f", "none", "--", "bash", "-c",
                          f"sleep 4 | {path} > /dev/null & sleep 4; true")
        expect_equal(result.status, 0, result)
        with open(out, encoding="utf-8") as file:
            [profile] = [p for p in map(json.loads, file) if p["comm"] == "stripped"]
        expect(profile["alloc_calls"] > 0, "the child of bash allocated nothing")
        expect_equal(profile.get("not_traced"), "no allocator in its files", "the reason")


@test(beside="wide")
def files_written_in_place():
    """The file of a program that has probes is overwritten with another program, as cp does. The
    kernel would put the old probes into the new program, and the new program would crash. So
    memtrace removes the probes when the file is written to."""
    with place() as directory:
        path = os.path.join(directory, "program")
        shutil.copy(os.path.join(PROGS, "truth_basic_static"), path)
        with Target(path) as first, Tracer("--exe", directory + "/*", "-i", "1", "--json",
                                           "-f", "none") as tracer:
            expect(changed_code(first.pid, path), "no probe in the first program")
            end(first.process)
            with open(os.path.join(PROGS, "truth_sampled_static"), "rb") as new, \
                    open(path, "wb") as file:
                file.write(new.read())
            while "was written to" not in tracer.log:
                tracer.log += read_line(tracer.process, tracer.process.stderr)
            time.sleep(0.5)  # the kernel removes the probes meanwhile
            with Target(path, "--scale", "1") as second:
                second.go()
                expect_equal(changed_code(second.pid, path), [], "changes of its code")
                profile = by_pid(tracer.stop().out)[second.pid]
                expect_equal(second.quit(), 0, "status of the second program")
            expect_equal(profile.get("not_traced"), "its allocator cannot be probed", "the reason")
            expect_words(profile["refused"], "was written to")


def changed_code(pid, path):
    """Offsets at which the process's code differs from the file."""
    with open(f"/proc/{pid}/maps", encoding="utf-8") as maps:
        code = re.findall(rf"^([0-9a-f]+)-([0-9a-f]+) r-xp ([0-9a-f]+) .* {re.escape(path)}$",
                          maps.read(), re.M)
    return [place for mapping in code
            for place in changed_in(pid, *(int(number, 16) for number in mapping), path)]


def disk_free(path):
    stat = os.statvfs(path)
    return stat.f_bfree * stat.f_frsize


@test(long=True)
def files_are_let_go():
    """After a program was run and deleted, memtrace does not keep its file open. So the file system
    can be unmounted."""
    n, size = 30, 20 << 20
    with place() as directory:
        mounted = run(["mount", "-t", "tmpfs", "-o", f"size={(n + 2) * size}", "none", directory])
        expect_equal(mounted.status, 0, mounted)
        try:
            before = disk_free(directory)
            with Tracer("-a", "-i", "1", "--json", "-f", "none") as tracer:
                for path in copies(directory, n, distinct=True):
                    os.truncate(path, size)
                    # no holes, so that the file takes space on the disk
                    with open(path, "r+b") as file:
                        file.seek(1 << 20)
                        file.write(bytes(size - (1 << 20)))
                    live_through([path])
                    os.unlink(path)
                wait_until(lambda: disk_free(directory) >= before - size, "the disk space is back")
                live_through(copies(directory, 1))
                wait_until(lambda: not run(["umount", directory]).status, "it can be unmounted")
                tracer.stop()
        finally:
            subprocess.run(["umount", "-l", directory], check=False, stderr=subprocess.DEVNULL)


@test(long=True)
def files_with_unknown_malloc():
    """A process with an unknown allocator is reported as such, not as a process that holds nothing.
    The same is true of later processes with the same file."""
    with contextlib.ExitStack() as running:
        there = running.enter_context(Target("own_malloc"))
        refused = memtrace("-p", there.pid, "-d", "1", "-f", "none")
        expect_equal(refused.status, 1, refused)
        expect_words(refused.err, "an allocator that memtrace does not know")
        with Tracer("--comm", "own_malloc", "-i", "1", "--json", "-f", "none") as tracer:
            comes = running.enter_context(Target("own_malloc"))
            time.sleep(SOON_S)
            profiles = by_pid(tracer.stop().out)
        for target in (there, comes):
            profile = profiles[target.pid]
            expect_equal(profile.get("not_traced"), "its malloc is of no known allocator",
                         "the reason")
            expect_equal(profile["lost"]["not_traced"], 1, "its counter")
        with Tracer("-a", "-n", "100000", "-f", "none", "-d", "1") as tracer:
            out = tracer.wait().out
        for target in (there, comes):
            expect_words(out, rf"^ *{target.pid} +own_malloc +- .*\(not traced: its malloc")
        one = memtrace("--exe", there.path, "-d", "1", "-f", "none")
        expect_words(one.out, "not traced: +its malloc is of no known allocator")
