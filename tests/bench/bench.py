#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""What tracing costs, beside other tools, in one run. Needs root.

usage: bench.py [--quick] [--allow-missing] [--only PART,...] [--markdown FILE]

Everything is measured in rounds. In each round every candidate has its turn, so that other load on
the machine hits all alike. The medians over the rounds and their extremes are printed.

1. ns per malloc+free pair of a tight loop (build/progs/churn), on-CPU time of its thread: untraced;
   two empty BPF programs on the same instructions (the floor of every uprobe tracer); memtrace with
   each kind of probe; bpftrace's mallocs.bt; heaptrack, injected (elapsed time: it makes the loop
   wait).
2. SET/s of a redis-server on glibc's malloc, pinned to one core, with redis-benchmark on the other.
   In one case the clients talk as they usually do (50 of them, one request at a time, over TCP).
   The bar is for this case. In the other case they use pipelining, so that the server does little
   but allocate. Also printed: how busy the server kept its core, and its SETs per second of
   CPU time. This would be the rate if the clients were never the slower side.
3. How long memtrace takes to attach, to end and to write profiles of many blocks, and its memory.
4. What a sampled call costs by the depth of its stack, in code without frame pointers
   (build/progs/deep): the cost of a pair at -i 1, where every call is sampled, minus the cost of a
   pair at an interval so large that no call is sampled.
5. How long the unwind table of a library takes to build, and its size in the kernel.
6. How long the names of 10,000 addresses of a large library take, beside addr2line, and whether
   both name the same functions. Both programs have one thread, and their CPU time is compared.

7. ns per pair for every allocator that memtrace knows, and for a pool named with --alloc: untraced;
   empty programs on the same instructions; memtrace. The time that memtrace adds is compared with
   the time that two empty programs add on glibc's malloc and free, and with the time that the empty
   programs add on the same instructions. The two comparisons differ where probes must be on a ret.
8. For 1 to 1,000 sleeping processes, named or selected: how long it takes until they are traced,
   and until their probes are gone, and how much memory and CPU time memtrace needs.
9. The share of their throughput that a loop of pairs, and redis-server, keep when memtrace is
   limited to a share of their CPU time; whether 20,000 pairs a second are traced continuously and
   all counted; and whether loops of 1,000 to 200 million pairs a second feel the cost that memtrace
   prints. All this is measured in the target's CPU time, so that other processes on its core do not
   count.
10. How long threads wait in operations of microseconds, near a window's opening and near its
    closing (build/progs/stalls), compared with their waits at other times of the same run.
11. What 20 clients of a redis-server, each with one request at a time, notice of each limit: SET/s,
    and the 99th and 99.9th percentile of the time to answer, compared with rounds without memtrace.
    The same beside the agent.
12. What the same clients notice of memtrace heap and memtrace why, which read the heap of that
    server (1 GB, 10 million blocks) from outside. Also the time and the memory that the two
    commands take.
13. Requests a second of a web server in Python (wsgiref, with routes, a database in memory,
    templates and sessions), pinned to one core, with ApacheBench on the other: untraced, with
    memtrace at its defaults, with tracemalloc, and with memray if it is installed.

14. The speed of a loop in the three seconds after memtrace hangs, by what hangs it.

The parts are called pairs, redis, self, unwinding, tables, names, allocators, attach, windows,
stalls, clients, outside, wsgi and hung.

Probes that another tracer has in all processes would falsify every figure. So no measurement begins
while there are such probes, and a measurement that ends with such probes is repeated.

Exit status: 0 when every bar is held, 1 when one is missed or could not be measured (without
--allow-missing), 2 usage.
"""
import argparse
import bisect
import contextlib
import fcntl
import json
import os
import pty
import random
import re
import resource
import select
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import termios
import threading
import time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
HERE = os.path.dirname(os.path.abspath(__file__))
MEMTRACE = os.path.join(ROOT, "build", "memtrace")
CHURN = os.path.join(ROOT, "build", "progs", "churn")
PROGS = os.path.join(ROOT, "build", "progs")
DEEP = os.path.join(ROOT, "build", "progs", "deep")
BARE_TRAPS = os.path.join(ROOT, "build", "bench", "bare_traps")
TABLES = os.path.join(ROOT, "build", "bench", "tables")
NAMES = os.path.join(ROOT, "build", "bench", "names")
MALLOCS_BT = os.path.join(HERE, "mallocs.bt")

sys.path.insert(0, os.path.join(ROOT, "tests", "live"))
import hostile  # noqa: E402

WHOLE_RUN_S = 2400
PATIENCE_S = 30  # the longest single wait
KINDS = ("session", "multi", "perf")

# The bars: the least that memtrace must reach.
OF_BPFTRACE = 1 / 8  # of the cost that bpftrace adds to a pair
OF_BARE_TRAPS = 1.15  # times the cost that two empty programs add
OF_BARE_TRAPS_ANY = 1.6  # the same for other allocators, whose code differs a little
OF_REDIS = 0.60  # of the untraced SET/s
OF_LIMITED = {5: 0.93, 1: 0.98}  # of the untraced throughput, by --max-overhead
OF_LIMITED_REDIS = 0.95  # of redis's untraced throughput, at --max-overhead 5
OF_CLIENTS = (0.99, 1.05)  # of the untraced SET/s and 99th percentile, at the default limit
OF_AGENT = 0.95  # of the untraced SET/s, at the agent's default limits
OF_HUNG = 0.95  # of the untraced speed, from a second after memtrace hangs
OF_WSGI = 0.95  # of the untraced requests a second, at memtrace's defaults
FELT = 1.5  # the largest factor between the printed cost and the measured cost of a loop
STALL_US = 10_000  # the longest wait that a window may cause, in 99 of 100 windows
LARGE_TABLE_S, LARGE_TABLE_BYTES = 2, 60_000_000  # of LARGE_LIBRARY
OF_ADDR2LINE = 1 / 20  # of addr2line's time
LARGE_LIBRARY = "libLLVM-14.so.1"
# For many processes: the time that people will wait, and the memory that a busy machine has left.
ATTACH_S, DETACH_S, ATTACH_KIB = 3, 1, 100 << 10

UNTRACED_PAIRS = 5_000_000  # a round of some 50 ms
TRACED_PAIRS = 50_000

CPUS = sorted(os.sched_getaffinity(0))
TARGET_CPU, OTHER_CPU = CPUS[0], CPUS[-1]


class Missing(Exception):
    """This cannot be measured here; the text says why."""


class Disturbed(Missing):
    """Another tracer spoiled this one measurement."""


# --- processes: each process that is started here is ended here ---

children = []


class Child:
    """A process whose output (stderr included) is read line by line; every wait is bounded."""

    def __init__(self, argv, cpu=None, env=None):
        self.name = os.path.basename(argv[0])
        if not shutil.which(argv[0]):
            raise Missing(f"{self.name} is not installed")
        pin = (lambda: os.sched_setaffinity(0, {cpu})) if cpu is not None else None
        self.started = time.monotonic()
        self.process = subprocess.Popen(
            argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            preexec_fn=pin, env={**os.environ, **(env or {})}, start_new_session=True)
        self.pid = self.process.pid
        self.buffer = b""
        self.said = []
        children.append(self)

    def line_like(self, pattern, patience_s=PATIENCE_S):
        """The match of the first line that fits. Raises Missing if the process ends before."""
        end = time.monotonic() + patience_s
        while True:
            line = self.line(end - time.monotonic())
            if line is None:
                raise Missing(f"{self.name}: {' / '.join(self.said[-3:]) or 'ended silently'}")
            match = re.search(pattern, line)
            if match:
                return match

    def line(self, patience_s):
        """The next line; None at the end of the output."""
        fd = self.process.stdout.fileno()
        end = time.monotonic() + patience_s
        while b"\n" not in self.buffer:
            if not select.select([fd], [], [], max(0, end - time.monotonic()))[0]:
                raise Missing(f"{self.name} says nothing: {' / '.join(self.said[-3:])}")
            data = os.read(fd, 65536)
            if not data:
                return None
            self.buffer += data
        line, self.buffer = self.buffer.split(b"\n", 1)
        self.said.append(line.decode(errors="replace"))
        return self.said[-1]

    def tell(self, text):
        self.process.stdin.write(text.encode() + b"\n")
        self.process.stdin.flush()

    def end(self, sig=None, patience_s=PATIENCE_S):
        """Lets the process end, by a signal or by the end of its input; returns its exit status."""
        if self not in children:  # it has ended already
            return self.process.returncode
        if sig and self.process.poll() is None:
            self.process.send_signal(sig)
        with contextlib.suppress(OSError):
            self.process.stdin.close()
        end = time.monotonic() + patience_s
        # its output is read: a full pipe would keep it from ending
        with contextlib.suppress(Missing):
            while self.line(end - time.monotonic()) is not None:
                pass
        try:
            self.process.wait(max(1, end - time.monotonic()))
        except subprocess.TimeoutExpired:
            print(f"bench: {self.name} did not end in {patience_s} s", file=sys.stderr)
        self.kill()
        return self.process.returncode

    def kill(self):
        if self in children:
            children.remove(self)
        with contextlib.suppress(ProcessLookupError):  # the process's own group, with its helpers
            os.killpg(self.pid, signal.SIGKILL)
        self.process.wait()
        self.process.stdout.close()
        with contextlib.suppress(OSError):
            self.process.stdin.close()


def run(argv, cpu=None, patience_s=PATIENCE_S):
    """Runs a command to its end; returns its output."""
    child = Child(argv, cpu)
    child.end(patience_s=patience_s)
    if child.process.returncode:
        raise Missing(f"{child.name}: status {child.process.returncode}: "
                      f"{' / '.join(child.said[-3:])}")
    return "\n".join(child.said)


def wait_until(condition, what, patience_s=PATIENCE_S):
    end = time.monotonic() + patience_s
    while not condition():
        if time.monotonic() > end:
            raise Missing(f"{what}: not in {patience_s} s")
        time.sleep(0.02)


# --- what the kernel says about a process ---

def code_of(pid):
    """(address, file offset, length, path) of each mapping of code that has a file."""
    with open(f"/proc/{pid}/maps") as maps:
        for line in maps:
            field = line.split()
            if len(field) == 6 and "x" in field[1] and field[5][0] == "/":
                start, end = (int(x, 16) for x in field[0].split("-"))
                yield start, int(field[2], 16), end - start, field[5]


def libc_path():
    """The path of the libc.so.6 that this process uses."""
    return next(path for _, _, _, path in code_of(os.getpid()) if path.endswith("/libc.so.6"))


def changed_bytes(pid):
    """How many bytes of the process's code differ from the files. Such bytes are probes."""
    changed = 0
    for start, offset, length, path in code_of(pid):
        with open(path, "rb") as file, open(f"/proc/{pid}/mem", "rb") as memory:
            file.seek(offset)
            memory.seek(start)
            a, b = file.read(length), memory.read(length)
        if a != b:
            pages = range(0, min(len(a), len(b)), 4096)
            changed += sum(sum(x != y for x, y in zip(a[i:i + 4096], b[i:i + 4096]))
                           for i in pages if a[i:i + 4096] != b[i:i + 4096])
    return changed


def undisturbed(measure):
    """The result of measure(). The measurement is repeated if another tracer had probes in all
    processes. Such probes are also in this process, where they are found."""
    end = time.monotonic() + PATIENCE_S
    while time.monotonic() < end:
        if changed_bytes(os.getpid()):
            time.sleep(0.1)
            continue
        value = measure()
        if not changed_bytes(os.getpid()):
            return value
    raise Disturbed("another tracer has probes in all processes")


