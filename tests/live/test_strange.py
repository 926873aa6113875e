# SPDX-License-Identifier: BSD-2-Clause
"""Processes in rare states, and rare events. The profile is exact, or says that it is not. The
processes continue as if they were not traced."""
import contextlib
import json
import os
import re
import resource
import shutil
import signal
import subprocess
import time

from harness import (MEMTRACE, PATIENCE_S, PROGS, Failure, Target, Tracer, by_function, end,
                     expect, expect_equal, expect_words, losses, memtrace, need_tool, place,
                     read_line, start, test, test_each_kind, trace_script, wait_until)
from test_files import bound, c_library, changed_code, overlays
from test_harmless import Busy, changed_text
from test_input import refused_pid
from test_processes import by_pid
from test_truth import check_exact

LIBRARY = os.path.join(PROGS, "library.so")


def file_text(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


def check_functions(truth, profile):
    """The functions in the target's truth are exact. Other stacks are libc's own allocations."""
    held = by_function(profile, truth["functions"])
    lost = losses(profile)
    for name, wanted in truth["functions"].items():
        expect_equal(tuple(held.get(name, (0, 0))[:2]),
                     (wanted["live_bytes"], wanted["live_objects"]),
                     f"bytes and objects of {name}, with losses {lost}")
    expect_equal(lost, {}, "losses")


def status_of(pid, key):
    with open(f"/proc/{pid}/status", encoding="utf-8") as status:
        return re.search(rf"^{key}:\s*(.*)$", status.read(), re.M)[1]


def wait_restored(pid):
    """Waits until the process's code is the original. Changes that are also in this test's process
    do not count, because they are another tracer's."""
    wait_until(lambda: set(changed_text(pid)) <= set(changed_text(os.getpid())),
               f"libc's code in pid {pid} is restored", 10)


# --- threads ---

@test_each_kind(beside=True)
def strange_short_threads(kind):
    """A thousand threads begin and end. No call of theirs stays in a table as an unfinished
    call."""
    truth, profile, _ = trace_script(kind, "strange", "threads")
    check_functions(truth, profile)


@test_each_kind # alone: the kernel may remove the probes when another test removes its own
def strange_main_thread_ends(kind):
    """Some kinds of probe see nothing after the main thread's end; a counter says so."""
    truth, profile, _ = trace_script(kind, "strange", "headless")
    if losses(profile) == {"main_thread_ended": 1}:
        expect(kind != "session" and not by_function(profile, truth["functions"]).get("script"),
               "it is seen all the same")
    else:
        check_functions(truth, profile)


@test
def strange_main_thread_ends_beside_another_tracer():
    """When another tracer removes its probes from a function, the kernel also removes memtrace's
    probes from a process whose main thread has ended. A counter says so."""
    with Target("strange", "headless", "--busy") as target, Target("truth_basic") as other, \
            Tracer("-p", target.pid, "-i", "1M", "--max-overhead", "off", "--json",
                   "-f", "none") as tracer:
        target.say("go")
        wait_until(lambda: status_of(target.pid, "State")[0] == "Z", "the main thread's end")
        with Tracer("-p", other.pid, "-f", "none", "--max-overhead", "off", "--json") as second:
            expect_equal(losses(second.stop().json()), {}, "losses of the other")
        profile = tracer.stop().json()
        expect_equal(losses(profile), {"main_thread_ended": 1}, "losses")
        expect("probes_silent" in [doubt["rule"] for doubt in profile["contradictions"]],
               profile["contradictions"])
        expect(target.alive(), "the target has ended")


@test(beside=True, long=True)
def strange_main_thread_ends_between_windows():
    """A window that begins after the main thread's end sees nothing, because the kernel places its
    probes in no code. A counter says so. Gaps between windows may be several seconds, so the
    program goes on long enough for a window to begin."""
    _, profile, _ = trace_script(None, "strange", "headless", "--busy",
                                 options=("--max-overhead", "1"))
    expect_equal((profile["mode"], losses(profile).get("main_thread_ended")), ("windowed", 1),
                 "mode and loss")
    expect("probes_silent" in [doubt["rule"] for doubt in profile["contradictions"]],
           profile["contradictions"])


@test(beside="wide", long=True)
def strange_main_thread_ends_between_turns():
    """As strange_main_thread_ends_between_windows, with probes in the code of all processes at
    first. After its main thread's end, the process gets no turns, because its probes would see
    nothing."""
    with Target("strange", "headless", "--busy") as target, \
            Tracer("--comm", "strange", "--max-overhead", "1", "--json", "-f", "none") as tracer:
        target.go()
        profile = by_pid(tracer.stop().out)[target.pid]
        expect_equal(target.quit(), 0, "status of the target")
    expect_equal((profile["mode"], losses(profile).get("main_thread_ended")), ("windowed", 1),
                 "mode and loss")


@test(beside="wide")
def strange_main_thread_has_ended():
    """After the main thread's end -p is refused, because the kernel finds a single process by its
    main thread. Probes in the code of all processes see the process. Its heap is read through the
    /proc directory of another thread."""
    with Target("strange", "headless", "--early") as target:
        refused_pid(target.pid, "main thread has ended while others run", "--comm strange")
        with Tracer("--comm", "strange", "--max-overhead", "off", "-i", "1", "--json",
                    "-f", "none") as tracer:
            truth = target.go()
            profile = by_pid(tracer.stop().out)[target.pid]
        check_functions(truth, profile)
        [glibc] = memtrace("heap", "-p", target.pid, "--json").json()["allocators"]
        expect(sum(arena["in_use"]["blocks"] for arena in glibc["arenas"]) >=
               truth["functions"]["script"]["live_objects"], glibc)
        expect_equal(target.quit(), 0, "status of the target")


@test(beside="wide")
def strange_exec_by_thread():
    """A thread executes another program, and the old program's memory is gone. The new program is
    traced if probes are in all processes. Probes in the old program alone do not see the new one,
    and a counter says so."""
    for options, traced in (((), False), (("-F",), True), (("--comm", "strange"), True)):
        with Target("strange", "exec") as target:
            named = () if "--comm" in options else ("-p", target.pid)
            with Tracer(*named, *options, "-i", "1", "--json", "-f", "none") as tracer:
                truth = target.go()
                profile = by_pid(tracer.stop().out)[target.pid]
            expect_equal(target.quit(), 0, "status of the target")
        lost, gone = losses(profile), truth["gone"]["live_objects"]
        # dropped: the old program's blocks, and a few blocks that libc had allocated for the thread
        dropped = lost.pop("dropped_by_exec", 0)
        expect(gone < dropped < gone + 5, "dropped_by_exec:", dropped, "instead of", gone)
        expect_equal(lost, {} if traced else {"exec_untraced": 1}, "losses")
        script = truth["functions"]["script"]
        # memtrace sees no blocks of a program that it does not trace, with one exception: its BPF
        # programs run where another tracer has probes.
        if traced:
            expect_equal(profile["live_bytes"], script["live_bytes"], "live bytes")
        else:  # None (not known), or the blocks that were seen where another tracer has probes
            expect(profile["live_bytes"] is None or
                   0 < profile["live_bytes"] <= script["alloc_bytes"],
                   profile["live_bytes"], "bytes")


@test(beside=True)
def strange_exec_of_a_static_program():
    """A wrapper executes a static program, whose malloc gets probes after the exec. Its calls are
    counted, and the output says that calls from before the probes are missing."""
    with place() as directory:
        path = os.path.join(PROGS, "truth_basic_static")
        process = start([MEMTRACE, "-i", "1", f"--json={directory}/json", "-o", directory + "/out",
                         "--", "env", "X=1", path])
        pid = int(process.stdout.readline().split()[1])
        wait_until(lambda: changed_code(pid, path), "probes in the static program")
        time.sleep(0.5)  # the last of them
        process.stdin.write("go\n")
        truth = json.loads(process.stdout.readline())
        _, log = process.communicate("quit\n", PATIENCE_S)
        expect_equal(process.returncode, 0, log)
        with open(directory + "/json", encoding="utf-8") as file:
            profile = json.load(file)
        [stored] = [name for name in profile["files"] if name.endswith(".pb.gz")]
        table = memtrace("report", stored).out
    held, lost = by_function(profile, truth["functions"]), losses(profile)
    for name, wanted in truth["functions"].items():
        expect_equal(tuple(held.get(name, (0, 0))[:2]),
                     (wanted["live_bytes"], wanted["live_objects"]),
                     f"bytes and objects of {name}")
    lost.pop("dropped_by_exec")  # the wrapper's blocks
    expect_equal(lost, {"allocators_late": 1}, "losses")
    expect_equal(profile["live_bytes_high"], None, "upper bound")
    expect_words(table, "AT LEAST .* some allocations are missing")


@test(beside=True)
def strange_exec_of_an_unknown_malloc():
    """The program defines malloc itself, and memtrace does not know it. libc has its probes, but
    nobody calls it, so nothing is known of the program's heap."""
    process = start(["sh", "-c", f"read line; exec {PROGS}/own_malloc"])
    try:
        with Tracer("-p", process.pid, "--json", "-f", "none") as tracer:
            process.stdin.write("go\n")
            process.stdout.readline()
            time.sleep(1)
            profile = tracer.stop().json()
        expect_equal(profile.get("not_traced"), "its malloc is of no known allocator", "the reason")
    finally:
        end(process)


@test(beside="wide")
def strange_exec_by_thread_without_a_main_thread():
    """The main thread has ended before memtrace comes, and another thread executes a program. The
    process is still the same target."""
    with Target("strange", "exec", "--headless") as target:
        target.say("go")
        wait_until(lambda: ") Z " in file_text(f"/proc/{target.pid}/stat"),
                   "the main thread's end")
        with Tracer("--comm", "strange", "--max-overhead", "off", "-i", "1", "--json",
                    "-f", "none") as tracer:
            target.say("exec")
            truth = json.loads(target.line())
            profiles = [json.loads(line) for line in tracer.stop().out.splitlines()]
        expect_equal(target.quit(), 0, "status of the target")
    # targets of other tests may have the same name
    expect_equal([p["live_bytes"] for p in profiles if p["pid"] == target.pid],
                 [truth["functions"]["script"]["live_bytes"]], "live bytes")


@test(beside="wide")
def strange_daemon():
    """A daemon leaves its session, and all its ancestors end. The daemon has a profile of its
    own."""
    with Target("strange", "daemon", "--exit", "3") as target:
        with Tracer("-p", target.pid, "-F", "-i", "1", "--json", "-f", "none") as tracer:
            truth = target.go()
            expect_equal(target.process.wait(30), 3, "status of the first process")
            profiles = by_pid(tracer.stop().out)
        daemon = truth["pid"]
        # the daemon is no longer the target's child, but still reads the target's standard input
        expect(status_of(daemon, "PPid") != str(target.pid), "it is a child still")
        target.say("quit")
        wait_until(lambda: not os.path.exists(f"/proc/{daemon}"), "the daemon ends")
    check_exact(truth, profiles[daemon])


# --- processes with a limited set of system calls ---

@test(beside=True)
def strange_undumpable():
    truth, profile, _ = trace_script(None, "strange", "undumpable")
    check_exact(truth, profile)


@test(beside=True)
def strange_seccomp():
    """Processes under seccomp, strict or with a filter that kills, are not harmed. seccomp begins
    before the attach or just after it."""
    for args in (["strict"], ["filter"], ["filter", "--early"]):
        try:
            truth, profile, _ = trace_script(None, "strange", *args)
            check_exact(truth, profile)
        except Failure as e:
            raise Failure(f"{' '.join(args)}: {e}") from None


# --- what processes load ---

def size_of(pid):
    """The process's number of descriptors, and its resident bytes."""
    return len(os.listdir(f"/proc/{pid}/fd")), 1024 * int(status_of(pid, "VmRSS").split()[0])


@test(beside=True)
def strange_dlopen_cycles():
    """A library that is loaded at 400 addresses, one after the other, is one file with one
    table."""
    with Target("strange", "dlopen", LIBRARY, "400") as target:
        with Tracer("-p", target.pid, "-i", "1", "--json", "-f", "none") as tracer:
            target.say("go")
            expect_equal(target.line(), "begun\n", "the target's line")
            before = size_of(tracer.process.pid)
            truth = target.go()
            after = size_of(tracer.process.pid)
            profile = tracer.stop().json()
        expect_equal(target.quit(), 0, "status of the target")
    check_functions(truth, profile)
    # allows for one or two descriptors that are open for a moment
    expect(after[0] < before[0] + 5, f"descriptors of memtrace: {after[0]}, before {before[0]}")
    expect(after[1] < before[1] + (4 << 20), f"memtrace grew from {before[1]} to {after[1]} bytes")
    expect_equal(profile["lost"]["unwind_tables_refused"], 0, "unwind_tables_refused")
    return f"{before} and {after[1]} bytes"


@test(beside=True)
def strange_dlopen_copies():
    """A process loads 400 files, and memtrace may have fewer than a hundred open. Functions of the
    other files have no names, but the run ends without an error."""
    with Target("strange", "dlopen", LIBRARY, "400", "--copies") as target, place() as directory:
        with Tracer("-p", target.pid, "-i", "1", "--json", "-o", directory + "/out",
                    preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (128, 128))
                    ) as tracer:
            target.say("go")
            expect_equal(target.line(), "begun\n", "the target's line")
            truth = target.go()
            descriptors = size_of(tracer.process.pid)[0]
            profile = tracer.stop().json()
        expect_equal(target.quit(), 0, "status of the target")
        expect(all(os.path.getsize(path) for path in profile["files"]), profile["files"])
    lost = losses(profile)
    refused = lost.pop("files_refused", 0)
    expect(refused and descriptors < 120, f"{refused} refused, {descriptors} descriptors")
    check_functions(truth, {**profile, "lost": lost})
    return f"{refused} refused, {descriptors} descriptors"


