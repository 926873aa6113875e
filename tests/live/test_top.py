# SPDX-License-Identifier: BSD-2-Clause
"""The screen of memtrace top, in a pseudo terminal that a terminal emulator reads."""
import contextlib
import fcntl
import json
import os
import pty
import re
import resource
import select
import shutil
import signal
import struct
import termios
import time

from harness import (Endless, MEMTRACE, Failure, NotRunnable, PATIENCE_S, PROGS, ROOT, Target,
                     by_function, end,
                     expect, expect_equal, expect_words, imported, memtrace, place, start, test)

pyte = imported("pyte")

KEYS = {"enter": b"\r", "left": b"\x7f", "up": b"\x1b[A", "end": b"\x1b[8~", "home": b"\x1b[7~",
        "ctrl-c": b"\x03"}
# rxvt's and xterm's sequences for the alternate screen. (xterm has two sequences that pyte does not
# know: to scroll by several lines, and to repeat a character. rxvt does not have them, so the tests
# use rxvt.)
ENTERS, LEAVES = (b"\x1b[?47h", b"\x1b[?1049h"), (b"\x1b[?47l", b"\x1b[?1049l")


def last(sequences, raw):
    """The offset where the last one of these sequences begins; -1 if there is none."""
    return max(raw.rfind(sequence) for sequence in sequences)



class Screen:
    """memtrace top in a terminal of its own."""

    def __init__(self, *args, columns=110, lines=30, term="rxvt", program=(MEMTRACE, "top")):
        if not pyte:
            raise NotRunnable("python3-pyte is not installed")
        self.master, self.slave = pty.openpty()
        self.screen = pyte.Screen(columns, lines)
        self.stream = pyte.ByteStream(self.screen)
        self.raw = b""
        self.set_size(columns, lines)
        self.before = termios.tcgetattr(self.slave)
        env = {**os.environ, "TERM": term, "LC_ALL": "C.UTF-8"}
        if term is None:
            del env["TERM"]
        self.process = start([*program, *args], stdin=self.slave, stdout=self.slave,
                             stderr=self.slave, env=env, preexec_fn=self.own_terminal)

    @staticmethod
    def own_terminal():
        os.setsid()
        signal.signal(signal.SIGHUP, signal.SIG_DFL)  # ignored if the tests run under nohup
        fcntl.ioctl(0, termios.TIOCSCTTY, 0)
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        end(self.process)
        os.close(self.master)
        os.close(self.slave)

    def set_size(self, columns, lines):
        self.screen.resize(lines, columns)
        fcntl.ioctl(self.slave, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))

    def press(self, *keys):
        for key in keys:
            os.write(self.master, KEYS.get(key, key.encode()))

    def read(self, timeout):
        if select.select([self.master], [], [], timeout)[0]:
            data = os.read(self.master, 65536)
            self.raw += data
            self.stream.feed(data)

    def rows(self):
        return [line.rstrip() for line in self.screen.display]

    def text(self):
        return "\n".join(self.rows())

    def until(self, condition, what):
        """Waits until the condition holds; returns the screen's text."""
        deadline = time.monotonic() + PATIENCE_S
        while not (condition(self) and self.settled() and condition(self)):
            if time.monotonic() > deadline:
                raise Failure(f"{what}: not after {PATIENCE_S} s:\n{self.text()}")
            self.read(0.1)
        return self.text()

    def settled(self):
        """Reads the rest of a screen of which a part has been read."""
        for _ in range(20):
            if not select.select([self.master], [], [], 0.03)[0]:
                break
            self.read(0)
        return True

    def until_words(self, *words):
        return self.until(lambda s: all(re.search(word, s.text(), re.M) for word in words),
                          f"no {words}")

    def top_row(self):
        """The first row below the titles."""
        rows = self.rows()
        for i, row in enumerate(rows[:-1]):
            if re.search(r"\bLIVE\b", row):
                return rows[i + 1]
        return ""

    def wait(self):
        """Reads all output to the end; returns the exit status."""
        deadline = time.monotonic() + PATIENCE_S
        while self.process.poll() is None:
            expect(time.monotonic() < deadline, "memtrace top did not end:\n" + self.text())
            self.read(0.1)
        while select.select([self.master], [], [], 0)[0]:
            self.read(0)
        return self.process.returncode

    def expect_restored(self, what):
        """Checks that the terminal was in another state and is in its earlier state again."""
        expect(last(ENTERS, self.raw) >= 0, what, "there was no screen")
        expect(last(LEAVES, self.raw) > last(ENTERS, self.raw), what,
               "the alternate screen is still there")
        expect(self.raw.rfind(b"\x1b[?25h") < 0 or
               self.raw.rfind(b"\x1b[?25h") > self.raw.rfind(b"\x1b[?25l"), what, "no cursor")
        expect_equal(termios.tcgetattr(self.slave), self.before, what + ": the terminal's modes")


