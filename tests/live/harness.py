# SPDX-License-Identifier: BSD-2-Clause
"""What the live tests share: the list of tests, target programs, runs of memtrace.

This module ends each process that it started, by pid, also when a test fails. Everything is written
into a directory of the test's own, which is removed. Every wait is bounded."""
import contextlib
import functools
import importlib
import json
import os
import re
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
MEMTRACE = os.path.join(ROOT, "build", "memtrace")
PROGS = os.path.join(ROOT, "build", "progs")
# Timeouts only catch hangs, so they are long: a machine may be slow, above all with probes or in an
# emulator.
PATIENCE_S = float(os.environ.get("MEMTRACE_PATIENCE_S", 180))
os.environ.pop("COLUMNS", None)  # memtrace cuts its tables to this width


class NotRunnable(Exception):
    """The test cannot run here; the text says what is missing."""


class Failure(Exception):
    pass


def expect(condition, *what):
    if not condition:
        raise Failure(" ".join(str(w) for w in what))


def expect_equal(got, wanted, what):
    expect(got == wanted, f"{what}: {got!r} instead of {wanted!r}")


def expect_words(text, *words):
    """Checks that every word (a regular expression; case does not matter) is in the text."""
    for word in words:
        expect(re.search(str(word), text, re.I | re.M), f"no {word!r} in {text.strip()!r}")


# --- the list of tests ---

tests = {}  # name -> function; in the order of definition
sociable = set()  # names of the tests that may run beside each other
wide = set()  # names of the tests that may run beside tests of this set from other files
lengthy = set()  # names of the tests that `make test` leaves to `make test-long`


def _enter(name, function, beside, long):
    tests[name] = function
    if beside == "wide":
        wide.add(name)
    elif beside:
        sociable.add(name)
    if long:
        lengthy.add(name)


def test(function=None, *, beside=False, long=False):
    """beside: the test may run at the same time as another such test. Three kinds of tests must not
    set it. They measure time or cost, they place probes for the whole machine (processes not named
    by pid), or they count something of the whole machine. beside="wide": the test places probes for
    the whole machine, but does not measure time or cost, and counts nothing of the whole machine.
    It may run beside such tests of other files. It may not run beside tests of its own file,
    because these often trace processes of the same name. long: the test takes more than about five
    seconds, and a shorter test finds the common faults of the same code. Only `make test-long` runs
    it, not `make test`."""
    if not function:
        return functools.partial(test, beside=beside, long=long)
    _enter(function.__name__, function, beside, long)
    return function


def file_of(name):
    """The file (module) of a test."""
    function = tests[name]
    return getattr(function, "func", function).__module__


def test_each_kind(function=None, *, beside=False, long=False, best=False):
    """Makes one test for each kind of probe that this kernel has. The function takes the kind. The
    tests of all kinds but the best are "long", because the kernel removes probes of the older kinds
    slowly. best: only the best kind, because all that the test shows happens in code that is the
    same for all kinds."""
    if not function:
        return functools.partial(test_each_kind, beside=beside, long=long, best=best)
    for kind in kinds()[:1] if best else kinds():
        _enter(f"{function.__name__}[{kind}]", functools.partial(function, kind), beside,
               long or kind != kinds()[0])
    return function


# The first kernel on which each kind works, best kind first. Since 6.10, uprobe_multi sees all
# threads. From 6.6 to 6.9 this depends on the stable release.
KIND_SINCE = {"session": (6, 13), "multi": (6, 10), "perf": (5, 15)}


def promised_kinds():
    """The kinds of probe that this version of the kernel should have, even if memtrace does not
    find them."""
    release = tuple(map(int, re.match(r"(\d+)\.(\d+)", os.uname().release).groups()))
    return {kind for kind, since in KIND_SINCE.items() if release >= since}


@functools.cache
def found_kinds():
    """The kinds of probe that work here, according to `memtrace check`."""
    words = {"session uprobes": "session", "uprobe_multi": "multi", "perf uprobes": "perf"}
    out = run([MEMTRACE, "check"]).out if os.path.exists(MEMTRACE) else ""
    return {words[found] for found in re.findall(r"^ *yes +(%s)" % "|".join(words), out, re.M)}


def kinds():
    """The kinds of probe to test here, best first. A kind that this kernel version should have is
    in the list even if memtrace does not find it: its tests then fail."""
    return [kind for kind in KIND_SINCE if kind in promised_kinds() | found_kinds()]