# --- stopped ---

def stop_it(pid):
    """Stops the process and waits until all its threads have stopped."""
    os.kill(pid, signal.SIGSTOP)
    wait_until(lambda: all(status_of(f"{pid}/task/{tid}", "State").startswith("T")
                           for tid in os.listdir(f"/proc/{pid}/task")), f"pid {pid} stops")


@test(beside=True)
def strange_stopped():
    """The process is stopped while memtrace attaches, and again while it detaches."""
    with Target("truth_basic") as target:
        stop_it(target.pid)
        with Tracer("-p", target.pid, "-i", "1", "--json", "-f", "none") as tracer:
            os.kill(target.pid, signal.SIGCONT)
            truth = target.go()
            stop_it(target.pid)
            profile = tracer.stop().json()
        wait_restored(target.pid)
        os.kill(target.pid, signal.SIGCONT)
        expect_equal(target.quit(), 0, "status of the target")
    check_exact(truth, profile)


@test(beside=True)
def strange_stopped_anywhere():
    """The process is stopped at random places, such as in traps and in calls that return through a
    probe."""
    target = Busy(2)
    try:
        for _ in range(3):
            with Tracer("-p", target.pid, "-i", "1", "-q", "-f", "none") as tracer:
                stop_it(target.pid)
                tracer.stop()
            wait_restored(target.pid)
            os.kill(target.pid, signal.SIGCONT)
        target.stop()
    finally:
        target.__exit__()


