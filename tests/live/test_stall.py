# SPDX-License-Identifier: BSD-2-Clause
"""If memtrace hangs, for any reason, its targets have their full speed again within a second. A
counter says that calls were not seen meanwhile."""
import contextlib
import fcntl
import json
import os
import pty
import re
import select
import shutil
import signal
import socket
import struct
import subprocess
import termios
import time

from harness import (MEMTRACE, PATIENCE_S, PROGS, Endless, NotRunnable, Target, Tracer, end, expect,
                     expect_equal, expect_words, memtrace, place, read_line, start,
                     test, test_each_kind, wait_until)
from hostile import compiled, library_of_calls, mapper, sparse_library
from test_budget import Restless, in_window
from test_harmless import changed_text
from test_top import Screen
from test_truth import check_exact

BACK_S = 1.0
# The least share of the untraced speed. It is low, because the untraced speed varies by a third
# from round to round. With a probe, the share is a hundredth.
SPEED = 0.5
JSON = ("--json", "-f", "none")


class Busy(Target):
    """A target that only allocates, in rounds of a fifth of a second. Between rounds it sleeps. So
    its use of CPU time is low, and memtrace leaves the probes in place."""

    def __init__(self):
        super().__init__("churn", "--seconds", "0.2")
        self.untraced = [self.go()["ns_per_pair"] for _ in range(4)]

    def check_speed(self):
        """Checks the speed of the best of three rounds, because other load on the machine slows the
        target, too. (With a probe a pair takes a hundred times as long.)"""
        took = [self.go()["ns_per_pair"] for _ in range(3)]
        expect(min(took) <= max(self.untraced) / SPEED, "ns per pair:", took, "untraced:",
               self.untraced)


@contextlib.contextmanager
def stopped_process(process):
    process.send_signal(signal.SIGSTOP)
    try:
        yield
    finally:
        process.send_signal(signal.SIGCONT)


def stopped(tracer):
    return stopped_process(tracer.process)


def wait_withdrawn(pid, timeout=BACK_S):
    """Waits until the probes are gone; returns how long it took."""
    begin = time.monotonic()
    while changed_text(pid):
        expect(time.monotonic() - begin < timeout, f"pid {pid} has probes after {timeout} s")
        time.sleep(0.01)
    return time.monotonic() - begin


def wait_in_place(pid, kind=None):
    """Waits until the process is traced continuously, that is, until its probes stay for a second.
    Probes of the kind perf must stay for four seconds, because their removal alone takes two."""
    begin = since = time.monotonic()
    while time.monotonic() - since < (4 if kind == "perf" else 1):
        expect(time.monotonic() - begin < PATIENCE_S, f"pid {pid} is not traced all the time")
        if not changed_text(pid):
            since = time.monotonic()
        time.sleep(0.01)


def keeper_of(pid):
    with open(f"/proc/{pid}/task/{pid}/children", encoding="utf-8") as file:
        for child in file.read().split():
            with contextlib.suppress(OSError), \
                    open(f"/proc/{child}/comm", encoding="utf-8") as name:
                if name.read() == "mt-keeper\n":
                    return int(child)
    raise AssertionError(f"no keeper among the children of {pid}")


def check_told(tracer, times=1):
    """Ends memtrace normally; it must report the withdrawn probes."""
    result = tracer.stop()
    expect_words(result.err, "held up, .* all probes were out")
    profile = result.json()
    expect_equal(profile["lost"]["probes_withdrawn"], times, "probes_withdrawn")
    return profile


@test_each_kind
def stall_stopped(kind):
    """memtrace gets SIGSTOP twice while the target is traced continuously, and then the target
    becomes busy."""
    with Busy() as target, Tracer("-p", target.pid, "--probe-kind", kind, *JSON) as tracer:
        took = []
        for _ in range(2):
            wait_in_place(target.pid, kind)
            with stopped(tracer):
                took.append(wait_withdrawn(target.pid, 3 if kind == "perf" else BACK_S))
                target.check_speed()
            target.check_speed()  # afterwards the limit is kept as before
        check_told(tracer, 2)
    return ", ".join(f"{t:.2f}" for t in took) + " s"


@test_each_kind(long=True)
def stall_stopped_in_window(kind):
    """As stall_stopped, while a window is open. (If the window is just closing, a stop withdraws no
    probes.)"""
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
    expect_words(result.err, "held up, .* all probes were out")
    profile = result.json()
    expect(1 <= profile["lost"]["probes_withdrawn"] <= times, profile["lost"])
    expect_equal(profile["mode"], "windowed", "mode")
    return (", ".join(f"{t:.2f}" for t in took) +
            f" s, {profile['lost']['probes_withdrawn']} of {times} windows")