def other_tracers():
    """Processes outside the suite that have probes in place, as "pid N (name)". Their probes slow
    the calls of every process, and a test cannot tell them from memtrace's."""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError):  # the process has ended
            with open(f"/proc/{pid}/comm") as file:
                name = file.read().strip()
            # after a test has killed memtrace, its helpers (mt-...) still remove its probes
            if not name.startswith("mt-") and _is_tracer(pid) and not _is_ours(pid):
                found.append(f"pid {pid} ({name})")
    return found


def _is_tracer(pid):
    """Does the process have a descriptor of a probe, or of a probe's perf event?"""
    for fd in os.listdir(f"/proc/{pid}/fd"):
        with contextlib.suppress(OSError):
            if re.search("bpf[_-]link", os.readlink(f"/proc/{pid}/fd/{fd}")):
                with open(f"/proc/{pid}/fdinfo/{fd}") as file:
                    if re.search(r"^link_type:\s*(uprobe_multi|perf)", file.read(), re.M):
                        return True
    return False


def _is_ours(pid):
    """Was the process started by the suite or by one of its tests?"""
    while int(pid) > 1:
        if int(pid) == SUITE:
            return True
        with open(f"/proc/{pid}/stat") as file:
            pid = file.read().rpartition(")")[2].split()[1]
    return False


def need_tool(name):
    path = shutil.which(name)
    if not path:
        raise NotRunnable(f"{name} is not installed")
    return path


# --- processes and places ---

_processes = []
SUITE = os.getpid()  # the process whose children run the tests


def start(args, **options):
    options = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE,
               "text": True, "bufsize": 1, **options}
    process = subprocess.Popen([str(a) for a in args], **options)
    _processes.append(process)
    return process


def end(process):
    """Kills a process that start() started, if it still runs, and closes its streams."""
    if process.poll() is None:
        process.kill()
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(10)
    for stream in (process.stdin, process.stdout, process.stderr):
        if stream:
            with contextlib.suppress(OSError):
                stream.close()
    if process in _processes:
        _processes.remove(process)


def end_all():
    for process in list(_processes):
        end(process)


class Result:
    def __init__(self, args, status, out, err):
        self.args, self.status, self.out, self.err = args, status, out, err

    def __str__(self):
        return f"{' '.join(map(str, self.args))}: status {self.status}, {self.err.strip()[-600:]!r}"

    def json(self):
        return json.loads(self.out)


def run(args, timeout=PATIENCE_S, input=None, **options):
    """Runs a program to its end. A status below zero is a signal, as in subprocess."""
    options.setdefault("stdin", subprocess.DEVNULL if input is None else subprocess.PIPE)
    process = start(args, **options)
    try:
        out, err = process.communicate(input, timeout)
    except subprocess.TimeoutExpired:
        raise Failure(f"{' '.join(map(str, args))}: not finished after {timeout} s") from None
    finally:
        end(process)
    return Result(args, process.returncode, out, err)


def imported(name):
    """Imports a module that is installed for Debian's python3, even if another python3 runs.
    Returns None if the module is not installed."""
    for path in ([], ["/usr/lib/python3/dist-packages"]):
        sys.path += path
        try:
            return importlib.import_module(name)
        except ImportError:
            pass
    return None


def read_line(process, stream, timeout=PATIENCE_S):
    """Reads one line, byte by byte: select() does not see data that Python has buffered."""
    line, deadline = b"", time.monotonic() + timeout
    while not line.endswith(b"\n"):
        left = deadline - time.monotonic()
        if left <= 0 or not select.select([stream], [], [], left)[0]:
            raise Failure(f"{process.args[0]}: no line after {timeout} s, only {line!r}")
        byte = os.read(stream.fileno(), 1)
        if not byte:
            raise Failure(f"{process.args[0]}: its output ended after {line!r}")
        line += byte
    return line.decode()


@contextlib.contextmanager
def place(parent=None):
    """A temporary directory for one test."""
    path = tempfile.mkdtemp(prefix="memtrace-live-", dir=parent)
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)


def wait_until(condition, what, timeout=PATIENCE_S):
    deadline = time.monotonic() + timeout
    while not condition():
        expect(time.monotonic() < deadline, f"{what}: not after {timeout} s")
        time.sleep(0.01)