# --- debugged ---

class Debugger:
    """gdb that is attached to a process. The process stays stopped until gdb continues it."""

    def __init__(self, pid):
        self.process = start([need_tool("gdb"), "-nx", "-q", "-iex", "set auto-load off", "-iex",
                              "set debuginfod enabled off", "-iex", "set confirm off", "-iex",
                              "set pagination off", "-p", pid], start_new_session=True,
                             stderr=subprocess.STDOUT)
        self.ask("")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        end(self.process)

    def send(self, command):
        self.process.stdin.write(command + "\necho :END\\n\n")
        self.process.stdin.flush()

    def answer(self):
        lines = []
        while not lines or not lines[-1].endswith(":END\n"):
            lines.append(read_line(self.process, self.process.stdout))
        return "".join(lines)

    def ask(self, command):
        self.send(command)
        return self.answer()

    def until(self, breakpoint_at):
        told = self.ask("continue")
        expect(re.search(rf"Breakpoint \d+, .*{breakpoint_at}", told), f"no {breakpoint_at}:", told)

    def leave(self):
        told = self.ask("detach")
        expect("detached" in told, told)
        self.process.stdin.write("quit\n")
        self.process.stdin.flush()
        expect_equal(self.process.wait(30), 0, "status of gdb")


def look_around(gdb):
    """Sets breakpoints beside probes and away from them. Passes some of them and stops at others.
    Steps over, into and out of an allocator's function."""
    gdb.ask("break alloc_by_3")
    gdb.ask("break *free")
    gdb.ask("ignore 1 20")
    gdb.ask("ignore 2 100")
    for _ in range(2):
        told = gdb.ask("continue")
        expect(re.search(r"Breakpoint \d+, .*(alloc_by_3|free)", told), "no breakpoint:", told)
        gdb.ask("disable")
        gdb.ask("next")
        gdb.ask("stepi 30")
        expect("work" in gdb.ask("backtrace"), "no stack to be seen")
        gdb.ask("enable")
    gdb.ask("delete")