def shown(nbytes):
    """nbytes as memtrace prints it."""
    unit = 0
    while nbytes >= (1023.95 if unit else 1023.5):
        nbytes /= 1024
        unit += 1
    return f"{nbytes:.{1 if unit else 0}f} {('B', 'KiB', 'MiB', 'GiB')[unit]}"


def by_live(truth):
    """The target's functions that hold memory, in order of their bytes, the largest first."""
    held = {name: f["live_bytes"] for name, f in truth["functions"].items() if f["live_bytes"]}
    return sorted(held.items(), key=lambda item: -item[1])


@contextlib.contextmanager
def traced(*args, columns=110, lines=30, **options):
    """Traces a target while it runs its script. Yields the screen, the target and its truth."""
    with Target("truth_basic") as target:
        started = time.monotonic()
        with Screen("-p", target.pid, "-i", "1", "--delay", "0.2", *args, columns=columns,
                    lines=lines, **options) as screen:
            screen.until_words(r"nothing was sampled yet|^ +\d")
            truth = target.go()
            over = time.monotonic() - started
            name, nbytes = by_live(truth)[0]

            def is_whole(s):
                """A state that was read during the script may lack small functions."""
                head = re.search(r"^(\d+) s  live", s.text(), re.M)
                return head and int(head[1]) > over and re.match(
                    rf" *{re.escape(shown(nbytes))} .* {name} ", s.top_row())
            screen.until(is_whole, "the truth on top")
            yield screen, target, truth


@test(beside=True)
def top_shows_the_truth():
    """The screen shows each function's bytes and objects, as the target counts them, the largest
    first."""
    with traced(lines=60) as (screen, target, truth):
        rows = screen.rows()
        titles = next(i for i, row in enumerate(rows) if "leaf first)" in row)
        wanted = by_live(truth)
        for row, (name, nbytes) in zip(rows[titles + 1:], wanted):
            objects = truth["functions"][name]["live_objects"]
            expect(re.match(rf" +{re.escape(shown(nbytes))} ", row), name, "holds", nbytes,
                   "not:", row)
        for name, nbytes in wanted:
            objects = truth["functions"][name]["live_objects"]
            row = next((r for r in rows if re.search(rf"\b{name} < ", r)), "")
            expect(f" {shown(nbytes)} " in row and f" {objects:,} " in row, name, nbytes, objects,
                   "not:", row)
        expect_words(screen.text(), r"^\d+ s  live ~", r"continuous",
                     r"alloc \d+/s +free \d+/s|alloc \d+/s$",
                     rf"^pid {target.pid} \(truth_basic\) > stacks 1 of \d+ by live bytes")
        screen.press("q")
        expect_equal(screen.wait(), 0, "status")
        screen.expect_restored("after q")
        expect(target.alive(), "the target died")
        expect_equal(target.quit(), 0, "status of the target")