def on_cpu_ns(pid):
    """CPU time of all threads, to the nanosecond; None if the kernel does not count it."""
    total = 0
    try:
        for tid in os.listdir(f"/proc/{pid}/task"):
            with open(f"/proc/{pid}/task/{tid}/schedstat") as stat:
                total += int(stat.read().split()[0])
    except (OSError, ValueError, IndexError):
        return None
    return total or None


def memory_kib(pid, field):
    with open(f"/proc/{pid}/status") as status:
        return int(re.search(rf"^{field}:\s*(\d+) kB", status.read(), re.M)[1])


def maps_kib(pid):
    """Kernel memory of the BPF maps that the process has open."""
    sizes = {}
    for fd in os.listdir(f"/proc/{pid}/fdinfo"):
        with contextlib.suppress(OSError), open(f"/proc/{pid}/fdinfo/{fd}") as info:
            text = info.read()
            id_, size = (re.search(rf"^{k}:\s*(\d+)", text, re.M) for k in ("map_id", "memlock"))
            if id_ and size:
                sizes[id_[1]] = int(size[1])
    return sum(sizes.values()) // 1024


# --- tracers: each is a context in which the process is traced ---

attach_s, detach_s = {}, {}  # by kind


@contextlib.contextmanager
def untraced(_pid):
    yield


@contextlib.contextmanager
def traced_by(child, ready, sig, pid):
    try:
        ready(child)
        yield child
    finally:
        child.end(sig)
    # A probe that is left behind would slow the next candidate.
    wait_until(lambda: not changed_bytes(pid), f"{child.name} takes its probes out of {pid}")


def memtrace(*options, interval="512K", kind=None, defaults=False):
    """defaults: with the limit that memtrace has if none is given; else without a limit."""
    @contextlib.contextmanager
    def tracer(pid):
        limit = [] if defaults or "--max-overhead" in options else ["--max-overhead", "off"]
        argv = [MEMTRACE, "-p", str(pid), "-i", interval, "-f", "none", "-q", "-v", *limit,
                *options]
        if kind:
            argv += ["--probe-kind", kind]
        child = Child(argv, OTHER_CPU)

        def ready(child):
            child.line_like(r"tracing$")
            if kind:
                attach_s.setdefault(kind, []).append(time.monotonic() - child.started)

        with traced_by(child, ready, signal.SIGTERM, pid):
            yield child
            begin = time.monotonic()
            child.end(signal.SIGTERM)
            if kind:
                detach_s.setdefault(kind, []).append(time.monotonic() - begin)
    return tracer


@contextlib.contextmanager
def agent(scratch, pid):
    """The agent at its default limits, after it has found all processes and has settled."""
    socket_path = os.path.join(scratch, "agent.sock")
    child = Child([MEMTRACE, "agent", "-a", "--listen", f"unix:{socket_path}"], OTHER_CPU)

    def watches():
        said = run(["curl", "-s", "--unix-socket", socket_path, "-H", "Accept: application/json",
                    "http://localhost/targets"])
        return f'"pid":{pid},' in said

    with traced_by(child, lambda _: wait_until(watches, "the agent watches redis"),
                   signal.SIGTERM, pid):
        time.sleep(AGENT_SETTLES_S)
        yield child


def bare_traps(pid, *functions):
    child = Child([BARE_TRAPS, str(pid), *functions], OTHER_CPU)
    return traced_by(child, lambda child: child.line_like("^ready"), None, pid)


def bpftrace(pid):
    # bpftrace says "Attaching" before it attaches; changed first bytes of malloc and free show that
    # it has attached.
    child = Child(["bpftrace", "-p", str(pid), MALLOCS_BT], OTHER_CPU,
                  {"BPFTRACE_MAP_KEYS_MAX": "1000000"})

    def ready(child):
        child.line_like("Attaching")
        wait_until(lambda: child.process.poll() is not None or changed_bytes(pid) >= 2,
                   "bpftrace attaches")
        if child.process.poll() is not None:
            raise Missing(f"bpftrace: {' / '.join(child.said[-3:])}")
    return traced_by(child, ready, signal.SIGINT, pid)


# --- work of a single process ---

def cpu_s(argv, feed, out):
    """Runs a command with files as its input and output; returns its CPU time."""
    if not shutil.which(argv[0]):
        raise Missing(f"{os.path.basename(argv[0])} is not installed")
    with open(feed, "rb") as stdin, open(out, "wb") as stdout:
        process = subprocess.Popen(argv, stdin=stdin, stdout=stdout, stderr=subprocess.DEVNULL)
        end = time.monotonic() + 2 * PATIENCE_S
        try:
            while not (done := os.wait4(process.pid, os.WNOHANG))[0]:
                if time.monotonic() > end:
                    raise Missing(f"{argv[0]}: not done in {2 * PATIENCE_S} s")
                time.sleep(0.002)
            process.returncode = os.waitstatus_to_exitcode(done[1])
        finally:
            if process.returncode is None:
                process.kill()
                process.wait()
    if process.returncode:
        raise Missing(f"{argv[0]}: status {process.returncode}")
    return done[2].ru_utime + done[2].ru_stime


def library(name):
    """The path of a shared library by the name that the dynamic linker uses."""
    for line in run([shutil.which("ldconfig") or "/sbin/ldconfig", "-p"]).splitlines():
        match = re.match(rf"\s*{re.escape(name)} \(libc6,x86-64.*=> (/.*)$", line)
        if match:
            return os.path.realpath(match[1])
    raise Missing(f"{name} is not installed")


# --- rounds ---

class Candidate:
    def __init__(self, name, measure):
        self.name, self.measure = name, measure
        self.values = []  # one per round
        self.missing = None

    @property
    def median(self):
        return statistics.median(self.values) if self.values else None


def interleave(candidates, rounds, budget_s):
    """Measures each candidate once per round, in another order each time. No further round begins
    when the time of the budget is over, as may happen on a busy machine."""
    begin = time.monotonic()
    for i in range(rounds):
        if time.monotonic() - begin > budget_s:
            print(f"note  {i} rounds instead of {rounds}: the machine is slow", flush=True)
            break
        shift = i % len(candidates)
        for candidate in candidates[shift:] + candidates[:shift]:
            if candidate.missing:
                continue
            try:
                candidate.values.append(undisturbed(candidate.measure))
            except Disturbed as why:
                print(f"note  {candidate.name}, round {i + 1}: not measured: {why}", flush=True)
            except Missing as why:
                candidate.missing = str(why)
    for candidate in candidates:
        if not candidate.values and not candidate.missing:
            candidate.missing = "disturbed in each round"


# --- 1. a pair of malloc and free ---

class Churn:
    def __init__(self, pairs, wrap=(), cpu=TARGET_CPU, program=(CHURN,), env=None):
        self.pairs, self.wall = pairs, bool(wrap)
        self.child = Child([*wrap, *program, "--pairs", str(pairs)], cpu, env)
        self.pid = int(self.child.line_like(r"^ready (\d+)")[1])

    def once(self):
        before = on_cpu_ns(self.pid)
        self.child.tell("go")
        wall = json.loads(self.child.line_like(r"^\{.*\}$")[0])["ns_per_pair"]
        after = on_cpu_ns(self.pid)
        # Other processes on this core add nothing to CPU time. But heaptrack makes the loop wait
        # for the reader of its pipe. This wait is part of its cost, so elapsed time counts for
        # heaptrack.
        if self.wall or not before or not after:
            return wall
        return (after - before) / self.pairs

    def measure(self):
        self.once()  # warms up caches and the tracer's maps
        return statistics.median(self.once() for _ in range(3))


def pair_candidates(scratch):
    plain, traced = Churn(UNTRACED_PAIRS), Churn(TRACED_PAIRS)

    def with_tracer(tracer):
        def measure():
            with tracer(traced.pid):
                return traced.measure()
        return measure

    def heaptrack():
        if not shutil.which("heaptrack"):
            raise Missing("heaptrack is not installed")
        churn = Churn(UNTRACED_PAIRS // 20, ("heaptrack", "-o", os.path.join(scratch, "heaptrack")),
                      None)
        try:
            return churn.measure()
        finally:
            churn.child.end()

    candidates = {"untraced": Candidate("untraced", plain.measure),
                  "bare": Candidate("two bare traps", with_tracer(bare_traps))}
    for kind in KINDS:
        candidates[kind] = Candidate(f"memtrace, 512K, {kind}", with_tracer(memtrace(kind=kind)))
    candidates["64K"] = Candidate("memtrace, 64K", with_tracer(memtrace(interval="64K")))
    candidates["1"] = Candidate("memtrace, every allocation (-i 1)",
                                with_tracer(memtrace(interval="1")))
    candidates["bpftrace"] = Candidate("bpftrace, mallocs.bt", with_tracer(bpftrace))
    candidates["heaptrack"] = Candidate("heaptrack, injected", heaptrack)
    return candidates


# --- 2. redis ---

class Redis:
    """A redis-server of its own on 127.0.0.1, with glibc's malloc instead of jemalloc's."""

    def __init__(self, scratch, wrap=(), options=()):
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        if not shutil.which("redis-server") or not shutil.which("redis-benchmark"):
            raise Missing("redis-server or redis-benchmark is not installed")
        # a tool would also be injected into taskset, so redis is pinned from outside after its
        # start
        argv = [*wrap, shutil.which("redis-server"), "--port", str(self.port), "--bind",
                "127.0.0.1", "--save", "", "--appendonly", "no", "--dir", scratch, *options]
        self.child = Child(argv, env={"LD_PRELOAD": libc_path()})
        self.child.line_like("Ready to accept connections")
        self.pid = int(re.search(r"process_id:(\d+)", self.ask("INFO server"))[1])
        for tid in os.listdir(f"/proc/{self.pid}/task"):
            os.sched_setaffinity(int(tid), {TARGET_CPU})
        self.load(100_000, 16)  # sets every key, so that later SETs replace values

    def serve(self, clients, requests):
        """For clients that make one request at a time: SET/s; the 99th and the 99.9th percentile of
        the time to answer, in ms; and the longest such time."""
        out = run(["redis-benchmark", "-h", "127.0.0.1", "-p", str(self.port), "-t", "set",
                   "-c", str(clients), "-n", str(requests), "-r", "60000", "-d", "100"],
                  OTHER_CPU, 3 * PATIENCE_S)
        waits = [(float(share), float(ms)) for share, ms in
                 re.findall(r"^([0-9.]+)% <= ([0-9.]+) milliseconds \(cumulative", out, re.M)]
        rate = float(re.search(r"throughput summary: ([0-9.]+)", out)[1])
        return rate, *(min(ms for at, ms in waits if at >= share) for share in (99, 99.9, 100))

    def ask(self, command):
        with socket.create_connection(("127.0.0.1", self.port), PATIENCE_S) as connection:
            connection.sendall(command.encode() + b"\r\n")
            return connection.recv(65536).decode()

    def load(self, requests, pipeline):
        """(SET/s, the server's CPU time per second, SETs per second of CPU time)"""
        cpu, begin = on_cpu_ns(self.pid), time.monotonic()
        out = run(["redis-benchmark", "-h", "127.0.0.1", "-p", str(self.port), "-t", "set", "-n",
                   str(requests), "-r", "100000", "-P", str(pipeline), "--csv"], OTHER_CPU,
                  3 * PATIENCE_S)
        cpu, wall = (on_cpu_ns(self.pid) or 0) - (cpu or 0), time.monotonic() - begin
        rate = float(re.search(r'^"SET","([0-9.]+)"', out, re.M)[1])
        return rate, cpu / 1e9 / wall, requests / max(cpu / 1e9, 1e-9)

    def busy(self, pipeline):
        """Sends SETs until the bench ends, from any CPU that is free."""
        return Child(["redis-benchmark", "-h", "127.0.0.1", "-p", str(self.port), "-t", "set",
                      "-n", "2000000000", "-r", "100000", "-P", str(pipeline), "--csv"])

    def count(self):
        """Commands served, CPU time (ns) and the clock (s), all until now."""
        served = int(re.search(r"total_commands_processed:(\d+)", self.ask("INFO stats"))[1])
        return served, on_cpu_ns(self.pid) or 0, time.monotonic()

    def since(self, served, cpu_ns, clock_s):
        """Commands served, seconds of CPU time and of the clock since count() returned these
        values."""
        now = self.count()
        return now[0] - served, max(now[1] - cpu_ns, 1) / 1e9, now[2] - clock_s

    def end(self):
        self.child.end(signal.SIGTERM)