@test(beside=True)
def strange_debugged():
    """The target runs under a debugger all the time. memtrace attaches and detaches while the
    debugger has stopped the target."""
    with Target("truth_threads", "--blocks", "500") as target:
        with Debugger(target.pid) as gdb, \
                Tracer("-p", target.pid, "-i", "1", "--json", "-f", "none") as tracer:
            target.say("go")
            look_around(gdb)
            gdb.ask("break truth_print")
            gdb.until("truth_print")
            profile = tracer.stop().json()
            wait_restored(target.pid)
            gdb.ask("delete")
            gdb.leave()
            truth = json.loads(target.line())
        wait_restored(target.pid)
        expect_equal(target.quit(), 0, "status of the target")
    check_exact(truth, profile)


@test(beside=True)
def strange_debugger_comes():
    """A debugger attaches and detaches while memtrace traces."""
    with Target("truth_threads", "--blocks", "500") as target:
        with Tracer("-p", target.pid, "-i", "1", "--json", "-f", "none") as tracer:
            with Debugger(target.pid) as gdb:
                target.say("go")
                look_around(gdb)
                gdb.leave()
            truth = json.loads(target.line())
            profile = tracer.stop().json()
        wait_restored(target.pid)
        expect_equal(target.quit(), 0, "status of the target")
    check_exact(truth, profile)


