# SPDX-License-Identifier: BSD-2-Clause
"""Cases of real servers, judged by the servers' own statistics of their memory ("accounts").

An account counts the bytes that the server's allocator gives, which are more than the server asks
for. The account is one sum over all functions. If a case needs the requested bytes by function,
they come from a *twin*: the same load for some seconds with continuous tracing of each allocation
(-i 1). The twin shows the ratio of requested bytes to bytes in the account, and the share of each
group of stacks. It does not depend on the windows that are judged.

The bytes that are live at the end and were allocated since tracing began are, by case,
  delta     the growth of the account since tracing began, because nothing older is freed
  above     the account minus the account of the server at rest, because everything older is
            freed
  none      unknown: only growth has a truth
  constant  the values replaced since tracing began, of `slots` values that are replaced at random:
            all of them except a share of exp(-operations / slots)"""
import contextlib
import json
import math
import mmap
import os
import re
import shutil
import socket
import struct
import subprocess
import tempfile
import threading
import time

from harness import (PATIENCE_S, ROOT, Failure, NotRunnable, end, need_tool, read_line, start,
                     wait_until)
from judge import at
from test_real import Redis
import test_servers
from test_servers import POSTGRES, Psql, Server, UnixHTTP, as_user, children, listens, place_of

TWIN_S = 12
CLIENT_CPU_S = 900
ENVIRONMENT_LOCK = threading.Lock()


def replaced_of(slots, ops):
    """How many of the slots are replaced by ops operations, each of which replaces a random
    slot."""
    return slots * -math.expm1(-max(ops, 0) / slots)


class Subject:
    """A server in a directory of its own, and its load. raw() returns the live bytes by the
    server's account, and the number of its operations so far."""
    every_s = 0.25
    warm_s = 3

    def __init__(self, case, seconds):
        self.case, self.seconds = case, seconds
        self.stack = contextlib.ExitStack()
        self.lock = threading.Lock()
        self.clients = []
        self.rest = None  # the account of the server at rest
        self.shim, self.shim_env = None, {}

    def __enter__(self):
        try:
            self.directory = tempfile.mkdtemp(prefix="memtrace-truth-")
            self.stack.callback(shutil.rmtree, self.directory, ignore_errors=True)
            if self.case.get("shim"):
                self.load_shim()
            with self.environment():
                self.set_up()
        except BaseException:
            self.stack.close()
            raise
        return self

    def __exit__(self, *_):
        self.stack.close()

    def load_shim(self):
        library = os.path.join(ROOT, "build", "truth", "shim.so")
        if not os.path.exists(library):
            raise NotRunnable(f"{library} is not built")
        os.chmod(self.directory, 0o755)
        path = self.directory + "/shim"
        with open(path, "wb") as file:
            file.truncate(4096)
        os.chmod(path, 0o666)
        with open(path, "r+b") as file:
            self.shim = mmap.mmap(file.fileno(), 4096)
        self.shim_env = {"LD_PRELOAD": library, "SHIM_ACCOUNT": path,
                         "SHIM_EVERY": str(self.case["shim"]), "SHIM_SIZE": "200"}

    @contextlib.contextmanager
    def environment(self):
        """Programs started in this context run with the shim."""
        with ENVIRONMENT_LOCK:
            os.environ.update(self.shim_env)
            try:
                yield
            finally:
                for name in self.shim_env:
                    del os.environ[name]

    def client(self, *args, **options):
        """Starts a process that makes load until the end of the case. If the test is killed, nobody
        ends this process. So the process also has a limit of CPU time."""
        quiet = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL,
                 "stderr": subprocess.DEVNULL}
        process = start([need_tool("prlimit"), f"--cpu={CLIENT_CPU_S}", *args],
                        **{**quiet, **options})
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
                raise Failure(f"{process.args[2]} ended: {process.returncode}")

    def sample(self):
        with self.lock:
            before = time.monotonic()
            raw, ops = self.raw()
            said = {"t": (before + time.monotonic()) / 2, "raw": raw, "ops": ops}
            if self.shim:
                said["ops"], _, said["shim"] = struct.unpack_from("QQQ", self.shim)
            return said

    def mark(self):
        return self.sample()

    def stop(self):
        self.expect_load()

    def account(self, series, begin, twin):
        """The truth since tracing began, from the accounts of the server and the shim. The account
        at the beginning is interpolated between the last account before it and the first account
        after it. If the server were asked at the beginning, its answer would come some tenths of a
        second late, after megabytes of further allocations."""
        mark = {key: at(series, begin, lambda sample, key=key: sample[key]) for key in series[0]}
        self.by_server(series, mark, twin)
        for sample in series if self.shim else ():
            for key, n in (("live", sample["shim"]),
                           ("since", max(sample["shim"] - mark["shim"], 0))):
                sample.setdefault(key, {})["shim_forget"] = n
        return series

    def by_server(self, series, mark, twin):
        how = self.case["truth"]
        ratio = (twin or {}).get("ratio") or 1
        shares = (twin or self.case).get("shares", {})
        for sample in series:
            raw = sample["raw"]
            if raw is None:
                continue
            sample["total_live"] = ratio * raw
            sample["live"] = {name: share * ratio * raw for name, share in shares.items()}
            if how == "none":
                continue
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
            sample["since"] = {name: share * sample["total_since"]
                               for name, share in shares.items()}

    def by_operations(self, sample, mark, twin):
        """Each operation leaves as many bytes as in the twin. The account may grow by more bytes,
        because a hash table doubles at times. The bytes of the table are not scaled by the ratio,
        because no allocator rounds them up."""
        done, grown = sample["ops"] - mark["ops"], sample["raw"] - mark["raw"]
        left = {name: n * done for name, n in twin["per_op"].items() if name != self.case["rest"]}
        left[self.case["rest"]] = grown - sum(left.values()) / twin["ratio"]
        # without the bytes that were live at the mark
        sample["live"], sample["total_live"] = left, sum(left.values())
        sample["since"] = {name: max(n, 0) for name, n in left.items()}
        sample["total_since"] = max(sample["total_live"], 0)


