# SPDX-License-Identifier: BSD-2-Clause
"""Which capabilities memtrace keeps after its start, and what it can do without root.
docs/safety.md lists them."""
import contextlib
import json
import os
import re
import shutil
import time

from harness import (MEMTRACE, PATIENCE_S, PROGS, Failure, NotRunnable, Target, Tracer, end, expect,
                     expect_equal, expect_words, memtrace, need_tool, place, run, start, test,
                     test_each_kind, wait_until)
from test_top import Screen
from test_truth import check_exact

NOBODY = 65534
BITS = {"dac_override": 1, "dac_read_search": 2, "kill": 5, "setgid": 6, "setuid": 7, "setpcap": 8,
        "ipc_lock": 14, "sys_ptrace": 19,
        "sys_admin": 21, "sys_nice": 23, "perfmon": 38, "bpf": 39, "checkpoint_restore": 40}
WITHOUT_ROOT = ("bpf", "perfmon", "sys_ptrace", "checkpoint_restore", "dac_read_search")
TRACING = {*WITHOUT_ROOT, "sys_nice"}
ROOT = {"kill", "setuid", "setgid"}


def names(mask):
    known = {1 << bit: name for name, bit in BITS.items()}
    return {known.get(1 << i, i) for i in range(64) if mask >> i & 1}


def fields(text):
    return dict(re.findall(r"^(\w+):[ \t]*(.*)$", text, re.M))


def status(pid):
    with open(f"/proc/{pid}/status", encoding="utf-8") as file:
        return fields(file.read())


def capabilities(pid, which="CapPrm"):
    return names(int(status(pid)[which], 16))


def ours():
    """The capabilities that memtrace gets from root here. In a container some may be missing."""
    return capabilities("self")


def check_kept(pid, wanted):
    for which in ("CapPrm", "CapEff"):
        expect_equal(capabilities(pid, which), wanted & ours(), which)
    for which in ("CapInh", "CapAmb", "CapBnd"):
        expect_equal(capabilities(pid, which), set(), which)
    expect_equal(status(pid)["NoNewPrivs"], "1", "no_new_privs")


def children(pid, name):
    """The children with this name. Other children, such as the one that measures costs, may end
    during the search."""
    found = []
    with open(f"/proc/{pid}/task/{pid}/children", encoding="utf-8") as file:
        for child in file.read().split():
            with contextlib.suppress(FileNotFoundError, ProcessLookupError):
                if status(child)["Name"] == name:
                    found.append(child)
    return found


def keepers(pid):
    return children(pid, "mt-keeper")


def without_root(*added):
    """The beginning of a command that starts a program with these capabilities, as nobody."""
    given = ",".join("+" + name for name in (*WITHOUT_ROOT, *added))
    return [need_tool("setpriv"), f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups",
            f"--inh-caps=-all,{given}", f"--ambient-caps={given}"]


class Open:
    """A path to memtrace for a user who may not enter the directory of the build."""

    def __enter__(self):
        self.file = open(MEMTRACE, "rb")
        return [f"/proc/self/fd/{self.file.fileno()}"], {"pass_fds": [self.file.fileno()]}

    def __exit__(self, *_):
        self.file.close()


# --- which capabilities memtrace keeps ---

@test_each_kind(beside=True)
def capabilities_while_tracing(kind):
    """memtrace keeps the documented capabilities, whether it traces continuously or in windows.
    Probes of the kind perf need CAP_SYS_ADMIN."""
    with Target("truth_basic") as target:
        for limit in ("off", "5"):
            with Tracer("-p", target.pid, "--probe-kind", kind, "--max-overhead", limit,
                        "-f", "none") as tracer:
                check_kept(tracer.process.pid,
                           TRACING | ROOT | ({"sys_admin"} if kind == "perf" else set()))
                helpers = keepers(tracer.process.pid)
                expect_equal(len(helpers), 1, "keepers")
                expect_equal(capabilities(helpers[0]), {"sys_nice"} & ours(), "the keeper's")
                # if the keeper has the right, it runs in real time, so that it never waits for a
                # CPU
                if "sys_nice" in ours():
                    expect_equal(os.sched_getscheduler(int(helpers[0])),
                                 os.SCHED_RR | os.SCHED_RESET_ON_FORK, "the keeper's policy")
                tracer.stop()


