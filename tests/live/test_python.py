# SPDX-License-Identifier: BSD-2-Clause
"""Python's functions in stacks. The truth comes from traceback and tracemalloc in the target."""
import collections
import contextlib
import glob
import json
import os
import re
import subprocess

from harness import (ROOT, NotRunnable, Tracer, end, expect, losses, memtrace, place, read_line,
                     start, test, test_each_kind, wait_until)

PYTHON = "/usr/bin/python3"
# root directories: scripts/fetch-libcs
DEBIAN_11 = os.path.join(ROOT, "build", "libcs", "bullseye", "python")
DEBIAN_13 = os.path.join(ROOT, "build", "libcs", "trixie", "python")
READ = ("3.9", "3.10", "3.11", "3.12", "3.13")  # versions of Python whose frames memtrace reads


def need_python(command):
    """Raises NotRunnable unless memtrace reads the frames of the interpreter's version."""
    try:
        version = subprocess.run([*command,
                                  "-c", "import sys; print(*sys.version_info[:2], sep='.')"],
                                 check=True, text=True, stdout=subprocess.PIPE).stdout.strip()
    except OSError:
        raise NotRunnable(f"no {command[-1]}") from None
    if version not in READ:
        raise NotRunnable(f"{command[-1]} is {version}")


@contextlib.contextmanager
def running(script, python=PYTHON, root="", allocator="malloc"):
    """A Python that waits for a line before it does anything. All its blocks come from malloc, or
    from the allocator with this name (PYTHONMALLOC). root: its root directory. Yields the process,
    and the script's path below root."""
    command = ["chroot", root, python] if root else [python]
    need_python(command)
    with place(root + "/tmp" if root else None) as directory:
        path = os.path.join(directory, "script.py")
        with open(path, "w", encoding="utf-8") as file:
            file.write(script)
        path = path[len(root):]
        target = start([*command, path], env={**os.environ, "PYTHONMALLOC": allocator})
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


def check_stacks(**interpreter):
    """Compares Python's frames in the stacks of known blocks with traceback.extract_stack() at the
    same places: recursion, methods, comprehensions, generators, coroutines, exceptions that are
    thrown into generators and coroutines, callbacks from C, code without a file, and threads."""
    with running(STACKS, **interpreter) as (target, path):
        with Tracer("-p", target.pid, "-i", "1", "--max-overhead", "off", "--json",
                    "-f", "none") as tracer:
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
            key = tuple((name.rpartition(".")[2], int(line.group(2)))
                        for name, line in zip(stack["frames"], lines) if line)
            found[key][0] += stack["live_bytes"]
            found[key][1] += stack["live_objects"]
    equal = {stack for stack, sizes in truth.items() if found[stack] == [sum(sizes), len(sizes)]}
    wrong = next(((stack, truth[stack], found[stack]) for stack in truth if stack not in equal),
                 None)
    expect(len(truth) > 60, "different stacks:", len(truth))
    expect(len(equal) >= 0.995 * len(truth), f"{len(equal)} of {len(truth)} stacks are equal, not",
           wrong, list(found)[:3])
    return f"{len(equal)} of {len(truth)} stacks equal, {sum(map(len, truth))} frames"


@test(beside=True)
def python_stacks():
    return check_stacks()


@test(beside=True)
def python_stacks_debian_11():
    """Python 3.9, whose frames are objects on the heap, is traced from outside of its root
    directory."""
    if not os.path.exists(DEBIAN_11):
        raise NotRunnable(f"{DEBIAN_11} is not there: scripts/fetch-libcs build/libcs")
    return check_stacks(python="/usr/bin/python3.9", root=DEBIAN_11)


@test(beside=True)
def python_stacks_debian_13():
    if not os.path.exists(DEBIAN_13):
        raise NotRunnable(f"{DEBIAN_13} is not there: scripts/fetch-libcs build/libcs")
    return check_stacks(python="/usr/bin/python3.13", root=DEBIAN_13)


ARENAS = """
import os, re, sys, tempfile
kept = []
def total():
    "arenas that the pool has mapped so far, by Python's own count"
    with tempfile.TemporaryFile() as file:
        errors = os.dup(2)
        os.dup2(file.fileno(), 2)
        sys._debugmallocstats()
        os.dup2(errors, 2)
        file.seek(0)
        return int(re.search(rb"arenas allocated total += +([0-9,]+)",
                             file.read())[1].replace(b",", b""))
def keep():
    kept.append([str(i) + "x" * 200 for i in range(1000)])
def bystander():
    return [str(i) + "y" * 200 for i in range(1000)]
print("ready", flush=True)
rounds = int(input())
before = total()
for _ in range(rounds):
    keep()
    bystander()
print(total() - before, flush=True)
input()
"""