@test(beside=True, long=True)
def top_of_one_stack():
    """Enter shows all frames of a stack, with module and line as in the source; a key goes back."""
    with open(os.path.join(ROOT, "tests/progs/truth_basic.c"), encoding="utf-8") as file:
        source = file.read().split("\n")
    with traced() as (screen, _, truth):
        name, nbytes = by_live(truth)[0]
        screen.press("enter")
        screen.until_words(r"^live: ", rf"^  {name}  truth_basic  \S*truth_basic\.c:\d+$")
        text = screen.text()
        expect_words(text, rf"^live: +{re.escape(shown(nbytes))}  in "
                     rf"{truth['functions'][name]['live_objects']:,} obj",
                     r"^growth: ", r"^alloc: ", r"^stack: +leaf first$",
                     r"^  main  truth_basic  \S*truth_basic\.c:\d+$",
                     r"libc\.so\.6", r"^  _start  truth_basic$")
        line = int(re.search(rf"^  {name}  truth_basic  \S*truth_basic\.c:(\d+)$", text, re.M)[1])
        function = next(s for s in reversed(source[:line]) if s.startswith("NOINLINE"))
        expect(f" {name}(" in function and re.search("T_[A-Z]+\\(|alloc", source[line - 1]),
               f"line {line} is {source[line - 1]!r} in {function!r}")
        screen.press("left")
        screen.until(lambda s: name in s.top_row(), "the stacks again")
        screen.press("?")
        screen.until_words("^q Ctrl-C +quit")
        screen.press("?", "end")
        screen.until(lambda s: re.search(r"stacks (\d+) of \1 by", s.text()), "the last stack")
        screen.press("home", "/", *by_live(truth)[1][0], "enter")
        screen.until(lambda s: by_live(truth)[1][0] in s.top_row() and " with " in s.text(),
                     "the filtered one")
        screen.press("ctrl-c")
        expect_equal(screen.wait(), 0, "status")
        screen.expect_restored("after Ctrl-C")


@test(beside=True, long=True)
def top_sorts():
    """By growth, the leak comes first, with about its rate. By allocated bytes, a busy function
    that holds nothing comes first."""
    with Endless("leaking", "--rate", "5000", "--leak", "60000") as target:
        with Screen("-p", target.pid, "-i", "1", "--delay", "0.2",
                    "--max-overhead", "off") as screen:
            screen.until(lambda s: re.search(r"\bparse_request < ", s.text()), "stacks")
            screen.press("a")
            screen.until(lambda s: "parse_request < " in s.top_row() and
                         "by allocation rate" in s.text(), "the busy one")
            busy = re.match(r" +\d+ B .* \d+\.\d [KM]iB +\d +parse_request", screen.top_row())
            busy_row = screen.top_row()
            truth = target.ask("truth")
            screen.press("g")
            screen.until(lambda s: " forget < " in s.top_row() and "by growth" in s.text() and
                                 re.search(r"\d - \d", s.top_row()), "the leak, surely")
            leak = 60000 / 1024
            interval = re.search(r" (\d+\.\d) KiB +(\d+\.\d) - (\d+\.\d) KiB", screen.top_row())
            expect(interval, "no growth in", screen.top_row())
            growth = float(interval[1])
            # on a busy machine, the target leaks more slowly than requested
            expect(0.3 * leak < growth < 2 * leak, growth, "KiB/s for", leak)
            expect(float(interval[2]) <= growth <= float(interval[3]), screen.top_row())
            expect("parse_request" in truth["innocents"], truth)
            expect(busy, "no rate, or much of it live:", busy_row)
            screen.press("l")
            screen.until_words("by live bytes")
            bound = target.ask("truth")["leaked_bytes"]
            row = next(r for r in screen.rows() if " forget < " in r)
            held = re.match(r" *(\d+\.\d) (KiB|MiB)", row)
            least = (float(held[1]) - 0.05) * {"KiB": 1024, "MiB": 1 << 20}[held[2]]
            expect(0 < least <= bound, row, "of", bound)
            screen.press("p")
            screen.until_words("^PAUSED", r"shown: ([2-9]|\d\d+) s ago")
            paused = [r for r in screen.rows() if " < " in r]
            screen.until_words(r"shown: ([5-9]|\d\d+) s ago")
            expect_equal([r for r in screen.rows() if " < " in r], paused,
                         "what is shown while paused")
            screen.press("p")
            screen.until(lambda s: [r for r in s.rows() if " < " in r] != paused and
                         "PAUSED" not in s.text(), "news")
            screen.process.send_signal(signal.SIGTERM)
            expect_equal(screen.wait(), 0, "status")
            screen.expect_restored("after SIGTERM")
        target.stop()


