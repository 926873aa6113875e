# SPDX-License-Identifier: BSD-2-Clause
"""Processes that are killed because memory is short, or by a signal. `record --on-oom` writes
profiles of those that are killed because memory is short."""
import contextlib
import glob
import json
import os
import signal

from harness import (MEMTRACE, Failure, Target, Tracer, expect, expect_equal, expect_words,
                     memtrace, place, run, test, wait_until)
from test_agent import Agent

LIMIT = 64 << 20
LEAK = 30_000_000  # bytes a second: the limit is reached in 2.2 s


def memory_root():
    """The directory for new cgroups, and the names of the files that limit the memory and swap of a
    cgroup."""
    with open("/proc/self/mountinfo", encoding="utf-8") as file:
        mounts = [(line.split()[4], line.rpartition(" - ")[2].split()) for line in file]
    for path, (kind, _, *options) in mounts:
        if kind == "cgroup" and "memory" in ",".join(options).split(","):
            return path, "memory.limit_in_bytes", None
    for path, (kind, *_) in mounts:
        if kind == "cgroup2":
            with open(path + "/cgroup.controllers", encoding="utf-8") as file:
                if "memory" not in file.read().split():
                    continue
            with open(path + "/cgroup.subtree_control", "w", encoding="utf-8") as file:
                file.write("+memory")
            return path, "memory.max", "memory.swap.max"
    raise Failure("no cgroup here can limit memory")


@contextlib.contextmanager
def limited(process, number=0):
    """Moves a process into a cgroup of its own with a limit of memory."""
    root, memory, swap = memory_root()
    path = os.path.join(root, f"memtrace-oom-{os.getpid()}-{number}")
    os.mkdir(path)
    try:
        for name, value in ((memory, LIMIT), (swap, 0), ("cgroup.procs", process.pid)):
            if name and (name != swap or os.path.exists(f"{path}/{name}")):
                with open(f"{path}/{name}", "w", encoding="utf-8") as file:
                    file.write(str(value))
        yield
    finally:
        if process.alive():
            process.process.kill()
            process.process.wait()
        def is_empty():
            with open(path + "/cgroup.procs", encoding="utf-8") as file:
                return not file.read()
        wait_until(is_empty, "the cgroup is empty")
        os.rmdir(path)


def check_death(path):
    """Checks that the file, which --on-oom has written, says how the process died. Returns the
    profile."""
    profile = run([MEMTRACE, "report", "-f", "json", path]).json()
    expect(profile.get("out_of_memory"), path, "does not tell of the death")
    expect_equal(profile.get("killed_by_signal"), signal.SIGKILL, "signal")
    expect_words(run([MEMTRACE, "report", path]).out, "^KILLED: out of memory, after ")
    return profile


def check_victim(path):
    """As check_death(). Also, the leaking stack must be the first one."""
    profile = check_death(path)
    expect(profile["stacks"], path, "has no stacks")
    first = profile["stacks"][0]
    expect("hoard" in first["frames"], "first is", first["frames"], "of", path)
    # 16,000 blocks of 4 KB, each sampled with a probability of 1/5: the standard error is 1.5 %
    expect(0.8 * LIMIT < first["live_bytes"] < 1.1 * LIMIT, "the leak:", first["live_bytes"],
           "of", path)


def kill_by_memory(n, options=(), check=check_victim):
    """n targets leak at the same time, each in a cgroup of its own. Each is killed, and its profile
    is written."""
    with place() as directory, contextlib.ExitStack() as stack:
        targets = [stack.enter_context(Target("hoard", "--leak", LEAK)) for _ in range(n)]
        for number, target in enumerate(targets):
            stack.enter_context(limited(target, number))
        with Tracer("--on-oom", "-p", ",".join(str(target.pid) for target in targets),
                    "-o", directory + "/out", *options) as tracer:
            for target in targets:
                target.say("go")
            result = tracer.wait()
        expect_equal(result.status, 0, result)
        for target in targets:
            expect_equal(target.process.wait(), -signal.SIGKILL, "the target's end")
            path = f"{directory}/out.{target.pid}.pb.gz"
            expect_words(result.err, rf"pid {target.pid} \(hoard\) was killed: out of memory$",
                         f"its profile: {path}$")
            check(path)
        expect_equal(len(os.listdir(directory)), n, "files")
        expect_equal(result.out.count("KILLED: out of memory"), n, "tables that tell of a death")


@test(beside=True)
def victims_leave_profiles():
    kill_by_memory(3, options=["--max-overhead", "off"])


@test(long=True)
def victims_in_windows_leave_profiles():
    """At the defaults the profile says how the process died. It shows the leak only if a window saw
    it (docs/views.md): in the seconds until the kill there may be one window, or none."""
    kill_by_memory(2, check=check_death)


@test(long=True)
def twenty_victims_leave_profiles():
    for _ in range(5):
        kill_by_memory(4, options=["--max-overhead", "off"])


