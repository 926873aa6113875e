# SPDX-License-Identifier: BSD-2-Clause
"""Cases of real servers, by their own accounts.

A server counts what its allocator gives, which is more than it asked for, and all of it at once. Where a case
needs the bytes asked for, and by which function, a *twin* tells: the same load for some seconds under continuous tracing
of each allocation (-i 1). It gives the ratio of bytes asked for to bytes on the server's account, and the share of each
group of stacks. The windows under judgement have no part in it.

What is alive at the end and was allocated since tracing began is, by case,
  delta     what the server's account has grown by since then: nothing of before is freed
  above     what is above the account of the server at rest: all of before is gone by then
  constant  of `slots` values, replaced at random, those that have been by then: all but exp(-operations / slots)"""
import contextlib
import math
import shutil
import socket
import tempfile
import threading
import time

from harness import PATIENCE_S, Failure, end, need_tool, start
from test_real import Redis

TWIN_S = 12


def replaced_of(slots, ops):
    """How many of them are replaced by so many operations, each at random."""
    return slots * -math.expm1(-max(ops, 0) / slots)


class Subject:
    """A server in a directory of its own, and its load. raw(): its own account of the bytes that are live, and how
    many operations it has done."""
    every_s = 0.25
    warm_s = 3

    def __init__(self, case, seconds):
        self.case, self.seconds = case, seconds
        self.stack = contextlib.ExitStack()
        self.lock = threading.Lock()
        self.clients = []
        self.rest = None  # the account of the server at rest

    def __enter__(self):
        try:
            self.directory = tempfile.mkdtemp(prefix="memtrace-truth-")
            self.stack.callback(shutil.rmtree, self.directory, ignore_errors=True)
            self.set_up()
        except BaseException:
            self.stack.close()
            raise
        return self

    def __exit__(self, *_):
        self.stack.close()

    def client(self, *args, **options):
        """A process that makes load until the end."""
        process = start(args, **{"stdin": -3, "stdout": -3, "stderr": -3, **options})
        self.clients.append(process)
        self.stack.callback(end, process)
        return process

    def load(self):
        self.rest = self.sample()
        self.begin_load()
        time.sleep(self.warm_s)
        self.expect_load()

    def expect_load(self):
        for process in self.clients:
            if process.poll() is not None:
                raise Failure(f"{process.args[0]} ended: {process.returncode}")

    def sample(self):
        with self.lock:
            before = time.monotonic()
            raw, ops = self.raw()
            return {"t": (before + time.monotonic()) / 2, "raw": raw, "ops": ops}

    def mark(self):
        return self.sample()

    def stop(self):
        self.expect_load()

    def account(self, series, mark, twin):
        """Truth from what the server said."""
        how = self.case["truth"]
        ratio = (twin or {}).get("ratio") or 1
        shares = (twin or {}).get("shares", {})
        for sample in series:
            raw = sample["raw"]
            if raw is None:
                continue
            sample["total_live"] = ratio * raw
            sample["live"] = {name: share * ratio * raw for name, share in shares.items()}
            if how == "constant":
                replaced = replaced_of(self.case["slots"], sample["ops"] - mark["ops"])
                sample["since"] = {name: n * replaced for name, n in twin["per_slot"].items()}
                sample["total_since"] = sum(sample["since"].values())
                sample["live"] = {name: 0 for name in twin["per_slot"]}
                continue
            if self.case.get("rest"):
                self.by_operations(sample, mark, twin)
                continue
            base = mark["raw"] if how == "delta" else self.rest["raw"]
            sample["total_since"] = max(ratio * (raw - base), 0)
            sample["since"] = {name: share * sample["total_since"] for name, share in shares.items()}
        return series

    def by_operations(self, sample, mark, twin):
        """Each operation leaves as much as in the twin. What the account has grown by beyond that is the rest: a hash
        table, which doubles at times, and which no allocator rounds up."""
        done, grown = sample["ops"] - mark["ops"], sample["raw"] - mark["raw"]
        left = {name: n * done for name, n in twin["per_op"].items() if name != self.case["rest"]}
        left[self.case["rest"]] = grown - sum(left.values()) / twin["ratio"]
        sample["live"], sample["total_live"] = left, sum(left.values())  # less what was there at the mark
        sample["since"] = {name: max(n, 0) for name, n in left.items()}
        sample["total_since"] = max(sample["total_live"], 0)


