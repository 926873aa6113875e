# SPDX-License-Identifier: BSD-2-Clause
"""At a random moment of attaching, tracing, reading or ending, an event happens. It concerns
memtrace, its keeper, its target, or a file or server that memtrace writes to or waits for. No
target is harmed and no probe is left. When memtrace is stopped or killed, its probes are gone
within a second or two (probes of the kind perf take longer).

`make moments N=1000` tries 1000 moments; the suite tries a few."""
import concurrent.futures
import contextlib
import json
import os
import random
import signal
import socket
import subprocess
import time

from harness import (MEMTRACE, PATIENCE_S, Endless, Failure, end, expect, expect_equal,
                     expect_words, kinds, place, start, test)
from test_harmless import changed_text
from test_stall import BACK_S, keeper_of

MOMENTS = int(os.environ.get("MEMTRACE_MOMENTS", 40))
AT_ONCE = 4
TRACED_S = 1.6  # the value of -d; a moment is in this time, or shortly before or after it
SLACK_S = 1.0  # allowance, because four runs share the machine


class Moment:
    """One run: one target, one memtrace, one event."""

    def __init__(self, dice, directory):
        self.dice, self.directory = dice, directory
        self.kind = dice.choice(kinds())
        self.target = Endless("busy", "--threads", "1")
        self.json = os.path.join(directory, "json")
        self.options = [
            "-p", self.target.pid, "--probe-kind", self.kind, f"--json={self.json}", "-d", TRACED_S,
            *dice.choice((["-f", "none"],
                          ["--leaks", "-f", "heap", "-o", os.path.join(directory, "heap")],
                          ["--every", "0.4", "-f", "pprof", "-o", os.path.join(directory, "every")],
                          ["--max-overhead", "50", "-f", "none"]))]
        self.tracer = None

    def begin(self, **options):
        options = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL,
                   "stderr": subprocess.PIPE, **options}
        self.tracer = start([MEMTRACE, *self.options], **options)
        time.sleep(self.dice.uniform(0, TRACED_S + 0.5))

    def is_gone(self):
        return self.tracer.poll() is not None

    def expect_end(self, statuses, within=PATIENCE_S):
        try:
            _, err = self.tracer.communicate(timeout=within)
        except subprocess.TimeoutExpired:
            raise Failure(f"memtrace did not end within {within} s") from None
        expect(self.tracer.returncode in statuses, "status", self.tracer.returncode, err)
        return err or ""

    def expect_profile(self):
        with open(self.json, encoding="utf-8") as file:
            expect_equal(json.loads(file.readline())["pid"], self.target.pid, "pid of the profile")

    def wait_withdrawn(self):
        """Waits until the probes are gone. The kernel removes probes of the kind perf one after the
        other."""
        begin, most = time.monotonic(), (PATIENCE_S if self.kind == "perf" else BACK_S + SLACK_S)
        while changed_text(self.target.pid):
            expect(time.monotonic() - begin < most, f"probes are in place {most} s later")
            time.sleep(0.01)
        return time.monotonic() - begin


def stopped(m, sig=signal.SIGSTOP):
    m.begin()
    m.tracer.send_signal(sig)
    took = m.wait_withdrawn()
    time.sleep(m.dice.uniform(0, 0.5))
    with contextlib.suppress(ProcessLookupError):
        m.tracer.send_signal(signal.SIGCONT)
    m.expect_end((0,))
    m.expect_profile()
    return took


def stopped_by_shell(m):
    return stopped(m, signal.SIGTSTP)


def killed(m):
    m.begin()
    m.tracer.kill()
    m.expect_end((0, -signal.SIGKILL))
    return m.wait_withdrawn()


def keeper_killed(m):
    m.begin()
    try:
        keeper = keeper_of(m.tracer.pid)
        os.kill(keeper, signal.SIGKILL)
    except (AssertionError, OSError):  # the keeper has not started yet, or has ended
        m.expect_end((0,))
        return 0
    took = m.wait_withdrawn()
    err = m.expect_end((0, 1))  # 0: memtrace had already finished
    if m.tracer.returncode:
        expect_words(err, "mt-keeper")
    return took


def keeper_stopped(m):
    """memtrace goes on, and can end although nobody continues the stopped keeper from outside."""
    m.begin()
    try:
        os.kill(keeper_of(m.tracer.pid), signal.SIGSTOP)
    except (AssertionError, OSError):  # the keeper has not started yet, or has ended
        pass
    m.expect_end((0,))
    m.expect_profile()
    return m.wait_withdrawn()


def ended_by_signal(m):
    """A second signal ends memtrace at once, whatever it is doing."""
    m.begin()
    for _ in range(m.dice.choice((1, 1, 2))):
        m.tracer.send_signal(m.dice.choice((signal.SIGINT, signal.SIGTERM, signal.SIGHUP)))
        time.sleep(m.dice.uniform(0, 0.05))
    m.expect_end((0, 1, -signal.SIGINT, -signal.SIGTERM, -signal.SIGHUP))
    return m.wait_withdrawn()