@test(long=True)
def stall_without_limit():
    """In a run without a limit, probes are removed only after a longer hang. After that, the
    figures are not called exact."""
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
    """Probes in the code of every process are removed while memtrace hangs, and put back
    afterwards."""
    with Busy() as target, Tracer("-a", *JSON) as tracer:
        wait_until(lambda: changed_text(target.pid), "there are probes in its code")
        with stopped(tracer):
            took = wait_withdrawn(target.pid)
            target.check_speed()
        wait_until(lambda: changed_text(target.pid), "there are probes in its code again")
        result = tracer.stop()
        expect_words(result.err, "held up, .* all probes were out")
        expect_words(result.out, '"probes_withdrawn": ?1')
    return f"{took:.2f} s"


@test
def stall_regions():
    """After the stall memtrace sees calls of mmap again."""
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
    """Probes are removed after a SIGKILL of memtrace, of its keeper, or of both, one right after
    the other."""
    for victims in ("memtrace",), ("keeper",), ("memtrace", "keeper"), ("keeper", "memtrace"):
        with Busy() as target, Tracer("-p", target.pid, "--probe-kind", kind, *JSON) as tracer:
            wait_in_place(target.pid)
            pids = {"memtrace": tracer.process.pid, "keeper": keeper_of(tracer.process.pid)}
            for victim in victims:
                os.kill(pids[victim], signal.SIGKILL)
            result = tracer.wait()
            # perf uprobes are removed one by one
            wait_withdrawn(target.pid, PATIENCE_S if kind == "perf" else BACK_S)
            target.check_speed()
            wait_until(lambda: not os.path.exists(f"/proc/{pids['keeper']}"),
                       "the keeper has ended")
            if victims == ("keeper",):
                expect_equal(result.status, 1, result)
                expect_words(result.err, "mt-keeper.* was killed")
                expect_equal(result.json()["pid"], target.pid, "pid: what was seen is told")


def traces_of(target):
    """The processes of the memtrace that traces the target. All have the same command line."""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError), open(f"/proc/{pid}/cmdline", "rb") as file:
            words = file.read().split(b"\0")
            if words[0] == os.fsencode(MEMTRACE) and os.fsencode(str(target)) in words:
                found.append(int(pid))
    return found


@test_each_kind(long=True, best=True)
def stall_killed_one_by_one(kind):
    """memtrace is killed as at the end of a container: first its main process, and a moment later
    all its other processes. A process that is killed while it removes a probe must not leave the
    breakpoint in place."""
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
    """memtrace on a terminal of its own; yields the process and the master descriptor."""
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 50, 160, 0, 0))
    process = start([program, *args], stdin=slave, stdout=slave, stderr=slave,
                    env={**os.environ, "TERM": "rxvt"}, preexec_fn=Screen.own_terminal)
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
    """Sends SIGTERM `signals` times. The last one must end the process, whatever it is doing."""
    for _ in range(signals):
        with contextlib.suppress(ProcessLookupError):
            process.send_signal(signal.SIGTERM)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(3)
    expect(process.poll() is not None, "SIGTERM does not end it")


@test(long=True)
def stall_ctrl_s():
    """On a stopped terminal (Ctrl-S) memtrace goes on. A signal ends it: during the run, or after
    -d, while it writes the table that nobody reads."""
    with Busy() as target:
        for options, signals in ((), 2), (("-d", "4"), 1):
            with terminal("-p", target.pid, "-f", "none", *options) as (process, master):
                read_until(master, rb"samples \d+")
                over = time.monotonic() + 5  # -d 4, and the time to end
                os.write(master, b"\x13")
                time.sleep(2.5)
                target.go()  # the target becomes busy, and the limit is kept
                target.check_speed()
                if options:
                    time.sleep(max(0, over - time.monotonic()))
                check_end(process, signals)
                wait_withdrawn(target.pid)


@test
def stall_ctrl_z():
    """memtrace is a shell's job that is stopped and continued."""
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
            read_until(master, b"held up, .* all probes were out")
            wait_in_place(target.pid)
            os.write(master, b"\x03")
            shell.wait(PATIENCE_S)
        with open(out, encoding="utf-8") as file:
            expect_equal(json.load(file)["lost"]["probes_withdrawn"], 1, "probes_withdrawn")