# --- redis ---

class RedisSubject(Subject):
    def set_up(self):
        self.redis = self.stack.enter_context(Redis(self.directory))
        self.pid = self.redis.pid
        # redis's log of slow commands would grow by some kB when windows make commands slow
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
        if self.case["truth"] == "above":  # a server at rest has no clients
            used -= int(words["mem_clients_normal"])
        return used, int(words["total_commands_processed"])


class RedisSubscribers(RedisSubject):
    """Clients that subscribe and never read: published messages stay in their output buffers."""

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


REDIS_GROUPS = {
    "buffers": r"_?addReply(Proto|Bulk|StringTo)\w*ToList|_addReplyProtoToList",
    "entries": r"dictAddRaw.*", "table": r"_?dictExpand.*|_?dictResize.*",
    "values": r"create\w*StringObject\w*|tryObjectEncoding\w*|createObject|processMultibulkBuffer",
    "keys": r"dbAdd"}
NEW = "1000000000"  # number of keys to draw from: hardly any key is drawn twice


def redis(what, *load, truth, grows=(), subject=RedisSubject, **more):
    return {"what": "redis: " + what, "subject": subject, "load": load, "groups": REDIS_GROUPS,
            "grows": list(grows),
            "any": True, "zero": [], "options": ["--leaks"], "truth": truth, "twin": True, **more}


KEYS = 60000
SAME = ("-r", KEYS, "-n", 10 * KEYS, "-P", 16)
EQUAL = ("SET", "key:__rand_int__", "x" * 100)
DISTINCT = ("SET", "key:__rand_int__", "__rand_int__" + "x" * 80)
GROWS = ("values", "entries", "keys")