@test(beside=True, long=True)
def top_writes_snapshots():
    """On the key w, and on SIGUSR1, top writes the files that record would write. The screen names
    these files, and report finds the truth in them."""
    with place() as directory, \
            traced("-o", directory + "/out", "-f", "pprof,collapsed") as (screen, target, truth):
        prefix = f"{directory}/out.{target.pid}."
        screen.press("w")
        screen.until_words(f"^written: {re.escape(prefix)}0001.collapsed")
        expect_equal(sorted(os.listdir(directory)),
                     [f"out.{target.pid}.0001.{ext}" for ext in ("collapsed", "pb.gz")], "files")
        result = memtrace("report", "-f", "json", prefix + "0001.pb.gz")
        expect_equal(result.status, 0, result)
        held = by_function(json.loads(result.out), truth["functions"])
        for name, nbytes in by_live(truth):
            expect_equal(held.get(name, [0])[0], nbytes, f"live bytes of {name} in the snapshot")
        screen.process.send_signal(signal.SIGUSR1)
        screen.until_words(f"^written: {re.escape(prefix)}0002.collapsed")
        shutil.rmtree(directory)
        screen.press("w")
        screen.until_words("^cannot write .*No such file")
        expect(screen.process.poll() is None, "it ended")
        screen.press("q")
        expect_equal(screen.wait(), 0, "status")
    with traced("-f", "none") as (screen, _, _):
        screen.press("w")
        screen.until_words("^nothing is written: no format")


class BlockedScreen(Screen):
    @staticmethod
    def own_terminal():
        Screen.own_terminal()
        signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGCHLD, signal.SIGWINCH))


@test(beside=True)
def top_with_blocked_signals():
    """The parent has blocked SIGCHLD and SIGWINCH, and top inherits this. Nevertheless top goes on
    after a SIGCHLD, and adapts to the terminal's new size."""
    with Target("truth_basic") as target, BlockedScreen("-p", target.pid) as screen:
        screen.until_words(rf"pid {target.pid}")
        screen.process.send_signal(signal.SIGCHLD)
        screen.set_size(60, 12)
        screen.until(lambda s: s.rows()[-1].startswith("q quit"), "the last of 12 lines")
        time.sleep(2)
        expect(screen.process.poll() is None, "it has ended")
        screen.press("q")
        expect_equal(screen.process.wait(60), 0, "status")


@test(beside=True, long=True)
def top_resizes():
    """The window changes to any size and back. The most important parts stay on the screen."""
    with traced() as (screen, _, truth):
        name, nbytes = by_live(truth)[0]
        for columns, lines in ((80, 24), (40, 10), (20, 5), (200, 50), (1, 1), (80, 24)):
            screen.set_size(columns, lines)
            if columns >= 20:
                screen.until(lambda s: f"{shown(nbytes)} " in s.top_row() + " " and
                             re.match(r"q quit|/", s.rows()[-1]),
                             f"the top row in {columns}x{lines}")
            if columns >= 40:
                screen.until(lambda s: name in s.top_row() and f"{name} <" in s.top_row() or
                             columns < 80 and
                             name[:6] in s.top_row(), f"{name} in {columns}x{lines}")
            expect_equal(len(screen.rows()), lines, "rows")
        screen.press("enter")
        screen.set_size(40, 10)
        screen.until_words(r"^live: ", "^q quit")
        screen.press("end")
        screen.until_words(r"^  _start")
        screen.press("q")
        expect_equal(screen.wait(), 0, "status")
        screen.expect_restored("after sizes")


