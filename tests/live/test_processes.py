# SPDX-License-Identifier: BSD-2-Clause
"""More than one process: families, names, users, cgroups, all of the machine."""
import contextlib
import json
import os
import pwd
import signal
import subprocess
import tempfile
import time

from harness import (MEMTRACE, PROGS, Target, Tracer, end, expect, expect_equal, expect_words,
                     losses, memtrace, place, read_line, start, test, test_each_kind, wait_until)

FAMILY = os.path.join(PROGS, "family")


def by_pid(lines):
    return {p["pid"]: p for p in map(json.loads, lines.splitlines())}


def check_family(truth, profiles):
    for pid, (size, objects) in truth["processes"].items():
        profile = profiles.get(int(pid))
        expect(profile, f"no profile of pid {pid}, which holds {size} bytes; there are",
               sorted(profiles))
        expect_equal((profile["live_bytes"], profile["live_objects"]), (size, objects),
                     f"pid {pid}: live bytes and objects")
        expect_equal(losses(profile), {}, f"pid {pid}: losses")


@test_each_kind
def processes_follow(kind):
    """Children of every kind have accounts of their own, exact to the byte, though they have ended."""
    with Target("family") as target:
        with Tracer("-p", target.pid, "-F", "-i", "1", "--json", "-f", "none", "--probe-kind",
                    kind) as tracer:
            truth = target.go()
            profiles = by_pid(tracer.stop().out)
        expect_equal(target.quit(), 0, "status of family")
    check_family(truth, profiles)
    expect_equal(len(truth["processes"]), 6, "processes")
    expect_equal(set(profiles), set(map(int, truth["processes"])), "processes with a profile")


@test
def processes_not_followed():
    """Without -F the children's memory is nobody's, and what they free of their parent's stays."""
    with Target("family") as target:
        with Tracer("-p", target.pid, "-i", "1", "--json", "-f", "none") as tracer:
            truth = target.go()
            profiles = by_pid(tracer.stop().out)
        expect_equal(target.quit(), 0, "status of family")
    expect_equal(set(profiles), {target.pid}, "processes with a profile")
    expect_equal(profiles[target.pid]["live_bytes"], truth["processes"][str(target.pid)][0], "bytes")


@contextlib.contextmanager
def leaker(size, *wrapper, every_ms=50, program=FAMILY, **options):
    """A process that allocates a block of size bytes every so many milliseconds, for ever."""
    process = start([*wrapper, program, "leak", "100000", str(size), str(every_ms)], **options)
    try:
        yield process
    finally:
        end(process)


def holder(n, size, ms):
    """A process that holds n blocks for a while, says so and ends."""
    return start(["sh", "-c", 'exec "$@" 9>&1', "sh", FAMILY, "hold", str(n), str(size), str(ms)])


def trace_selected(*selection, seconds=2.5, during=None):
    """The profiles, by pid, of a run on a selection of processes; during runs meanwhile."""
    with Tracer(*selection, "-i", "1", "--json", "-f", "none") as tracer:
        told = during() if during else None
        time.sleep(seconds)
        return by_pid(tracer.stop().out), told


def grew(profiles, process, size):
    profile = profiles.get(process.pid)
    return profile and profile["live_bytes"] >= 3 * size and profile["live_bytes"] % size == 0


def check_selected(profiles, selected, others):
    for process, size in selected:
        expect(grew(profiles, process, size), f"pid {process.pid} is missing or wrong:",
               profiles.get(process.pid) and profiles[process.pid]["live_bytes"], sorted(profiles))
    for process in others:
        expect(process.pid not in profiles, f"pid {process.pid} was not selected")


@test
def processes_by_name():
    """Those there are, and those that come."""
    with place() as directory:
        other = os.path.join(directory, "cousin")
        os.symlink(FAMILY, other)
        with leaker(1000) as one, leaker(1100, program=other) as cousin, \
                contextlib.ExitStack() as later:
            profiles, two = trace_selected("--comm", "family", during=lambda:
                                           later.enter_context(leaker(1200)))
            check_selected(profiles, [(one, 1000), (two, 1200)], [cousin])


@test
def processes_by_program():
    with place() as directory:
        other = os.path.join(directory, "cousin")
        with open(FAMILY, "rb") as source, open(other, "wb") as copy:
            copy.write(source.read())
        os.chmod(other, 0o755)
        with leaker(1000) as one, leaker(1100, program=other) as cousin, \
                contextlib.ExitStack() as later:
            profiles, two = trace_selected("--exe", directory + "/c*", during=lambda:
                                           later.enter_context(leaker(1200, program=other)))
            check_selected(profiles, [(cousin, 1100), (two, 1200)], [one])


