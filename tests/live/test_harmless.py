# SPDX-License-Identifier: BSD-2-Clause
"""A traced program behaves as an untraced one, whatever happens to memtrace."""
import contextlib
import os
import random
import re
import signal
import time

from harness import (MEMTRACE, PATIENCE_S, PROGS, Failure, Target, Tracer, end, expect,
                     expect_equal, kinds, memtrace, other_tracers, run, start, test_each_kind,
                     untraced)

KILLS = 100  # number of kills over all kinds; perf uprobes take ten times as long to remove
KILLS_OF = {"session": 5, "multi": 4, "perf": 1}


# --- the target's code ---

def libc_text(pid):
    """(start, end, file offset, path) of libc's executable mappings. There are several if the
    process has changed some of the code."""
    with open(f"/proc/{pid}/maps", encoding="utf-8") as maps:
        found = re.findall(r"^(\w+)-(\w+) r-xp (\w+) \S+ \d+ +(/.*/libc\.so\.6)$",
                           maps.read(), re.M)
    expect(found, f"pid {pid} has no libc")
    return [(int(begin, 16), int(stop, 16), int(offset, 16), path)
            for begin, stop, offset, path in found]


def changed_text(pid):
    """Offsets where libc's code in pid differs from the file, because of probes. All of the code is
    compared, so that a probe at an unexpected place is found, too."""
    return [place for mapping in libc_text(pid) for place in changed_in(pid, *mapping)]


def changed_in(pid, begin, stop, offset, path):
    with open(f"/proc/{pid}/mem", "rb", 0) as memory, open(path, "rb") as file:
        file.seek(offset)
        wanted = file.read(stop - begin)
        memory.seek(begin)
        got = memory.read(len(wanted))
    if got == wanted:
        return []
    # compares pages first, because comparing byte by byte takes a second
    pages = [slice(i, i + 4096) for i in range(0, len(got), 4096)]
    # memoryview makes no copies of pages: copies need thousands of calls of malloc and free, which
    # are slow with probes
    got, wanted = memoryview(got), memoryview(wanted)
    return [hex(offset + page.start + i) for page in pages if got[page] != wanted[page]
            for i, (a, b) in enumerate(zip(got[page], wanted[page])) if a != b]


def wait_unchanged(pid, timeout=60):
    """Waits until libc's code is the original again, and returns how long this took. The kernel may
    remove the probes some time after the process that placed them has died. Meanwhile it waits for
    all CPUs several times, which takes seconds if other tests keep them busy."""
    begin = time.monotonic()
    while True:
        changed = changed_text(pid)
        now = time.monotonic() - begin
        if not changed:
            return now
        expect(now < timeout, f"pid {pid}: libc's code is still changed after {timeout} s at",
               changed)
        time.sleep(0.001)


def expect_unchanged(pid, when):
    """Another tracer may change the code of every process (-a). So the failure names other tracers.
    It also says how long the change lasts. Another tracer's change lasts until the window of this
    tracer ends. If one of memtrace's processes was left behind, its change lasts until this process
    ends."""
    changed = changed_text(pid)
    if not changed:
        return
    others = ", ".join(other_tracers()) or "none"
    try:
        lasts = f"for {wait_unchanged(pid, 5):.3f} s more"
    except Failure:
        lasts = "for 5 s and longer"
    raise Failure(f"pid {pid}: libc's code is changed {when}, {lasts}, at {changed}; other "
                  f"tracers: {others}")


class Busy(Target):
    """A running process of the program busy. stop() checks that it ends as it should."""

    def __init__(self, threads):
        super().__init__("busy", "--threads", str(threads), "--exit", "5")
        self.threads = threads
        self.say("go")

    def stop(self):
        self.say("stop")
        expect_equal(self.line(), f'{{"threads": {self.threads}, "intact": true}}\n', "output")
        expect_equal(self.quit(), 5, "exit status")


# --- tests ---