@test(beside=True, long=True)
def top_leaves_the_terminal_as_it_was():
    """The terminal is restored if top ends by a signal that asks for its end, and if it crashes."""
    for sig, status in ((signal.SIGINT, 0), (signal.SIGHUP, 0), (signal.SIGQUIT, 0),
                        (signal.SIGSEGV, -signal.SIGSEGV),
                        (signal.SIGABRT, -signal.SIGABRT), (signal.SIGALRM, -signal.SIGALRM)):
        with Target("truth_basic") as target, \
                Screen("-p", target.pid, term="xterm-256color") as screen:
            screen.until(lambda s: last(ENTERS, s.raw) >= 0 and "quit" in s.text(), "a screen")
            expect(termios.tcgetattr(screen.slave) != screen.before,
                   "the terminal's modes are the same")
            screen.process.send_signal(sig)
            expect_equal(screen.wait(), status, f"status after {sig.name}")
            screen.expect_restored(f"after {sig.name}")
            expect(target.alive(), "the target died")


@test(beside=True)
def top_can_be_stopped():
    """Ctrl-Z gives the terminal back to the shell. After fg the screen is shown again."""
    with Target("truth_basic") as target, \
            Screen("--norc", "--noprofile", "-i", program=["bash"]) as screen:
        screen.press(f"PS1='ready: '; {MEMTRACE} top -p {target.pid}\r")
        screen.until_words("^q quit", f"^pid {target.pid} ")
        screen.press("\x1a")
        screen.until_words("Stopped +.*memtrace top", "^ready:")
        expect(last(LEAVES, screen.raw) > last(ENTERS, screen.raw),
               "the alternate screen is still there")
        screen.press("fg\r")
        screen.until(lambda s: last(ENTERS, s.raw) > last(LEAVES, s.raw), "the screen again")
        screen.until_words("^q quit", f"^pid {target.pid} ")
        screen.press("q")
        screen.until(lambda s: last(LEAVES, s.raw) > last(ENTERS, s.raw), "the shell again")
        screen.press("exit $?\r")
        expect_equal(screen.wait(), 0, "status")


@test(beside=True, long=True)
def top_outlives_its_target():
    """After the target's end the last state stays on the screen, marked as the last, until q is
    pressed."""
    with traced() as (screen, target, truth):
        name, nbytes = by_live(truth)[0]
        expect_equal(target.quit(), 0, "status of the target")
        screen.until_words("^ENDED ", rf"^pid {target.pid} \(truth_basic\), ENDED >")
        expect(shown(nbytes) in screen.top_row() and name in screen.top_row(), "the last state:",
               screen.text())
        screen.press("enter")
        screen.until_words(rf"^  {name}  truth_basic ")
        expect(screen.process.poll() is None, "it ended")
        screen.press("q")
        expect_equal(screen.wait(), 0, "status")
        screen.expect_restored("after the target's end")
    with Target("truth_basic") as target, Screen("-p", target.pid, "-d", "3", "--leaks") as screen:
        screen.until_words("stacks by growth")
        expect_equal(screen.wait(), 0, "status after its duration")
        screen.expect_restored("after its duration")


@test(beside=True, long=True)
def top_of_two_processes():
    """Each process has its own figures. Keys open a process and go back. A process that ends stays
    in the list."""
    with Target("truth_basic") as first, Target("truth_basic") as second:
        with Screen("-p", f"{first.pid},{second.pid}", "-i", "1", "--delay", "0.2") as screen:
            screen.until_words(rf"^ *{first.pid} +truth_basic ", rf"^ *{second.pid} ")
            truth = first.go()
            live = shown(sum(nbytes for _, nbytes in by_live(truth)))
            screen.until_words(rf"^ *{first.pid} +truth_basic +{re.escape(live)} ",
                               "processes 1 of 2 by live bytes")
            expect(str(first.pid) in screen.top_row() and by_live(truth)[0][0] in screen.top_row(),
                   screen.text())
            screen.press("enter")
            screen.until_words(rf"^pid {first.pid} \(truth_basic\) > stacks")
            screen.until(lambda s: by_live(truth)[0][0] in s.top_row(), "its stacks")
            screen.press("left")
            screen.until_words("processes 1 of 2")
            expect_equal(first.quit(), 0, "status of the first")
            screen.until_words(rf"^ *{first.pid} +truth_basic +{re.escape(live)} .* ended ")
            screen.press("q")
            expect_equal(screen.wait(), 0, "status")
            screen.expect_restored("after two")