@test(beside="wide")
def capabilities_of_all():
    """With -a memtrace places and removes probes when processes start. It keeps the same set of
    capabilities."""
    with Tracer("-a", "-f", "none", "-q") as tracer:
        check_kept(tracer.process.pid, TRACING | ROOT)
        tracer.stop()


@test(beside=True)
def capabilities_of_page_numbers():
    """--rss recognizes the page of zeros by its number. /proc/PID/pagemap shows page numbers only
    with CAP_SYS_ADMIN."""
    with Target("truth_basic") as target:
        with Tracer("-p", target.pid, "--rss", "-f", "none") as tracer:
            check_kept(tracer.process.pid, TRACING | ROOT | {"sys_admin"})
            tracer.stop()


@test(beside=True)
def capabilities_for_files():
    """Root needs CAP_DAC_OVERRIDE to write into another user's directory. memtrace keeps it only in
    this case."""
    with Target("truth_basic") as target, place() as directory:
        os.chown(directory, NOBODY, NOBODY)
        os.chmod(directory, 0o755)
        with Tracer("-p", target.pid, "-o", directory + "/out") as tracer:
            check_kept(tracer.process.pid, TRACING | ROOT | {"dac_override"})
            tracer.stop()
        expect_equal(len(os.listdir(directory)), 3, "files")


@test(beside=True)
def capabilities_for_files_of_heap():
    """As capabilities_for_files, for -o of heap and why. If the file cannot be written, they say so
    before they trace."""
    with Target("holders") as target, place() as directory:
        target.go()
        os.chown(directory, NOBODY, NOBODY)
        os.chmod(directory, 0o755)
        for command, trace in ("heap", ("--stacks",)), ("why", ("--stack", "main")):
            path = os.path.join(directory, command)
            result = memtrace(command, "-p", target.pid, "--json", "-o", path)
            expect_equal(result.status, 0, result)
            with open(path, encoding="utf-8") as file:
                expect_equal(json.load(file)["pid"], target.pid, "pid")
            began = time.monotonic()
            result = memtrace(command, "-p", target.pid, *trace, "-d", "30", "-o",
                              os.path.join(directory, "none", "x"))
            expect_equal(result.status, 1, result)
            expect_words(result.err, "create the directory first")
            expect(time.monotonic() - began < 15, "it traced first")


@test(beside=True)
def capabilities_for_files_of_top():
    """As capabilities_for_files, for the files that the key w of top writes, even after the target
    has ended."""
    with Target("truth_basic") as target, place() as directory:
        os.chown(directory, NOBODY, NOBODY)
        os.chmod(directory, 0o755)
        with Screen("-p", target.pid, "-i", "1", "-o", directory + "/out", "-f", "pprof") as screen:
            screen.until_words(rf"pid {target.pid}")
            target.go()
            expect_equal(target.quit(), 0, "status of the target")
            screen.until_words("^ENDED")
            screen.press("w")
            screen.until_words(r"^written: .*\.0001\.pb\.gz")
            screen.press("q")
            screen.process.wait(60)


class OthersScreen(Screen):
    @staticmethod
    def own_terminal():
        Screen.own_terminal()
        os.fchown(0, NOBODY, NOBODY)
        os.fchmod(0, 0o600)


def without_waiting(pid, path):
    """How many of the process's descriptors for this path are in non-blocking mode."""
    found = 0
    for fd in os.listdir(f"/proc/{pid}/fd"):
        if os.readlink(f"/proc/{pid}/fd/{fd}") == path:
            with open(f"/proc/{pid}/fdinfo/{fd}", encoding="utf-8") as info:
                found += bool(int(re.search(r"flags:\s*(\d+)", info.read())[1], 8) & os.O_NONBLOCK)
    return found