DEVELOP = {
    "redis_new": redis("new keys, as fast as it can", "-r", NEW, "SET", "key:__rand_int__",
                       "x" * 200, truth="delta", rest="table", may=["table"], grows=GROWS),
    "redis_new_pipelined": redis("new keys in pipelines of 16", "-r", NEW, "-P", 16, "SET",
                                 "key:__rand_int__", "x" * 200, truth="delta", rest="table",
                                 may=["table"], grows=GROWS),
    "redis_same_equal": redis(f"the same {KEYS} keys, equal values", "-r", KEYS, *EQUAL,
                              truth="constant", slots=KEYS, prime=(*SAME, *EQUAL)),
    "redis_same_equal_pipelined": redis(f"the same {KEYS} keys, equal values, in pipelines of 16",
                                        "-r", KEYS, "-P", 16, *EQUAL, truth="constant", slots=KEYS,
                                        prime=(*SAME, *EQUAL)),
    "redis_same_distinct": redis(f"the same {KEYS} keys, distinct values, in pipelines of 16",
                                 "-r", KEYS, "-P", 16,
                                 *DISTINCT, truth="constant", slots=KEYS, prime=(*SAME, *DISTINCT)),
    "redis_expire": redis("new keys that expire after 2 s", "-r", NEW, "SET", "key:__rand_int__",
                          "x" * 100, "EX", 2, truth="above"),
    "redis_subscribers": redis("a leak: clients that subscribe and never read", "-c", 4, "-r", NEW,
                               "PUBLISH", "news", "__rand_int__" + "x" * 100, truth="delta",
                               grows=("buffers",), subject=RedisSubscribers),
    "redis_shim_leak": redis(
        f"the same {KEYS} keys, distinct values; a leak by a preloaded library", "-r", KEYS,
        *DISTINCT, truth="none", prime=(*SAME, *DISTINCT), grows=("shim_forget",), shim=10,
        twin=False),
}
DEVELOP["redis_shim_leak"]["groups"] = {"shim_forget": "shim_forget"}


# --- memcached: its memory is slabs of a megabyte, and it has few slabs ---

MEMCACHED_LOAD = """
import socket, sys
s = socket.socket(socket.AF_UNIX)
s.connect(sys.argv[1])
step, i = int(sys.argv[2]), 0
while True:
    for k in range(50):
        s.sendall(b"set key:%d 0 0 100\\r\\n%s\\r\\n" % (i % step, b"x" * 100))
        s.recv(4096)
        i += 1
"""


SLAB_PAGE = 1 << 20  # memcached's -I


class Memcached(Subject):
    def set_up(self):
        self.tables = []  # (when, bytes)
        with contextlib.ExitStack() as stack:
            directory = stack.enter_context(place_of("memcache"))
            self.path = directory + "/sock"
            server = stack.enter_context(Server(directory, [need_tool("memcached"), "-s", self.path,
                                                            "-t", 2, "-m", 2048],
                                                **as_user("memcache")))
            server.wait_for(lambda: listens(self.path))
            self.stack.push(stack.pop_all())
        self.pid = server.pid
        self.client_of_ours = self.stack.enter_context(
            contextlib.closing(test_servers.Memcache(self.path)))

    def begin_load(self):
        for _ in range(4):
            self.client("python3", "-c", MEMCACHED_LOAD, self.path, self.case["keys"])

    def raw(self):
        slabs = dict(line.split()[1:3] for line in self.client_of_ours.block("stats slabs"))
        stats = dict(line.split()[1:3] for line in self.client_of_ours.block("stats"))
        self.tables.append((time.monotonic(), int(stats[b"hash_bytes"])))
        return int(slabs.get(b"total_malloced", 0)), int(stats[b"cmd_set"])

    def by_server(self, series, mark, twin):
        """The hash table is one block. When it doubles, it becomes a new block."""
        super().by_server(series, mark, twin)
        before = [n for t, n in self.tables if t <= mark["t"]][-1]
        for sample in series:
            table = [n for t, n in self.tables if t <= sample["t"]][-1:]
            if "since" in sample and table and table[0] != before:
                sample["since"]["slabs"] = sample["since"].get("slabs", 0) + table[0]
                sample["total_since"] += table[0]


# --- nginx: pools of requests, all of which are freed ---

