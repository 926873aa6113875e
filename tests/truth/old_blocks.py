#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""How often `memtrace heap --stacks` is right about blocks older than its run. Needs root, and
`make all progs` before.

usage: tests/truth/old_blocks.py [PROGRAM...]

Each program fills its heap while every allocation is traced (-i 1). The live blocks by stack are
the truth. Then the program replaces some of the blocks, and --stacks traces at the defaults. The
truth of a row is the number of blocks whose stacks have the row's two innermost functions. Blocks
of the row beyond this number are wrong. (The program "makers" prints its own truth.) Prints a table
in Markdown."""
import collections
import contextlib
import json
import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(HERE, "..", "live"))
import harness  # noqa: E402
from harness import (PROGS, Tracer, end, expect_equal, memtrace, place,  # noqa: E402
                     read_line, start)
from test_real import Redis  # noqa: E402

SECONDS = 30
DRIFT = 1.02  # allows for blocks that the program adds while it is traced again
JEMALLOC = "/usr/lib/x86_64-linux-gnu/libjemalloc.so.2"

PERL = """$| = 1; <STDIN>;
sub order {
    my $i = shift;
    return {id => $i, name => "customer number $i",
            lines => [map {[$_, $_ * 1.5, "item $_"]} 1 .. 3]}
}
sub visit { my $i = shift; return join ":", "visit", $i, "x" x (20 + $i % 40) }
for my $i (0 .. 29999) { $orders[$i] = order($i); $visits[$i] = visit($i); }
print "filled\\n"; <STDIN>;
for (1 .. 60000) {
    my $i = int rand 30000;
    $orders[$i] = order($i);
    $visits[$i] = visit($i);
    select undef, undef, undef, 0.001
}
"""
PYTHON = """import random, sys, time
class Order:
    def __init__(self, i):
        self.id, self.name, self.lines = i, f"customer number {i}", [
            (n, n * 1.5, f"item {n}") for n in range(3)]
def visit(i):
    return {"at": i * 1.5, "page": "/page/" + "x" * (i % 40), "seen": {i, i + 1}}
sys.stdin.readline()
orders, visits = [Order(i) for i in range(30000)], [visit(i) for i in range(30000)]
print("filled", flush=True)
sys.stdin.readline()
for _ in range(60000):
    i = random.randrange(30000)
    orders[i], visits[i] = Order(i), visit(i)
    time.sleep(0.001)