# --- redis ---

class RedisSubject(Subject):
    def set_up(self):
        self.redis = self.stack.enter_context(Redis(self.directory))
        self.pid = self.redis.pid
        # what it notes of slow commands does grow, by some kB, when windows make commands slow
        self.redis.ask("CONFIG", "SET", "slowlog-log-slower-than", -1)
        if self.case.get("prime"):
            self.benchmark(*self.case["prime"]).wait(PATIENCE_S)
            self.clients.clear()

    def benchmark(self, *args):
        return self.client(need_tool("redis-benchmark"), "-s", self.redis.path, "-q", *args)

    def begin_load(self):
        self.benchmark("-n", 2000000000, *self.case["load"])

    def raw(self):
        said = self.redis.ask("INFO", "everything")
        words = dict(line.split(":", 1) for line in said.split("\r\n") if ":" in line)
        used = int(words["used_memory"])
        if self.case["truth"] == "above":  # at rest it has no clients
            used -= int(words["mem_clients_normal"])
        return used, int(words["total_commands_processed"])


class RedisSubscribers(RedisSubject):
    """Clients that subscribe and never read: what is published stays in their output buffers."""

    def begin_load(self):
        self.redis.ask("CONFIG", "SET", "client-output-buffer-limit", "pubsub 0 0 0")
        self.sockets = []
        for _ in range(4):
            s = self.stack.enter_context(socket.socket(socket.AF_UNIX))
            s.settimeout(PATIENCE_S)
            s.connect(self.redis.path)
            s.sendall(b"SUBSCRIBE news\r\n")
            s.recv(64)
            self.sockets.append(s)
        super().begin_load()


REDIS_GROUPS = {"buffers": r"_?addReply(Proto|Bulk|StringTo)\w*ToList|_addReplyProtoToList",
                "entries": r"dictAddRaw.*", "table": r"_?dictExpand.*|_?dictResize.*",
                "values": r"create\w*StringObject\w*|tryObjectEncoding\w*|createObject|processMultibulkBuffer",
                "keys": r"dbAdd"}
NEW = "1000000000"  # keys to choose from: hardly any twice


def redis(what, *load, truth, grows=(), subject=RedisSubject, **more):
    return {"what": "redis: " + what, "subject": subject, "load": load, "groups": REDIS_GROUPS, "grows": list(grows),
            "any": True, "zero": [], "options": ["--leaks"], "truth": truth, "twin": True, **more}


KEYS = 60000
SAME = ("-r", KEYS, "-n", 10 * KEYS, "-P", 16)
EQUAL = ("SET", "key:__rand_int__", "x" * 100)
DISTINCT = ("SET", "key:__rand_int__", "__rand_int__" + "x" * 80)
GROWS = ("values", "entries", "keys")

DEVELOP = {
    "redis_new": redis("new keys, as fast as it can", "-r", NEW, "SET", "key:__rand_int__", "x" * 200, truth="delta",
                       rest="table", may=["table"], grows=GROWS),
    "redis_new_pipelined": redis("new keys in pipelines of 16", "-r", NEW, "-P", 16, "SET", "key:__rand_int__",
                                 "x" * 200, truth="delta", rest="table", may=["table"], grows=GROWS),
    "redis_same_equal": redis(f"the same {KEYS} keys, equal values", "-r", KEYS, *EQUAL, truth="constant",
                              slots=KEYS, prime=(*SAME, *EQUAL)),
    "redis_same_equal_pipelined": redis(f"the same {KEYS} keys, equal values, in pipelines of 16", "-r", KEYS, "-P", 16,
                                        *EQUAL, truth="constant", slots=KEYS, prime=(*SAME, *EQUAL)),
    "redis_same_distinct": redis(f"the same {KEYS} keys, distinct values, in pipelines of 16", "-r", KEYS, "-P", 16,
                                 *DISTINCT, truth="constant", slots=KEYS, prime=(*SAME, *DISTINCT)),
    "redis_expire": redis("new keys that expire after 2 s", "-r", NEW, "SET", "key:__rand_int__", "x" * 100, "EX", 2,
                          truth="above"),
    "redis_subscribers": redis("a leak: clients that subscribe and never read", "-c", 4, "-r", NEW, "PUBLISH",
                               "news", "__rand_int__" + "x" * 100, truth="delta", grows=("buffers",),
                               subject=RedisSubscribers),
}
JUDGE = {}