@test(beside=True)
def capabilities_and_terminals():
    """Under sudo the terminal belongs to the calling user. memtrace can still open it, in
    non-blocking mode."""
    with Target("truth_basic") as target:
        with OthersScreen("-p", target.pid) as screen:
            screen.until_words(rf"pid {target.pid}")
            check_kept(screen.process.pid, TRACING | ROOT)
            expect(without_waiting(screen.process.pid, os.ttyname(screen.slave)),
                   "top waits for its terminal")
            screen.press("q")
            screen.process.wait(60)
        with OthersScreen("-v", "-p", target.pid, "-f", "none", program=(MEMTRACE,)) as screen:
            screen.until_words(r"tracing")
            wait_until(lambda: without_waiting(screen.process.pid, os.ttyname(screen.slave)),
                       "a descriptor of the terminal that does not block")


# --- the capabilities of a command that memtrace starts ---

SHOW = ("Uid", "Gid", "Groups", "CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb", "NoNewPrivs",
        "Seccomp", "SigBlk", "SigIgn", "SigCgt")


@test(beside=True)
def capabilities_of_a_command():
    """A command has all capabilities that memtrace was started with, and no more."""
    for prefix in ([], [need_tool("setpriv"), "--bounding-set=-sys_boot,-net_raw"],
                   [need_tool("setpriv"), "--no-new-privs"], without_root()):
        with Open() as (program, options):
            plain = run([*prefix, "cat", "/proc/self/status", "/proc/self/limits"])
            traced = run([*prefix, *program, "-q", "-f", "none", "--", "cat", "/proc/self/status",
                          "/proc/self/limits"],
                         **options)
        expect_equal((plain.status, traced.status), (0, 0), traced)
        have, wanted = fields(traced.out), fields(plain.out)
        for line in SHOW:
            expect_equal(have[line], wanted[line], f"{line} after {' '.join(prefix)}")
        expect_equal(*(re.findall("^Max.*", result.out, re.M) for result in (traced, plain)),
                     "limits")


@test(beside=True)
def capabilities_to_end_a_command():
    """A command that has changed its user still gets the signals that memtrace passes on."""
    process = start([MEMTRACE, "-v", "-f", "none", "--", need_tool("setpriv"), f"--reuid={NOBODY}",
                     "--clear-groups", "sleep", "100"])
    wait_until(lambda: children(process.pid, "sleep"), "the command")
    expect_equal(capabilities(children(process.pid, "sleep")[0]), set(), "the command's")
    process.terminate()
    expect_equal(process.wait(60), 128 + 15, "status")
    end(process)


# --- without root ---

def run_without_root(args, *added):
    with Open() as (program, options):
        return run([*without_root(*added), *program, *args], **options)


@test_each_kind(beside=True)
def capabilities_without_root(kind):
    """Without root memtrace traces another user's process exactly, with names, and writes files."""
    added = ["sys_admin"] if kind == "perf" else []
    with Target("truth_basic") as target, place() as directory, Open() as (program, options):
        os.chown(directory, NOBODY, NOBODY)
        process = start([*without_root(*added), *program, "-v", "-p", target.pid,
                         "--probe-kind", kind, "-i", "1",
                         "--max-overhead", "off", "--json", "-o", directory + "/out"], **options)
        log = ""
        while "; tracing" not in log:
            line = process.stderr.readline()
            expect(line, "not traced:", log)
            log += line
        expect_equal(status(process.pid)["Uid"].split()[0], str(NOBODY), "user")
        expect_equal(capabilities(process.pid), {*WITHOUT_ROOT, *added}, "capabilities")
        truth = target.go()
        process.send_signal(2)
        out, err = process.communicate(timeout=PATIENCE_S)
        expect_equal(process.returncode, 0, err)
        profile = json.loads(out)
        check_exact(truth, profile)
        expect_equal(len(os.listdir(directory)), 3, "files")
        expect_equal({os.stat(f"{directory}/{name}").st_uid for name in os.listdir(directory)},
                     {NOBODY}, "their user")