@test
def processes_by_user():
    nobody = pwd.getpwnam("nobody")
    as_nobody = ["setpriv", "--reuid", str(nobody.pw_uid), "--clear-groups"]
    with tempfile.TemporaryDirectory() as directory:
        os.chmod(directory, 0o755)
        program = os.path.join(directory, "family")
        with open(FAMILY, "rb") as source, open(program, "wb") as copy:
            copy.write(source.read())
        os.chmod(program, 0o755)
        with leaker(1000) as one, leaker(1100, *as_nobody, program=program) as theirs, \
                contextlib.ExitStack() as later:
            wait_until(lambda: os.stat(f"/proc/{theirs.pid}").st_uid == nobody.pw_uid,
                       "setpriv has done its work")
            profiles, two = trace_selected("--user", "nobody", during=lambda: later.enter_context(
                leaker(1200, *as_nobody, program=program)))
            check_selected(profiles, [(theirs, 1100), (two, 1200)], [one])


@contextlib.contextmanager
def cgroup(name):
    """A cgroup (v2) of the test's own."""
    with open("/proc/self/mountinfo", encoding="utf-8") as file:
        mounts = [line.split() for line in file]
    root = next((m[4] for m in mounts if m[m.index("-") + 1] == "cgroup2"), None)
    expect(root, "there is no cgroup2 here")
    path = os.path.join(root, name)
    os.mkdir(path)
    try:
        yield path
    finally:
        wait_until(lambda: not open(path + "/cgroup.procs", encoding="utf-8").read(),
                   "the cgroup is empty")
        os.rmdir(path)


def test_cgroup_selection(option, value_of):
    name = f"docker-{os.getpid():08d}deadbeef.scope"
    with cgroup(name) as path, contextlib.ExitStack() as later:
        enter = ["sh", "-c", f'echo $$ >{path}/cgroup.procs; exec "$@"', "sh"]
        with leaker(1000) as one, leaker(1100, *enter) as inside:
            def member():
                with open(path + "/cgroup.procs", encoding="utf-8") as file:
                    return str(inside.pid) in file.read().split()
            wait_until(member, "the target is in the cgroup")
            profiles, two = trace_selected(option, value_of(path), during=lambda:
                                           later.enter_context(leaker(1200, *enter)))
            later.close()
            check_selected(profiles, [(inside, 1100), (two, 1200)], [one])


@test
def processes_by_cgroup():
    test_cgroup_selection("--cgroup", lambda path: path)


@test
def processes_by_container():
    test_cgroup_selection("--container", lambda path: f"{os.getpid():08d}deadbeef")


@test
def processes_all():
    """Of sixty processes one leaks: it is the first row. New ones come and go meanwhile; none is harmed."""
    with contextlib.ExitStack() as stack:
        for _ in range(60):
            stack.enter_context(leaker(64, every_ms=200))
        leak = stack.enter_context(leaker(60000, every_ms=5))
        ended = []
        with Tracer("-a", "-i", "16K", "-n", "5") as tracer:
            deadline = time.monotonic() + 5
            while time.monotonic() < deadline:
                ended.append(holder(50, 1000, 300))
                time.sleep(0.03)
            result = tracer.stop()
        for process in ended:
            out, _ = process.communicate(timeout=30)
            expect_equal((process.returncode, out), (0, f"{process.pid} 50000 50\n"), "a short life")
            end(process)
        rows = [line.split() for line in result.out.splitlines()]
        first = next((row for row in rows if row and row[0].isdigit()), None)
        expect(first, "no row of a process in", result.out)
        expect_equal(first[:2], [str(leak.pid), "family"], f"the first row of\n{result.out}")
        return f"{len(ended)} short-lived ones"


@test
def processes_short_lived():
    """None is missed that lives longer than half a second, and each is exact."""
    with Tracer("--comm", "family", "-i", "1", "--json", "-f", "none") as tracer:
        processes = []
        for i in range(150):
            processes.append(holder(20 + i, 1000, 600))
            time.sleep(0.02)
        for process in processes:
            process.communicate(timeout=30)
        profiles = by_pid(tracer.stop().out)
    for i, process in enumerate(processes):
        expect(process.pid in profiles, f"process {i} of {len(processes)} was missed")
        expect_equal(profiles[process.pid]["live_bytes"], 1000 * (20 + i), f"process {i}: bytes")
        end(process)


@test
def processes_wrong_selection():
    for options, words in ((["--comm", ""], ["comm", "value"]),
                           (["--user", "nobody-knows"], ["no user", "nobody-knows"]),
                           (["--sort", "size"], ["growth", "size"]),
                           (["-F"], ["which process"])):
        result = memtrace(*options, "-d", "1")
        expect_equal(result.status, 2, result)
        expect_words(result.err, *words)
    for options, words in ((["--cgroup", "/no/such/cgroup"], ["/no/such/cgroup"]),
                           (["--container", "0123456789abcdef"], ["0123456789abcdef"])):
        result = memtrace(*options, "-d", "1")
        expect_equal(result.status, 1, result)
        expect_words(result.err, *words)
