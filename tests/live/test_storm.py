# SPDX-License-Identifier: BSD-2-Clause
"""Fifty programs a second start and end, a third of them from files that never ran before, while
memtrace -a traces the machine. memtrace's use of resources does not grow, and each program has a
profile or is counted.

`make storm MINUTES=30` runs for 30 minutes; the suite for some seconds."""
import contextlib
import ctypes
import errno
import os
import platform
import re
import shutil
import subprocess
import time

from harness import MEMTRACE, PATIENCE_S, NotRunnable, Tracer, expect, place, test
from test_files import STATIC
from test_processes import FAMILY, by_pid

SECONDS = float(os.environ.get("MEMTRACE_STORM_S", 36))
RATE = 50
# The time of the first measurement. memtrace keeps unused files for 10 s, and from then on closes
# as many files as it opens. It also keeps up to 4096 profiles of ended programs. That number is
# reached after 82 s, so only a long run can wait for it.
SETTLED_S = min(SECONDS / 3, 90)
# The period of measurements. It is neither a multiple nor a part of memtrace's periods of one and
# two seconds.
LOOK_S = 0.7
KCMP = {"x86_64": 312, "aarch64": 272}  # the number of the system call kcmp(2)
KCMP_VM, KCMP_FILES = 1, 2


def family_of(pid):
    """The pids of the process and its helpers."""
    found, todo = [], [pid]
    while todo:
        found.append(todo.pop())
        with contextlib.suppress(OSError), \
                open(f"/proc/{found[-1]}/task/{found[-1]}/children", encoding="ascii") as file:
            todo += map(int, file.read().split())
    return found


def share(what, a, b):
    """Do two processes share their memory (KCMP_VM) or their table of descriptors (KCMP_FILES)?
    False also if one of them has ended."""
    libc = ctypes.CDLL(None, use_errno=True)
    same = libc.syscall(KCMP[platform.machine()], a, b, what, 0, 0)
    if same < 0 and ctypes.get_errno() == errno.ENOSYS:
        raise NotRunnable("this kernel has no kcmp()")
    return same == 0


def one_of_each(pids, what):
    """Leaves one process of each set of processes that share their memory or table."""
    first = []
    for pid in pids:
        if not any(share(what, pid, other) for other in first):
            first.append(pid)
    return first


def held_by(pid):
    """Resources of memtrace and its helpers: descriptors, BPF links, resident bytes, bytes of BPF
    maps (each map once). The keeper and the helpers that remove probes share memtrace's table of
    descriptors. Some of them also share its memory. Sometimes ten such helpers live at once. So
    shared resources are counted once, not once for each helper."""
    held, maps = {"descriptors": 0, "links": 0, "resident": 0}, {}
    family = family_of(pid)
    for one in one_of_each(family, KCMP_FILES):
        with contextlib.suppress(OSError):
            for fd in os.listdir(f"/proc/{one}/fd"):
                with contextlib.suppress(OSError):
                    held["descriptors"] += 1
                    name = os.readlink(f"/proc/{one}/fd/{fd}")
                    held["links"] += "bpf_link" in name or "bpf-link" in name
                    if "bpf-map" in name:
                        with open(f"/proc/{one}/fdinfo/{fd}", encoding="ascii") as file:
                            info = dict(re.findall(r"^(\w+):\s*(\S+)", file.read(), re.M))
                        maps[info["map_id"]] = int(info["memlock"])
    for one in one_of_each(family, KCMP_VM):
        with contextlib.suppress(OSError):
            with open(f"/proc/{one}/smaps_rollup", encoding="ascii") as file:
                held["resident"] += int(re.search(r"^Pss:\s*(\d+)", file.read(), re.M)[1]) << 10
    return {**held, "kernel": sum(maps.values())}