@test(beside="wide")
def capabilities_without_root_all():
    with Target("truth_basic") as target:
        result = run_without_root(["-a", "-d", "2", "-q", "--json", "-f", "none"])
        expect_equal(result.status, 0, result)
        expect(target.pid in [json.loads(line)["pid"] for line in result.out.splitlines()],
               f"pid {target.pid} is missing")


@test(beside=True)
def capabilities_without_root_command():
    path = os.path.join(PROGS, "truth_basic")
    with open(path, "rb") as file, Open() as (program, options):
        result = run([*without_root(), *program, "-q", "--json", "-i", "1", "--max-overhead", "off",
                      "-f", "none", "--", f"/proc/self/fd/{file.fileno()}", "--auto"],
                     pass_fds=[file.fileno(), *options["pass_fds"]])
    expect_equal(result.status, 0, result)
    check_exact(json.loads(result.out), json.loads(result.err))


@test(beside=True)
def capabilities_without_root_top():
    with Target("truth_basic") as target, place() as directory:
        os.chmod(directory, 0o755)
        program = shutil.copy(MEMTRACE, directory + "/memtrace")
        with OthersScreen("-p", target.pid, program=[*without_root(), program, "top"]) as screen:
            screen.until_words(rf"pid {target.pid}")


@test(beside=True, long=True)
def capabilities_of_the_file():
    """A memtrace that has capabilities by setcap is not dumpable, and its own /proc directory
    belongs to root. Nevertheless it works."""
    with Target("truth_basic") as target, place() as directory:
        os.chmod(directory, 0o755)
        program = shutil.copy(MEMTRACE, directory + "/memtrace")
        given = ",".join("cap_" + name for name in WITHOUT_ROOT) + "+ep"
        if run([need_tool("setcap"), given, program]).status:
            raise NotRunnable("this file system keeps no capabilities")
        as_nobody = [need_tool("setpriv"), f"--reuid={NOBODY}", f"--regid={NOBODY}",
                     "--clear-groups"]
        for args in (["-p", target.pid, "-d", "0.5", "-q", "--rss", "--json", "-f", "none"],
                     ["check", target.pid], ["-d", "0.5", "-q", "--json", "-f", "none", "-a"],
                     ["-q", "--json", "-f", "none", "--", "sleep", "0.2"]):
            result = run([*as_nobody, program, *args])
            expect_equal(result.status, 0, result)
            expect("memtrace: " not in result.err, result.err)


@test(beside=True)
def capabilities_missing():
    """The message names each missing capability, and how to get it."""
    with Target("truth_basic") as target, Open() as (program, options):
        for name in WITHOUT_ROOT[:4]:
            given = ",".join("+" + other for other in WITHOUT_ROOT if other != name)
            result = run([need_tool("setpriv"), f"--reuid={NOBODY}", f"--regid={NOBODY}",
                          "--clear-groups", f"--inh-caps=-all,{given}", f"--ambient-caps={given}",
                          *program, "-p", target.pid], **options)
            expect_equal(result.status, 1, result)
            expect_words(result.err, rf"missing: CAP_{name}\. ", "CAP_DAC_READ_SEARCH")
    result = run_without_root(["check"])
    expect_equal(result.status, 0, result)
    expect_words(result.out, "no +CAP_SYS_NICE")
    result = run([need_tool("setpriv"), "--bounding-set=-sys_admin", MEMTRACE, "check"])
    expect("Permission denied" not in result.out, result.out)
    if re.search(r"no +perf uprobes", result.out):
        expect_words(result.out, "perf uprobes .*CAP_SYS_ADMIN")