class Nginx(Subject):
    def set_up(self):
        files = {"5.txt": "".join(f"{k * k} some text\n" for k in range(1000))}
        server, self.directory_, self.port, self.sock = self.stack.enter_context(
            test_servers.nginx(1, files))
        wait_until(lambda: children(server.pid), "nginx has a worker")
        self.pid, = children(server.pid)

    def begin_load(self):
        for _ in range(2):
            self.client(need_tool("ab"), "-q", "-n", 5000000, "-c", 8, *self.case["load"],
                        f"http://127.0.0.1:{self.port}/files/5.txt")

    def raw(self):
        return None, None


# --- postgres: a backend, which writes its memory contexts to the log ---

class Postgres(Subject):
    every_s = 1

    def set_up(self):
        self.server, self.pg = self.stack.enter_context(test_servers.postgres())
        self.admin = self.stack.enter_context(Psql(self.pg))
        result = subprocess.run(
            [f"{POSTGRES}/pgbench", "-i", "-q", "-h", self.pg, "-U", "postgres", "postgres"],
            stdin=subprocess.DEVNULL, capture_output=True, timeout=PATIENCE_S, check=False)
        if result.returncode:
            raise Failure(f"pgbench: {result.stderr[-300:]}")
        self.pid = None
        self.begin_client()
        deadline = time.monotonic() + PATIENCE_S
        # pgbench's first session only reads the tables
        while not self.pid or self.pid != self.backend():
            time.sleep(0.5)
            self.pid = self.backend()
            if time.monotonic() > deadline:
                raise Failure("postgres has no backend for the load")

    def backend(self):
        return int(self.admin.ask("select max(pid) from pg_stat_activity "
                                  "where application_name = 'truth';") or 0)

    def begin_client(self):
        self.client(f"{POSTGRES}/pgbench", *self.case["load"], "-n", "-c", 1, "-T", 3600, "-h",
                    self.pg, "-U", "postgres", "postgres", env={**os.environ, "PGAPPNAME": "truth"})

    def begin_load(self):
        pass

    def raw(self):
        said = re.compile(r"Grand total: (\d+) bytes in")
        before = len(said.findall(self.server.log()))
        self.admin.ask(f"select pg_log_backend_memory_contexts({self.pid});")
        wait_until(lambda: len(said.findall(self.server.log())) > before,
                   "the backend tells its memory contexts")
        ops = self.admin.ask("select xact_commit from pg_stat_database where datname = 'postgres';")
        return int(said.findall(self.server.log())[-1]), int(ops)


PREPARE = """
import sys, time
i = 0
while True:
    for _ in range(20):
        i += 1
        print(f"prepare s{i} as select a.abalance + {i}, b.bbalance from pgbench_accounts a "
              f"join pgbench_branches b on a.bid = b.bid where a.aid = $1 + {i};")
    print("select count(*) from pgbench_branches;", flush=True)
    time.sleep(0.02)
"""


class PostgresPrepares(Postgres):
    """Statements are prepared and never deallocated."""

    def begin_client(self):
        source = self.client("python3", "-c", PREPARE, stdout=subprocess.PIPE)
        self.client(f"{POSTGRES}/psql", "-XqAt", "-h", self.pg, "-U", "postgres", "postgres",
                    stdin=source.stdout, env={**os.environ, "PGAPPNAME": "truth"})


# --- mariadb: Memory_used ---