REDIS_TALKS = {1: "one request at a time", 16: "pipelines of 16"}


def redis_candidates(scratch):
    """Candidates by pipeline and tool. The number of requests follows from the rate, so that each
    candidate takes about a second per round."""
    server = Redis(scratch)
    requests = {
        ("untraced", 1): 120_000, ("untraced", 16): 1_500_000,
        ("bare", 1): 90_000, ("bare", 16): 150_000,
        ("memtrace", 1): 90_000, ("memtrace", 16): 150_000,
        ("bpftrace", 1): 12_000, ("bpftrace", 16): 16_000,
        ("heaptrack", 1): 90_000, ("heaptrack", 16): 600_000,
    }
    tracers = {"untraced": untraced, "bare": bare_traps, "memtrace": memtrace(),
               "bpftrace": bpftrace}

    def with_tracer(tool):
        def measure():
            with tracers[tool](server.pid):
                return {p: server.load(requests[tool, p], p) for p in REDIS_TALKS}
        return measure

    def heaptrack():
        if not shutil.which("heaptrack"):
            raise Missing("heaptrack is not installed")
        injected = Redis(scratch, ("heaptrack", "-o", os.path.join(scratch, "heaptrack-redis")))
        try:
            return {p: injected.load(requests["heaptrack", p], p) for p in REDIS_TALKS}
        finally:
            with contextlib.suppress(OSError):
                os.kill(injected.pid, signal.SIGTERM)
            injected.child.end()

    names = {"untraced": "untraced", "bare": "two bare traps", "memtrace": "memtrace, 512K",
             "bpftrace": "bpftrace, mallocs.bt", "heaptrack": "heaptrack, injected"}
    return {tool: Candidate(name, heaptrack if tool == "heaptrack" else with_tracer(tool))
            for tool, name in names.items()}


# --- 3. memtrace itself ---

# Allocates blocks with malloc, one by one, in an interpreter that is installed everywhere.
HOLDER = """
import sys
n = int(sys.argv[1])
print("ready", flush=True)
sys.stdin.readline()
held = [bytes(100) for _ in range(n)]
print("held", flush=True)
sys.stdin.readline()
"""


def write_profile(blocks, scratch):
    """For a process with this number of blocks: the seconds from SIGTERM to the end of memtrace,
    the peak memory of memtrace, and the memory of its maps."""
    holder = Child([sys.executable, "-c", HOLDER, str(blocks)], TARGET_CPU,
                   {"PYTHONMALLOC": "malloc"})
    try:
        holder.line_like("ready")
        prefix = os.path.join(scratch, "profile")
        report = prefix + ".json"
        tracer = Child([MEMTRACE, "-p", str(holder.pid), "-i", "1", "-o", prefix, "-v",
                        f"--json={report}"], OTHER_CPU)
        tracer.line_like(r"tracing$")
        holder.tell("go")
        holder.line_like("held", 60)
        maps, peak = maps_kib(tracer.pid), 0
        begin = time.monotonic()
        tracer.process.send_signal(signal.SIGTERM)
        while tracer.process.poll() is None and time.monotonic() < begin + 60:
            with contextlib.suppress(OSError, TypeError):  # memtrace has ended meanwhile
                peak = memory_kib(tracer.pid, "VmHWM")
            time.sleep(0.003)
        seconds = time.monotonic() - begin
        status = tracer.end()
        if status:
            raise Missing(f"memtrace: status {status}: {' / '.join(tracer.said[-3:])}")
        with open(report) as file:
            live = json.loads(file.readline())["live_objects"]
        if not blocks <= live <= blocks * 1.2 + 10_000:
            raise Missing(f"memtrace saw {live} live blocks of {blocks}")
        return seconds, peak, maps
    finally:
        holder.end()


def own_times(scratch, counts):
    """Rows of (what, value)."""
    rows = []

    def row(what, measure):
        try:
            rows.append((what, measure()))
        except Missing as why:
            rows.append((what, f"not measured: {why}"))
            failures.append(f"{what}: {why}")

    def timed(argv, times=3):
        seconds = []
        for _ in range(times):
            begin = time.monotonic()
            run(argv)
            seconds.append(time.monotonic() - begin)
        return f"{statistics.median(seconds):.2f} s"

    def idle_memory():
        with memtrace()(churn.pid) as child:
            return (f"{memory_kib(child.pid, 'VmRSS') / 1024:.1f} MiB resident, "
                    f"{maps_kib(child.pid) / 1024:.1f} MiB of maps")

    def written(blocks):
        seconds, peak, maps = write_profile(blocks, scratch)
        return (f"{seconds:.2f} s; at most {peak / 1024:.1f} MiB resident, "
                f"{maps / 1024:.1f} MiB of maps")

    for kind in KINDS:
        if attach_s.get(kind):
            rows.append((f"start to tracing, {kind} (calibration included)",
                         f"{statistics.median(attach_s[kind]):.2f} s"))
            rows.append((f"SIGTERM to end, {kind}", f"{statistics.median(detach_s[kind]):.2f} s"))
    churn = Churn(1000)
    row("memtrace check", lambda: timed([MEMTRACE, "check"]))
    row("memtrace check PID (with calibration)",
        lambda: timed([MEMTRACE, "check", str(churn.pid)]))
    row("memory while tracing", idle_memory)
    churn.child.end()
    for blocks in counts:
        row(f"SIGTERM to end with {blocks:,} live blocks, -i 1", lambda b=blocks: written(b))
    return rows


# --- 4. a sampled call by the depth of its stack ---

DEPTHS = (10, 50, 120)  # frames from malloc to the process's start, both included
DEEP_PAIRS = 20_000
NEVER = "4G"  # the largest interval: a round allocates 1.3 MB


class Deep(Churn):
    """A loop whose stacks have a given number of frames; a profile of the loop confirms the
    number."""

    def __init__(self, frames, scratch):
        others = self.frames_at(1, scratch) - 1  # the frames of malloc, main, libc, _start
        self.calls = frames - others
        found = self.frames_at(self.calls, scratch)
        if found != frames:
            raise Missing(f"a stack of {found} frames instead of {frames}")
        super().__init__(DEEP_PAIRS, program=(DEEP, "--depth", str(self.calls)))

    @staticmethod
    def frames_at(calls, scratch):
        path = os.path.join(scratch, "deep.heap")
        run([MEMTRACE, "-q", "-i", "1", "-f", "heap", "-o", os.path.join(scratch, "deep"),
             f"--json={path}", "--", DEEP, "--auto", "--pairs", "100", "--depth", str(calls)])
        with open(path) as file:
            profile = json.loads(file.readline())
        if profile["stacks_complete_pct"] != 100:
            raise Missing(f"{profile['stacks_complete_pct']} % of the stacks are complete")
        stack = max(profile["stacks"], key=lambda s: s["frames"].count("descend"))
        if stack["frames"].count("descend") != calls:
            raise Missing(f"the stack is not deep's: {stack['frames'][:4]}")
        return len(stack["frames"])


def unwinding_candidates(scratch):
    """By depth: a candidate whose allocations are all sampled, and one with none sampled."""
    candidates = {}
    for frames in DEPTHS:
        deep = Deep(frames, scratch)

        def measure(deep=deep, interval="1"):
            with memtrace(interval=interval)(deep.pid):
                return deep.measure()
        candidates[frames] = (
            Candidate(f"{frames} frames, sampled", measure),
            Candidate(f"{frames} frames, not sampled", lambda m=measure: m(interval=NEVER)))
    return candidates


# --- 5. unwind tables ---

TABLED = ("libc.so.6", "libstdc++.so.6", LARGE_LIBRARY)


def table_candidates():
    def builder(name):
        path = library(name)
        return lambda: json.loads(run([TABLES, path]))
    return {name: Candidate(name, builder(name)) for name in TABLED}


# --- 6. names ---

ADDRESSES = 10_000


def functions_of(path):
    """(address, size, name) of every function for which nm prints all three."""
    found = []
    for line in run(["nm", "-D", "-S", "--defined-only", path]).splitlines():
        field = line.split()
        if len(field) == 4 and field[2] in "TtWi" and int(field[1], 16):
            found.append((int(field[0], 16), int(field[1], 16), field[3].split("@")[0]))
    return found


def write_addresses(functions, path):
    """Writes distinct addresses, each within a function; they are the same in every run."""
    dice, addresses = random.Random(10_000), {}
    while len(addresses) < ADDRESSES:
        start, size, _ = dice.choice(functions)
        addresses[start + dice.randrange(size)] = True
    with open(path, "w") as file:
        file.write("".join(f"{a:#x}\n" for a in addresses))
    return list(addresses)


AGREE = ("the same name", "another name of the same function")


def compare_names(functions, addresses, ours, theirs):
    """The number of addresses in each class. nm decides whether a name is right."""
    spans = {}
    for start, size, name in functions:
        spans.setdefault(name, []).append(range(start, start + size))
    count = dict.fromkeys((*AGREE, "another function that is also there", "named by memtrace only",
                           "named by addr2line only", "named by neither",
                           "memtrace's function is not there", "addr2line's function is not there"),
                          0)

    def at(name, address):
        """The start addresses of the functions of that name that contain the address."""
        return {span.start for span in spans.get(name, ()) if address in span}

    for address, a, b in zip(addresses, ours, theirs, strict=True):
        if "??" in (a, b):
            what = "named by " + ("neither" if a == b else
                                  "addr2line only" if a == "??" else "memtrace only")
        elif a == b:
            what = AGREE[0]
        elif at(a, address) & at(b, address):
            what = AGREE[1]
        elif not at(a, address):
            what = "memtrace's function is not there"
        elif not at(b, address):
            what = "addr2line's function is not there"
        else:
            what = "another function that is also there"
        count[what] += 1
    return count


def naming_candidates(scratch):
    """Candidates for memtrace and addr2line, and a function that compares their names and returns
    the count by class."""
    path = library(LARGE_LIBRARY)
    functions = functions_of(path)
    feed, out = (os.path.join(scratch, f"addresses{e}") for e in ("", ".named"))
    addresses = write_addresses(functions, feed)

    def names_by(argv, lines_each):
        cpu_s(argv, feed, out)
        with open(out) as file:
            return file.read().splitlines()[::lines_each]

    candidates = {
        "ours": Candidate("memtrace", lambda: cpu_s([NAMES, "-C", path], feed, out)),
        "theirs": Candidate("addr2line -f -C",
                            lambda: cpu_s(["addr2line", "-f", "-C", "-e", path], feed, out))}
    return candidates, lambda: compare_names(functions, addresses, names_by([NAMES, path], 1),
                                             names_by(["addr2line", "-f", "-e", path], 2))


# --- 7. allocators ---

ANY_PAIRS, ANY_UNTRACED_PAIRS = 10_000, 500_000
POOL = ("pool_alloc", "pool_free")

