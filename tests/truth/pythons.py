# SPDX-License-Identifier: BSD-2-Clause
"""Python services that leak small objects beside work that leaks nothing, on Python's own
allocator. Each leaks in one function, `remember`, at a rate that the program knows. Before the case
begins, tracemalloc measures in another process (the twin) how many bytes an object takes."""
import json
import os
import shutil
import subprocess
import tempfile

from harness import NotRunnable
from servers import Scripted, server
from test_python import DEBIAN_11, DEBIAN_13, other_pythons

PROGRAM = '''
import asyncio, collections, json, select, sys, threading, time
variant = sys.argv[1]
kept, started, lock = [], time.monotonic(), threading.Lock()


class Record:
    __slots__ = "key", "text"


if variant == "dicts":
    def remember(i):
        # not i itself, whose block is from the caller's loop
        kept.append({"id": i + 1, "text": "value %d" % i + "x" * 200})
elif variant == "numpy":
    import numpy

    def remember(i):
        kept.append(numpy.full(60, i))
elif variant == "generators":
    def remember(ids):
        for i in ids:
            record = Record()
            record.text = "value %d" % i + "x" * 200
            kept.append(record)
            yield i
else:
    def remember(i):
        record = Record()
        record.text = "value %d" % i + "x" * 200
        kept.append(record)


def handle(i):
    parsed = json.loads('{"a": [1, 2, {"b": "%d"}], "text": "abc"}' % i)
    return " ".join(str(x) for x in parsed["a"]).split()


def serve(ids):
    if variant == "generators":
        for i in remember(ids):
            handle(i)
        return
    for i in ids:
        remember(i)
        handle(i)


def answer(size):
    global marked
    if not select.select([sys.stdin], [], [], 0)[0]:
        return
    if sys.stdin.readline().strip() == "mark":
        marked = len(kept)
    n = len(kept)
    print(json.dumps({"ops": n, "live": {"kept": n * size},
                      "since": {"kept": (n - marked) * size}}), flush=True)


def work(n):
    i = 1000000
    while True:
        serve(range(i, i + n))
        i += n
        time.sleep(0.01)


async def request(i):
    remember(i)
    await asyncio.sleep(0)
    handle(i)


async def requests(size):
    i = 1000000
    while True:
        await asyncio.gather(*(request(k) for k in range(i, i + 40)))
        i += 40
        answer(size)
        await asyncio.sleep(0.01)


if sys.argv[2] == "twin":
    import tracemalloc
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    if variant == "generators":
        collections.deque(remember(range(1000000, 1020000)), maxlen=0)
    else:
        for i in range(1000000, 1020000):
            remember(i)
    print((tracemalloc.get_traced_memory()[0] - before) / 20000)
    sys.exit()

marked, size = 0, float(sys.argv[2])
if variant == "threads":
    for _ in range(4):
        threading.Thread(target=work, args=(10,), daemon=True).start()
    while True:
        answer(size)
        time.sleep(0.01)
elif variant == "asyncio":
    asyncio.run(requests(size))
else:
    i = 1000000
    while True:
        serve(range(i, i + 40))
        i += 40
        answer(size)
        time.sleep(0.01)
'''


class Service(Scripted):
    """A service, in the root directory of its interpreter."""

    def set_up(self):
        root = self.case["root"]
        if not os.access(root + self.case["python"], os.X_OK):
            raise NotRunnable(f"{root}{self.case['python']} is missing")
        command = [*(["chroot", root] if root else []), self.case["python"]]
        directory = tempfile.mkdtemp(prefix="memtrace-truth-", dir=root + "/tmp")
        self.stack.callback(shutil.rmtree, directory, ignore_errors=True)
        path = directory + "/service.py"
        with open(path, "w", encoding="utf-8") as file:
            file.write(PROGRAM)
        command += [path.removeprefix(root), self.case["variant"]]
        twin = subprocess.run([*command, "twin"], check=False, text=True, timeout=60,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        if twin.returncode:
            raise NotRunnable(twin.stderr.strip().splitlines()[-1])
        self.process = self.client(*command, str(float(twin.stdout)), stdin=subprocess.PIPE,
                                   stdout=subprocess.PIPE)
        self.pid = self.process.pid


def service(variant, python="/usr/bin/python3", root="", of=""):
    what = f"python{of or 3}: a service that leaks 4,000 objects a second: {variant}"
    case = server(what, Service, {"kept": "remember"}, grows=["kept"])
    if variant == "dicts":
        # Python keeps free dictionaries in a list. So the parser has allocated the blocks of most
        # dictionaries that `remember` keeps. The truth is known only for both functions together.
        case["groups"] = {"kept": "remember|raw_decode|JSONDecoder[.]raw_decode"}
    return {**case, "variant": variant, "python": python, "root": root}


def services():
    cases = {f"python_{variant}": service(variant)
             for variant in ("slots", "dicts", "threads", "asyncio", "generators", "numpy")}
    cases["python_39_slots"] = service("slots", "/usr/bin/python3.9", DEBIAN_11,
                                       " 3.9 of Debian 11")
    cases["python_debian_13_slots"] = service("slots", "/usr/bin/python3.13", DEBIAN_13,
                                              " 3.13 of Debian 13")
    for version, path in other_pythons().items():
        if version in ("3.12", "3.13"):
            cases[f"python_{version.replace('.', '')}_slots"] = service("slots", path,
                                                                        of=" " + version)
    return cases


PYTHON = services()