@test(long=True)
def top_of_all_of_a_name():
    """Processes of a name are shown, whether they already run or start later."""
    name = f"top{os.getpid()}"
    with place() as directory:
        program = shutil.copy(os.path.join(PROGS, "truth_basic"), os.path.join(directory, name))
        with Target(program) as first, \
                Screen("--comm", name, "-i", "1", "--delay", "0.2") as screen:
            screen.until_words(rf"^ *{first.pid} +{name} ")
            with Target(program) as second:
                screen.until_words(rf"^ *{second.pid} +{name} ")
                truth = second.go()
                live = shown(sum(nbytes for _, nbytes in by_live(truth)))
                screen.until(lambda s: re.search(rf"^ *{second.pid} +{name} +{re.escape(live)} ",
                                                 s.top_row()), "the second on top")
                screen.press("enter")
                screen.until_words(rf"^pid {second.pid} ")
                expect_equal(second.quit(), 0, "status of the second")
                screen.until_words(rf"^pid {second.pid} \({name}\), ENDED")
                expect(by_live(truth)[0][0] in screen.top_row(), "what it held:", screen.text())
            screen.press("left")
            screen.until(lambda s: str(second.pid) not in s.text() and str(first.pid) in s.text(),
                         "the first alone")
            screen.press("q")
            expect_equal(screen.wait(), 0, "status")
            screen.expect_restored("after a name")


@test(beside=True)
def top_prints_no_foreign_escapes():
    """Escape sequences in a process's name, which would change the screen, have no effect."""
    name = "e\033[31mv\r\ni\x9bl"
    with place() as directory:
        shutil.copy(os.path.join(PROGS, "truth_basic"), os.path.join(directory, name))
        with Target(os.path.join(directory, name)) as target:
            with Screen("-p", target.pid, "-i", "1", "--delay", "0.2") as screen:
                screen.until_words(rf"^pid {target.pid} \(e\?\[31mv\?\?i\?l\) > ")
                target.go()
                screen.until_words(r" < main")
                screen.press("enter")
                screen.until_words(r"^  main  e\?\[31mv\?\?i\?l")
                screen.press("q")
                expect_equal(screen.wait(), 0, "status")
                expect(b"\033[31m" not in screen.raw and b"\x9b" not in screen.raw,
                       "an escape of the target's")


@test(beside=True)
def top_needs_a_terminal():
    """If top cannot run, it says why, ends with status 1, and does not change the terminal. Wrong
    usage has status 2."""
    with Target("truth_basic") as target:
        result = memtrace("top", "-p", target.pid)
        expect_equal((result.status, result.out), (1, ""), result)
        expect_words(result.err, "^memtrace: top needs a terminal")
        for term, words in (("no-such-terminal", "no-such-terminal"),
                            ("dumb", "'dumb'.* cannot be moved"), (None, "TERM is not set")):
            with Screen("-p", target.pid, term=term) as screen:
                expect_equal(screen.wait(), 1, f"status with TERM={term}")
                expect_words(screen.text(), "^memtrace: ", words)
                expect(last(ENTERS, screen.raw) < 0, "a screen after all")
                expect_equal(termios.tcgetattr(screen.slave), screen.before, "the terminal's modes")
    for args, status, words in ((("-p", "999999999"), 1, "999999999"), ((), 2, "which process"),
                                (("-p", os.getpid(), "--delay", "0"), 2, "is not a delay"),
                                (("-p", os.getpid(), "--json"), 2, "no option --json"),
                                (("-p", os.getpid(), "x"), 2, "'x' is not an option")):
        with Screen(*args) as screen:
            expect_equal(screen.wait(), status, f"status of {args}")
            expect_words(screen.text(), "^memtrace: ", words)
            expect(last(ENTERS, screen.raw) < 0, "a screen after all")
            expect_equal(termios.tcgetattr(screen.slave), screen.before, "the terminal's modes")
    result = memtrace("top", "--help")
    expect_equal((result.status, result.err), (0, ""), result)
    expect_words(result.out, "memtrace top -p PID", "--delay", "--leaks", "--comm")