# patched.c's answer if each call has reached patched.c's own functions
OWN = {"calls": 2000, "own": 2000}


@test_each_kind(beside=True)
def strange_patched(kind):
    """A process has patched its own copy of malloc. No probe is placed in this malloc, because the
    removal of a probe would replace the patch by the file's code."""
    with Target("patched") as target:
        expect_equal(target.go(), OWN, "calls before")
        refused = memtrace("-p", target.pid, "-d", "1", "--probe-kind", kind, "-f", "none")
        expect_equal(refused.status, 1, refused)
        expect_words(refused.err, "malloc", "patched while running", "left alone")
        expect_equal(target.go(), OWN, "calls after")
        expect_equal(target.quit(), 0, "status of the target")


@test(long=True)
def strange_patched_everywhere():
    """Probes in the code of every process would also be placed in the patched code. So this malloc
    gets no probes, and the output says why other processes that use it are not traced. When the
    process that patched the code has ended, the others are traced."""
    for ends in (False, True):
        check_patched_everywhere(ends)


def check_patched_everywhere(ends):
    with Target("patched") as target, Target("churn", "--pairs", "1000") as other, \
            Tracer("--comm", "churn", "-i", "1", "--max-overhead", "off", "--json",
                   "-f", "none") as tracer:
        expect_equal(target.go(), OWN, "calls while others are traced")
        if ends:
            expect_equal(target.quit(), 0, "status of the target")
            wait_until(lambda: changed_text(other.pid), "the other's probes are there")
            other.go()
            with Target("churn", "--pairs", "1000") as later:
                later.go()
                later.quit()
        result = tracer.stop()
        expect_words(result.err,
                     rf"malloc of .* cannot be probed: pid {target.pid} \(patched\) has patched")
        profile = by_pid(result.out)[other.pid]
        expect_words(profile["refused"], f"pid {target.pid}")
        if ends:
            expect(profile["alloc_calls"] >= 1000, "calls:", profile["alloc_calls"])
            profile = by_pid(result.out)[later.pid]
            expect(profile["alloc_calls"] >= 1000, "later calls:", profile["alloc_calls"])
            expect("refused" not in profile, "still refused:", profile.get("refused"))
        else:
            expect_equal(profile.get("not_traced"), "its allocator cannot be probed", "the reason")
            expect_equal(target.go(), OWN, "calls after")


@test(long=True)
def strange_patched_in_container():
    """Two containers run the same file of an image's layer. A process in one container has patched
    its code. So the file gets no probes for a process in the other container."""
    libc = c_library()
    with place() as directory, contextlib.ExitStack() as running:
        lower = os.path.join(directory, "lower")
        os.mkdir(lower)
        shutil.copy(libc, lower)
        inside = [bound(os.path.join(merged, os.path.basename(libc)), libc)
                  for merged in running.enter_context(overlays(directory, lower, 2))]
        target = running.enter_context(Target("patched", loader=inside[0]))
        other = running.enter_context(Target("churn", "--pairs", "1000", loader=inside[1]))
        with Tracer("--comm", "churn", "-i", "1", "--json", "-f", "none") as tracer:
            expect_equal(target.go(), OWN, "calls while others are traced")
            profile = by_pid(tracer.stop().out)[other.pid]
        expect_words(profile["refused"], f"pid {target.pid}")
        expect_equal(target.go(), OWN, "calls after")


