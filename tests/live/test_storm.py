# SPDX-License-Identifier: BSD-2-Clause
"""Fifty programs a second start and end, a third of them from files that never ran before, while
memtrace -a traces the machine. memtrace's use of resources does not grow, and each program has a
profile or is counted.

`make storm MINUTES=30` runs for 30 minutes; the suite for some seconds."""
import contextlib
import os
import re
import shutil
import subprocess
import time

from harness import MEMTRACE, PATIENCE_S, Tracer, expect, place, test
from test_files import STATIC
from test_processes import FAMILY, by_pid

SECONDS = float(os.environ.get("MEMTRACE_STORM_S", 24))
RATE = 50
SETTLED_S = 8  # after this time buffers and tables have reached their size
LOOK_S = 2


def family_of(pid):
    """The pids of the process and its helpers."""
    found, todo = [], [pid]
    while todo:
        found.append(todo.pop())
        with contextlib.suppress(OSError), \
                open(f"/proc/{found[-1]}/task/{found[-1]}/children", encoding="ascii") as file:
            todo += map(int, file.read().split())
    return found


def held_by(pid):
    """Resources of memtrace and its helpers: descriptors, BPF links, resident bytes, bytes of BPF
    maps (each map once)."""
    held, maps = {"descriptors": 0, "links": 0, "resident": 0}, {}
    for one in family_of(pid):
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
        """Starts programs at this rate until the time `due`. If a start is late, the next ones do
        not catch up."""
        next_at = time.monotonic()
        while time.monotonic() < due:
            self.start_one()
            self.reap()
            next_at = max(next_at + 1 / rate, time.monotonic() - 0.1)
            time.sleep(max(0, next_at - time.monotonic()))


def middle(looks, key):
    values = sorted(look[key] for look in looks)
    return values[len(values) // 2]


def check_flat(looks):
    """Compares the medians of the last and the first third of the figures. A single figure may be
    larger, because a window was open or memtrace had other work."""
    third = max(len(looks) // 3, 1)
    first, last = looks[:third], looks[-third:]
    said = {}
    for key, least in (("descriptors", 64), ("links", 16), ("resident", 24 << 20),
                       ("kernel", 8 << 20)):
        before, after = middle(first, key), middle(last, key)
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