def check_arenas(python, root, size, *options):
    """Memory that the pool maps in arenas of this size is reported as the allocator's own. It does
    not count for the code whose call made the pool map an arena, because this may be any code."""
    with running(ARENAS, python, root, allocator="pymalloc") as (target, _):
        with Tracer("-p", target.pid, "--what", "heap,regions", "--max-overhead", "off", "--json",
                    "-f", "none", *options) as tracer:
            # a round fills a quarter of a MiB
            print(15 * size >> 18, file=target.stdin, flush=True)
            arenas = int(read_line(target, target.stdout))
            profiles = [json.loads(line) for line in tracer.stop().out.splitlines()]
    profile = next(p for p in profiles if p["what"] == "regions")
    mapped = {own: sum(s["alloc_objects"]
                       for s in profile["stacks"] if s.get("allocators_own", False) == own and
                       s["alloc_bytes"] == size * s["alloc_objects"])
              for own in (True, False)}
    expect(arenas > 10 and mapped == {True: arenas, False: 0},
           f"{arenas} arenas, and what was seen is", mapped)
    return f"{arenas} arenas"


@test_each_kind(beside=True, best=True)
def python_arenas_debian_11(kind):
    """With perf uprobes, memtrace does not probe the pool itself."""
    if not os.path.exists(DEBIAN_11):
        raise NotRunnable(f"{DEBIAN_11} is not there: scripts/fetch-libcs build/libcs")
    return check_arenas("/usr/bin/python3.9", DEBIAN_11, 256 << 10, "--probe-kind", kind)


def other_pythons(*wanted):
    """version -> path, for this machine's interpreters that are not Debian's. wanted: only these
    versions; none: all that memtrace can read."""
    places = ("/usr/local/bin", os.path.expanduser("~/.pyenv/versions/*/bin"))
    found = {os.path.basename(path)[6:]: path for place in places
             for path in glob.glob(place + "/python3.*")}
    found = {version: path for version, path in found.items() if version in (wanted or READ)}
    if not found:
        raise NotRunnable(f"no Python {' or '.join(sorted(wanted or READ))} is in "
                          f"{' or '.join(places)}")
    return found


@test(beside=True, long=True)
def python_arenas_others():
    """In 3.12, the probed function jumps to the function that takes the block. So the probed
    function is in no stack."""
    said = [f"{version}: {check_arenas(path, '', 1 << 20)}"
            for version, path in sorted(other_pythons(*set(READ) - {"3.9"}).items())]
    return "; ".join(said)


@test(beside=True, long=True)
def python_stacks_others():
    said = [f"{version}: {check_stacks(python=path)}"
            for version, path in sorted(other_pythons().items())]
    return "; ".join(said)


@test(beside=True, long=True)
def python_stacks_from_start():
    """A command with an old Python is traced from its first instruction on. At that time, the types
    that show Python's version are not in memory yet, because the loader has not run. The imports at
    Python's start are the first functions with a name."""
    said = []
    for version, path in sorted(other_pythons("3.9", "3.10").items()):
        result = memtrace("--max-overhead", "off", "-i", "1", "--json", "-f", "none",
                          "--", path, "-c", "import time; time.sleep(2)")
        profile = json.loads(result.err.splitlines()[-1])  # standard output is the command's
        named = sum(stack["alloc_objects"] for stack in profile["stacks"] if any(
            "<frozen importlib._bootstrap>:" in (line or "") for line in stack["lines"]))
        expect(named > profile["samples"] / 4, version, "named:", named, "of", profile["samples"])
        said.append(f"{version}: {named} of {profile['samples']}")
    return "; ".join(said)


LEAK = """
import json, time
kept = []
# Python keeps no free list of these: a dict may be a block that another function allocated
class Record:
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
    """A service leaks small objects beside work that leaks nothing. Only the function that leaks
    surely grows, and its file and line are shown. The service is traced continuously: on a machine
    with slow traps, windows would take minutes."""
    with running(LEAK) as (target, path):
        print(file=target.stdin, flush=True)
        result = memtrace("-p", target.pid, "-d", "6", "-i", "4K", "--max-overhead", "off",
                          "--json", "-f", "none")
    profile = result.json()
    growing = [stack for stack in profile["stacks"] if stack["growth_low"] and
               stack["growth_low"] > 0]
    growing.sort(key=lambda stack: -stack["growth_bytes_per_s"])
    expect(growing, "nothing surely grows:",
           [(s["frames"][:8], s["growth_bytes_per_s"]) for s in profile["stacks"][:3]])
    first = LEAK.splitlines().index("def remember(i):") + 2
    for stack in growing:
        expect("remember" in stack["frames"], "grows:", stack["frames"])
        expect({f"{path}:{first}", f"{path}:{first + 1}"} & set(stack["lines"]), "lines:",
               stack["lines"])
    return f"{len(growing)} stacks, {growing[0]['growth_bytes_per_s']:.0f} B/s"
