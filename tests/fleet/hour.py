#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""A real Prometheus with the files of examples/ scrapes an agent. The agent traces redis, nginx and
postgres under load, and a program that begins to leak after some minutes. The alert for this
program has to fire within five minutes, and no other alert may fire. Needs root, and `make all
progs` before.

usage: tests/fleet/hour.py [MINUTES=60] [QUIET_MINUTES=5] [LEAK=50000] [MEMTRACE=build/memtrace]

  MINUTES        of the whole run
  QUIET_MINUTES  before the program leaks
  LEAK           bytes per second that the program leaks

Each process is started and ended here, by pid, and the agent traces only these. At the end one line
of JSON says when each alert fired, and how much CPU time and memory the agent took."""
import contextlib
import json
import os
import subprocess
import sys
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(HERE, "..", "live"))
import harness  # noqa: E402
import test_agent  # noqa: E402
from harness import Endless, end, expect, place, start, wait_until  # noqa: E402
from test_prometheus import Prometheus  # noqa: E402
from test_real import Redis  # noqa: E402
from test_servers import POSTGRES, UnixHTTP, as_user, children, nginx, postgres, run  # noqa: E402

ALERT_S = 300  # the alert has to fire within this time
KEYS, CLIENTS = 5000, 4
# the example's rule is also tried with these waits, to choose the best one
WAITS_M = (1, 3, 5)


class Load:
    """Calls work(i) per_s times a second, in a thread, until the context ends."""

    def __init__(self, per_s, work):
        self.ended, self.n, self.failed = threading.Event(), 0, None
        self.thread = threading.Thread(target=self.run, args=(per_s, work), daemon=True)
        self.thread.start()

    def run(self, per_s, work):
        try:
            while not self.ended.wait(0.05):
                for _ in range(max(1, per_s // 20)):
                    work(self.n)
                    self.n += 1
        except Exception as e:  # the main thread reports it
            self.failed = e

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.ended.set()
        self.thread.join(10)


def redis_load(redis):
    """Sets and gets the same keys again and again, with values of several sizes."""
    for i in range(KEYS):
        redis.ask("SET", f"key:{i}", "x" * 200)

    def work(i):
        key = f"key:{i * 7919 % KEYS}"
        redis.ask("SET", key, "x" * (100 + i % 200))
        redis.ask("GET", key)

    return work


def nginx_load(sock):
    connection = UnixHTTP(sock)
    return lambda i: connection.ask("GET", f"/files/{i % 8}.txt",
                                    accept_encoding="gzip" if i % 2 else "identity")


@contextlib.contextmanager
def pgbench(directory, seconds):
    """Each client makes ten transactions a second, and has a backend of its own until the end."""
    options = ["-h", directory, "-U", "postgres", "postgres"]
    result = run([f"{POSTGRES}/pgbench", "-i", "-q", *options], **as_user("postgres"))
    expect(result.status == 0, result)
    # /dev/null, because a pipe that nobody reads would fill up
    process = start(
        [f"{POSTGRES}/pgbench", "-n", "-c", CLIENTS, "-R", 10 * CLIENTS, "-T", seconds, *options],
        cwd=directory, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, **as_user("postgres"))
    try:
        yield process
    finally:
        end(process)


def more_rules(directory):
    """The example's rule with other waits, as alerts of other names."""
    with open(os.path.join(directory, "rules.yml"), "r+", encoding="utf-8") as file:
        text = file.read()
        expression = text.partition("expr: |\n")[2].partition("for:")[0].rstrip()
        file.write("  - name: trials\n    rules:\n" +
                   "".join(f"      - alert: After{wait}m\n        expr: |\n{expression}\n        "
                           f"for: {wait}m\n" for wait in WAITS_M))


def fired(prometheus, begin, step_s=15):
    """(alert, group, function) -> when it fired first, by the wall clock."""
    found = {}
    data = prometheus.ask("query_range?query=ALERTS%7Balertstate=%22firing%22%7D"
                          f"&start={begin}&end={time.time()}&step={step_s}")
    for series in data["result"]:
        labels = series["metric"]
        key = (labels["alertname"], labels.get("group"), labels.get("function"))
        found[key] = min(found.get(key, 1e12), series["values"][0][0])
    return found