def fill(slave):
    """Fills the buffer of a terminal that nobody reads."""
    with open(f"/proc/self/fd/{slave}", "wb", 0,
              opener=lambda path, _: os.open(path, os.O_WRONLY | os.O_NONBLOCK)) as file:
        while file.write(b"." * 500):
            pass


@test(long=True)
def stall_top_unread():
    """top's terminal is stopped (Ctrl-S), or the terminal's buffer is full because nobody reads."""
    for hang in "ctrl-s", "full":
        with Busy() as target, Screen("-p", target.pid, "--delay", "0.2") as screen:
            screen.until_words(rf"pid {target.pid}")
            if hang == "ctrl-s":
                os.write(screen.master, b"\x13")
            else:
                fill(screen.slave)
            time.sleep(1)
            target.go()  # the target becomes busy
            target.check_speed()
            if hang == "ctrl-s":  # after Ctrl-Q the screen is complete
                os.write(screen.master, b"\x11")
                screen.until_words(r"in windows")
                os.write(screen.master, b"\x13")
                time.sleep(1)
            check_end(screen.process, 1)
            wait_withdrawn(target.pid)


@test(long=True)
def stall_unfilled_memory():
    """A target's list of libraries leads into memory that no one provides. The helper that reads
    this memory hangs. memtrace leaves this helper behind, goes on, ends on a signal, and counts the
    read that it gave up."""
    for released in True, False:
        with place() as directory:
            # a file that memtrace does not know yet
            library = os.path.join(directory, "library.so")
            shutil.copy(os.path.join(PROGS, "leaking_plugin.so"), library)
            report = os.path.join(directory, "json")
            with Busy() as target, Target("trap", "--file", library) as trap, \
                    Tracer("--comm", "churn", "--comm", "trap", f"--json={report}",
                           "-f", "none") as tracer:
                wait_in_place(target.pid)
                expect_equal(trap.go(), {"trapped": 1}, "the trap")
                left = lambda: hang(tracer.process.pid, "handle_userfault")
                wait_until(left, "a process of memtrace's reads what never comes")
                target.check_speed()
                if released:
                    expect_equal(trap.go(), {"trapped": 0}, "the trap")
                    wait_until(lambda: not left(), "the process has its answer")
                    expect_equal(trap.quit(), 0, "status of trap")
                began = time.monotonic()
                tracer.stop()
                took = time.monotonic() - began
                expect(took < 5, f"memtrace took {took:.1f} s to end")
                with open(report, encoding="utf-8") as file:
                    lost = [json.loads(line)["lost"] for line in file]
                expect_equal({n["memory_unanswered"] for n in lost}, {1},
                             "reads that were given up")
                expect_equal(changed_text(target.pid), [], "code changed after the end")
    return f"ended after {took:.2f} s"


def unread_pipe():
    """Both ends of a full pipe that nobody reads."""
    reader, writer = os.pipe()
    flags = fcntl.fcntl(writer, fcntl.F_GETFL)
    fcntl.fcntl(writer, fcntl.F_SETFL, flags | os.O_NONBLOCK)
    with contextlib.suppress(BlockingIOError):
        while True:
            os.write(writer, b"." * 4096)
    fcntl.fcntl(writer, fcntl.F_SETFL, flags)
    return reader, writer


@test(long=True)
def stall_unread_output():
    """Nobody reads standard output, nobody reads standard output and standard error, or nobody
    opens a FIFO. memtrace captures until -d or a signal ends the run, removes its probes and writes
    its files. If one file cannot be written, and nobody reads the complaint, the others are
    written all the same. Then memtrace waits for the reader until it gets a signal."""
    for what in "duration", "SIGINT", "errors", "complaint", "fifo":
        reader, writer = unread_pipe()
        with place() as directory, Busy() as target:
            options = ["-d", "2"] if what == "duration" else []
            if what == "fifo":
                os.mkfifo(directory + "/fifo")
                options = [f"--json={directory}/fifo"]
            process = start([MEMTRACE, "-p", target.pid, "-o", directory + "/out", *options],
                            stdin=subprocess.DEVNULL,
                            stdout=subprocess.DEVNULL if what == "fifo" else writer,
                            stderr=writer if what in ("errors", "complaint")
                            else subprocess.DEVNULL)
            try:
                wait_until(lambda: changed_text(target.pid), "its probes are in place")
                if what == "complaint":  # a directory cannot be replaced by the file
                    os.mkdir(f"{directory}/out.{target.pid}.heap")
                target.check_speed() # the target becomes busy, and the limit is kept
                if what != "duration":
                    process.send_signal(signal.SIGINT)
                files = lambda: [name for name in os.listdir(directory)
                                 if name.endswith((".heap", ".collapsed"))]
                wait_until(lambda: len(files()) == 2, "its files are written", 20)
                wait_withdrawn(target.pid)
                time.sleep(0.5)
                expect(process.poll() is None, f"{what}: it did not wait for who reads")
                target.check_speed()
                began = time.monotonic()
                process.terminate()
                expect_equal(process.wait(5), -signal.SIGTERM, f"{what}: status")
            finally:
                end(process)
                os.close(reader)
                os.close(writer)
    return f"ended {time.monotonic() - began:.2f} s after the last signal"