# (name, program, preloaded library, functions that have to be named, traps)
# traps: how many traps a pair has. The bar is this number times the cost of a trap on glibc's
# malloc or free. A pool's pair has a third trap, at the return of the allocation, because memtrace
# must leave out the calls that the pool itself makes. None: the function may throw, so a probe is
# on its ret, where a trap costs ten times more. Then the bar is the cost of empty programs on the
# same instructions.
ALLOCATORS = (
    ("glibc", "churn", None, (), 2),
    ("glibc, static", "churn_static", None, (), 2),
    ("musl", "churn_musl", None, (), 2),
    ("musl, static", "churn_musl_static", None, (), 2),
    ("jemalloc", "churn", "libjemalloc.so.2", (), 2),
    ("jemalloc with a prefix, static", "churn_rjem", None, (), 2),
    ("tcmalloc", "churn", "libtcmalloc.so.4", (), 2),
    ("mimalloc", "churn", "libmimalloc.so.2", (), 2),
    ("a pool, by --alloc and --free", "churn_pool", None, POOL, 3),
    ("jemalloc, new and delete", "churn_new", "libjemalloc.so.2", (), None),
    ("tcmalloc, new and delete", "churn_new", "libtcmalloc.so.4", (), None),
    ("mimalloc, new and delete", "churn_new", "libmimalloc.so.2", (), None),
)


def allocator_candidates():
    """By allocator: candidates for untraced, empty programs, memtrace, memtrace -i 1."""
    found = {}
    for name, program, preload, functions, _ in ALLOCATORS:
        argv = (os.path.join(PROGS, program),)
        env = {"LD_PRELOAD": library(preload)} if preload else None
        plain = Churn(ANY_UNTRACED_PAIRS, program=argv, env=env)
        traced = Churn(ANY_PAIRS, program=argv, env=env)
        options = ("--alloc", f"exe:{functions[0]}(size=1)->ret",
                   "--free", f"exe:{functions[1]}(ptr=1)") if functions else ()

        def bare(traced=traced, functions=functions):
            with bare_traps(traced.pid, *functions):
                return traced.measure()

        def ours(interval, traced=traced, options=options):
            with memtrace(*options, interval=interval)(traced.pid):
                return traced.measure()

        found[name] = [Candidate(f"{name}, untraced", plain.measure),
                       Candidate(f"{name}, bare traps", bare),
                       Candidate(f"{name}, 512K", lambda o=ours: o("512K")),
                       Candidate(f"{name}, -i 1", lambda o=ours: o("1"))]
    return found


# --- 8. many processes ---

SLEEPER = "mt-bench-sleep"  # a name that no other process has
SEPARATE, NAMED = 16, 256  # pids: up to SEPARATE get probes of their own; -p takes NAMED at most


class Sleepers:
    """Processes that sleep, have malloc, and end with the bench."""

    def __init__(self, scratch):
        self.program = os.path.join(scratch, SLEEPER)
        shutil.copy(shutil.which("sleep"), self.program)
        self.processes = []
        children.append(self)

    def grow(self, n):
        while len(self.processes) < n:
            self.processes.append(subprocess.Popen([self.program, str(WHOLE_RUN_S)],
                                                   stdin=subprocess.DEVNULL, close_fds=False))
        wait_until(lambda: open(f"/proc/{self.processes[-1].pid}/comm").read().strip() == SLEEPER
                   and open(f"/proc/{self.processes[-1].pid}/wchan").read() not in ("", "0"),
                   "the sleepers sleep")

    def pids(self):
        return [process.pid for process in self.processes]

    def kill(self):
        for process in self.processes:
            process.kill()
        for process in self.processes:
            process.wait()
        if self in children:
            children.remove(self)


def others_trace():
    """Does a new process have probes? Probes that a tracer has left behind are only in older
    processes."""
    child = Child(["sleep", str(PATIENCE_S)])
    try:
        wait_until(lambda: any("/libc" in path for *_, path in code_of(child.pid)), "sleep starts")
        return changed_bytes(child.pid) > 0
    finally:
        child.kill()


def cpu_of_ended():
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def attach_once(options, pids, scratch):
    """One short run. {"attach": s until it traces, "gone": s from SIGTERM until the last of pids
    has no probe, "end": s until memtrace has ended, "cpu": CPU s of memtrace and its helpers,
    "kib": peak memory, "maps_kib"}. Raises Missing if not all of pids are in its report."""
    report = os.path.join(scratch, "attach.json")
    cpu = cpu_of_ended()
    tracer = Child([MEMTRACE, *options, "-f", "none", "-q", "-v", f"--json={report}"], OTHER_CPU)
    tracer.line_like(r"tracing$")
    found = {"attach": time.monotonic() - tracer.started, "maps_kib": maps_kib(tracer.pid),
             "gone": None}
    if not changed_bytes(pids[-1]):
        raise Missing("it traces, but there is no probe in the last process")
    begin = time.monotonic()
    tracer.process.send_signal(signal.SIGTERM)
    while tracer.process.poll() is None and time.monotonic() < begin + PATIENCE_S:
        with contextlib.suppress(OSError, TypeError):  # memtrace has ended meanwhile
            found["kib"] = memory_kib(tracer.pid, "VmHWM")
        if found["gone"] is None and not changed_bytes(pids[-1]):
            found["gone"] = time.monotonic() - begin
        time.sleep(0.003)
    found["end"] = time.monotonic() - begin
    if tracer.end():
        raise Missing(f"memtrace: {' / '.join(tracer.said[-3:])}")
    if found["gone"] is None:
        if changed_bytes(pids[-1]) and others_trace():
            raise Disturbed("another tracer has probes in all processes")
        wait_until(lambda: not changed_bytes(pids[-1]), "the probes are taken out", 5)
        found["gone"] = time.monotonic() - begin
    found["cpu"] = cpu_of_ended() - cpu
    with open(report) as file:
        told = {json.loads(line)["pid"] for line in file}
    if not told >= set(pids):
        raise Missing(f"{len(set(pids) - told)} of {len(pids)} processes are not in the report")
    return found


def attach_candidates(sleepers, n, scratch):
    """Candidates for n processes, by the option that selects them."""
    sleepers.grow(n)
    pids = sleepers.pids()
    found = {}
    if n <= NAMED:
        how = "probes of their own" if n <= SEPARATE else "shared probes"
        found["-p"] = Candidate(f"{n:,} by -p, {how}", lambda: attach_once(
            ("-p", ",".join(map(str, pids))), pids, scratch))
    found["--comm"] = Candidate(f"{n:,} by --comm",
                                lambda: attach_once(("--comm", SLEEPER), pids, scratch))
    found["-a"] = Candidate(f"{n:,} by -a, among all others",
                            lambda: attach_once(("-a",), pids, scratch))
    return found


# --- the report ---

failures = []


def verdict(ok, text):
    print(f"{'PASS' if ok else 'FAIL'}  {text}")
    verdicts.append(f"- {'held' if ok else 'MISSED'}: {text}")
    if not ok:
        failures.append(text)


verdicts = []


def table(header, rows):
    """Prints the rows as aligned text; returns them as markdown."""
    widths = [max(len(str(row[i])) for row in [header, *rows]) for i in range(len(header))]

    def line(row):
        cells = [str(c).ljust(w) if i == 0 or len(header) == 2 else str(c).rjust(w)
                 for i, (c, w) in enumerate(zip(row, widths))]
        return "  ".join(cells).rstrip()

    print("\n".join(line(row) for row in [header, *rows]) + "\n", flush=True)
    align = ["---"] + ["---" if len(header) == 2 else "---:"] * (len(header) - 1)
    return "\n".join("| " + " | ".join(map(str, row)) + " |" for row in [header, align, *rows])


def number(value, digits=0):
    return "-" if value is None else f"{value:,.{digits}f}"


def report_pairs(candidates):
    base, bare = candidates["untraced"].median, candidates["bare"].median
    peer = candidates["bpftrace"].median
    rows = []
    for c in candidates.values():
        if c.missing:
            rows.append((c.name, "not measured", "", "", "", ""))
            continue
        added = c.median - base
        digits = 1 if c.median < 100 else 0
        rows.append((
            c.name, number(c.median, digits),
            f"{number(min(c.values), digits)} - {number(max(c.values), digits)}",
            number(added) if added else "",
            f"{added / (bare - base):.2f}" if bare and added else "",
            f"1/{(peer - base) / added:.1f}" if peer and added > 0 else ""))
    return table(("malloc+free pair", "ns", "min - max", "added", "of bare traps",
                  "of bpftrace"), rows)


def report_redis(candidates, pipeline):
    rows = []
    base = [v[pipeline] for v in candidates["untraced"].values]
    base = [statistics.median(v[i] for v in base) for i in range(3)] if base else None
    for c in candidates.values():
        if c.missing or not base:
            rows.append((c.name, "not measured", "", "", "", "", ""))
            continue
        values = [v[pipeline] for v in c.values]
        rate, busy, per_cpu = (statistics.median(v[i] for v in values) for i in range(3))
        rates = [v[0] for v in values]
        rows.append((c.name, number(rate), f"{number(min(rates))} - {number(max(rates))}",
                     f"{rate / base[0]:.0%}", f"{busy:.0%}", number(per_cpu),
                     f"{per_cpu / base[2]:.0%}"))
    return table((f"redis, {REDIS_TALKS[pipeline]}", "SET/s", "min - max", "of untraced",
                  "core busy", "SET per CPU second", "of untraced"), rows)


def report_unwinding(candidates):
    """By depth, in microseconds. The cost of one frame is the slope between this depth and the
    first."""
    rows, first = [], None
    for frames, (sampled, plain) in candidates.items():
        if sampled.missing or plain.missing:
            rows.append((frames, "not measured", "", "", "", ""))
            continue
        costs = [(a - b) / 1000 for a, b in zip(sampled.values, plain.values)]
        cost = statistics.median(costs)
        first = first or (frames, cost)
        slope = (cost - first[1]) / (frames - first[0]) if frames != first[0] else None
        rows.append((frames, number(sampled.median / 1000, 2), number(plain.median / 1000, 2),
                     number(cost, 2), f"{min(costs):.2f} - {max(costs):.2f}",
                     number(cost / frames, 3), number(slope, 3)))
    return table(("frames", "µs per pair, sampled", "not sampled", "µs per sampled call",
                  "min - max", "per frame", "per further frame"), rows)


def report_tables(candidates):
    rows = []
    for c in candidates.values():
        if c.missing:
            rows.append((c.name, "not measured", "", "", "", ""))
            continue
        seconds = [v["seconds"] for v in c.values]
        v = c.values[0]
        rows.append((c.name, number(v["fdes"]), number(v["rows"]), number(v["bytes"] / 1e6, 2),
                     number(statistics.median(seconds) * 1000, 1),
                     f"{min(seconds) * 1000:,.1f} - {max(seconds) * 1000:,.1f}",
                     number(max(v["peak_bytes"] for v in c.values) / 1e6, 1)))
    return table(("unwind table", "functions", "rows", "MB", "ms", "min - max",
                  "MB while built"), rows)


def report_names(candidates, classes):
    ours, theirs = candidates["ours"], candidates["theirs"]
    rows = [(c.name, "not measured", "", "") if c.missing else
            (c.name, number(c.median, 3), f"{min(c.values):.3f} - {max(c.values):.3f}",
             f"1/{theirs.median / c.median:.1f}" if theirs.values else "")
            for c in (ours, theirs)]
    yield table((f"{ADDRESSES:,} addresses of {LARGE_LIBRARY}", "s", "min - max", "of addr2line"),
                rows)
    if classes:
        yield table(("memtrace's name beside addr2line's", "addresses"),
                    [(what, number(n)) for what, n in classes.items() if n])


