# SPDX-License-Identifier: BSD-2-Clause
"""Many processes share one budget of the machine's CPU time. If it suffices, all are traced; if
not, they take turns."""
import contextlib
import json
import os
import shutil
import time

from harness import (Endless, PROGS, Target, Tracer, end, expect, expect_equal, expect_words,
                     losses, memtrace, place, start, test)
from test_harmless import changed_text
from test_processes import by_pid, holder, own_cpu_s
from test_windows import growth_of

LIMITS = ("--max-overhead", "5", "--max-host-overhead", "2")


@contextlib.contextmanager
def renamed(program, name):
    """A copy of a program with a name of its own: selecting it by name selects no other test's
    process."""
    with place() as directory:
        path = os.path.join(directory, name)
        shutil.copy(os.path.join(PROGS, program), path)
        yield path


def cpu_ns_per_pair(churn):
    """Lets churn run one round; returns its CPU time per pair, which other running processes do not
    change."""
    before = own_cpu_s(churn.pid)
    pairs = churn.go()["pairs"]
    return (own_cpu_s(churn.pid) - before) * 1e9 / pairs


def links_of(pid):
    """(number of descriptors, number of those that are BPF links)."""
    links = total = 0
    for name in os.listdir(f"/proc/{pid}/fd"):
        with contextlib.suppress(OSError):
            links += "bpf_link" in os.readlink(f"/proc/{pid}/fd/{name}") or \
                     "bpf-link" in os.readlink(f"/proc/{pid}/fd/{name}")
            total += 1
    return total, links


def mode_of(profile):
    windows = profile.get("windows")
    return profile["mode"] + (f" ({windows['n']} of {windows['seconds']:.1f} s in all, "
                              f"{windows['continuous_seconds']:.1f} s continuous)"
                              if windows else "")


def trace_quiet():
    # a block is 24 times as large as the interval, so it is always sampled and has a weight of 1
    with Tracer("-a", "-i", "16K", *LIMITS, "--json", "-f", "none") as tracer:
        process = holder(20, 400000, 2000)
        time.sleep(3)
        profiles = by_pid(tracer.stop().out)
    out, _ = process.communicate(timeout=10)
    expect_equal(out, f"{process.pid} 8000000 20\n", "the truth")
    return profiles.get(process.pid)  # None: the process ended before it was traced


@test
def host_quiet():
    """If the budget suffices, all processes are traced continuously and exactly. (Other load may
    disturb a run, but hardly three runs in a row.)"""
    for _ in range(3):
        profile = trace_quiet()
        if profile and profile["mode"] == "continuous":
            break
    expect(profile, "the machine is too busy: not traced everywhere in three runs")
    expect_equal(profile["mode"], "continuous", "mode")
    expect_equal((profile["live_bytes"], profile["live_objects"]), (8000000, 20),
                 "live bytes and objects")
    lost = losses(profile)
    # the process was a shell before its exec, and these blocks are the shell's
    lost.pop("dropped_by_exec", None)
    lost.pop("processes_unseen", None)  # of the whole run: other programs came and went
    expect_equal(lost, {}, "losses")
    expect(0 <= profile["memtrace"]["overhead_host_pct"] < 2, "cost to the machine:",
           profile["memtrace"])
    return f"{profile['memtrace']['overhead_host_pct']:.3f} % of the machine's CPU time"


def trace_storm():
    """There are idle processes, modest ones, and two that do nothing but allocate: one leaks, and
    one runs for some seconds only. Returns four things: the profiles, the pid of the process that
    leaks, the truths by pid (of this process and the modest ones), and the slowdown of the process
    that runs for some seconds."""
    with contextlib.ExitStack() as stack:
        path = stack.enter_context(renamed("leaking", "stormy"))
        for _ in range(20):
            stack.callback(end, start(["sleep", "100"]))
        modest = [stack.enter_context(Endless(path, "--rate", "1000", "--leak", "100000"))
                  for _ in range(3)]
        churn = stack.enter_context(Target("churn", "--seconds", "2"))
        leak = stack.enter_context(Endless(path, "--leak", "4000000"))
        untraced = [cpu_ns_per_pair(churn)]
        with Tracer("-a", *LIMITS, "--json", "-f", "none") as tracer:
            begin, cpu = time.monotonic(), {t.pid: own_cpu_s(t.pid) for t in (leak, churn)}
            time.sleep(1)
            traced = sorted(cpu_ns_per_pair(churn) for _ in range(3))
            time.sleep(20)
            cpu = {pid: own_cpu_s(pid) - before for pid, before in cpu.items()}
            seconds = time.monotonic() - begin
            profiles = by_pid(tracer.stop().out)
        untraced.append(cpu_ns_per_pair(churn))
        for target in (leak, churn, *modest):
            expect_equal(changed_text(target.pid), [], "code changed after the end")
        truths = {target.pid: target.stop() for target in (*modest, leak)}
    expect_equal((profiles[leak.pid]["mode"], profiles[churn.pid]["mode"]),
                 ("windowed", "windowed"), "mode")
    own = profiles[leak.pid]["memtrace"]
    expect(own["overhead_host_pct"] < 3, "cost to the machine:", own)
    # cost relative to CPU time, or to one core's time if that is more
    for pid, cpu_s in cpu.items():
        pct = profiles[pid]["overhead_pct"] * cpu_s / max(cpu_s, seconds)
        expect(pct < 8, f"cost: {pct:.1f} %, {cpu_s:.1f} s of CPU time in {seconds:.1f} s")
    slower = traced[0] / max(untraced) - 1 # the machine's noise alone may reach a quarter
    expect(slower < 0.25, f"{100 * slower:.0f} % slower:", untraced,
           "ns per pair untraced,", traced)
    return profiles, leak.pid, truths, slower


