# SPDX-License-Identifier: BSD-2-Clause
"""Programs that were not written for these tests: redis-server, python3, sqlite3."""
import json
import math
import os
import re
import socket

from harness import (PATIENCE_S, Tracer, end, expect, expect_equal, losses,
                     memtrace, need_tool, place, run, start, test, wait_until)

KEYS, REQUESTS, VALUE = 70000, 105000, 200


# --- redis ---

class Redis:
    """A new redis-server without persistence, on a socket in its directory. libc: a C library to
    preload, so that its malloc is used instead of jemalloc's."""

    def __init__(self, directory, libc=None):
        self.path = os.path.join(directory, "redis.sock")
        env = {**os.environ, **({"LD_PRELOAD": libc} if libc else {})}
        self.process = start([need_tool("redis-server"), "--port", "0", "--unixsocket", self.path,
                              "--save", "", "--appendonly", "no", "--daemonize", "no",
                              "--dir", directory, "--loglevel", "warning"], env=env)
        self.pid = self.process.pid
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.settimeout(PATIENCE_S)
        # the socket's file exists before the server listens
        wait_until(lambda: self.socket.connect_ex(self.path) == 0 or
                   self.process.poll() is not None, "redis-server listens")
        self.answers = self.socket.makefile("rb")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.answers.close()
        self.socket.close()
        end(self.process)

    def ask(self, *words):
        self.socket.sendall(b"*%d\r\n" % len(words) +
                            b"".join(b"$%d\r\n%s\r\n" % (len(w), w) for w in
                                     (str(w).encode() for w in words)))
        head = self.answers.readline().strip()
        expect(head and head[:1] != b"-", "redis answers", head)
        if head == b"$-1":
            return None
        if head[:1] == b"$":
            body = self.answers.read(int(head[1:]) + 2)
            return body.decode().strip()
        return head[1:].decode()

    def used_memory(self):
        return int(re.search(r"^used_memory:(\d+)", self.ask("INFO", "memory"), re.M)[1])

    def load(self):
        """Checks that the server answers all REQUESTS: if not, redis-benchmark fails."""
        result = run([need_tool("redis-benchmark"), "-s", self.path, "-t", "set", "-q", "-P", "8",
                      "-d", VALUE, "-r", KEYS, "-n", REQUESTS], timeout=120)
        expect_equal(result.status, 0, result)
        expect("error" not in (result.out + result.err).lower(), result.out, result.err)
        expect(re.search(r"SET: [\d.]+ requests per second", result.out), result.out)


def libc_path():
    with open("/proc/self/maps", encoding="utf-8") as maps:
        return re.search(r"(/\S*/libc\.so\.6)\n", maps.read())[1]


@test(beside=True)
def real_redis():
    with place() as directory, Redis(directory, libc_path()) as redis:
        used_before = redis.used_memory()
        with Tracer("-p", redis.pid, "--max-overhead", "off", "-i", "16K", "--json",
                    "-o", directory + "/out") as tracer:
            redis.load()
            grown = redis.used_memory() - used_before
            profile = tracer.stop().json()
        expect_equal(losses(profile), {}, "losses")
        # REQUESTS random draws hit this many different keys, with a standard deviation of about 100
        keys, wanted = int(redis.ask("DBSIZE")), KEYS * (1 - math.exp(-REQUESTS / KEYS))
        expect(abs(keys - wanted) < 0.01 * wanted, f"{keys} keys instead of about {wanted:.0f}")
        expect_equal(redis.ask("GET", "nothing"), None, "an answer after all that")
        for path in profile["files"]:
            expect(os.path.getsize(path), path, "is empty")
        expect_equal(len(profile["files"]), 3, "files")

        # `grown` counts usable sizes, the profile counts requested sizes. A block of n bytes from
        # glibc has 24 usable bytes if n is less than 24, else n to n + 15. A block of 128 KiB or
        # more (a few tables) is a mapping, usable to the end of its last page. `grown` falls when
        # blocks from before the attach are freed, but by no more than used_before. So grown is at
        # least live - used_before, and at most live + 24 for each block + a page for each mapping.
        rounding = 24 * profile["live_objects"] + 64 * 4096
        low, high = profile["live_bytes_low"], profile["live_bytes_high"]
        expect(grown > 14 << 20, f"the load is too small: {grown}")
        expect(low - used_before <= grown <= high + rounding,
               f"used_memory grew by {grown}, estimated {low} - {high}, rounding {rounding}")
        return f"used_memory grew by {grown}, live {low} - {high}"


# --- programs that run and end ---

def trace_command(command, *options, env=None):
    """Runs the command untraced and traced, with the same status and output. Returns the profile
    and the output."""
    plain = run(command, env=env)
    with place() as directory:
        result = memtrace("-q", "--max-overhead", "off", "--json=" + directory + "/json",
                          "-o", directory + "/out", *options, "--", *command, env=env, timeout=120)
        expect_equal((result.status, result.out), (plain.status, plain.out), result)
        with open(directory + "/json", encoding="utf-8") as file:
            profile = json.load(file)
        expect_equal(losses(profile), {}, "losses")
        for path in profile["files"]:
            expect(os.path.getsize(path), path, "is empty")
    return profile, plain.out


PYTHON = """
import os
blobs = [bytes(1000) for _ in range(%d)]
print(len(blobs), flush=True)
os._exit(0)
"""


@test(beside=True)
def real_python():
    """5,000 bytes objects add exactly their size (1000 bytes and a header of 33 bytes each), and
    the size of the list that holds them."""
    live, n = [], 5000
    env = {**os.environ, "PYTHONMALLOC": "malloc", "PYTHONHASHSEED": "0"}
    for count in (0, n):
        profile, _ = trace_command([need_tool("/usr/bin/python3"), "-c", PYTHON % count],
                                   "-i", "1", env=env)
        live.append(profile["live_bytes"])
    grown, wanted = live[1] - live[0], n * 1033
    expect(wanted <= grown <= wanted + 16 * n, f"{grown} bytes more, wanted about {wanted}")
    profile, _ = trace_command(["/usr/bin/python3", "-c", PYTHON % n], env=env)
    expect(profile["live_bytes_low"] <= 1.5 * live[1] and
           profile["live_bytes_high"] >= live[1] / 1.5, "at the default interval:",
           profile["live_bytes"], "instead of", live[1])


SQL = """
create table t(id integer primary key, x blob);
with recursive n(i) as (select 1 union all select i + 1 from n where i < 20000)
  insert into t select i, zeroblob(1000) from n;
select count(*), sum(length(x)) from t;
pragma page_count;
.exit 3
"""


@test(beside=True)
def real_sqlite():
    """At the end the pages of the in-memory database are live."""
    script = SQL.encode()
    with place() as directory:
        path = directory + "/sql"
        with open(path, "wb") as file:
            file.write(script)
        profile, out = trace_command([need_tool("sqlite3"), ":memory:", f".read {path}"],
                                     "-i", "64K")
    counted, pages = out.split()
    expect_equal(counted, "20000|20000000", "sqlite3's answer")
    # pages of 4096 bytes with their headers, and the memory of the shell and the schema
    least, most = int(pages) * 4096, int(pages) * (4096 + 512) + (4 << 20)
    expect(profile["live_bytes_high"] >= least and profile["live_bytes_low"] <= most,
           f"live {profile['live_bytes']}, the database takes {least} to {most}")
