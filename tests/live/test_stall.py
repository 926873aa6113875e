# SPDX-License-Identifier: BSD-2-Clause
"""Memtrace hangs, in whatever: its targets have their speed back within a second, and what they did meanwhile is a named
loss."""
import contextlib
import fcntl
import json
import os
import pty
import re
import select
import shutil
import signal
import struct
import subprocess
import termios
import time

from harness import (MEMTRACE, PATIENCE_S, PROGS, Target, Tracer, end, expect, expect_equal, expect_words, place, start, test,
                     test_each_kind, wait_until)
from test_budget import Restless, in_window
from test_harmless import changed_text
from test_top import Screen

BACK_S = 1.0
SPEED = 0.5  # of the untraced one, which differs by a third from round to round; a probe leaves a hundredth
JSON = ("--json", "-f", "none")


class Busy(Target):
    """Does nothing but allocate, for half a second each time that it is asked. Meanwhile it sleeps, so that
    its probes stay in place."""

    def __init__(self):
        super().__init__("churn", "--seconds", "0.5")
        self.untraced = [self.go()["ns_per_pair"] for _ in range(2)]

    def check_speed(self):
        """By its best of some rounds: a machine's others slow it down as well. (With a probe a pair takes a hundred times as
        long.)"""
        took = [self.go()["ns_per_pair"] for _ in range(3)]
        self.untraced.append(self.go()["ns_per_pair"])
        expect(min(took) <= max(self.untraced) / SPEED, "ns per pair:", took, "untraced:", self.untraced)