def check_storm(profiles, leak, truths, slower):
    """The leaking process grows fastest of all. The small leak of each modest process is measured,
    too."""
    grows = {pid: sum(s.get("growth_bytes_per_s") or 0 for s in p["stacks"])
             for pid, p in profiles.items()}
    grows = {pid: grows[pid] for pid in sorted(grows, key=grows.get)[-5:]}
    expect_equal(max(grows, key=grows.get), leak, f"who grows fastest of {grows}")
    growth = growth_of(profiles[leak])
    expect_equal(max(growth, key=lambda name: growth[name][0]), "forget",
                 f"what grows fastest of {growth}")
    told, n_continuous = [], 0
    for pid, truth in truths.items():
        rate = truth["leaked_bytes"] / truth["seconds"]
        estimate, low, high = growth_of(profiles[pid]).get("forget", (0, 0, 0))
        told.append(f"{estimate / 1000:.0f} ({low / 1000:.0f} - {high / 1000:.0f}) for "
                    f"{rate / 1000:.0f} kB/s, {mode_of(profiles[pid])}")
        continuous = profiles[pid]["windows"]["continuous_seconds"]
        lasting = continuous > 3  # traced for more than 3 of the 20 s, in turns
        n_continuous += lasting
        if pid != leak and lasting:
            expect(low < 1.5 * rate and high > 0.5 * rate, told[-1])
    expect(n_continuous, "none of the modest ones kept its turn:", told)
    own = profiles[leak]["memtrace"]
    return (f"{own['overhead_host_pct']:.2f} % of the machine, churn {100 * slower:.1f} % slower, "
            f"memtrace {own['cpu_pct']:.1f} % of a core; growth " + "; ".join(told))


@test(long=True)
def host_storm():
    """The budget is kept, no process is slowed down by more than the limit, the leak is found, and
    modest processes are measured."""
    return check_storm(*trace_storm())


@test(long=True)
def host_crowd():
    """Five hundred processes do little, and a few do nothing but allocate. One of these few ends,
    and a new one starts. The budget is kept, memtrace itself uses little CPU time, and nothing is
    left behind."""
    seen, limit = [], 5
    with contextlib.ExitStack() as stack:
        slow = stack.enter_context(renamed("family", "crowded"))
        busy = stack.enter_context(renamed("leaking", "crowding"))
        # Each has a session of its own, as services have. Beside a single session of 500 processes
        # the kernel's own threads wait up to 4 s for a CPU, and placing probes takes as long.
        crowd = [start([slow, "leak", "100000", "64", "500" if i % 20 else "10"], stdin=None,
                       start_new_session=True) for i in range(500)]
        for process in crowd:
            stack.callback(end, process)
        wild = [stack.enter_context(Endless(busy, *args)) for args in ((), ("--rate", "2000"), ())]
        with Tracer("--comm", "crowded", "--comm", "crowding", "--max-overhead", "5",
                    "--max-host-overhead", limit, "--json", "-f", "none") as tracer:
            pid, begin, cpu = tracer.process.pid, time.monotonic(), own_cpu_s(tracer.process.pid)
            for second in range(12):
                time.sleep(1)
                seen.append(links_of(pid))
                if second == 5:
                    wild[-1].stop()
                    wild.append(stack.enter_context(Endless(busy)))
            own_pct = 100 * (own_cpu_s(pid) - cpu) / (time.monotonic() - begin)
            profiles = by_pid(tracer.stop().out)
        for target in (*crowd[::50], wild[0], wild[1], wild[3]):
            expect_equal(changed_text(target.pid), [], "code changed after the end")
        for target in (wild[0], wild[1], wild[3]):
            target.stop()
    own = profiles[wild[0].pid]["memtrace"]
    expect(own["overhead_host_pct"] < 1.4 * limit, "cost to the machine:", own)
    n = sum(p["windows"]["n"] for p in profiles.values() if p["mode"] == "windowed")
    expect(n >= 10, "only", n, "windows")
    for target in wild:
        # the process ended before its turn to be traced
        if target is wild[2] and target.pid not in profiles:
            expect(profiles[wild[0].pid]["lost"]["processes_unseen"] >= 1, "processes_unseen")
            continue
        expect_equal(profiles[target.pid]["mode"], "windowed", f"mode of {target.pid}")
    # two or three links for each file of each process that has a window
    most = max(links for _, links in seen)
    expect(most <= 8 * 4, "BPF links, second by second:", seen)
    # the same number of other links may be in removal, each by a helper of its own
    expect(seen[-1][0] <= seen[0][0] + 2 * 8 * 4, "descriptors and links, second by second:", seen)
    expect(own_pct < 40, f"memtrace took {own_pct:.1f} % of a core")
    return (f"{own['overhead_host_pct']:.2f} % of the machine, {n} windows, at most {most} links; "
            f"memtrace {own_pct:.1f} % of a core")


@test
def host_wrong_limits():
    for value in ("0", "-1", "101", "x", ""):
        result = memtrace("-a", "--max-host-overhead", value)
        expect_equal(result.status, 2, result)
        expect_words(result.err, "share of CPU time")
    result = memtrace("-p", "1", "--max-host-overhead", "1")
    expect_equal(result.status, 2, result)
    expect_words(result.err, "--max-host-overhead", "--max-overhead")