def report_allocators(found):
    floor = medians_added(found["glibc"])[1]
    rows = []
    for name, candidates in found.items():
        if any(c.missing for c in candidates):
            rows.append((name, "not measured", "", "", "", "", "", ""))
            continue
        _, bare, ours, every = medians_added(candidates)
        values = candidates[2].values
        rows.append((name, number(candidates[0].median, 1), number(bare), number(ours),
                     f"{number(min(values))} - {number(max(values))}",
                     f"{ours / floor:.2f}" if floor else "", f"{ours / bare:.2f}", number(every)))
    return table(("malloc+free pair", "ns untraced", "bare traps add", "memtrace adds",
                  "min - max of the pair", "of glibc's bare traps", "of its own", "-i 1 adds"),
                 rows)


def medians_added(candidates):
    """[the untraced median, what each other candidate adds]"""
    base = candidates[0].median
    return [base] + [c.median - base if c.median and base else None for c in candidates[1:]]


def report_attach(candidates):
    rows = []
    for c in candidates:
        if c.missing:
            rows.append((c.name, "not measured", "", "", "", "", "", ""))
            continue
        v = {key: [value[key] for value in c.values] for key in c.values[0]}
        m = {key: statistics.median(values) for key, values in v.items()}
        rows.append((c.name, number(m["attach"], 2),
                     f"{min(v['attach']):.2f} - {max(v['attach']):.2f}", number(m["gone"], 2),
                     number(m["end"], 2), number(m["cpu"], 2), number(max(v["kib"]) / 1024, 1),
                     number(max(v["maps_kib"]) / 1024, 1)))
    return table(("sleeping processes", "s to tracing", "min - max", "s to no probe",
                  "s to the end", "CPU s in all", "MiB, most", "MiB of maps"), rows)


def judge_missing(candidates, allow_missing):
    for c in candidates:
        if not c.missing:
            continue
        print(f"note  {c.name}: {c.missing}")
        # A kernel may lack a kind of probe, and heaptrack is a bonus; the rest must be there.
        optional = "do not work on this kernel" in c.missing or c.name.startswith("heaptrack")
        if not optional and not allow_missing:
            failures.append(f"{c.name}: {c.missing}")


def judge_pairs(pairs, allow_missing):
    best = next((pairs[k] for k in KINDS if pairs[k].median), None)
    base = pairs["untraced"].median
    if best and base:
        added = best.median - base
        if pairs["bpftrace"].median:
            peer = pairs["bpftrace"].median - base
            verdict(added <= peer * OF_BPFTRACE,
                    f"{best.name} adds {added:,.0f} ns to a pair, bpftrace {peer:,.0f}: "
                    f"1/{peer / added:.1f} (bar: 1/{1 / OF_BPFTRACE:.0f})")
        if pairs["bare"].median:
            bare = pairs["bare"].median - base
            verdict(added <= bare * OF_BARE_TRAPS,
                    f"{best.name} adds {added / bare:.2f} times what two bare traps add "
                    f"(bar: {OF_BARE_TRAPS})")
    elif not allow_missing:
        failures.append("memtrace could not be measured")


def judge_allocators(found):
    floor = medians_added(found["glibc"])[1]
    for name, _, _, _, traps in ALLOCATORS:
        if not floor or any(c.missing for c in found[name]):
            continue
        _, bare, ours, _ = medians_added(found[name])
        against, what = (floor / 2 * traps, f"{traps} bare traps as on glibc's") if traps else (
            bare, "bare traps on the same instructions")
        verdict(ours <= against * OF_BARE_TRAPS_ANY,
                f"{name}: memtrace adds {ours:,.0f} ns to a pair, {ours / against:.2f} times what "
                f"{what} add (bar: {OF_BARE_TRAPS_ANY})")


def judge_attach(candidates):
    for c in candidates:
        if not c.values:
            continue
        # The best round counts, because other load on the machine lengthens elapsed times.
        attach, gone, end = (min(v[k] for v in c.values) for k in ("attach", "gone", "end"))
        kib = max(v["kib"] for v in c.values)
        verdict(attach < ATTACH_S and gone < DETACH_S and end < ATTACH_S and kib < ATTACH_KIB,
                f"{c.name}: traced after {attach:.2f} s, without probes {gone:.2f} s after the "
                f"end, reported after {end:.2f} s, {kib / 1024:.0f} MiB, the best round's (bar: "
                f"{ATTACH_S} s, {DETACH_S} s, {ATTACH_S} s, {ATTACH_KIB >> 10} MiB)")


def judge_redis(redis):
    if redis["memtrace"].values and redis["untraced"].values:
        with_, without = (statistics.median(v[1][0] for v in redis[k].values)
                          for k in ("memtrace", "untraced"))
        verdict(with_ >= without * OF_REDIS,
                f"redis under memtrace serves {with_ / without:.0%} of its untraced SET/s "
                f"(bar: {OF_REDIS:.0%})")


def judge_tables(candidates):
    large = candidates[LARGE_LIBRARY]
    if large.values:
        seconds = statistics.median(v["seconds"] for v in large.values)
        size = large.values[0]["bytes"]
        verdict(seconds < LARGE_TABLE_S and size < LARGE_TABLE_BYTES,
                f"the unwind table of {large.name} takes {seconds:.2f} s and {size / 1e6:.1f} MB "
                f"(bar: {LARGE_TABLE_S} s, {LARGE_TABLE_BYTES / 1e6:.0f} MB)")


def judge_names(candidates, classes):
    ours, theirs = candidates["ours"].median, candidates["theirs"].median
    if ours and theirs:
        verdict(ours <= theirs * OF_ADDR2LINE,
                f"memtrace names {ADDRESSES:,} addresses {theirs / ours:.0f} times as fast as "
                f"addr2line (bar: {1 / OF_ADDR2LINE:.0f})")
    if classes:
        agree = sum(classes[what] for what in AGREE)
        wrong = classes["memtrace's function is not there"] + classes["named by addr2line only"]
        verdict(not wrong, f"memtrace and addr2line agree on {agree / ADDRESSES:.2%} of the "
                f"names; memtrace misses or misnames {wrong} of {ADDRESSES:,} addresses (bar: 0)")


# --- 9. a limit ---

class Loop:
    """A loop of pairs with some other work between them, and its twin, which is never traced. Both
    run at the same time on the same CPU, so that other load on the machine meets both. Rates are
    pairs per second of CPU time."""

    def __init__(self, between=0, seconds=2):
        argv = [CHURN, "--seconds", str(seconds), "--between", str(between)]
        self.child, self.twin = Child(argv, TARGET_CPU), Child(argv, TARGET_CPU)
        self.pid, self.twin_pid = (int(child.line_like(r"^ready (\d+)")[1])
                                   for child in (self.child, self.twin))
        self.pairs = 0  # in the last measurement
        self.twin_rates = []

    def left(self, rounds):
        """The loop's rate as a share of the twin's."""
        before, pairs = [on_cpu_ns(pid) for pid in (self.pid, self.twin_pid)], [0, 0]
        for _ in range(rounds):
            for child in (self.child, self.twin):
                child.tell("go")
            for i, child in enumerate((self.child, self.twin)):
                pairs[i] += json.loads(child.line_like(r"^\{.*\}$")[0])["pairs"]
        rates = [1e9 * n / (on_cpu_ns(pid) - ns)
                 for n, pid, ns in zip(pairs, (self.pid, self.twin_pid), before)]
        self.pairs = pairs[0]
        self.twin_rates.append(rates[1])
        return rates[0] / rates[1]

    def end(self):
        self.child.end()
        self.twin.end()


def limited_candidates():
    """memtrace keeps a limit of 1 % over half a minute of CPU time, but not over a few seconds.
    Until the first window is closed, it costs as much as the limit allows in ten seconds. The loop
    and its twin share a CPU, so each gets half of the time as CPU time."""
    loop = Loop()
    rounds = {None: 5, 5: 5, 1: 25}

    def limited(limit):
        def measure():
            with memtrace("--max-overhead", str(limit))(loop.pid):
                return loop.left(rounds[limit])
        return measure

    candidates = {None: Candidate("untraced", lambda: loop.left(rounds[None]))}
    for limit in OF_LIMITED:
        candidates[limit] = Candidate(f"memtrace, --max-overhead {limit}", limited(limit))
    return loop, candidates


def percent_of(interval, of="95 %"):
    left, low, high = interval
    return f"{left:.1%} ({of}: {low:.1%} - {high:.1%})"


def report_limited(loop, candidates):
    rows = [(c.name, len(c.values), *(f"{x:.1%}" for x in median_and_interval(c.values)))
            for c in candidates.values() if c.values]
    return table((f"{number(statistics.median(loop.twin_rates) / 1e6)} million pairs/s", "rounds",
                  "of its twin's", "from", "to"), rows)


def judge_limited(candidates):
    for limit, bar in OF_LIMITED.items():
        if candidates[limit].values:
            left = median_and_interval(candidates[limit].values)
            verdict(left[0] >= bar, f"--max-overhead {limit} leaves a loop of pairs "
                    f"{percent_of(left)} of its throughput (bar: {bar:.0%})")


LIMITED_REDIS_S = 8  # of each measurement: enough for the first windows and some more


class LimitedRedis:
    """A server and its twin, which is never traced, on the same CPU. Both are under load all the
    time, and together they could use more CPU time than one CPU has. SETs per second of CPU time
    are compared."""

    def __init__(self, scratch, pipeline, rounds):
        self.servers = [Redis(scratch) for _ in range(2)]
        self.loads = [server.busy(pipeline) for server in self.servers]
        self.rates = []  # (SET/s, share of a core) of both together
        self.said = []  # overhead_pct
        self.json = os.path.join(scratch, "redis.json")
        self.untraced = Candidate(f"untraced, {REDIS_TALKS[pipeline]}", self.left)
        self.traced = Candidate(f"--max-overhead 5, {REDIS_TALKS[pipeline]}", self.traced_left)
        interleave([self.untraced, self.traced], rounds, 330)
        for child in self.loads:
            child.end(signal.SIGTERM)
        for server in self.servers:
            server.end()

    def left(self):
        """The server's SETs per CPU time as a share of its twin's."""
        counted = [server.count() for server in self.servers]
        time.sleep(LIMITED_REDIS_S)
        (served, cpu, wall), twin = (server.since(*before)
                                     for server, before in zip(self.servers, counted))
        self.rates.append(((served + twin[0]) / wall, (cpu + twin[1]) / wall))
        return served / cpu / (twin[0] / twin[1])

    def traced_left(self):
        with memtrace("--max-overhead", "5", f"--json={self.json}")(self.servers[0].pid):
            left = self.left()
        with open(self.json, encoding="utf-8") as file:
            self.said.append(json.load(file)["overhead_pct"])
        return left


def report_limited_redis(found):
    rows = [(REDIS_TALKS[p], number(statistics.median(r[0] for r in redis.rates)),
             f"{statistics.median(r[1] for r in redis.rates):.0%}",
             *(percent_of(median_and_interval(c.values)) for c in (redis.untraced, redis.traced)),
             percent_of(ratio_and_interval(redis.traced.values, redis.untraced.values)),
             f"{statistics.median(redis.said):.1f} %")
            for p, redis in found.items() if redis.traced.values and redis.untraced.values]
    return table(("two redis-servers on one core", "SET/s", "of the core",
                  "SET per CPU second, of its twin's: untraced",
                  "traced, --max-overhead 5", "of that, untraced", "cost printed"), rows)


def judge_limited_redis(found):
    for pipeline, redis in found.items():
        if redis.traced.values and redis.untraced.values:
            left = ratio_and_interval(redis.traced.values, redis.untraced.values)
            verdict(left[0] >= OF_LIMITED_REDIS,
                    f"--max-overhead 5 leaves redis ({REDIS_TALKS[pipeline]}) {percent_of(left)} "
                    f"of its SETs per second of CPU (bar: {OF_LIMITED_REDIS:.0%})")


EXACT_PAIRS = 20_000  # a second: traced continuously at a limit of 5
# steps of other work between two pairs. A step takes less than 1 ns. None: as many steps as leave a
# rate of EXACT_PAIRS
BETWEEN = (4_000_000, None, 19_000, 1_900, 0)


