#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Tens of thousands of programs start and end, in batches, while an agent traces them. The agent is
scraped each second, and reads its configuration again after each batch. Its memory, descriptors,
BPF maps and links must not grow. Needs root, and `make all progs` before.

usage: tests/fleet/storm.py [PROGRAMS=100000] [BATCHES=10] [RATE=100] [MEMTRACE=build/memtrace]

  RATE  programs started a second, as far as the machine can

The agent selects the programs by their cgroup. Within a batch the agent's tracer is one process:
the last third of its figures is compared with the first third. Each batch has a new tracer under
the same supervisor: the last batch is compared with the first. At the end one line of JSON has the
figures of each batch."""
import contextlib
import http.client
import json
import os
import re
import signal
import sys
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(HERE, "..", "live"))
import harness  # noqa: E402
import test_agent  # noqa: E402
from harness import Endless, end, expect, place, start, wait_until  # noqa: E402
from test_processes import cgroup  # noqa: E402
from test_storm import LOOK_S, Storm, check_flat, held_by, middle  # noqa: E402

FRESH = 30   # one of this many programs is a file that never ran before
SETTLE = 4   # the first quarter of a batch, after which buffers and tables have their size
# from batch to batch
ROOM = {"descriptors": 16, "links": 8, "resident": 12 << 20, "kernel": 8 << 20}


class Scraper:
    """Reads /metrics and /targets each second, in a thread. A scrape fails while the tracer begins
    anew."""

    def __init__(self, agent):
        self.agent, self.ended, self.good, self.failed, self.most, self.losses = (
            agent, threading.Event(), 0, 0, 0, {})
        self.thread = threading.Thread(target=self.run, daemon=True)
        self.thread.start()

    def run(self):
        while not self.ended.wait(1):
            try:
                text = self.agent.get("/metrics")[1].decode()
                self.most = max(self.most, len(self.agent.targets()))
                self.losses = {
                    name: float(n) for name, n in re.findall(
                        r'^memtrace_losses\{cause="(\w+)"\} (\S+)$', text, re.M) if float(n)}
                self.good += 1
            except (OSError, http.client.HTTPException, harness.Failure):
                self.failed += 1

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.ended.set()
        self.thread.join(30)


def tracer_of(agent):
    children = test_agent.below(agent.process.pid)[1:2]
    return children[0] if children else None


def run_batch(storm, agent, n, rate):
    """Starts n programs. Returns the figures that were read after the first quarter of the
    programs."""
    looks, first = [], len(storm.pids)
    while len(storm.pids) < first + n:
        left = first + n - len(storm.pids)
        storm.run_until(time.monotonic() + min(LOOK_S, left / rate), rate)
        expect(agent.process.poll() is None, "the agent ended:", agent.process.poll())
        if len(storm.pids) >= first + n / SETTLE:
            looks.append(held_by(agent.process.pid))
    storm.reap(everything=True)
    return looks


def reload(agent):
    before = tracer_of(agent)
    agent.process.send_signal(signal.SIGHUP)
    wait_until(lambda: tracer_of(agent) not in (None, before), "another tracer")
    wait_until(agent.targets, "it traces again")


def main():
    given = {"PROGRAMS": 100000, "BATCHES": 10, "RATE": 100,
             **dict(word.split("=", 1) for word in sys.argv[1:])}
    programs, batches, rate = (int(given[name]) for name in ("PROGRAMS", "BATCHES", "RATE"))
    with contextlib.ExitStack() as stack:
        directory = stack.enter_context(place())
        # the group is empty again when all else has ended
        group = stack.enter_context(cgroup(f"memtrace-storm-{os.getpid()}"))
        stack.callback(lambda: open(os.path.join(os.path.dirname(group), "cgroup.procs"), "w",
                                    encoding="ascii").write(str(os.getpid())))
        port = test_agent.free_port()
        config = os.path.join(directory, "agent.conf")
        with open(config, "w", encoding="ascii") as file:
            file.write(f"listen = 127.0.0.1:{port}\nevery = 1\ncgroup = {group}\n"
                       f"spool = {directory}/spool\n")
        os.mkdir(directory + "/spool", 0o700)
        agent = test_agent.Agent.__new__(test_agent.Agent)
        agent.port = port
        agent.process = start([os.path.abspath(given.get("MEMTRACE", harness.MEMTRACE)), "agent",
                               "--config", config], stderr=None)
        stack.callback(end, agent.process)
        with open(group + "/cgroup.procs", "w", encoding="ascii") as file:
            file.write(str(os.getpid()))
        steady = stack.enter_context(Endless("leaking", "--rate", "1000", "--leak", "0"))
        agent.wait_for(steady.pid)
        scraper = stack.enter_context(Scraper(agent))
        storm = Storm(directory, FRESH)
        begin, said = time.monotonic(), []
        try:
            for _ in range(batches):
                looks = run_batch(storm, agent, programs // batches, rate)
                check_flat(looks)
                said.append({key: middle(looks, key) for key in looks[0]})
                print(f"{len(storm.pids)} programs in {time.monotonic() - begin:.0f} s: "
                      f"{said[-1]}; {scraper.good} scrapes, {scraper.failed} failed; at most "
                      f"{scraper.most} targets", flush=True)
                reload(agent)
        finally:
            for process, _, _ in storm.running:
                process.kill()
                process.wait(harness.PATIENCE_S)
        print(json.dumps({"programs": len(storm.pids), "new_files": storm.fresh,
                          "seconds": round(time.monotonic() - begin), "scrapes": scraper.good,
                          "failed_scrapes": scraper.failed, "most_targets": scraper.most,
                          "losses": scraper.losses, "batches": said}), flush=True)
        for key, room in ROOM.items():
            expect(said[-1][key] <= said[0][key] + room,
                   f"{key}: from {said[0][key]} to {said[-1][key]}")
        # a scrape fails during a reload, and sometimes two or more
        expect(scraper.failed <= 5 * batches, scraper.failed, "scrapes failed")
        agent.stop()


if __name__ == "__main__":
    harness.run_script(main)