@contextlib.contextmanager
def stopped(tracer):
    os.kill(tracer.process.pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(tracer.process.pid, signal.SIGCONT)


def wait_withdrawn(pid, timeout=BACK_S):
    """How long it took."""
    begin = time.monotonic()
    while changed_text(pid):
        expect(time.monotonic() - begin < timeout, f"pid {pid} has probes after {timeout} s")
        time.sleep(0.01)
    return time.monotonic() - begin


def wait_in_place(pid, kind=None):
    """Until it is traced all the time: its probes are there for a second. (Those of perf take two to go.)"""
    begin = since = time.monotonic()
    while time.monotonic() - since < (4 if kind == "perf" else 1):
        expect(time.monotonic() - begin < PATIENCE_S, f"pid {pid} is not traced all the time")
        if not changed_text(pid):
            since = time.monotonic()
        time.sleep(0.01)


def keeper_of(pid):
    with open(f"/proc/{pid}/task/{pid}/children", encoding="utf-8") as file:
        for child in file.read().split():
            with contextlib.suppress(OSError), open(f"/proc/{child}/comm", encoding="utf-8") as name:
                if name.read() == "mt-keeper\n":
                    return int(child)
    raise AssertionError(f"no keeper among the children of {pid}")


def check_told(tracer, times=1):
    """Ends it in order."""
    result = tracer.stop()
    expect_words(result.err, "held up: .* taken out of all processes")
    profile = result.json()
    expect_equal(profile["lost"]["probes_withdrawn"], times, "probes_withdrawn")
    return profile


@test_each_kind
def stall_stopped(kind):
    """SIGSTOP, twice, while probes are in place all the time; then the target becomes busy."""
    with Busy() as target, Tracer("-p", target.pid, "--probe-kind", kind, *JSON) as tracer:
        took = []
        for _ in range(2):
            wait_in_place(target.pid, kind)
            with stopped(tracer):
                took.append(wait_withdrawn(target.pid, 3 if kind == "perf" else BACK_S))
                target.check_speed()
            target.check_speed()  # and its limit is kept afterwards
        check_told(tracer, 2)
    return ", ".join(f"{t:.2f}" for t in took) + " s"


@test_each_kind(long=True)
def stall_stopped_in_window(kind):
    """The same while a window is open. (It may have been about to close: not each time.)"""
    took, times = [], 3 if kind == "perf" else 5
    with Restless() as target:
        with Tracer("-p", target.pid, "--probe-kind", kind, "--max-overhead", "5", *JSON) as tracer:
            for _ in range(times):
                in_window(target.pid)
                with stopped(tracer):
                    time.sleep(0.02)
                    took.append(wait_withdrawn(target.pid, 3 if kind == "perf" else BACK_S))
                    time.sleep(1)
            in_window(target.pid)
            result = tracer.stop()
        target.stop()
    expect_words(result.err, "held up: .* taken out of all processes")
    profile = result.json()
    expect(1 <= profile["lost"]["probes_withdrawn"] <= times, profile["lost"])
    expect_equal(profile["mode"], "windowed", "mode")
    return ", ".join(f"{t:.2f}" for t in took) + f" s, {profile['lost']['probes_withdrawn']} of {times} windows"


@test(long=True)
def stall_without_limit():
    """Who asked for every call waits longer for it, and is not told that it is exact."""
    with Busy() as target:
        with Tracer("-p", target.pid, "-i", "1", *JSON) as tracer:
            with stopped(tracer):
                time.sleep(2)
                expect(changed_text(target.pid), "withdrawn so soon")
                wait_withdrawn(target.pid, 5)
                target.check_speed()
            wait_until(lambda: changed_text(target.pid), "its probes are back")
            check_told(tracer)
        with Tracer("-p", target.pid, "-i", "1", "-f", "none") as tracer:
            with stopped(tracer):
                wait_withdrawn(target.pid, 8)
            result = tracer.stop()
        expect("exact" not in result.out, result.out)
        expect_words(result.out, "lost: .*probes_withdrawn 1")


@test(long=True)
def stall_everywhere():
    """Probes in everybody's code go, and come back."""
    with Busy() as target, Tracer("-a", *JSON) as tracer:
        wait_until(lambda: changed_text(target.pid), "there are probes in its code")
        with stopped(tracer):
            took = wait_withdrawn(target.pid)
            target.check_speed()
        wait_until(lambda: changed_text(target.pid), "there are probes in its code again")
        result = tracer.stop()
        expect_words(result.err, "held up: .* taken out of all processes")
        expect_words(result.out, '"probes_withdrawn": ?1')
    return f"{took:.2f} s"


@test
def stall_regions():
    """Calls of mmap are seen again."""
    with Target("truth_regions") as target:
        with Tracer("-p", target.pid, "--what", "regions", "--max-overhead", "5", *JSON) as tracer:
            wait_until(lambda: changed_text(target.pid), "its probes are in place")
            with stopped(tracer):
                wait_withdrawn(target.pid)
            wait_until(lambda: changed_text(target.pid), "its probes are back")
            target.go()
            profile = check_told(tracer)
        expect(profile["stacks"], "no region seen")


@test_each_kind(long=True)
def stall_killed(kind):
    """SIGKILL of memtrace, of the keeper, and of both, one right after the other."""
    for victims in ("memtrace",), ("keeper",), ("memtrace", "keeper"), ("keeper", "memtrace"):
        with Busy() as target, Tracer("-p", target.pid, "--probe-kind", kind, *JSON) as tracer:
            wait_in_place(target.pid)
            pids = {"memtrace": tracer.process.pid, "keeper": keeper_of(tracer.process.pid)}
            for victim in victims:
                os.kill(pids[victim], signal.SIGKILL)
            result = tracer.wait()
            wait_withdrawn(target.pid, PATIENCE_S if kind == "perf" else BACK_S) # one after the other
            target.check_speed()
            wait_until(lambda: not os.path.exists(f"/proc/{pids['keeper']}"), "the keeper has ended")
            if victims == ("keeper",):
                expect_equal(result.status, 1, result)
                expect_words(result.err, "mt-keeper.* has ended")
                expect_equal(result.json()["pid"], target.pid, "pid: what was seen is told")


def traces_of(target):
    """Processes of the memtrace that traces the target: they have its command line."""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError), open(f"/proc/{pid}/cmdline", "rb") as file:
            words = file.read().split(b"\0")
            if words[0] == os.fsencode(MEMTRACE) and os.fsencode(str(target)) in words:
                found.append(int(pid))
    return found


@test_each_kind(long=True)
def stall_killed_one_by_one(kind):
    """As a container that ends does it: memtrace first, all others of its processes a moment later. A process that is killed while
    it takes a probe out leaves the breakpoint, so there must be none."""
    with Busy() as target:
        for moment_s in (0.005, 0.03, 0.1, 0.3):
            with Tracer("-p", target.pid, "--probe-kind", kind, *JSON) as tracer:
                wait_in_place(target.pid)
                os.kill(tracer.process.pid, signal.SIGKILL)
                time.sleep(moment_s)
                for pid in traces_of(target.pid):
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(pid, signal.SIGKILL)
                tracer.wait()
                wait_withdrawn(target.pid, PATIENCE_S)
        target.check_speed()


@contextlib.contextmanager
def terminal(*args, program=MEMTRACE):
    """Memtrace on a terminal of its own, and the descriptor of who sits there."""
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 50, 160, 0, 0))
    process = start([program, *args], stdin=slave, stdout=slave, stderr=slave, env={**os.environ, "TERM": "rxvt"},
                    preexec_fn=Screen.own_terminal)
    os.close(slave)
    try:
        yield process, master
    finally:
        end(process)
        os.close(master)


def read_until(master, pattern):
    text, begin = b"", time.monotonic()
    while not re.search(pattern, text):
        expect(time.monotonic() - begin < PATIENCE_S, f"no {pattern} in {text[-300:]}")
        if select.select([master], [], [], 1)[0]:
            text += os.read(master, 65536)