def steps_for(pairs):
    """How many steps of other work a loop must do to make this number of pairs per second of CPU
    time, on this machine now."""
    steps = 190_000
    loop = Loop(steps)
    loop.left(1)
    loop.end()
    return round(steps * loop.twin_rates[0] / pairs)


def median_and_interval(values):
    """The median, and an interval that holds it in 95 of 100 cases (bootstrap)."""
    dice = random.Random(1)
    medians = sorted(statistics.median(dice.choices(values, k=len(values))) for _ in range(1000))
    return statistics.median(values), medians[25], medians[975]


def ratio_and_interval(values, others):
    """The ratio of two medians, and an interval that holds it in 95 of 100 cases (bootstrap)."""
    dice = random.Random(1)
    ratios = sorted(statistics.median(dice.choices(values, k=len(values))) /
                    statistics.median(dice.choices(others, k=len(others))) for _ in range(1000))
    return statistics.median(values) / statistics.median(others), ratios[25], ratios[975]


class Felt:
    """A loop, untraced and traced: its loss of speed, compared with its twin, and the cost that
    memtrace prints."""

    def __init__(self, between, scratch):
        self.json = os.path.join(scratch, "felt.json")
        self.exact = between is None
        self.loop = Loop(steps_for(EXACT_PAIRS) if self.exact else between)
        self.reports = {}  # by limit
        self.untraced = Candidate("untraced", lambda: self.loop.left(4))
        self.traced = {limit: Candidate(f"--max-overhead {limit}", self.with_limit(limit))
                       for limit in ("off", "5")}

    def with_limit(self, limit):
        def measure():
            with memtrace("--max-overhead", limit, f"--json={self.json}")(self.loop.pid):
                left = self.loop.left(4)
            with open(self.json, encoding="utf-8") as file:
                report = json.load(file)
            report["pairs"] = self.loop.pairs
            self.reports.setdefault(limit, []).append(report)
            return left
        return measure

    def printed_pct(self, limit):
        return statistics.median(r["overhead_pct"] for r in self.reports[limit])

    def lost_pct(self, candidate):
        return median_and_interval([100 * (1 - left) for left in candidate.values])


def report_felt(loops):
    rows = []
    for felt in loops:
        for limit, candidate in felt.traced.items():
            if candidate.values and felt.untraced.values:
                lost, low, high = felt.lost_pct(candidate)
                _, from_, to = felt.lost_pct(felt.untraced)
                rows.append((number(statistics.median(felt.loop.twin_rates)), limit,
                             f"{from_:.1f} - {to:.1f}", f"{lost:.1f} %", f"{low:.1f} - {high:.1f}",
                             f"{felt.printed_pct(limit):.1f} %", felt.reports[limit][-1]["mode"]))
    return table(("pairs/s untraced", "--max-overhead", "lost untraced", "throughput lost", "95 %",
                  "cost printed", "mode"), rows)


def judge_felt(loops):
    for felt in loops:
        rate = number(statistics.median(felt.loop.twin_rates)) if felt.loop.twin_rates else ""
        for limit, candidate in felt.traced.items():
            if not candidate.values or not felt.untraced.values:
                continue
            (lost, low, high), printed = felt.lost_pct(candidate), felt.printed_pct(limit)
            _, from_, noise = felt.lost_pct(felt.untraced)
            where = f"{rate} pairs/s, limit {limit}: memtrace says {printed:.1f} %, felt are"
            if low <= max(0, noise):  # the measured cost is within the machine's own noise
                verdict(printed < FELT * high, f"{where} {low:.1f} to {high:.1f} %, untraced "
                        f"{from_:.1f} to {noise:.1f} %: as much (bar: below the upper end, and a "
                        f"factor of {FELT})")
            else:
                verdict(printed < FELT * high and printed * FELT > low,
                        f"{where} {lost:.1f} % ({low:.1f} - {high:.1f}) (bar: a factor of {FELT})")
        if felt.exact and felt.reports.get("5"):
            exact = all(r["mode"] == "continuous" and r["alloc_calls"] == r["pairs"]
                        for r in felt.reports["5"])
            verdict(exact, f"{rate} pairs/s are traced continuously and counted to the last at a "
                    "limit of 5" +
                    ("" if exact else
                     f": {[(r['mode'], r['alloc_calls'], r['pairs']) for r in felt.reports['5']]}"))


# --- 10. stalls ---

STALLS = os.path.join(PROGS, "stalls")
STALL_THREADS = (1, 8, 64)
NEAR_US = 5_000  # us before and after the change of code that opens or closes a window
OPS = {"spin": "reading the clock", "alloc": "32 pairs", "map": "mmap, touch, munmap"}
MOMENTS = ("opening", "window", "closing", "gap")


def percentile(values, share):
    values = sorted(values)
    return values[min(len(values) - 1, int(share * len(values)))] if values else 0


class Stalls:
    """The longest waits of one run, by operation: near each opening and each closing, and at other
    moments, in windows and between windows. Waits in which the thread was preempted are
    never counted: with more threads than CPUs the scheduler causes them."""

    def __init__(self, said):
        self.said, last, stretches, since = said, 0, [], 0
        self.moments = {what: [] for what in MOMENTS}
        for before, seen, n in said["changes"]:
            if bool(n) != bool(last):
                self.moments["opening" if n else "closing"].append((before, seen))
                stretches.append((since, before, "gap" if n else "window"))
            last, since = n, seen
        stretches.append((since, 1e6 * said["seconds"], "window" if last else "gap"))
        for begin, end, what in stretches:
            t = begin + 2 * NEAR_US
            while t < end - 2 * NEAR_US:
                self.moments[what].append((t, t))
                t += 4 * NEAR_US

    def longest(self, what, op):
        """The longest wait at each moment, us; 0: none above the threshold."""
        waits = sorted((start, start + us, us) for start, us, o, _, preempted in self.said["waits"]
                       if o == op and not preempted)
        found = []
        for before, seen in self.moments[what]:
            near = bisect.bisect_left(waits, (seen + NEAR_US,))
            found.append(max((us for start, end, us in waits[max(0, near - 2000):near]
                              if end > before - NEAR_US), default=0))
        return found


def measure_stalls(threads, seconds, traced):
    child = Child([STALLS, "--threads", str(threads)])
    pid = int(child.line_like(r"^ready (\d+)")[1])
    child.tell("go")
    tracer = (memtrace("--max-overhead", "20", "--debug-window-period", "200") if traced
              else untraced)
    with tracer(pid):
        time.sleep(seconds)
    child.tell("stop")
    said = json.loads(child.line_like(r'^\{"ops".*\}$')[0])
    child.end()
    return Stalls(said)


def report_stalls(runs):
    def cell(stalls, what, op):
        us = stalls.longest(what, op)
        return " / ".join(number(x / 1e3, 1) for x in (percentile(us, 0.5), percentile(us, 0.99),
                                                        max(us, default=0)))
    rows = [(threads, len(stalls.moments["opening"]), name, cell(runs[threads, False], "gap", op),
             *(cell(stalls, what, op) for what in ("gap", "opening", "window", "closing")))
            for (threads, traced), stalls in runs.items() if traced for op, name in OPS.items()]
    return table(("threads", "windows", "longest wait, ms: p50 / p99 / most", "untraced",
                  "between windows", "at an opening", "in a window", "at a closing"), rows)


def judge_stalls(runs):
    for (threads, traced), stalls in runs.items():
        if not traced:
            continue

        def waits(stalls, what):
            us = [max(of) for of in zip(*(stalls.longest(what, op) for op in OPS))]
            return [percentile(us, p) for p in (0.5, 0.99, 1)]

        other, window = waits(runs[threads, False], "gap"), waits(stalls, "window")
        for what in ("opening", "closing"):
            us = waits(stalls, what)
            verdict(us[1] <= max(STALL_US, 2 * other[1]),
                    f"{threads} threads, {len(stalls.moments[what])} windows: the longest wait at "
                    f"their {what} is "
                    "{:.2f} ms in the median, {:.2f} of 99 in 100, "
                    "{:.2f} at most; ".format(*(u / 1e3 for u in us)) +
                    "in the middle of them {:.2f}, {:.2f}, "
                    "{:.2f}; ".format(*(u / 1e3 for u in window)) +
                    "untraced {:.2f}, {:.2f}, {:.2f} ".format(*(u / 1e3 for u in other)) +
                    f"(bar: {STALL_US / 1e3:.0f} ms of 99 in 100, or twice what it is untraced)")


# --- 11. clients ---

CLIENTS = 20
CLIENTS_S = 8  # of each round: enough for some windows
CLIENTS_LIMITS = ("1", "2", "5")
AGENT = "`memtrace agent -a`"
AGENT_S = 30  # of each round beside the agent: it makes profiles every 15 s
AGENT_ROUNDS = 6
AGENT_SETTLES_S = 25  # its first half minute takes several times as much CPU time as later ones


class Clients:
    """Rounds without memtrace and with each limit, in turn. Neighbouring rounds are compared."""

    def __init__(self, scratch, rounds):
        server = Redis(scratch)
        rate = server.serve(CLIENTS, 200_000)[0]
        requests, many = int(rate * CLIENTS_S), int(rate * AGENT_S)
        report = os.path.join(scratch, "clients.json")
        self.said = {limit: [] for limit in CLIENTS_LIMITS}

        def traced(limit):
            def measure():
                with memtrace("--max-overhead", limit, f"--json={report}")(server.pid):
                    served = server.serve(CLIENTS, requests)
                with open(report, encoding="utf-8") as file:
                    self.said[limit].append(json.load(file)["overhead_pct"])
                return served
            return measure

        self.untraced = Candidate("no memtrace", lambda: server.serve(CLIENTS, requests))
        self.traced = {limit: Candidate(f"--max-overhead {limit}", traced(limit))
                       for limit in CLIENTS_LIMITS}

        def watched():
            with agent(scratch, server.pid):
                return server.serve(CLIENTS, many)

        interleave([self.untraced, *self.traced.values()], rounds, 1200)
        self.alone = Candidate("no agent", lambda: server.serve(CLIENTS, many))
        self.traced[AGENT] = Candidate("the agent on all processes", watched)
        interleave([self.alone, self.traced[AGENT]], min(rounds, AGENT_ROUNDS), 1200)
        server.end()

    def ratio(self, limit, i):
        """Ratio to the untraced figure of the same round: the median, and an interval that holds it
        in 95 of 100 cases."""
        without = self.alone if limit == AGENT else self.untraced
        return median_and_interval([a[i] / b[i]
                                    for a, b in zip(self.traced[limit].values, without.values)])


def report_clients(clients):
    def cell(limit, i):
        return "{:.2f} ({:.2f} - {:.2f})".format(*clients.ratio(limit, i))
    rows = [(limit, *(cell(limit, i) for i in range(4)), f"{min(said):.1f} - {max(said):.1f}")
            for limit, said in clients.said.items() if said]
    rows.append((AGENT, *(cell(AGENT, i) for i in range(4)), ""))
    return table(("--max-overhead", "SET/s, of untraced", "99 % wait at most", "99.9 %", "longest",
                  "cost printed, %"), rows)


def judge_clients(clients):
    rate, wait = clients.ratio("1", 0), clients.ratio("1", 1)
    verdict(rate[2] >= OF_CLIENTS[0] and wait[1] <= OF_CLIENTS[1],
            f"at the default limit redis serves {rate[0]:.2f} of its SETs ({rate[1]:.2f} - "
            f"{rate[2]:.2f}), 99 % of which take {wait[0]:.2f} times as long ({wait[1]:.2f} - "
            f"{wait[2]:.2f}) (bar: {OF_CLIENTS[0]} and {OF_CLIENTS[1]} within)")
    rate = clients.ratio(AGENT, 0)
    verdict(rate[1] >= OF_AGENT, f"beside the agent redis serves {rate[0]:.3f} of its SETs "
            f"({rate[1]:.3f} - {rate[2]:.3f}) (bar: {OF_AGENT})")