class Target:
    """A program of tests/progs that follows the protocol of truth.h. loader: the command that
    starts it, or nothing."""

    def __init__(self, program, *args, preload=None, loader=()):
        path = os.path.join(PROGS, program)
        if not os.path.exists(path):
            raise NotRunnable(f"{path} is not built")
        options = {"env": {**os.environ, "LD_PRELOAD": preload}} if preload else {}
        self.process = start([*loader, path, *args], **options)
        self.pid = self.process.pid
        self.path = path
        expect_equal(self.line(), f"ready {self.pid}\n", "the target's first line")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        end(self.process)

    def line(self):
        return read_line(self.process, self.process.stdout)

    def say(self, word):
        self.process.stdin.write(word + "\n")
        self.process.stdin.flush()

    def go(self):
        """Lets the target run its script; returns the truth that the target reports."""
        self.say("go")
        return json.loads(self.line())

    def quit(self):
        """Ends the target and returns its exit status, which should be the status that the test
        asked for."""
        with contextlib.suppress(BrokenPipeError):
            self.say("quit")
        return self.process.wait(PATIENCE_S)

    def alive(self):
        return self.process.poll() is None


class Endless(Target):
    """A target that runs from "go" until it is told to stop, and then reports what it did."""

    def __init__(self, program, *args, **options):
        super().__init__(program, *args, **options)
        self.program = program
        self.say("go")

    def ask(self, word):
        self.say(word)
        return json.loads(self.line())

    def stop(self):
        self.say("stop")
        truth = json.loads(self.line())
        expect_equal(self.quit(), 0, f"status of {self.program}")
        return truth


class Tracer:
    """A memtrace that traces running processes or a command. It traces from the end of the
    constructor until stop()."""

    def __init__(self, *args, wait=True, **options):
        self.process = start([MEMTRACE, "-v", *args], stdin=subprocess.DEVNULL, **options)
        self.log = ""
        if wait:
            while not re.search(r"; tracing$", self.log, re.M):
                try:
                    self.log += read_line(self.process, self.process.stderr)
                except Failure:
                    raise Failure(f"memtrace {' '.join(map(str, args))} did not come to trace: "
                                  f"{self.log}") from None

    def __enter__(self):
        return self

    def __exit__(self, *_):
        end(self.process)

    def wait(self, timeout=PATIENCE_S):
        try:
            out, err = self.process.communicate(timeout=timeout)
        except subprocess.TimeoutExpired:
            raise Failure(f"memtrace did not end within {timeout} s") from None
        finally:
            end(self.process)
        return Result(self.process.args, self.process.returncode, out, self.log + err)

    def stop(self, sig=signal.SIGINT):
        self.process.send_signal(sig)
        result = self.wait()
        expect_equal(result.status, 0, result)
        return result


def run_script(main):
    """Runs main() of a program that uses this module. All processes that main() has started end
    with it, even after an exception."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # sys.exit() runs the "finally" below
    try:
        main()
    except Failure as e:
        sys.exit(f"failed: {e}")
    finally:
        end_all()


def memtrace(*args, **options):
    return run([MEMTRACE, *args], **options)


def trace_script(kind, program, *args, options=("-i", "1"), prefix=None, preload=None):
    """Attaches, lets the target's script run, detaches, lets the target end. Returns the truth, the
    profile as JSON and, if a prefix for files is given, the paths of the files by extension."""
    if "--max-overhead" not in options: # traced continuously, because the truth counts all calls
        options = ["--max-overhead", "off", *options]
    options = [*options, "--json", *(["--probe-kind", kind] if kind else []),
               *(["-o", prefix] if prefix else ["-f", "none"])]
    with Target(program, *args, preload=preload) as target:
        with Tracer("-p", target.pid, *options) as tracer:
            truth = target.go()
            profile = tracer.stop().json()
        expect_equal(target.quit(), 0, f"status of {program}")
    files = {path.rsplit(".", 1)[1]: path for path in profile["files"]}
    return truth, profile, files


def untraced(program, *args):
    """Status and output of a target that runs alone."""
    result = run([os.path.join(PROGS, program), "--auto", *args])
    return result.status, result.out


# --- profiles ---

# Losses that hide where memory was allocated, but not how much; losses() leaves them out. Any
# process of the machine can cause map_records_lost by its execs.
NAMING = re.compile(r"^frames_|^stacks_(cut|truncated|bridged|end_)|^map_records_lost$")


def losses(profile):
    return {name: n for name, n in profile["lost"].items() if n and not NAMING.match(name)}


def owner(frames, functions):
    """The first of the target's functions in a stack (leaf first); None if there is none."""
    for frame in frames:
        if frame in functions:
            return frame
    return None


def by_function(profile, functions):
    """function -> [bytes, objects, stacks] of the live memory; None -> stacks with none of the
    functions."""
    held = {}
    for stack in profile["stacks"]:
        sums = held.setdefault(owner(stack["frames"], functions), [0, 0, []])
        sums[0] += stack["live_bytes"]
        sums[1] += stack["live_objects"]
        sums[2].append(stack)
    return held