def check_end(process, signals):
    """Of the signals the last one ends it, whatever it is at."""
    for _ in range(signals):
        with contextlib.suppress(ProcessLookupError):
            process.send_signal(signal.SIGTERM)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(3)
    expect(process.poll() is not None, "SIGTERM does not end it")


@test
def stall_ctrl_s():
    """At a terminal that stands still memtrace goes on, and ends: by a signal, or by its time and a signal for the table that
    nobody reads."""
    with Busy() as target:
        for options, signals in ((), 2), (("-d", "6"), 1):
            with terminal("-p", target.pid, "-f", "none", *options) as (process, master):
                read_until(master, rb"samples \d+")
                over = time.monotonic() + 7  # -d 6, and what the end takes
                os.write(master, b"\x13")
                time.sleep(2.5)
                target.go()  # it becomes busy: the limit is kept
                target.check_speed()
                if options:
                    time.sleep(max(0, over - time.monotonic()))
                check_end(process, signals)
                wait_withdrawn(target.pid)


@test
def stall_ctrl_z():
    """A shell's job that is stopped, and goes on."""
    with Busy() as target, place() as directory:
        out = os.path.join(directory, "out")
        script = f"{MEMTRACE} -v -p {target.pid} --json={out} -f none; echo stopped; read x; fg"
        with terminal("-m", "-c", script, program="sh") as (shell, master):
            read_until(master, b"; tracing")
            wait_in_place(target.pid)
            os.write(master, b"\x1a")
            wait_withdrawn(target.pid)
            read_until(master, b"stopped")
            target.check_speed()
            os.write(master, b"\n")
            read_until(master, b"held up: .* taken out of all processes")
            wait_in_place(target.pid)
            os.write(master, b"\x03")
            shell.wait(PATIENCE_S)
        with open(out, encoding="utf-8") as file:
            expect_equal(json.load(file)["lost"]["probes_withdrawn"], 1, "probes_withdrawn")


def fill(slave):
    """Takes all the room that there is in a terminal nobody reads."""
    with open(f"/proc/self/fd/{slave}", "wb", 0, opener=lambda path, _: os.open(path, os.O_WRONLY | os.O_NONBLOCK)) as file:
        while file.write(b"." * 500):
            pass


@test(long=True)
def stall_top_unread():
    """A screen that stands still (Ctrl-S), or one of a connection that hangs: all room for it is taken."""
    for hang in "ctrl-s", "full":
        with Busy() as target, Screen("-p", target.pid, "--delay", "0.2") as screen:
            screen.until_words(rf"pid {target.pid}")
            if hang == "ctrl-s":
                os.write(screen.master, b"\x13")
            else:
                fill(screen.slave)
            time.sleep(1)
            target.go()  # it becomes busy
            target.check_speed()
            if hang == "ctrl-s":  # and what is shown then is whole
                os.write(screen.master, b"\x11")
                screen.until_words(r"in windows")
                os.write(screen.master, b"\x13")
                time.sleep(1)
            check_end(screen.process, 1)
            wait_withdrawn(target.pid)


@test(long=True)
def stall_unfilled_memory():
    """A target's list of libraries leads into memory that nobody fills in. Who reads it is left behind: memtrace
    goes on, ends when it is told to, and counts what was given up."""
    for released in True, False:
        with place() as directory:
            library = os.path.join(directory, "library.so")  # one that is not known yet
            shutil.copy(os.path.join(PROGS, "leaking_plugin.so"), library)
            report = os.path.join(directory, "json")
            with Busy() as target, Target("trap", "--file", library) as trap, \
                    Tracer("--comm", "churn", "--comm", "trap", f"--json={report}", "-f", "none") as tracer:
                wait_in_place(target.pid)
                expect_equal(trap.go(), {"trapped": 1}, "the trap")
                left = lambda: len(os.listdir(f"/proc/{tracer.process.pid}/task")) > 1
                wait_until(left, "a thread of memtrace's reads what never comes")
                target.check_speed()
                if released:
                    expect_equal(trap.go(), {"trapped": 0}, "the trap")
                    wait_until(lambda: not left(), "the thread has ended")
                    expect_equal(trap.quit(), 0, "status of trap")
                began = time.monotonic()
                tracer.stop()
                took = time.monotonic() - began
                expect(took < 5, f"memtrace took {took:.1f} s to end")
                with open(report, encoding="utf-8") as file:
                    lost = [json.loads(line)["lost"] for line in file]
                expect_equal({n["memory_unanswered"] for n in lost}, {1}, "reads that were given up")
                expect_equal(changed_text(target.pid), [], "code changed after the end")
    return f"ended after {took:.2f} s"