def target_killed(m):
    m.begin()
    m.target.process.kill()
    begin = time.monotonic()
    err = m.expect_end((0, 1), TRACED_S + 10)
    if m.tracer.returncode:
        expect_words(err, "no such process|has ended|no process|ended")
    m.target.process.wait(PATIENCE_S)  # memory with perf uprobes in it is freed slowly
    return time.monotonic() - begin


def target_ends(m):
    m.begin()
    m.target.stop()
    begin = time.monotonic()
    err = m.expect_end((0, 1), TRACED_S + 10)
    if m.tracer.returncode:
        expect_words(err, "no such process|has ended|no process|ended")
    return time.monotonic() - begin


def disk_full(m):
    """memtrace reports the full disk, with the path, and ends."""
    full = os.path.join(m.directory, "full")
    os.mkdir(full)
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=16k", "tmpfs", full], check=True,
                   stdin=subprocess.DEVNULL)
    try:
        m.json = os.path.join(full, "json")
        m.options = [f"--json={m.json}" if str(o).startswith("--json=") else o for o in m.options]
        m.begin()
        with contextlib.suppress(OSError), \
                open(os.path.join(full, "filler"), "wb", buffering=0) as file:
            for _ in range(8):
                file.write(bytes(4096))
        err = m.expect_end((0, 1))
        if m.tracer.returncode:
            expect_words(err, "no space left", full)
        else:
            m.expect_profile()
        return m.wait_withdrawn()
    finally:
        if m.tracer:
            end(m.tracer)
        subprocess.run(["umount", "-l", full], check=True, stdin=subprocess.DEVNULL)


def output_unread(m):
    """stdout is a full pipe that nobody reads."""
    read, write = os.pipe()
    os.set_blocking(write, False)
    with contextlib.suppress(BlockingIOError):
        while True:
            os.write(write, bytes(4096))
    os.set_blocking(write, True)
    try:
        m.options = [o for o in m.options if not str(o).startswith("--json=")]
        m.begin(stdout=write)
        begin = time.monotonic()
        while not m.is_gone() and time.monotonic() - begin < 20:
            with contextlib.suppress(ProcessLookupError):
                m.tracer.send_signal(signal.SIGTERM)
            with contextlib.suppress(subprocess.TimeoutExpired):
                m.tracer.wait(3)
        expect(m.is_gone(), "SIGTERM does not end it")
        return m.wait_withdrawn()
    finally:
        os.close(read)
        os.close(write)


def debuginfod_silent(m):
    """memtrace uses a debuginfod server that accepts each request and answers none."""
    with socket.create_server(("127.0.0.1", 0), backlog=64) as server:
        m.begin(env={**os.environ,
                     "DEBUGINFOD_URLS": f"http://127.0.0.1:{server.getsockname()[1]}"})
        with contextlib.suppress(ProcessLookupError):
            m.tracer.send_signal(signal.SIGINT)
        m.expect_end((0, 1, -signal.SIGINT))
        return m.wait_withdrawn()


EVENTS = (stopped, stopped_by_shell, killed, keeper_killed, keeper_stopped, ended_by_signal,
          target_killed, target_ends, disk_full, output_unread, debuginfod_silent)


def one(seed):
    """Returns the event's name, the kind of probe, and how long the target had probes
    afterwards."""
    dice = random.Random(seed)
    event = dice.choice(EVENTS)
    with place() as directory:
        m = Moment(dice, directory)
        try:
            took = event(m)
            if m.target.alive():
                m.wait_withdrawn()
                expect_equal(changed_text(m.target.pid), [], "code changed after the end")
                expect(m.target.stop()["intact"], "its blocks are not what it wrote")
        except Exception as e:
            raise Failure(f"seed {seed}: {event.__name__} of {m.kind}, {m.options[7:]}: {e}") from e
        finally:
            if m.tracer:
                end(m.tracer)
            end(m.target.process)
    return event.__name__, m.kind, took


@test(long=True)
def moments():
    """Tries MEMTRACE_MOMENTS random moments, four at a time."""
    first = int.from_bytes(os.urandom(3), "little")
    n, longest, failed = {}, 0.0, []
    with concurrent.futures.ThreadPoolExecutor(AT_ONCE) as pool:
        for future in [pool.submit(one, first + i) for i in range(MOMENTS)]:
            try:
                name, kind, took = future.result()
            except Failure as e:
                failed.append(str(e))
                continue
            n[name] = n.get(name, 0) + 1
            if kind != "perf" and not name.startswith("target"):
                longest = max(longest, took)
    expect(not failed, f"{len(failed)} of {MOMENTS}:", *failed[:20])
    return (f"{MOMENTS} moments, probes gone {longest:.2f} s later at most; " +
            ", ".join(f"{k} {v}" for k, v in sorted(n.items())))
