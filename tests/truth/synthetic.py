# SPDX-License-Identifier: BSD-2-Clause
"""Cases of tests/truth/lives.c, which counts its blocks by function exactly."""
import json
import os
import re
import threading
import time

from harness import PATIENCE_S, ROOT, NotRunnable, end, read_line, start, wait_until
from test_allocators import LIBRARIES, library

PROGS = os.path.join(ROOT, "build", "truth")
FUNCTIONS = {  # part -> the functions that allocate for it
    "request": ["request_parse"], "cache": ["cache_insert"], "table": ["table_insert"],
    "fifo": ["fifo_push"], "leak_work": ["leak_by_work"], "leak_clock": ["leak_by_clock"],
    "leak_share": ["churn_some_leak"], "batch": ["batch_gather"],
    "phases": ["phase_load", "phase_serve"], "burst": ["burst_set_up", "request_parse"],
    "relink": ["relink_insert"], "relink_leak": ["relink_forget"], "buffer": ["buffer_take"],
}
GROW = {"leak_work": "leak_by_work", "leak_clock": "leak_by_clock", "leak_share": "churn_some_leak",
        "relink_leak": "relink_forget"}
WARM_S = 2


class Lives:
    """A running process of tests/truth/lives.c, with its load and its account."""
    every_s = 0.1

    def __init__(self, case, seconds):
        program = os.path.join(PROGS, "lives_musl_static" if case.get("musl") else "lives")
        if not os.path.exists(program):
            raise NotRunnable(f"{program} is not built: make build/truth/lives")
        env = dict(os.environ)
        if case.get("preload"):
            env["LD_PRELOAD"] = library(LIBRARIES[case["preload"]])
        self.lock = threading.Lock()
        self.process = start([program, *case["args"]], env=env)
        self.pid = self.process.pid
        self.line()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        end(self.process)

    def line(self):
        return read_line(self.process, self.process.stdout)

    def say(self, word):
        self.process.stdin.write(word + "\n")
        self.process.stdin.flush()

    def load(self):
        """Lets the program run until its live bytes are in balance."""
        self.say("go")
        time.sleep(WARM_S)
        # after this time most caches are full; large ones take longer
        before, deadline = self.sample(), time.monotonic() + PATIENCE_S
        while time.monotonic() < deadline:
            time.sleep(0.5)
            after = self.sample()
            if all(after["live"].get(name, 0) <= 1.05 * n + 1e6
                   for name, n in before["live"].items()):
                break
            before = after

    def ask(self, word="account"):
        """The program's answer, as it is."""
        with self.lock:
            self.say(word)
            return json.loads(self.line())

    def sample(self, word="account"):
        return self.said(self.ask(word))

    @staticmethod
    def account(series, _begin, _twin):
        return series

    @staticmethod
    def said(said):
        functions = said["functions"]
        live = {name: f["live_bytes"] for name, f in functions.items()}
        since = {name: f["since_bytes"] for name, f in functions.items()}
        return {"t": said["t_ns"] / 1e9, "cpu_s": said["cpu_ns"] / 1e9, "ops": said["ops"],
                "live": live, "since": since, "total_live": sum(live.values()),
                "total_since": sum(since.values()),
                "allocs": sum(f["alloc_objects"] for f in functions.values()),
                "frees": sum(f["freed_objects"] for f in functions.values())}

    def mark(self):
        return self.sample("mark")

    def stop(self):
        self.say("stop")
        wait_until(lambda: self.process.poll() is not None, "lives ended")


def case(what, parts, *options, grows=None, zero=(), **more):
    """parts: as on the program's command line. grows: functions that grow; by default, those that
    the parts imply."""
    kinds = [re.match(r"\w+", part)[0] for part in parts.split()]
    names = dict.fromkeys(name for kind in kinds for name in FUNCTIONS[kind])
    return {"what": what, "subject": Lives, "args": [*options, *parts.split()],
            "groups": {name: name for name in names}, "zero": list(zero),
            "grows": [GROW[kind] for kind in kinds if kind in GROW] if grows is None else grows,
            "options": ["--leaks"], **more}


def cache(life, equal, every=1, size=64, what=None, **more):
    kind = "equal" if equal else "distinct"
    return case(what or f"cache, random replacement, mean life {life} s, {kind} contents; "
                "requests beside it",
                f"cache:life_s={life}:every={every}:size={size}:equal={equal} "
                "request:size=100:every=2", **more)


def batch(equal):
    return case(f"batches freed every 8 s, {'equal' if equal else 'distinct'} contents; requests",
                f"batch:every=20:size=300:equal={equal} request", zero=["batch_gather"])


def leak_share(percent, equal, *options, every=1, **more):
    return case(f"one stack churns, {percent} % of its blocks leak, "
                f"{'equal' if equal else 'distinct'} contents",
                f"leak_share:share={float(percent) / 100}:size=64:equal={equal}:every={every} "
                "request:every=2", *options, **more)