def figures(agent):
    text = agent.get("/metrics")[1].decode()
    values = dict(line.rsplit(" ", 1) for line in text.splitlines() if not line.startswith("#"))
    return {name: float(values[f"memtrace_{name}"])
            for name in ("tracer_cpu_seconds_total", "tracer_resident_bytes", "rounds_total")}


def main():
    given = dict(word.split("=", 1) for word in sys.argv[1:])
    minutes, quiet, leak = (float(given.get("MINUTES", 60)), float(given.get("QUIET_MINUTES", 5)),
                            given.get("LEAK", "50000"))
    if "MEMTRACE" in given:
        test_agent.MEMTRACE = os.path.abspath(given["MEMTRACE"])
    with contextlib.ExitStack() as stack:
        directory = stack.enter_context(place())
        redis = stack.enter_context(Redis(directory))
        web, _, _, sock = stack.enter_context(nginx(2, {f"{i}.txt": "some text\n" * (100 * i + 10)
                                                        for i in range(8)}))
        database, database_directory = stack.enter_context(postgres())
        leaking = stack.enter_context(Endless("leaking", "plugin_late", "--rate", "2000",
                                              "--leak", leak))
        bench = stack.enter_context(pgbench(database_directory, int(60 * minutes) + 120))
        wait_until(lambda: len(children(web.pid)) == 2, "nginx has its workers")
        loads = [stack.enter_context(Load(200, redis_load(redis))),
                 stack.enter_context(Load(100, nginx_load(sock)))]
        time.sleep(10)  # until pgbench's backends are there, and all is warm
        pids = [redis.pid, web.pid, *children(web.pid), database.pid, *children(database.pid),
                leaking.pid]
        agent = stack.enter_context(test_agent.Agent("-p", ",".join(map(str, pids)),
                                                     "--every", "15"))
        agent.wait_for(leaking.pid)
        prometheus = stack.enter_context(Prometheus(directory, agent.port, quick=False,
                                                    change=more_rules))
        wait_until(prometheus.targets, "Prometheus answers")
        begin = time.time()
        first, leaks_since, least, told = figures(agent), None, {}, begin
        while time.time() < begin + 60 * minutes:
            time.sleep(5)
            expect(bench.poll() is None, "pgbench ended")
            for load in loads:
                expect(not load.failed, "load:", load.failed)
            if not leaks_since and time.time() >= begin + 60 * quiet:
                leaking.say("event")
                leaks_since = time.time()
            up = [target for target in prometheus.targets() if target["health"] == "up"]
            least = min(least or len(up), len(up)) if time.time() > begin + 60 else least
            if time.time() >= told + 60:
                told = time.time()
                print(
                    f"{(told - begin) / 60:.0f} min: {len(up)} targets up; "
                    f"{ {key: round(at - begin) for key, at in fired(prometheus, begin).items()} }",
                    flush=True)
        last, took = figures(agent), time.time() - begin
        found = {key: at - (leaks_since or 0) for key, at in fired(prometheus, begin).items()}
        [function] = leaking.ask("truth")["leaks"]
        print(json.dumps({
            "minutes": round(took / 60, 1), "leak_bytes_per_s": int(leak),
            "targets_up_least": least, "processes": len(pids),
            "requests": [load.n for load in loads],
            "fired_after_s": {" ".join(map(str, key)): round(s) for key, s in found.items()},
            "tracer_cores": round(
                (last["tracer_cpu_seconds_total"] - first["tracer_cpu_seconds_total"]) / took, 4),
            "tracer_resident_mb": round(last["tracer_resident_bytes"] / 1e6, 1)}), flush=True)
        alerts = {key: s for key, s in found.items() if not key[0].startswith("After")}
        expected = ("MemoryLeak", "leaking", function)
        expect(set(alerts) == {expected} and 0 <= alerts[expected] <= ALERT_S, "alerts:", alerts)


if __name__ == "__main__":
    harness.run_script(main)