def check_patches_later(*options):
    """Withdrawn probes are put back, but not where the process has patched its code meanwhile."""
    with Target("patched", "--later") as target, \
            Tracer(*(options if "--comm" in options else ("-p", target.pid, *options)), "--json",
                   "-f", "none") as tracer:
        wait_until(lambda: changed_text(target.pid), "its probes are there")
        expect_equal(target.go(), {"calls": 2000, "own": 0}, "calls before")
        target.say("patch")
        expect_equal(target.line(), "{}\n", "its answer")
        while "has patched" not in tracer.log:
            tracer.log += read_line(tracer.process, tracer.process.stderr)
        expect_equal(target.go(), OWN, "calls after it")
        tracer.process.send_signal(signal.SIGSTOP)
        time.sleep(6 if "off" in options else 1)  # without a limit the withdrawal comes later
        tracer.process.send_signal(signal.SIGCONT)
        time.sleep(1)
        expect_equal(target.go(), OWN, "calls when probes have come again")
        profile = by_pid(tracer.stop().out)[target.pid]
        expect_words(profile["refused"], "malloc", f"pid {target.pid}")
        expect_equal(target.go(), OWN, "calls in the end")
        expect_equal(target.quit(), 0, "status of the target")


@test_each_kind(beside=True, long=True)
def strange_patched_later(kind):
    """A process patches its code while probes are in it."""
    check_patches_later("--max-overhead", "5", "--probe-kind", kind)


@test(long=True)
def strange_patched_later_everywhere():
    """As strange_patched_later, with probes in the code of every process."""
    check_patches_later("--comm", "patched", "--max-overhead", "off")


@test(beside=True, long=True)
def strange_patched_while_withdrawn():
    """A process patches its code while memtrace is stopped and its probes are withdrawn. No probe
    must be put back there."""
    for flag, options in ([], ["--max-overhead", "off"]), (["--mmap"], ["--what", "regions"]):
        with Target("patched", *flag, "--later") as target, \
                Tracer("-p", target.pid, *options, "--json", "-f", "none") as tracer:
            expect_equal(target.go(), {"calls": 2000, "own": 0}, "calls before")
            tracer.process.send_signal(signal.SIGSTOP)
            wait_until(lambda: not changed_text(target.pid), "its probes are gone")
            target.say("patch")
            expect_equal(target.line(), "{}\n", "its answer")
            tracer.process.send_signal(signal.SIGCONT)
            time.sleep(1)
            expect_equal(target.go(), OWN, f"calls when memtrace goes on, {options}")
            tracer.stop()
            expect_equal(target.quit(), 0, "status of the target")


@test(beside=True)
def strange_patched_mmap():
    """If a process has patched mmap, memtrace traces regions by tracepoints at the system calls."""
    with Target("patched", "--mmap") as target:
        expect_equal(target.go(), OWN, "calls before")
        with Tracer("-p", target.pid, "--what", "regions", "-f", "none") as tracer:
            expect_equal(target.go(), OWN, "calls while traced")
            expect_words(tracer.stop().err, "system calls of all processes .mmap of the C library "
                         f"was patched in pid {target.pid}")
        expect_equal(target.go(), OWN, "calls after")
        expect_equal(target.quit(), 0, "status of the target")


@test(beside=True, long=True)
def strange_patched_mmap_later():
    """A process patches mmap while probes are in mmap. These probes are not put back later."""
    with Target("patched", "--mmap", "--later") as target, \
            Tracer("-p", target.pid, "--what", "regions", "--json", "-f", "none") as tracer:
        expect_equal(target.go(), {"calls": 2000, "own": 0}, "calls before")
        target.say("patch")
        expect_equal(target.line(), "{}\n", "its answer")
        time.sleep(1)
        tracer.process.send_signal(signal.SIGSTOP)
        time.sleep(1)
        tracer.process.send_signal(signal.SIGCONT)
        time.sleep(1)
        expect_equal(target.go(), OWN, "calls when probes have come again")
        profile = tracer.stop().json()
        expect(profile["lost"]["regions_stopped"], "not told:", profile["lost"])
        expect_equal(target.go(), OWN, "calls in the end")