DEVELOP = {
    "cache_0.3_equal": cache(0.3, 1), "cache_0.3_distinct": cache(0.3, 0),
    "cache_2.5_equal": cache(2.5, 1, every=4), "cache_2.5_distinct": cache(2.5, 0, every=4),
    "cache_15_equal": cache(15, 1, every=20), "cache_15_distinct": cache(15, 0, every=20),
    "leak_work": case("a leak by work: each 200th operation; cache and requests",
                      "leak_work:every=200:size=100 cache:life_s=1:every=8 request"),
    "leak_clock": case("a leak by the clock, 5,000 blocks a second, in a saturated process",
                       "leak_clock:per_s=5000:size=100 cache:life_s=1:every=8 request"),
    "leak_5_distinct": leak_share("5", 0), "leak_5_equal": leak_share("5", 1),
    "leak_0.5_distinct": leak_share("0.5", 0), "batch_equal": batch(1),
    "phases": case("two phases: from half of the run on, another function has nine tenths of the "
                   "turns", "phases:every=4:life_s=2.5:size=128:at_s={half} request"),
    "burst_idle": case("25 MB set up in 30 ms, 1 s into tracing; then 10 requests a second",
                       "burst:at_s=1:bytes=25000000:size=1000:idle_per_s=10"),
    "burst_500_idle": case("the same in blocks of 500 bytes: windows begin in the burst, always",
                           "burst:at_s=1:bytes=25000000:size=500:idle_per_s=10"),
    "relink_equal": case("9.6 MB of equal entries on a list that is relinked all the time, "
                         "replaced at random", "relink:n=50000:every=4:size=192:equal=1 request"),
    "cache_listed_equal": case("the same, and what hides it: a block's first 128 bytes have no "
                               "links in them",
                               "relink:n=50000:every=4:size=192:equal=1:links_at=160 request"),
    # these cases were in the set "judge" until memtrace was changed because of their results
    "fifo_4_equal": case("fifo, 4 s, equal contents; requests",
                         "fifo:life_s=4:every=8:size=96:equal=1 request"),
    "fifo_4_distinct": case("fifo, 4 s, distinct contents; requests",
                            "fifo:life_s=4:every=8:size=96 request"),
    "buffers": case("buffers that live 1 to 50 ms; requests", "buffer:every=4:size=1000 request"),
    "buffers_small": case("small buffers that live 1 to 50 ms; requests",
                          "buffer:every=8:size=300 request"),
    "buffers_beside": case(
        "4 threads: buffers that live 1 to 50 ms beside a cache of 0.5 s; requests",
        "buffer:every=24:size=1500 cache:life_s=0.5:every=6:size=120:equal=0 request",
        "--threads", "4"),
    "threads_64_leak": case("64 threads that mostly wait: a leak by work, each 100th operation; "
                            "cache and requests",
                            "leak_work:every=100:size=200 cache:life_s=1:every=8 request",
                            "--threads", "64", "--rate", "3000"),
    "table": case("a table that turns over in 5 minutes; requests",
                  "table:life_s=300:every=400:size=200 request"),
    "slow_probes": cache(
        0.3, 1, what="cache of 0.3 s by an operation of some 50 ns, which probes slow most",
        every=1),
}
# Few allocations, so that tracing is continuous. So an error in these cases is not due to windows:
# either the judge is wrong, or tracing as a whole.
CONTROL = ("--rate", "1500", "--work", "200000")
DEVELOP["control_cache"] = cache(
    2, 1, size=400, what="control, continuous: cache of 2 s, 1,500 long operations a second")
DEVELOP["control_cache"]["args"] += CONTROL
DEVELOP["control_leak"] = case(
    "control, continuous: a leak by the clock, 500 blocks a second; cache",
    "leak_clock:per_s=500:size=1000 cache:life_s=1:size=400 request", *CONTROL)
DEVELOP["slow_probes"]["args"] += ["--work", "5"]

JUDGE = {
    "fifo_1.5_equal": case("fifo, 1.5 s, equal contents; requests",
                           "fifo:life_s=1.5:every=6:size=160:equal=1 request"),
    "fifo_9_distinct": case("fifo, 9 s, distinct contents; requests",
                            "fifo:life_s=9:every=12:size=96 request"),
    "leak_0.5_equal": leak_share("0.5", 1), "batch_distinct": batch(0),
    "buffers_and_leak": case(
        "buffers that live 1 to 50 ms, equal contents, beside a leak by work; requests",
        "buffer:every=12:size=700:equal=1 leak_work:every=150:size=300 request"),
    "table_100": case("a table that turns over in 100 s, distinct contents; requests",
                      "table:life_s=100:every=150:size=400 request"),
    "relink_leak": case("entries that stay, on a list that is relinked all the time; requests",
                        "relink_leak:every=100:size=128:equal=1 request"),
    "threads_4_cache": cache(1, 0, every=8,
                             what="4 threads: cache of 1 s, distinct contents; requests"),
    "threads_48_leak": case("48 threads that mostly wait: one stack churns, 4 % of its blocks "
                            "leak, distinct contents; requests",
                            "leak_share:share=0.04:size=120:every=4 request",
                            "--threads", "48", "--rate", "5000", "--work", "400"),
    "jemalloc_cache": cache(0.8, 1, every=4, preload="jemalloc",
                            what="jemalloc: cache of 0.8 s, equal contents"),
    "tcmalloc_leak": leak_share("2", 0, preload="tcmalloc"),
    "mimalloc_cache": cache(3, 0, every=8, preload="mimalloc",
                            what="mimalloc: cache of 3 s, distinct contents"),
    "musl_cache": cache(0.8, 0, every=8, musl=True,
                        what="musl, static: cache of 0.8 s, distinct contents"),
    "hard_work_cache": cache(
        2, 1, what="cache of 2 s by operations of some 20 us, which probes hardly slow"),
    "half_busy_leak": case("a leak by work in a process that works half of the time",
                           "leak_work:every=100:size=100 cache:life_s=2:every=4 request",
                           "--rate", "200000"),
}
JUDGE["threads_4_cache"]["args"] += ["--threads", "4"]
JUDGE["hard_work_cache"]["args"] += ["--work", "20000"]