class Mariadb(Subject):
    every_s = 0.5

    def set_up(self):
        need_tool("mariadb-slap")
        with contextlib.ExitStack() as stack:
            directory = stack.enter_context(place_of("mysql"))
            self.sock = directory + "/sock"
            os.mkdir(directory + "/data")
            shutil.chown(directory + "/data", "mysql", "mysql")
            server = stack.enter_context(Server(directory, [
                need_tool("mariadbd"), "--no-defaults", "--datadir=" + directory + "/data",
                "--socket=" + self.sock, "--skip-networking", "--skip-grant-tables",
                "--innodb-flush-log-at-trx-commit=0", "--max-prepared-stmt-count=1048576"],
                **as_user("mysql")))
            server.wait_for(lambda: listens(self.sock))
            self.stack.push(stack.pop_all())
        self.pid = server.pid
        self.admin = self.client(need_tool("mariadb"), "--no-defaults", "-S", self.sock, "-N", "-B",
                                 "-n", stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def ask(self, sql):
        self.admin.stdin.write(sql + "\n")
        self.admin.stdin.flush()
        return read_line(self.admin, self.admin.stdout).split()[-1]

    def begin_load(self):
        if self.case["grows"]:
            source = self.client("python3", "-c", MARIA_PREPARE, stdout=subprocess.PIPE)
            self.client("mariadb", "--no-defaults", "-S", self.sock, "-N", "-B",
                        "-n", stdin=source.stdout)
            return
        self.client("mariadb-slap", "--no-defaults", "-S", self.sock, "--auto-generate-sql",
                    "--auto-generate-sql-load-type=mixed", "--concurrency=4",
                    "--auto-generate-sql-write-number=50", "--number-of-queries=100000000")

    def raw(self):
        return (int(self.ask("show global status like 'Memory_used';")),
                int(self.ask("show global status like 'Questions';")))


MARIA_PREPARE = """
import time
i = 0
while True:
    for _ in range(20):
        i += 1
        print(f"prepare s{i} from 'select {i} + ?, count(*) from information_schema.engines';")
    print("select 1;", flush=True)
    time.sleep(0.02)
"""


# --- programs written for the test: python and node ---

class Scripted(Subject):
    """A program that prints its account, {"live", "since": {group: bytes}, "ops"}, when it reads a
    line."""

    def set_up(self):
        path = self.directory + "/program"
        with open(path, "w", encoding="utf-8") as file:
            file.write(self.case["program"])
        self.process = self.client(*self.case["command"], path, *self.case["args"],
                                   stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                   env={**os.environ, **self.case.get("env", {})})
        self.pid = self.process.pid

    def begin_load(self):
        pass

    def sample(self, word="account"):
        with self.lock:
            self.process.stdin.write(word + "\n")
            self.process.stdin.flush()
            said = json.loads(read_line(self.process, self.process.stdout))
        said["t"] = time.monotonic()
        return {**said, "total_live": sum(said["live"].values()),
                "total_since": sum(said["since"].values())}

    def mark(self):
        return self.sample("mark")

    def account(self, series, begin, twin):
        return series


# A bytes object takes 33 bytes and its contents. The list is one block, whose growth is small.
PYTHON = """
import json, random, select, sys
grows = sys.argv[1] == "grows"
kept, since, n_since, marked, ops = [], bytearray(50000), 0, False, 0

def keep(i):
    return b"%d" % i + b"x" * 200

def request(i):
    words = ("GET /%d HTTP/1.1 host example" % i).split()
    return {word: len(word) for word in words}

SIZE = 33 + 200 + 6
while True:
    for _ in range(200):
        ops += 1
        request(ops)
        if grows and ops % 10 == 0:
            kept.append(keep(100000 + ops % 100000))
            n_since += marked
        elif not grows:
            i = random.randrange(50000)
            if len(kept) < 50000:
                i = len(kept)
                kept.append(None)
            kept[i] = keep(100000 + ops % 100000)
            if marked and not since[i]:
                since[i] = 1
                n_since += 1
    if select.select([sys.stdin], [], [], 0)[0]:
        if sys.stdin.readline().strip() == "mark":
            marked = True
        print(json.dumps({"ops": ops, "live": {"kept": len(kept) * SIZE},
                          "since": {"kept": n_since * SIZE}}), flush=True)
"""

NODE = """
const kept = [], grows = process.argv[2] == 'grows';
let ops = 0, base = 0, marked = false, born = 0;
require('readline').createInterface({input: process.stdin}).on('line', line => {
    const live = process.memoryUsage().arrayBuffers;
    if (line == 'mark') { marked = true; base = live; }
    console.log(JSON.stringify({ops, live: {buffers: live}, since: {buffers:
        grows ? Math.max(live - base, 0) : Math.min(live, born * 5000)}}));
});
function turn() {
    for (let i = 0; i < 20; i++) {
        ops++;
        JSON.stringify(JSON.parse('{"a": [1, 2, 3], "b": "' + ops + '"}'));
        if (grows ? ops % 100 == 0 : true) {
            kept.push(Buffer.alloc(5000, ops & 255));
            born += marked;
        }
        if (!grows && kept.length > 4000)
            kept.shift();
    }
    setImmediate(turn);
}
turn();
"""


def server(what, subject, groups, *load, grows=(), truth="none", **more):
    return {"what": what, "subject": subject, "load": load, "groups": groups, "grows": list(grows),
            "any": True, "zero": [], "options": ["--leaks"], "truth": truth, **more}


def python(grows):
    return {**server("python3, PYTHONMALLOC=malloc: " + ("a list is appended to" if grows else
                                                         "50,000 objects, replaced at random"),
                     # the function, or the interpreter's loop if Python's frames are not known
                     Scripted, {"kept": "keep|_PyEval_EvalFrameDefault"},
                     grows=["kept"] if grows else []),
            "program": PYTHON, "command": ["/usr/bin/python3"],
            "args": ["grows" if grows else "steady"], "env": {"PYTHONMALLOC": "malloc"}}


def node(grows):
    return {**server("node: " + ("Buffers are kept" if grows else
                                 "4,000 Buffers, first in, first out"), Scripted,
                     {"buffers": r".*(ArrayBuffer|BackingStore).*",
                      "javascript": r"v8::base::OS::Allocate.*"},
                     grows=["buffers"] if grows else [], may=["javascript"]),
            "zero": [] if grows else ["buffers"],
            "program": NODE, "command": ["/usr/bin/node"], "args": ["grows" if grows else "steady"]}


SHIM = {"shim_forget": "shim_forget"}
CONTEXTS = {"contexts": ".*"}  # all functions: contexts are nearly all memory of a backend
SLABS = {"slabs": ".*"}

DEVELOP.update({
    "python_grows": python(True), "python_steady": python(False),
    "mariadb_steady": server("mariadb: inserts and selects by mariadb-slap", Mariadb, {}),
    "mariadb_prepares": server(
        "mariadb: a leak: statements that are prepared and never deallocated", Mariadb,
        {"arena": r"my_malloc|alloc_root\w*|my_realloc"}, grows=["arena"], truth="delta",
        shares={"arena": 1}),
    "nginx_shim_leak": server("nginx: connections of ab that are kept; a leak by a "
                              "preloaded library", Nginx, SHIM, "-k", grows=["shim_forget"],
                              shim=20),
    "memcached_shim_leak": server("memcached: 10,000 keys; a leak by a preloaded library",
                                  Memcached, SHIM, grows=["shim_forget"], keys=10000, shim=10),
})

JUDGE = {
    "memcached_steady": server("memcached: 10,000 keys are set again and again", Memcached, SLABS,
                               truth="delta", keys=10000, shares={"slabs": 1}, grain=SLAB_PAGE),
    "memcached_grows": server("memcached: new keys", Memcached, SLABS, truth="delta", keys=10**9,
                              grows=["slabs"], shares={"slabs": 1}, grain=SLAB_PAGE),
    "memcached_few_shim_leak": server("memcached: 100 keys; a leak by a preloaded library",
                                      Memcached, SHIM, grows=["shim_forget"], keys=100, shim=40),
    "postgres_steady": server("postgres: a backend of pgbench, selects", Postgres, CONTEXTS,
                              "-S", shares={"contexts": 1}),
    "postgres_update": server("postgres: a backend of pgbench, its mixed transactions", Postgres,
                              CONTEXTS, shares={"contexts": 1}),
    "postgres_prepares": server("postgres: a leak: statements that are prepared and "
                                "never deallocated", PostgresPrepares, CONTEXTS, grows=["contexts"],
                                truth="delta", shares={"contexts": 1}),
    "nginx_steady": server("nginx: connections of ab, one for each request, gzip", Nginx, {}, "-H",
                           "Accept-Encoding: gzip"),
    "nginx_gzip_shim_leak": server("nginx: the same, and a leak by a preloaded library", Nginx,
                                   SHIM, "-H", "Accept-Encoding: gzip", grows=["shim_forget"],
                                   shim=20),
    "node_steady": node(False), "node_grows": node(True),
}
