# SPDX-License-Identifier: BSD-2-Clause
"""Python's functions in stacks. The truth is what traceback and tracemalloc say in the target."""
import collections
import contextlib
import json
import os
import re
import subprocess

from harness import (NotRunnable, Tracer, end, expect, losses, memtrace, place, read_line, start, test, wait_until)

PYTHON = "/usr/bin/python3"


def need_python():
    """Debian's python3, if its version is one of those whose frames are read."""
    if not os.path.exists(PYTHON):
        raise NotRunnable(f"no {PYTHON}")
    version = subprocess.run([PYTHON, "-c", "import sys; print(*sys.version_info[:2])"], check=True, text=True,
                             stdout=subprocess.PIPE).stdout.split()
    if version not in (["3", "11"], ["3", "12"], ["3", "13"]):
        raise NotRunnable(f"python3 is {'.'.join(version)}")


@contextlib.contextmanager
def running(script):
    """A Python that waits for a line before it does anything; all its blocks come from malloc."""
    need_python()
    with place() as directory:
        path = os.path.join(directory, "script.py")
        with open(path, "w", encoding="utf-8") as file:
            file.write(script)
        target = start([PYTHON, path], env={**os.environ, "PYTHONMALLOC": "malloc"})
        try:
            expect(read_line(target, target.stdout) == "ready\n", "the script is not ready")
            yield target, path
        finally:
            end(target)


STACKS = """
import asyncio, functools, json, re, sys, threading, traceback
truth, held, lock = {}, [], threading.Lock()
def note():
    with lock:
        size = 100000 + len(truth)
        truth[size] = None
    held.append(bytearray(size)); stack = traceback.extract_stack()
    truth[size] = [(f.name, f.lineno) for f in reversed(stack)]
class Tree:
    def deep(self, n):
        note()
        if n:
            return self.deep(n - 1)
        return [self.leaf(
            x) for x in range(3)]
    def leaf(self, x):
        note()
    @property
    def value(self):
        note()
    def __lt__(self, other):
        note()
        return False
def generate(n):
    for i in range(n):
        note()
        yield i
def delegate(n):
    yield from generate(n)
async def wait(n):
    note()
    if n:
        await asyncio.sleep(0)
        await wait(n - 1)
def catch():
    try:
        yield
    except KeyError:
        note()
        yield
def through():
    yield from catch()
async def cancelled():
    try:
        await asyncio.sleep(60)
    except asyncio.CancelledError:
        note()
async def cancel():
    async def outer():
        await cancelled()
    task = asyncio.ensure_future(outer())
    await asyncio.sleep(0)
    task.cancel()
    await task
expression = compile("note()", "<string>", "eval")
statements = compile("def inner():\\n    note()\\ninner()", "<string>", "exec")
async def both():
    await asyncio.gather(wait(3), wait(4), cancel())
def everything():
    for i in range(10):
        Tree().deep(i)
    sum(delegate(5)); list(map(lambda x: note(), range(3)))
    Tree().value; sorted([Tree(), Tree(), Tree()]); functools.reduce(lambda a, b: note(), range(4))
    re.sub("a", lambda m: note() or "", "aaa")
    try:
        {}["x"]
    except KeyError:
        note()
    eval(expression); exec(statements)
    thrown = through(); next(thrown); thrown.throw(KeyError)
    asyncio.run(both())
print("ready", flush=True)
input()
everything()
threads = [threading.Thread(target=everything) for _ in range(3)]
for t in threads: t.start()
for t in threads: t.join()
print(json.dumps(list(truth.items())), flush=True)
input()
"""


@test(beside=True)
def python_stacks():
    """The frames of Python in the stacks of known blocks, against traceback.extract_stack() at the same places:
    recursion, methods, comprehensions, generators, coroutines, exceptions that are thrown into these, callbacks from C,
    code without a file, and threads."""
    with running(STACKS) as (target, path):
        with Tracer("-p", target.pid, "-i", "1", "--max-overhead", "off", "--json", "-f", "none") as tracer:
            print(file=target.stdin, flush=True)
            notes = json.loads(read_line(target, target.stdout))
            profile = tracer.stop().json()
    truth, found = collections.defaultdict(list), collections.defaultdict(lambda: [0, 0])
    for size, frames in notes:
        truth[tuple(map(tuple, frames))].append(size + 1)  # bytearray() allocates a byte more
    source = re.compile(r"(%s|<string>|<frozen [^:]*>|.*\.py):(\d+)$" % re.escape(path))
    for stack in profile["stacks"]:
        if "PyByteArray_Resize" in stack["frames"][:3]:
            lines = [source.match(line or "") for line in stack["lines"]]
            key = tuple((name.rpartition(".")[2], int(line.group(2))) for name, line in zip(stack["frames"], lines) if line)
            found[key][0] += stack["live_bytes"]
            found[key][1] += stack["live_objects"]
    equal = {stack for stack, sizes in truth.items() if found[stack] == [sum(sizes), len(sizes)]}
    wrong = next(((stack, truth[stack], found[stack]) for stack in truth if stack not in equal), None)
    expect(len(truth) > 60, "different stacks:", len(truth))
    expect(len(equal) >= 0.995 * len(truth), f"{len(equal)} of {len(truth)} stacks are equal, not", wrong,
           list(found)[:3])
    return f"{len(equal)} of {len(truth)} stacks equal, {sum(map(len, truth))} frames"


LEAK = """
import json, time
kept = []
class Record: # Python keeps no free list of these: a dict may be a block that another function allocated
    __slots__ = "key", "text"
def remember(i):
    kept.append(Record())
    kept[-1].text = "value %d" % i + "x" * 200
def handle(i):
    json.loads('{"a": [1, 2, {"b": "%d"}], "text": "abc"}' % i)
    " ".join(str(x) for x in range(30)).split()
print("ready", flush=True)
input()
i = 0
end = time.monotonic() + 60
while time.monotonic() < end:
    for _ in range(40):
        i += 1
        remember(i)
        handle(i)
    time.sleep(0.01)
"""


@test(beside=True)
def python_leak():
    """A service that leaks small objects beside work that leaks nothing: what surely grows is in the function that
    leaks, with its file and line, and nothing else surely grows. Traced continuously: on a machine with slow traps,
    windows would take minutes."""
    with running(LEAK) as (target, path):
        print(file=target.stdin, flush=True)
        result = memtrace("-p", target.pid, "-d", "6", "-i", "32K", "--max-overhead", "off", "--json", "-f", "none")
    profile = result.json()
    growing = [stack for stack in profile["stacks"] if stack["growth_low"] and stack["growth_low"] > 0]
    growing.sort(key=lambda stack: -stack["growth_bytes_per_s"])
    expect(growing, "nothing surely grows:", [(s["frames"][:8], s["growth_bytes_per_s"]) for s in profile["stacks"][:3]])
    first = LEAK.splitlines().index("def remember(i):") + 2
    for stack in growing:
        expect("remember" in stack["frames"], "grows:", stack["frames"])
        expect({f"{path}:{first}", f"{path}:{first + 1}"} & set(stack["lines"]), "lines:", stack["lines"])
    return f"{len(growing)} stacks, {growing[0]['growth_bytes_per_s']:.0f} B/s"