@test(long=True)
def only_victims_leave_profiles():
    """Of processes selected by name, one is killed because memory is short and one aborts. Only the
    first has files."""
    with place() as directory, Target("hoard", "--leak", LEAK) as victim, \
            Target("hoard", "--abort", 1_000_000) as other, limited(victim):
        with Tracer("--on-oom", "--max-overhead", "off", "--comm", "hoard",
                    "-o", directory + "/out") as tracer:
            victim.say("go")
            other.say("go")
            expect_equal(other.process.wait(60), -signal.SIGABRT, "the end of the one that aborts")
            expect_equal(victim.process.wait(60), -signal.SIGKILL, "the victim's end")
            path = f"{directory}/out.{victim.pid}.pb.gz"
            wait_until(lambda: os.path.exists(path),
                       "the profile is written while the run goes on", 10)
            result = tracer.stop()
        expect_equal(glob.glob(directory + "/*"), [path], "files")
        check_victim(path)
        expect(str(other.pid) not in result.out, result.out)


@test(beside=True)
def agent_spools_who_is_killed():
    """Processes end in four ways. For each process that is killed or crashes, the agent's spool has
    a file, which `report` reads. The agent's server lists these processes."""
    with place() as directory, contextlib.ExitStack() as stack:
        victim, crashes, killed, ends, stays = (
            stack.enter_context(Target("hoard", "--leak", leak, "--abort", abort))
            for leak, abort in ((LEAK, 0), (LEAK, 20_000_000), (1000, 0), (1000, 0), (1000, 0)))
        stack.enter_context(limited(victim))
        targets = [victim, crashes, killed, ends, stays]
        with Agent("-p", ",".join(str(target.pid) for target in targets), "--max-overhead", "off",
                   "-i", 16384, "--spool", directory) as agent:
            agent.wait_for(*(target.pid for target in targets))
            for target in targets:
                target.say("go")
            wait_until(lambda: not victim.alive() and not crashes.alive(), "two deaths")
            killed.process.kill()
            ends.process.terminate()
            def deaths():
                return {death["pid"]: death
                        for death in json.loads(agent.get("/deaths?format=json")[1])["deaths"]}
            wait_until(lambda: len(deaths()) == 3, "three deaths")
            found = {pid: (death["out_of_memory"], death["signal"])
                     for pid, death in deaths().items()}
            expect_equal(found,
                         {victim.pid: (True, signal.SIGKILL), crashes.pid: (False, signal.SIGABRT),
                          killed.pid: (False, signal.SIGKILL)}, "deaths")
            expect_words(agent.get("/deaths")[1].decode(), f'href="/pid/{victim.pid}/"',
                         "out of memory", "SIGABRT", "hoard")
            wait_until(
                lambda: "memtrace_spool_written_total 3\n" in agent.get("/metrics")[1].decode(),
                "the metric")
            agent.stop()
        files = {pid: glob.glob(f"{directory}/*Z.hoard.{pid}.pb.gz") for pid in found}
        expect_equal(sorted(os.listdir(directory)),
                     sorted(os.path.basename(file) for [file] in files.values()), "files")
        check_victim(files[victim.pid][0])
        crash = run([MEMTRACE, "report", "-f", "json", *files[crashes.pid]]).json()
        expect_equal(crash["killed_by_signal"], signal.SIGABRT, "signal")
        expect("hoard" in crash["stacks"][0]["frames"], "first is", crash["stacks"][0])


@test(beside=True)
def without_victims_nothing_is_written():
    with place() as directory, Target("hoard", "--abort", 1_000_000) as target:
        with Tracer("--on-oom", "-p", target.pid, "-o", directory + "/out",
                    "-f", "pprof,heap") as tracer:
            target.say("go")
            result = tracer.wait()
        expect_equal(result.status, 0, result)
        expect_equal(os.listdir(directory), [], "files")
        expect_equal(result.out, "", "output")
        expect_words(result.err,
                     "in .* s no traced process was killed because memory was short: "
                     "nothing is written")
    expect_equal(memtrace("--on-oom", "--json", "-p", os.getpid()).status, 2,
                 "status of a wrong use")


@test(beside=True)
def signals_are_told():
    """Every profile says which signal ended its process, also when the profile is read from a
    file."""
    with place() as directory, Target("hoard", "--abort", 1_000_000) as target:
        with Tracer("-p", target.pid, "-f", "pprof", "-o", directory + "/out") as tracer:
            target.say("go")
            result = tracer.wait()
        expect_equal(result.status, 0, result)
        again = run([MEMTRACE, "report", "-f", "json",
                     f"{directory}/out.{target.pid}.pb.gz"]).json()
    expect_words(result.out, r"^KILLED: by signal 6 \(SIGABRT\), after ")
    expect_equal((again.get("killed_by_signal"), again.get("out_of_memory")), (6, None), "death")