def of_name(pid, name):
    """The process's children with this name."""
    found = []
    with contextlib.suppress(OSError), \
            open(f"/proc/{pid}/task/{pid}/children", encoding="utf-8") as file:
        for child in file.read().split():
            with contextlib.suppress(OSError), \
                    open(f"/proc/{child}/comm", encoding="utf-8") as comm:
                if comm.read() == name + "\n":
                    found.append(int(child))
    return found


def wait_channel(pid):
    """The function of the kernel in which the process waits, or None if it has ended."""
    with contextlib.suppress(OSError), open(f"/proc/{pid}/wchan", encoding="utf-8") as file:
        return file.read()


def hang(pid, where="request_wait_answer"):
    """The helpers (mt-files) that wait in this function of the kernel. By default, this is the
    function that waits for an answer of FUSE. No signal ends this wait."""
    return [child for forker in of_name(pid, "mt-files") for child in of_name(forker, "mt-files")
            if wait_channel(child) == where]


def silent(directory, *args, file=os.path.join(PROGS, "leaking_plugin.so")):
    mount_point = os.path.join(directory, "mount")
    os.makedirs(mount_point, exist_ok=True)
    return Target("silent", "--dir", mount_point, "--file", file, *args)


def trace_silent(directory, answers, select, released):
    """Returns the seconds that memtrace took to end."""
    report = os.path.join(directory, "json")
    with Busy() as target, silent(directory, "--answers", answers) as mute:
        with Tracer(*select(target, mute), f"--json={report}", "-f", "none") as tracer:
            expect_equal(mute.go(), {"silent": 1}, "the file system")
            wait_until(lambda: hang(tracer.process.pid),
                       "a process of memtrace's waits for the file")
            target.check_speed()
            hung = hang(tracer.process.pid)
            if released:
                expect_equal(mute.go(), {"silent": 0}, "the file system")
                wait_until(lambda: not hang(tracer.process.pid), "the process has its answer")
            began = time.monotonic()
            tracer.process.send_signal(signal.SIGTERM)
            expect_equal(tracer.wait(10).status, 0, "status")
            took = time.monotonic() - began
            expect(took < 5, f"memtrace took {took:.1f} s to end")
            expect_equal(changed_text(target.pid), [], "code changed after the end")
        expect(mute.alive(), "the target of the silent file is dead")
        if not released:
            mute.go()
        wait_until(lambda: not any(os.path.exists(f"/proc/{pid}") for pid in hung),
                   "who was left behind has ended")
        expect_equal(mute.quit(), 0, "status of silent")
    with open(report, encoding="utf-8") as file:
        lost = {p["pid"]: p["lost"] for p in map(json.loads, file)}
    expect(lost and all(n["files_unanswered"] >= 1 for n in lost.values()), "files_unanswered",
           lost)
    return took


@test(long=True)
def stall_silent_file():
    """A target maps a file on FUSE. The file's server stops answering, at once or after some
    answers. A process that reads the file hangs, and not even SIGKILL ends it. So memtrace lets a
    helper read the file, goes on, and ends."""
    for answers, released in ("0", False), ("1", True), ("3", False):
        with place() as directory:
            took = trace_silent(directory, answers,
                                lambda *_: ("--comm", "churn", "--comm", "silent"), released)
    return f"ended after {took:.2f} s"


@test
def stall_silent_file_of_pid():
    """As stall_silent_file, with processes selected by pid."""
    with place() as directory:
        return (
            "ended after "
            f"{trace_silent(directory, '0', lambda a, b: ('-p', a.pid, '-p', b.pid), False):.2f} s")