# --- 12. the heap from outside ---

OUTSIDE_KEYS = 3_300_000  # of 100 bytes: 1 GB
OUTSIDE = {"heap": ("heap",), "why": ("why",)}


class Outside:
    """Rounds without memtrace and with one run of each command, in turn."""

    def __init__(self, scratch, rounds):
        server = Redis(scratch, options=("--enable-debug-command", "yes"))
        server.ask(f"DEBUG POPULATE {OUTSIDE_KEYS} key 100")
        wait_until(lambda: f":{OUTSIDE_KEYS}" in server.ask("DBSIZE") or
                   int(server.ask("DBSIZE")[1:]) > OUTSIDE_KEYS, "the keys are there")
        self.mb = memory_kib(server.pid, "VmRSS") / 1024
        requests = int(server.serve(CLIENTS, 100_000)[0] * CLIENTS_S)
        # name -> [(seconds, seconds of CPU time, MB), ...]
        self.took = {name: [] for name in OUTSIDE}

        def beside(name):
            def measure():
                begin = time.monotonic()
                child = subprocess.Popen([MEMTRACE, *OUTSIDE[name], "-p", str(server.pid),
                                          "-o", os.path.join(scratch, name)])
                children.append(child)
                ended = []
                waiter = threading.Thread(target=lambda: ended.append((os.wait4(child.pid, 0),
                                                                       time.monotonic())))
                waiter.start()
                served = server.serve(CLIENTS, requests)
                waiter.join()
                children.remove(child)
                [((_, status, usage), end)] = ended
                if status:
                    raise Missing(f"memtrace {name} ended with status {status}")
                self.took[name].append((end - begin, usage.ru_utime + usage.ru_stime,
                                        usage.ru_maxrss / 1024))
                return served
            return measure

        self.untraced = Candidate("no memtrace", lambda: server.serve(CLIENTS, requests))
        self.read = {name: Candidate(f"memtrace {name}", beside(name)) for name in OUTSIDE}
        interleave([self.untraced, *self.read.values()], rounds, 600)
        server.end()

    def ratio(self, name, i):
        return median_and_interval([a[i] / b[i]
                                    for a, b in zip(self.read[name].values, self.untraced.values)])


def report_outside(outside):
    rows = []
    for name, took in outside.took.items():
        if took:
            seconds, cpu, mb = (statistics.median(column) for column in zip(*took))
            rows.append((f"memtrace {name}, {outside.mb:.0f} MB",
                         *("{:.2f} ({:.2f} - {:.2f})".format(*outside.ratio(name, i))
                           for i in range(3)),
                         f"{seconds:.1f}", f"{cpu:.1f}", f"{mb:.0f}"))
    return table(("command, heap", "SET/s, of untraced", "99 % wait at most", "99.9 %", "s",
                  "CPU s", "MB"), rows)


# --- 13. a web server in Python ---

# What a request of a web framework does: middleware that makes a session, routes by regular
# expressions, rows of a database that become objects, a page of 50 escaped rows. 1 of 8 requests
# makes JSON, parses and stores it.
WSGI_SERVER = r"""
import collections, html, http.cookies, json, re, sqlite3, string, uuid
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer

db = sqlite3.connect(":memory:")
db.execute("create table item (id integer primary key, name text, price real, tags text)")
db.executemany("insert into item (name, price, tags) values (?, ?, ?)",
               [(f"item <{i}>", i * 1.25, json.dumps([f"tag{i % 7}", f"tag{i % 11}"]))
                for i in range(500)])
ROW = string.Template("<tr><td>$id</td><td>$name</td><td>$price</td><td>$tags</td></tr>")
PAGE = string.Template("<html><title>$title</title><body>$user<table>$rows</table></body></html>")
sessions = collections.OrderedDict()


class Item:
    def __init__(self, row):
        self.id, self.name, self.price, tags = row
        self.tags = json.loads(tags)


def show(request, first):
    items = [Item(row) for row in db.execute("select * from item where id >= ? limit 50",
                                             (int(first),))]
    rows = [ROW.substitute(id=i.id, name=html.escape(i.name), price=f"{i.price:.2f}",
                           tags=", ".join(html.escape(t) for t in i.tags)) for i in items]
    return PAGE.substitute(title="items", user=html.escape(request["user"]), rows="".join(rows))


def store(request, number):
    item = json.loads(json.dumps({"name": number * 30, "tags": ["a", "b"], "by": request["user"]}))
    db.execute("update item set name = ?, tags = ? where id = ?",
               (item["name"], json.dumps(item["tags"]), int(number)))
    return json.dumps({"stored": item, "id": number})


ROUTES = [(re.compile(p), view) for p, view in (
    (r"^/about/$", None), (r"^/user/(\w+)/$", None), (r"^/items/(\d+)/$", show),
    (r"^/store/(\d+)/$", store))]


def app(environ, start_response):
    cookies = http.cookies.SimpleCookie(environ.get("HTTP_COOKIE", ""))
    key = cookies["session"].value if "session" in cookies else uuid.uuid4().hex
    session = sessions.setdefault(key, {"user": f"user {key}", "seen": 0})
    session["seen"] += 1
    while len(sessions) > 1000:
        sessions.popitem(last=False)
    request = {"user": session["user"], "seen": session["seen"]}
    for pattern, view in ROUTES:
        if match := pattern.match(environ["PATH_INFO"]):
            body = view(request, *match.groups()).encode()
            start_response("200 OK", [("Content-Type", "text/html"),
                                      ("Set-Cookie", f"session={key}"),
                                      ("Content-Length", str(len(body)))])
            return [body]
    start_response("404 Not Found", [])
    return []


class Quiet(WSGIRequestHandler):
    def log_message(self, *_):
        pass


server = WSGIServer(("127.0.0.1", 0), Quiet)
server.set_app(app)
print("port", server.server_port, flush=True)
server.serve_forever()
"""
WSGI_S = 8  # of each round: enough for some windows