class Storm:
    """Starts programs, a third of them static. Of every `each` programs, one is a new file, which
    is removed when the program has ended."""

    def __init__(self, directory, each=3):
        self.directory, self.each, self.running, self.pids, self.fresh = directory, each, [], [], 0

    def start_one(self):
        n, new = len(self.pids), None
        path = FAMILY if n % 3 else STATIC
        if n % self.each == 2:
            new = shutil.copy(STATIC if n % 2 else FAMILY,
                              os.path.join(self.directory, f"fresh{n}"))
            path, self.fresh = new, self.fresh + 1
        process = subprocess.Popen([path, "leak", "2", "5000", "20"], stdin=subprocess.DEVNULL,
                                   stdout=subprocess.DEVNULL)
        self.running.append((process, new, time.monotonic()))
        self.pids.append(process.pid)

    def reap(self, everything=False):
        left = []
        for process, new, since in self.running:
            if everything:
                process.wait(PATIENCE_S)
            if process.poll() is None and time.monotonic() - since < PATIENCE_S:
                left.append((process, new, since))
                continue
            expect(process.returncode == 0, "a program ended with", process.returncode)
            if new:
                os.unlink(new)
        self.running = left

    def run_until(self, due, rate):
        """Starts programs at this rate until the time `due`. After a late start, the next programs
        are not started any faster."""
        next_at = time.monotonic()
        while time.monotonic() < due:
            self.start_one()
            self.reap()
            next_at = max(next_at + 1 / rate, time.monotonic() - 0.1)
            time.sleep(max(0, next_at - time.monotonic()))


def least_of(looks, key):
    return min(look[key] for look in looks)


def check_flat(looks):
    """Compares the smallest figure of the last third with the smallest figure of the first third. A
    leak makes every later figure larger, and so the smallest one, too. Without a leak, only some
    figures are larger: while memtrace makes profiles of ended programs, it holds a copy of the
    kernel's tables, some 100 MB. On a busy machine this takes up to 6 s. A third of a short run is
    longer: 8 s.

    memtrace closes files without a process once a second. Until then it holds two links and three
    more descriptors for each new file. So the links and descriptors of one second's new files are
    allowed. In the 16 s between the thirds of a short run, 270 new files start. If each of them
    leaked one descriptor or link, the figures would grow by twice as much as is allowed. In the
    same time the kept profiles of ended programs grow by some 28 MB, which is no leak."""
    fresh = RATE // 3
    third = max(len(looks) // 3, 1)
    first, last = looks[:third], looks[-third:]
    said = {}
    for key, least in (("descriptors", 5 * fresh), ("links", 2 * fresh), ("resident", 36 << 20),
                       ("kernel", 8 << 20)):
        before, after = least_of(first, key), least_of(last, key)
        said[key] = (before, after)
        expect(after <= before * 1.2 + least,
               f"{key} grew from {before} to {after}, of {[look[key] for look in looks]}")
    return said


@test(long=True)
def storm_everywhere():
    looks = []
    with place() as directory:
        storm = Storm(directory)
        try:
            with Tracer("-a", "-i", "1", "--json", "-f", "none") as tracer:
                begin = time.monotonic()
                storm.run_until(begin + SETTLED_S, RATE)
                while time.monotonic() < begin + SECONDS:
                    storm.run_until(time.monotonic() + LOOK_S, RATE)
                    looks.append(held_by(tracer.process.pid))
                storm.reap(everything=True)
                took = time.monotonic() - begin
                result = tracer.stop()
        finally:
            for process, _, _ in storm.running:
                process.kill()
                process.wait(PATIENCE_S)
    profiles = by_pid(result.out)
    told = len(set(storm.pids) & set(profiles))
    lost = next(iter(profiles.values()))["lost"]
    counted = sum(lost[name]
                  for name in ("profiles_forgotten", "processes_unseen", "process_events_lost"))
    expect(told + counted >= len(storm.pids),
           f"of {len(storm.pids)} programs {told} have a profile, and {counted} are counted:",
           {name: count for name, count in lost.items() if count})
    own = next(iter(profiles.values()))["memtrace"]
    return (f"{len(storm.pids) / took:.0f} programs a second, {storm.fresh} new files; "
            f"{told} of {len(storm.pids)} have a profile, {counted} counted; first and last: "
            f"{check_flat(looks)}; memtrace {own}")