@test(beside=True)
def stall_silent_before():
    """The server stops answering before memtrace starts. memtrace traces the files that it can
    read, and check ends, too."""
    with place() as directory, silent(directory) as mute:
        expect_equal(mute.go(), {"silent": 1}, "the file system")
        began = time.monotonic()
        result = memtrace("check", mute.pid)
        expect_equal(result.status, 0, result)
        result = memtrace("-p", mute.pid, "-d", "1", *JSON, timeout=30)
        took = time.monotonic() - began
        expect_equal(result.status, 0, result)
        expect(result.json()["lost"]["files_unanswered"] >= 1, result.json()["lost"])
        expect_equal(changed_text(mute.pid), [], "code changed after the end")
        mute.go()
        expect_equal(mute.quit(), 0, "status of silent")
    return f"both ended after {took:.1f} s"


@test(long=True)
def stall_silent_descriptor():
    """memtrace itself has inherited a file on FUSE, here as standard input. The file's server stops
    answering. When memtrace writes a profile, a child that reads symbols closes its copy of this
    file, and hangs. This child holds no probe. So if memtrace is stopped at this moment, its probes
    are removed as soon as usual."""
    with place() as directory, Endless("leaking", "--rate", "50") as target, \
            silent(directory) as mute:
        own = os.open(f"/proc/{mute.pid}/root{directory}/mount/file", os.O_RDONLY)
        tracer = start([MEMTRACE, "-p", target.pid, "--max-overhead", "50", "--every", "5",
                        "-f", "pprof", "-o", directory + "/out"],
                       stdin=own, stderr=subprocess.DEVNULL)
        os.close(own)
        try:
            wait_in_place(target.pid)
            expect_equal(mute.go(), {"silent": 1}, "the file system")
            wait_until(lambda: any(wait_channel(child) == "request_wait_answer"
                                   for child in of_name(tracer.pid, "memtrace")),
                       "a child of memtrace waits for the file")
            expect(changed_text(target.pid), "there are no probes")
            with stopped_process(tracer):
                took = wait_withdrawn(target.pid)
            mute.go()
            tracer.terminate()
            expect_equal(tracer.wait(PATIENCE_S), 0, "status")
            expect_equal(changed_text(target.pid), [], "code changed after the end")
        finally:
            end(tracer)
        expect_equal(mute.quit(), 0, "status of silent")
    return f"{took:.2f} s"


@test_each_kind(long=True, best=True)
def stall_silent_descriptor_killed(kind):
    """As stall_silent_descriptor, but memtrace is killed. mt-keeper, whose exit removes the probes,
    hangs while it closes memtrace's standard input."""
    with place() as directory, Endless("leaking", "--rate", "50") as target, \
            silent(directory) as mute:
        own = os.open(f"/proc/{mute.pid}/root{directory}/mount/file", os.O_RDONLY)
        tracer = start([MEMTRACE, "-p", target.pid, "--max-overhead", "50", "--probe-kind", kind,
                        "-f", "none"],
                       stdin=own, stderr=subprocess.DEVNULL)
        os.close(own)
        try:
            wait_in_place(target.pid, kind)
            expect_equal(mute.go(), {"silent": 1}, "the file system")
            tracer.kill()
            took = wait_withdrawn(target.pid, PATIENCE_S if kind == "perf" else BACK_S)
            mute.go()
        finally:
            end(tracer)
        expect_equal(mute.quit(), 0, "status of silent")
    return f"{took:.2f} s"


@test(long=True)
def stall_silent_memory():
    """A target's list of libraries leads into a page of a file whose server does not answer. A
    process that reads this page cannot be killed. So memtrace lets a helper read it, and ends."""
    with place() as directory, Busy() as target:
        library = os.path.join(directory, "library.so")  # a file that memtrace does not know yet
        shutil.copy(os.path.join(PROGS, "leaking_plugin.so"), library)
        report = os.path.join(directory, "json")
        mute = silent(directory, "--list", file=library)
        with Tracer("--comm", "churn", "--comm", "silent", f"--json={report}",
                    "-f", "none") as tracer:
            expect_equal(mute.go(), {"silent": 1}, "the file system")
            wait_until(lambda: hang(tracer.process.pid), "a process of memtrace's waits")
            target.check_speed()
            began = time.monotonic()
            tracer.process.send_signal(signal.SIGTERM)
            expect_equal(tracer.wait(10).status, 0, "status")
            took = time.monotonic() - began
            expect(took < 5, f"memtrace took {took:.1f} s to end")
        mute.go()
        expect_equal(mute.quit(), 0, "status of silent")
        with open(report, encoding="utf-8") as file:
            expect_equal({json.loads(line)["lost"]["memory_unanswered"] for line in file}, {1},
                         "memory_unanswered")
    return f"ended after {took:.2f} s"