class WebServer:
    def __init__(self, *how):
        self.child = Child([*how, "-c", WSGI_SERVER], TARGET_CPU)
        self.pid = self.child.pid
        self.port = int(self.child.line_like(r"^port (\d+)$")[1])

    def serve(self, requests):
        """Returns how many requests are served per second of wall time, and per second of the
        server's CPU time. There are always 4 requests under way."""
        before, n = on_cpu_ns(self.pid) or 0, [requests - requests // 8, requests // 8]
        seconds = 0
        for path, count in zip(("items/7", "store/9"), n):
            out = run(["ab", "-q", "-n", str(count), "-c", "4",
                       f"http://127.0.0.1:{self.port}/{path}/"], OTHER_CPU,
                      10 * WSGI_S)
            if not re.search(r"^Failed requests: +0$", out, re.M) or "Non-2xx" in out:
                raise Missing(f"the web server has refused requests: {out[-300:]}")
            seconds += float(re.search(r"^Time taken for tests: +([0-9.]+)", out, re.M)[1])
        return requests / seconds, 1e9 * requests / max((on_cpu_ns(self.pid) or 0) - before, 1)

    def end(self):
        self.child.end(signal.SIGTERM)


class Wsgi:
    """Rounds of each candidate in turn. Each round is compared with the neighbouring round without
    a tracer."""

    def __init__(self, scratch, rounds):
        if not shutil.which("ab"):
            raise Missing("ab (apache2-utils) is not installed")
        python = sys.executable
        plain, tracemalloc = WebServer(python), WebServer(python, "-X", "tracemalloc=1")
        servers = [plain, tracemalloc]
        plain.serve(400)
        requests = int(plain.serve(400)[0] * WSGI_S)
        report = os.path.join(scratch, "wsgi.json")
        self.said = []  # (mode, overhead_pct)

        def traced():
            with memtrace(f"--json={report}", defaults=True)(plain.pid):
                served = plain.serve(requests)
            with open(report, encoding="utf-8") as file:
                said = json.load(file)
            self.said.append((said["mode"], said["overhead_pct"]))
            return served

        self.untraced = Candidate("no tracer", lambda: plain.serve(requests))
        self.memtrace = Candidate("memtrace at its defaults", traced)
        self.others = [Candidate("tracemalloc, 1 frame", lambda: tracemalloc.serve(requests // 2))]
        if not subprocess.run([python, "-c", "import memray"],
                              stderr=subprocess.DEVNULL).returncode:
            servers.append(memray := WebServer(python, "-m", "memray", "run",
                                               "-o", os.path.join(scratch, "memray"), "-f"))
            self.others.append(Candidate("memray", lambda: memray.serve(requests // 2)))
        else:
            print("note  wsgi: memray is not installed", flush=True)
        interleave([self.untraced, self.memtrace, *self.others], rounds, 600)
        for server in servers:
            server.end()

    def ratio(self, candidate, i):
        return median_and_interval([a[i] / b[i]
                                    for a, b in zip(candidate.values, self.untraced.values)])


def report_wsgi(wsgi):
    rows = [("no tracer", number(statistics.median(v[0] for v in wsgi.untraced.values)),
             "", "", "")]
    for c in (wsgi.memtrace, *wsgi.others):
        if c.values:
            said = (", ".join(sorted({mode for mode, _ in wsgi.said})) +
                    f", {statistics.median(p for _, p in wsgi.said):.1f} %"
                    if c is wsgi.memtrace else "")
            rows.append((c.name, number(statistics.median(v[0] for v in c.values)),
                         *("{:.3f} ({:.3f} - {:.3f})".format(*wsgi.ratio(c, i)) for i in range(2)),
                         said))
    return table(("a web server in Python", "requests/s", "of untraced",
                  "per CPU second, of untraced", "mode, cost printed"), rows)


def judge_wsgi(wsgi):
    if wsgi.memtrace.values:
        kept = wsgi.ratio(wsgi.memtrace, 0)
        verdict(kept[2] >= OF_WSGI,
                f"at memtrace's defaults a web server in Python answers {kept[0]:.3f} of its "
                f"requests a second ({kept[1]:.3f} - {kept[2]:.3f}) (bar: {OF_WSGI} within)")


# --- 14. a tracer that hangs ---

HUNG_PAIRS = 100_000  # a round of half a millisecond, or of a tenth of a second with probes
HUNG_S = 3


@contextlib.contextmanager
def hung_by_signal(sig, pid, _scratch):
    child = Child([MEMTRACE, "-p", str(pid), "-f", "none", "-q", "-v"], OTHER_CPU)
    with traced_by(child, lambda child: child.line_like(r"tracing$"), signal.SIGTERM, pid):
        try:
            yield lambda: os.kill(child.pid, sig)
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.kill(child.pid, signal.SIGCONT)


@contextlib.contextmanager
def hung_by_terminal(pid, _scratch):
    """Its terminal is stopped (Ctrl-S), so each line that memtrace writes there would wait for
    ever."""
    master, slave = pty.openpty()
    process = subprocess.Popen(
        [MEMTRACE, "-p", str(pid), "-f", "none"], stdin=slave, stdout=slave, stderr=slave,
        preexec_fn=lambda: (os.setsid(), fcntl.ioctl(0, termios.TIOCSCTTY, 0)))
    os.close(slave)
    said, end = b"", time.monotonic() + PATIENCE_S
    try:
        while b"samples" not in said:  # the status line
            if time.monotonic() > end or not select.select([master], [], [], PATIENCE_S)[0]:
                raise Missing(f"memtrace on a terminal says only {said[-200:]}")
            said += os.read(master, 65536)
        yield lambda: os.write(master, b"\x13")
    finally:
        for _ in range(2):  # the second signal ends memtrace while it waits for the terminal
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.terminate()
                process.wait(PATIENCE_S / 6)
        process.kill()
        process.wait()
        os.close(master)


@contextlib.contextmanager
def hung_by_file(pid, scratch):
    """Another target maps a file whose server (FUSE) stops answering."""
    where = os.path.join(scratch, "silent")
    os.makedirs(where, exist_ok=True)
    server = Child([os.path.join(PROGS, "silent"), "--dir", where,
                    "--file", os.path.join(PROGS, "leaking_plugin.so"), "--answers", "0"])
    server.line_like(r"^ready")
    child = Child([MEMTRACE, "--comm", "churn", "--comm", "silent", "-f", "none", "-q", "-v"],
                  OTHER_CPU)
    try:
        with traced_by(child, lambda child: child.line_like(r"tracing$"), signal.SIGTERM, pid):
            yield lambda: (server.tell("go"), server.line_like("silent"))
    finally:
        server.tell("go")  # it answers again
        server.end()


@contextlib.contextmanager
def hung_by_huge_code(pid, scratch):
    """Another target maps an allocator with a GiB of code, which takes seconds to read."""
    program = Child([hostile.mapper(scratch), hostile.sparse_library(scratch)])
    child = Child([MEMTRACE, "--comm", "churn", "--comm", "mapper", "-f", "none", "-q", "-v"],
                  OTHER_CPU)
    try:
        with traced_by(child, lambda child: child.line_like(r"tracing$"), signal.SIGTERM, pid):
            yield lambda: (program.tell("map"), program.line_like("mapped"))
    finally:
        program.tell("end")
        program.end()


HUNG = {"SIGSTOP": lambda *a: hung_by_signal(signal.SIGSTOP, *a),
        "SIGKILL": lambda *a: hung_by_signal(signal.SIGKILL, *a),
        "its terminal is stopped (Ctrl-S)": hung_by_terminal,
        "a file of a target is not answered": hung_by_file,
        "a target maps huge code": hung_by_huge_code}


def measure_hung(way, scratch):
    """The target is idle and traced all the time. When memtrace hangs, the target begins to work.
    Returns its speed in each second since then, as a share of its speed without memtrace."""
    churn = Churn(HUNG_PAIRS)
    own, took = [churn.measure()], [[] for _ in range(HUNG_S)]
    with way(churn.pid, scratch) as hang:
        time.sleep(1)
        wait_until(lambda: changed_bytes(churn.pid), "the target is traced")
        hang()
        begin = time.monotonic()
        while (second := int(time.monotonic() - begin)) < HUNG_S:
            took[second].append(churn.once())
    own.append(churn.measure())
    churn.child.end()
    return [statistics.mean(own) * len(of) / sum(of) if of else 0 for of in took]


def report_hung(candidates):
    def cell(values):
        return "{:.2f} ({:.2f} - {:.2f})".format(*median_and_interval(values)) if values else ""
    return table(("what hangs memtrace", *(f"speed in second {s + 1}" for s in range(HUNG_S))),
                 [(c.name, *(cell([speeds[s] for speeds in c.values]) for s in range(HUNG_S)))
                  for c in candidates])


def judge_hung(candidates):
    for c in candidates:
        if c.values:
            speed = median_and_interval([speeds[1] for speeds in c.values])
            verdict(speed[2] >= OF_HUNG, f"{c.name}: a second later the target has {speed[0]:.3f} "
                    f"of its speed ({speed[1]:.3f} - {speed[2]:.3f}) (bar: {OF_HUNG} within)")


# --- the parts: each prints and returns its tables, and judges ---

def part_pairs(args, scratch):
    pairs = pair_candidates(scratch)
    interleave(list(pairs.values()), 2 if args.quick else 5, 60)
    sections = [report_pairs(pairs)]
    judge_missing(pairs.values(), args.allow_missing)
    judge_pairs(pairs, args.allow_missing)
    return sections


def part_redis(args, scratch):
    redis = redis_candidates(scratch)
    interleave(list(redis.values()), 1 if args.quick else 5, 60)
    sections = [report_redis(redis, pipeline) for pipeline in REDIS_TALKS]
    judge_missing(redis.values(), args.allow_missing)
    judge_redis(redis)
    return sections


def part_self(args, scratch):
    rows = own_times(scratch, (100_000,) if args.quick else (100_000, 1_000_000))
    return [table(("memtrace itself", "measured"), rows)]


def part_unwinding(args, scratch):
    candidates = unwinding_candidates(scratch)
    flat = [c for pair in candidates.values() for c in pair]
    interleave(flat, 2 if args.quick else 5, 60)
    judge_missing(flat, args.allow_missing)
    return [report_unwinding(candidates)]


def part_tables(args, _scratch):
    candidates = table_candidates()
    interleave(list(candidates.values()), 3 if args.quick else 7, 20)
    sections = [report_tables(candidates)]
    judge_missing(candidates.values(), args.allow_missing)
    judge_tables(candidates)
    return sections


def part_names(args, scratch):
    candidates, compare = naming_candidates(scratch)
    interleave(list(candidates.values()), 1 if args.quick else 5, 60)
    classes = None if any(c.missing for c in candidates.values()) else compare()
    sections = list(report_names(candidates, classes))
    judge_missing(candidates.values(), args.allow_missing)
    judge_names(candidates, classes)
    return sections


def part_allocators(args, _scratch):
    found = allocator_candidates()
    flat = [c for candidates in found.values() for c in candidates]
    interleave(flat, 2 if args.quick else 5, 75)
    sections = [report_allocators(found)]
    judge_missing(flat, args.allow_missing)
    judge_allocators(found)
    return sections


def part_attach(args, scratch):
    sleepers, all_ = Sleepers(scratch), []
    try:
        for n in (1, SEPARATE, 1000) if args.quick else (1, 10, SEPARATE, 200, 1000):
            candidates = list(attach_candidates(sleepers, n, scratch).values())
            interleave(candidates, 1 if args.quick else 3, 20)
            all_ += candidates
    finally:
        sleepers.kill()
    sections = [report_attach(all_)]
    judge_missing(all_, args.allow_missing)
    judge_attach(all_)
    return sections


def part_windows(args, scratch):
    loop, candidates = limited_candidates()
    interleave(list(candidates.values()), 1 if args.quick else 7, 420)
    loop.end()
    redis = {pipeline: LimitedRedis(scratch, pipeline, 3 if args.quick else 12)
             for pipeline in REDIS_TALKS}
    loops = []
    for between in BETWEEN:  # one loop after the other, so that compared rounds are neighbours
        loops.append(Felt(between, scratch))
        interleave([loops[-1].untraced, *loops[-1].traced.values()], 3 if args.quick else 5, 120)
        loops[-1].loop.end()
    sections = [report_limited(loop, candidates), report_limited_redis(redis), report_felt(loops)]
    judge_missing([*candidates.values(),
                   *(c for r in redis.values() for c in (r.untraced, r.traced)),
                   *(c for felt in loops for c in (felt.untraced, *felt.traced.values()))],
                  args.allow_missing)
    judge_limited(candidates)
    judge_limited_redis(redis)
    judge_felt(loops)
    return sections


def part_stalls(args, _scratch):
    runs = {}
    for threads in STALL_THREADS:
        for traced, seconds in ((False, 3 if args.quick else 10), (True, 10 if args.quick else 75)):
            runs[threads, traced] = undisturbed(
                lambda n=threads, t=traced, s=seconds: measure_stalls(n, s, t))
    sections = [report_stalls(runs)]
    judge_stalls(runs)
    return sections


def part_clients(args, scratch):
    clients = Clients(scratch, 3 if args.quick else 16)
    sections = [report_clients(clients)]
    judge_missing([clients.untraced, *clients.traced.values()], args.allow_missing)
    judge_clients(clients)
    return sections


def part_outside(args, scratch):
    outside = Outside(scratch, 2 if args.quick else 8)
    sections = [report_outside(outside)]
    judge_missing([outside.untraced, *outside.read.values()], args.allow_missing)
    return sections


def part_wsgi(args, scratch):
    wsgi = Wsgi(scratch, 3 if args.quick else 16)
    sections = [report_wsgi(wsgi)]
    judge_missing([wsgi.untraced, wsgi.memtrace, *wsgi.others], args.allow_missing)
    judge_wsgi(wsgi)
    return sections


def part_hung(args, scratch):
    candidates = [Candidate(name, lambda way=way: measure_hung(way, scratch))
                  for name, way in HUNG.items()]
    interleave(candidates, 2 if args.quick else 6, 300)
    sections = [report_hung(candidates)]
    judge_missing(candidates, args.allow_missing)
    judge_hung(candidates)
    return sections


PARTS = {"pairs": part_pairs, "redis": part_redis, "self": part_self,
         "unwinding": part_unwinding, "tables": part_tables, "names": part_names,
         "allocators": part_allocators, "attach": part_attach,
         "windows": part_windows, "stalls": part_stalls, "clients": part_clients,
         "outside": part_outside, "wsgi": part_wsgi, "hung": part_hung}


def measure_all(args, scratch):
    sections = []
    for part in args.only:
        try:
            sections += PARTS[part](args, scratch)
        except Missing as why:
            print(f"note  {part}: {why}")
            if not args.allow_missing:
                failures.append(f"{part}: {why}")
    return sections


def out_of_time(_signal, _frame):
    raise SystemExit(f"bench: not done in {WHOLE_RUN_S} s; given up")


def interrupted(_signal, _frame):
    raise SystemExit("bench: interrupted")


def machine():
    with open("/proc/cpuinfo") as info:
        model = re.search(r"^model name\s*: (.*)$", info.read(), re.M)
    return (f"{model[1] if model else 'unknown CPU'}, {len(CPUS)} CPUs, "
            f"Linux {os.uname().release}")


def main():
    parser = argparse.ArgumentParser(description="what tracing costs, beside other tools")
    parser.add_argument("--quick", action="store_true", help="fewer rounds")
    parser.add_argument("--allow-missing", action="store_true",
                        help="a tool that is not installed is no failure")
    parser.add_argument("--only", metavar="PART,...", default=",".join(PARTS),
                        help=f"these parts only, of {', '.join(PARTS)}")
    parser.add_argument("--markdown", metavar="FILE", help="write the tables there, too")
    args = parser.parse_args()
    args.only = args.only.split(",")
    if unknown := set(args.only) - set(PARTS):
        parser.error(f"no part {', '.join(sorted(unknown))}; there are {', '.join(PARTS)}")
    if os.geteuid() != 0:
        sys.exit("bench: needs root")
    for built in (MEMTRACE, CHURN, DEEP, BARE_TRAPS, TABLES, NAMES):
        if not os.access(built, os.X_OK):
            sys.exit(f"bench: {os.path.relpath(built, ROOT)} is not built: run it by make bench")
    signal.signal(signal.SIGALRM, out_of_time)
    signal.signal(signal.SIGTERM, interrupted)
    signal.alarm(WHOLE_RUN_S)
    begin = time.monotonic()
    scratch = tempfile.mkdtemp(prefix="memtrace-bench-")
    print(f"{machine()}\n", flush=True)
    try:
        sections = measure_all(args, scratch)
    finally:
        for child in list(children):
            child.kill()
        shutil.rmtree(scratch, ignore_errors=True)
    print(f"{time.monotonic() - begin:.0f} s")
    if args.markdown:
        with open(args.markdown, "w") as out:
            out.write("\n\n".join([machine() + ".", *sections, "\n".join(verdicts)]) + "\n")
    for failure in failures:
        print(f"bench: FAILED: {failure}", file=sys.stderr)
    sys.exit(1 if failures else 0)


if __name__ == "__main__":
    main()