def same_as_untraced(kind, program, rounds):
    args = ("--rounds", str(rounds), "--exit", "3")
    wanted = untraced(program, *args)
    expect_equal(wanted[0], 3, f"status of {program} untraced")
    for interval in ("1", "512K"):
        options = ("-i", interval, "-q", "-f", "none", "--probe-kind", kind)
        result = memtrace(*options, "--", os.path.join(PROGS, program), "--auto", *args)
        expect_equal((result.status, result.out), wanted, f"{result}, status and output")
        with Target(program, *args) as target:
            with Tracer("-p", target.pid, *options) as tracer:
                target.say("go")
                line = target.line()
                tracer.stop()
            expect_equal((target.quit(), line), wanted,
                         f"status and output of {program} at -i {interval}")


@test_each_kind(beside=True)
def harmless_to_signals_jumps_coroutines(kind):
    same_as_untraced(kind, "stubborn", 30)


@test_each_kind(beside=True)
def harmless_to_exceptions(kind):
    same_as_untraced(kind, "cxx_throw", 500)


# runs alone: it uses all CPUs, so running it beside others would save no time
@test_each_kind(long=True)
def harmless_attach_and_detach(kind):
    """Eight threads call the allocator during attach and detach; afterwards the code is the
    original one."""
    with Busy(8) as target:
        for _ in range(20 if kind == kinds()[0] else 5):
            with Tracer("-p", target.pid, "-q", "-f", "none", "--max-overhead", "off",
                        "--probe-kind", kind) as tracer:
                # a change must be visible now, or else the comparison afterwards would prove
                # nothing
                expect(changed_text(target.pid), "no probe to be seen in the target's code")
                tracer.stop()
            expect_unchanged(target.pid, "after a normal end")
            expect(target.alive(), "the target died")
        target.stop()


class Victims:
    """A process of busy, which runs all the time, and processes of stubborn, one after the other.
    Each must end as it should."""

    def __init__(self):
        self.busy = Busy(3)
        self.wanted = untraced("stubborn", "--rounds", "30", "--exit", "3")
        self.stubborn = None
        self.rounds = 0

    def check_stubborn(self):
        out, _ = self.stubborn.communicate(timeout=PATIENCE_S)
        expect_equal((self.stubborn.returncode, out), self.wanted, "status and output of stubborn")
        end(self.stubborn)
        self.rounds += 1

    def pick(self, dice):
        """The pid of one of the two running processes."""
        if self.stubborn and self.stubborn.poll() is not None:
            self.check_stubborn()
            self.stubborn = None
        if not self.stubborn:
            self.stubborn = start([os.path.join(PROGS, "stubborn"), "--auto", "--rounds", "30",
                                   "--exit", "3"])
        expect(self.busy.alive(), "busy died")
        return dice.choice((self.busy.pid, self.stubborn.pid))

    def stop(self):
        self.check_stubborn()
        self.busy.stop()


@test_each_kind(beside=True, long=True)
def harmless_when_killed(kind):
    """memtrace gets SIGKILL at random moments of attaching, running and detaching."""
    seed = int.from_bytes(os.urandom(4), "little")
    dice = random.Random(seed)
    longest = 0
    options = ("-q", "-i", "1", "-f", "none", "--probe-kind", kind, "-d", "0.15")
    victims = Victims()
    try:
        begin = time.monotonic()
        expect_equal(memtrace("-p", victims.busy.pid, *options).status, 0, "status")
        whole = time.monotonic() - begin
        kills = -(-KILLS * KILLS_OF[kind] // sum(KILLS_OF[k] for k in kinds()))
        for _ in range(kills):
            pid = victims.pick(dice)
            delay = dice.uniform(0, whole)
            tracer = start([MEMTRACE, "-p", str(pid), *options], start_new_session=True)
            time.sleep(delay)
            # kill memtrace alone (as kill -9 PID), or its whole process group (as a shell's kill -9
            # %1)
            with contextlib.suppress(ProcessLookupError):
                dice.choice((os.kill, os.killpg))(tracer.pid, signal.SIGKILL)
            end(tracer)
            if pid == victims.busy.pid:
                longest = max(longest, wait_unchanged(pid))
        victims.stop()
    except Exception as e:
        raise Failure(f"seed {seed}: {e}") from e
    finally:
        victims.busy.__exit__()
    return (f"{kills} kills within {whole:.2f} s, probes gone {1000 * longest:.0f} ms later at "
            f"most, stubborn ended well {victims.rounds} times (seed {seed})")