@test_each_kind(long=True, best=True)
def stall_program_of_fuse(kind):
    """If a program's file is on FUSE and the server answers, the profile is as exact as any
    other."""
    with place() as directory, \
            silent(directory, "--run", file=os.path.join(PROGS, "truth_basic_static")) as target:
        with Tracer("-p", target.pid, "-i", "1", "--max-overhead", "off", "--probe-kind", kind,
                    *JSON) as tracer:
            truth = target.go()
            profile = tracer.stop().json()
        expect_equal(profile["lost"]["files_unanswered"], 0, "files_unanswered")
        check_exact(truth, profile)
        expect_equal(target.quit(), 0, "status of the target")


# --- files that take long to read ---

STEADY = r"""
#include <stdlib.h>
#include <unistd.h>
int main(void)
{
	for (;;) {
		if (!malloc(40000))
			return 1;
		usleep(20000);
	}
}
"""


@test(long=True)
def stall_silent_debuginfod():
    """For a profile during the run memtrace asks a debuginfod server, which does not answer. The
    probes are removed meanwhile, and are put back."""
    with socket.create_server(("127.0.0.1", 0), backlog=64) as server, place() as directory:
        server.settimeout(PATIENCE_S)
        program = compiled(directory, "steady", STEADY, "-s", "-Wl,--build-id=sha1")
        env = {**os.environ, "DEBUGINFOD_URLS": f"http://127.0.0.1:{server.getsockname()[1]}",
               "DEBUGINFOD_TIMEOUT": "4", "DEBUGINFOD_CACHE_PATH": directory}
        target = start([program])
        with Tracer("-p", target.pid, "-i", "4096", "--max-overhead", "50", "--every", "2",
                    "-f", "pprof", "-o",
                    directory + "/out", f"--json={directory}/json", wait=False, env=env) as tracer:
            try:
                connection, _ = server.accept()
            except TimeoutError:
                raise NotRunnable(
                    "memtrace asks no server: libdebuginfod is not installed") from None
            with connection:
                expect(changed_text(target.pid), "there are no probes")
                took = wait_withdrawn(target.pid)
                wait_until(lambda: changed_text(target.pid), "its probes are back")
            expect_equal(tracer.stop().status, 0, "status")
            expect_equal(changed_text(target.pid), [], "code changed after the end")
        with open(directory + "/json", encoding="utf-8") as file:
            expect(json.load(file)["lost"]["probes_withdrawn"] >= 1, "probes_withdrawn")
        end(target)
    return f"{took:.2f} s"


@test(long=True)
def stall_huge_code():
    """An allocator has huge code: a GiB that is a hole in the file, or code that consists only of
    calls. To read all of this code takes seconds. In this time another target keeps its speed, and
    memtrace ends on a signal."""
    took = []
    for library_in in sparse_library, library_of_calls:
        with place() as directory:
            library, program = library_in(directory), mapper(directory)
            report = os.path.join(directory, "json")
            with Busy() as target, Tracer("--comm", "churn", "--comm", "mapper", f"--json={report}",
                                          "-f", "none") as tracer:
                process = start([program, library])
                try:
                    wait_in_place(target.pid)
                    process.stdin.write("map\n")
                    process.stdin.flush()
                    expect_equal(read_line(process, process.stdout), "mapped\n", "who maps it")
                    target.check_speed()
                    target.check_speed()
                    began = time.monotonic()
                    result = memtrace("check", process.pid)
                    expect_equal(result.status, 0, result)
                    expect_words(result.out, "hostile.so")
                    result = memtrace("-p", process.pid, "-d", "0.5", "-f", "none")
                    expect_words(result.out + result.err, "hostile.so|mi_malloc|mimalloc|allocat")
                    took.append(time.monotonic() - began)
                    expect(took[-1] < 20, f"check and a run of half a second took {took[-1]:.1f} s")
                    began = time.monotonic()
                    tracer.stop()
                    took.append(time.monotonic() - began)
                    expect(took[-1] < 5, f"memtrace took {took[-1]:.1f} s to end")
                    expect_equal(changed_text(target.pid), [], "code changed after the end")
                finally:
                    end(process)
    return "check and a run, end: " + ", ".join(f"{t:.1f}" for t in took) + " s"