"""
SQL_FILL = """create table t(id integer primary key, name text, n int);
create index by_name on t(name);
with recursive c(i) as (select 1 union all select i + 1 from c where i < 200000)
insert into t select i, 'name ' || i, i from c;
.print filled
"""
SQL_REPLACE = ("update t set n = n + 1, name = 'name ' || abs(random() % 200000) where id between "
               "{0} and {0} + 50;\n")


class Traced:
    """A program that is traced with -i 1 while it fills its heap. This profile is the truth."""

    def truth(self):
        """Returns a function. Given a stack, the function returns how many blocks were made by
        stacks that begin like it."""
        with Tracer("-p", self.pid, "-i", 1, "--json", "-q", "-f", "none") as tracer:
            self.fill()
            result = tracer.stop()
        stacks = json.loads(result.out)["stacks"]
        return lambda stack: sum(s["live_objects"]
                                 for s in stacks if begins(s["frames"], stack[:2]))


class Told(Traced):
    """A program that fills its heap at the line "fill", and replaces blocks at the line
    "replace"."""

    def __init__(self, *args, **env):
        self.process = start(args, env={**os.environ, **env})
        self.pid = self.process.pid

    def __enter__(self):
        return self

    def __exit__(self, *_):
        end(self.process)

    def fill(self):
        self.process.stdin.write("fill\n")
        self.wait()

    def wait(self):
        while ((line := read_line(self.process, self.process.stdout, 300))
               not in ("filled\n", "ready\n")):
            harness.expect(line, "it ended")

    def replace(self):
        self.process.stdin.write("replace\n")


class Makers(Told):
    """The program "makers". It fills its heap at its start, and prints how many blocks each of its
    functions has made."""

    def __init__(self, **env):
        super().__init__(os.path.join(PROGS, "makers"), 20000, 120, **env)
        self.own = {}

    def truth(self):
        while (line := read_line(self.process, self.process.stdout)) != "ready\n":
            name, blocks, _ = line.split()
            self.own[name] = int(blocks)
        return lambda stack: sum(self.own.get(name, 0) for name in stack)

    def replace(self):
        pass


class Sqlite(Told):
    def fill(self):
        self.process.stdin.write(SQL_FILL)
        self.wait()

    def replace(self):
        self.process.stdin.write("".join(SQL_REPLACE.format(i * 97 % 190000) for i in range(500)))


class Keys(Traced):
    """redis-server, and its own benchmark as the load."""

    def __init__(self):
        self.stack = contextlib.ExitStack()
        self.redis = self.stack.enter_context(Redis(self.stack.enter_context(place())))
        self.pid = self.redis.pid

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stack.close()

    def load(self, n):
        return start(["redis-benchmark", "-s", self.redis.path, "-q", "-t", "set,hset,zadd",
                      "-r", "50000", "-d", "100", "-n", n],
                     stdout=harness.subprocess.DEVNULL, stderr=harness.subprocess.DEVNULL)

    def fill(self):
        self.load(500000).wait(300)

    def replace(self):
        self.load(100000000)


PROGRAMS = {
    "makers": Makers,
    "makers, jemalloc": lambda: Makers(LD_PRELOAD=JEMALLOC),
    "redis": Keys,
    "perl": lambda: Told("/usr/bin/perl", "-e", PERL),
    "python3, malloc": lambda: Told("/usr/bin/python3", "-c", PYTHON, PYTHONMALLOC="malloc"),
    "sqlite3": lambda: Sqlite("/usr/bin/sqlite3", ":memory:"),
}


def begins(frames, functions):
    """Are these functions in a row in the frames, beginning at one of the first four frames?"""
    return any(frames[at:at + len(functions)] == functions for at in range(4))


def judge(program):
    with program() as target:
        truth = target.truth()
        target.replace()
        result = memtrace("heap", "-p", target.pid, "--stacks", "-d", SECONDS,
                          "--json", timeout=SECONDS + 90)
    expect_equal(result.status, 0, result.err)
    origins = result.json()["origins"]
    # rows that differ only in callers further out have the same truth
    said, nbytes, stacks = collections.Counter(), collections.Counter(), {}
    for row in origins["stacks"]:
        key = tuple(row["stack"][:2])
        said[key] += row["blocks"]
        nbytes[key] += row["bytes"]
        stacks[key] = row["stack"]
    wrong = wrong_bytes = 0
    for key, blocks in said.items():
        true = truth(stacks[key])
        excess = max(0, blocks - DRIFT * true)
        wrong += excess
        wrong_bytes += excess / blocks * nbytes[key]
        if excess > 0.01 * sum(said.values()):
            print(f"{' < '.join(key)}: {blocks} told, {true:.0f} in truth", file=sys.stderr)
    told, told_bytes, unknown = sum(said.values()), sum(nbytes.values()), origins["unknown"]
    return [str(told + unknown["blocks"]), f"{100 * told / max(1, told + unknown['blocks']):.0f} %",
            f"{100 * told_bytes / max(1, told_bytes + unknown['bytes']):.0f} %",
            f"{100 * wrong / max(1, told):.1f} %",
            f"{100 * wrong_bytes / max(1, told_bytes):.1f} %", str(origins["known_blocks"]),
            f"{origins['told_rightly']['blocks']} of {origins['told']['blocks']}"]


def main():
    print("| program | blocks in use | told, of the blocks | of the bytes | of these wrong, blocks "
          "| bytes | known blocks | of one half, told rightly by the other |\n"
          "|---|---:|---:|---:|---:|---:|---:|---:|", flush=True)
    for name in sys.argv[1:] or PROGRAMS:
        print(f"| {name} |", " | ".join(judge(PROGRAMS[name])), "|", flush=True)


if __name__ == "__main__":
    harness.run_script(main)
