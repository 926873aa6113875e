# SPDX-License-Identifier: BSD-2-Clause
"""More than one process: families, and processes selected by name, user or cgroup, or all of the
machine."""
import contextlib
import glob
import gzip
import json
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time

from harness import (MEMTRACE, PROGS, Target, Tracer, by_function, end, expect, expect_equal,
                     expect_words, losses, memtrace, place, read_line, start, test,
                     test_each_kind, wait_until)

FAMILY = os.path.join(PROGS, "family")


def by_pid(lines):
    return {p["pid"]: p for p in map(json.loads, lines.splitlines())}


def check_family(truth, profiles):
    for pid, (size, objects) in truth["processes"].items():
        profile = profiles.get(int(pid))
        expect(profile, f"no profile of pid {pid}, which holds {size} bytes; there are",
               sorted(profiles))
        expect_equal((profile["live_bytes"], profile["live_objects"]), (size, objects),
                     f"pid {pid}: live bytes and objects")
        expect_equal(losses(profile), {}, f"pid {pid}: losses")


@test_each_kind(beside="wide")
def processes_follow(kind):
    """Each child has a profile of its own, exact to the byte, although the child has ended."""
    with Target("family") as target:
        with Tracer("-p", target.pid, "-F", "-i", "1", "--json", "-f", "none", "--probe-kind",
                    kind) as tracer:
            truth = target.go()
            profiles = by_pid(tracer.stop().out)
        expect_equal(target.quit(), 0, "status of family")
    check_family(truth, profiles)
    expect_equal(len(truth["processes"]), 6, "processes")
    expect_equal(set(profiles), set(map(int, truth["processes"])), "processes with a profile")


@test(beside="wide")
def processes_follow_those_there():
    """Children and grandchildren are traced, whether they exist before the attach or are forked
    afterwards."""
    die = "setpriv --pdeathsig KILL"  # the process dies with its parent
    one, two = (f"{die} {FAMILY} leak 100000 {size} 50" for size in (1000, 1100))
    shell = start(["sh", "-c", f'exec 5<&0; {die} sh -c "{one} & read x <&5; {two} & wait" & wait'])

    def children(pid):
        with open(f"/proc/{pid}/task/{pid}/children", encoding="utf-8") as file:
            return file.read().split()

    try:
        wait_until(lambda: len(children(shell.pid)) == 1 and children(children(shell.pid)[0]),
                   "a grandchild")
        middle = children(shell.pid)[0]
        with Tracer("-p", shell.pid, "-F", "-i", "1", "--json", "-f", "none") as tracer:
            shell.stdin.write("\n")
            shell.stdin.flush()
            wait_until(lambda: len(children(middle)) == 2, "two grandchildren")
            there, come = map(int, children(middle))
            time.sleep(1.5)
            profiles = by_pid(tracer.stop().out)
        for pid, size in ((there, 1000), (come, 1100)):
            expect(pid in profiles and profiles[pid]["live_bytes"] >= 3 * size and
                   profiles[pid]["live_bytes"] % size == 0, f"pid {pid} is missing or wrong:",
                   {pid: p["live_bytes"] for pid, p in profiles.items()})
    finally:
        end(shell)


@test(beside=True)
def processes_not_followed():
    """Without -F the children have no profiles, and the parent's blocks that a child frees stay
    live."""
    with Target("family") as target:
        with Tracer("-p", target.pid, "-i", "1", "--json", "-f", "none") as tracer:
            truth = target.go()
            profiles = by_pid(tracer.stop().out)
        expect_equal(target.quit(), 0, "status of family")
    expect_equal(set(profiles), {target.pid}, "processes with a profile")
    expect_equal(profiles[target.pid]["live_bytes"],
                 truth["processes"][str(target.pid)][0], "bytes")


@contextlib.contextmanager
def leaker(size, *wrapper, every_ms=50, program=FAMILY, **options):
    """A process that allocates a block of size bytes every every_ms milliseconds, for ever."""
    process = start([*wrapper, program, "leak", "100000", str(size), str(every_ms)], **options)
    try:
        yield process
    finally:
        end(process)


def holder(n, size, ms):
    """A process that holds n blocks for a while, prints their number and bytes, and ends."""
    return start(["sh", "-c", 'exec "$@" 9>&1', "sh", FAMILY, "hold", str(n), str(size), str(ms)])


def trace_selected(*selection, seconds=2.5, during=None):
    """Traces a selection of processes and calls during() meanwhile. Returns the profiles by pid,
    and during()'s result."""
    with Tracer(*selection, "-i", "1", "--json", "-f", "none") as tracer:
        told = during() if during else None
        time.sleep(seconds)
        return by_pid(tracer.stop().out), told


def grew(profiles, process, size):
    profile = profiles.get(process.pid)
    return profile and profile["live_bytes"] >= 3 * size and profile["live_bytes"] % size == 0


def check_selected(profiles, selected, others):
    for process, size in selected:
        expect(grew(profiles, process, size), f"pid {process.pid} is missing or wrong:",
               profiles.get(process.pid) and profiles[process.pid]["live_bytes"], sorted(profiles))
    for process in others:
        expect(process.pid not in profiles, f"pid {process.pid} was not selected")


@test(beside="wide")
def processes_by_name():
    """Processes that already run are traced, and also those that start later."""
    with place() as directory:
        other = os.path.join(directory, "cousin")
        os.symlink(FAMILY, other)
        with leaker(1000) as one, leaker(1100, program=other) as cousin, \
                contextlib.ExitStack() as later:
            profiles, two = trace_selected("--comm", "family", during=lambda:
                                           later.enter_context(leaker(1200)))
            check_selected(profiles, [(one, 1000), (two, 1200)], [cousin])


@test(beside="wide")
def processes_by_program():
    with place() as directory:
        other = os.path.join(directory, "cousin")
        with open(FAMILY, "rb") as source, open(other, "wb") as copy:
            copy.write(source.read())
        os.chmod(other, 0o755)
        with leaker(1000) as one, leaker(1100, program=other) as cousin, \
                contextlib.ExitStack() as later:
            profiles, two = trace_selected("--exe", directory + "/c*", during=lambda:
                                           later.enter_context(leaker(1200, program=other)))
            check_selected(profiles, [(cousin, 1100), (two, 1200)], [one])


@test(beside="wide")
def processes_by_program_of_a_used_inode():
    """With --exe, memtrace checks a program again in two cases: the program's file gets another
    name, or a new file gets the inode number of a removed file. (Some file systems do not use a
    number again. The test then says that it did not test the second case.)"""
    def make(path):
        with open(FAMILY, "rb") as source, open(path, "wb") as copy:
            copy.write(source.read())
        os.chmod(path, 0o755)
        return os.stat(path).st_ino

    with place() as directory:
        other, wanted = (os.path.join(directory, name) for name in ("other", "wanted"))

        def judge_other(later):
            process = later.enter_context(leaker(1000, program=other))
            time.sleep(0.5)  # long enough to be checked
            end(process)

        def run_others(later):
            make(other)
            judge_other(later)
            os.rename(other, wanted)
            renamed = later.enter_context(leaker(1100, program=wanted))
            inode = make(other)
            judge_other(later)
            # tries until the inode's number is used again (not all file systems use a number again)
            for _ in range(20):
                os.unlink(other)
                if make(other) == inode:
                    os.rename(other, wanted + "_again")
                    return renamed, later.enter_context(leaker(1200, program=wanted + "_again"))
            return renamed, None

        with contextlib.ExitStack() as later:
            profiles, (renamed, again) = trace_selected("--exe", directory + "/w*",
                                                        during=lambda: run_others(later))
            check_selected(profiles, [(renamed, 1100)] + ([(again, 1200)] if again else []), [])
        return None if again else "NOT TESTED: an inode that is used again, for none was"


@test(beside="wide")
def processes_by_program_after_exec():
    """With --exe, a selected process that runs another program stays selected only if this
    program's file fits, too. memtrace has not seen the files before."""
    script = 'read go; exec "$0" leak 100000 "$1" 50'

    with place() as directory:
        shell = shutil.copy("/bin/sh", os.path.join(directory, "wanted_shell"))
        programs = [shutil.copy(FAMILY, os.path.join(directory, name))
                    for name in ("other", "wanted")]

        def run_programs():
            for process in shells:
                process.stdin.write("go\n")
                process.stdin.flush()

        with contextlib.ExitStack() as running:
            shells = [start([shell, "-c", script, program, str(size)])
                      for program, size in zip(programs, (1000, 1100))]
            for process in shells:
                running.callback(end, process)
            with Tracer("--exe", directory + "/w*", "-i", "1", "--json", "-f", "collapsed", "-o",
                        directory + "/run") as tracer:
                run_programs()
                time.sleep(2.5)
                profiles = [json.loads(line) for line in tracer.stop().out.splitlines()]
        held = [{by_function(profile, {"keep"}).get("keep", [0])[0]
                 for profile in profiles if profile["pid"] == process.pid} for process in shells]
        expect(held[0] and not any(held[0]), "bytes of a program that does not fit:", held[0])
        expect(any(n >= 3 * 1100 for n in held[1]), "bytes of a program that fits:", held[1])
        # each profile has a file of its own
        names = [f"{directory}/run.{shells[1].pid}{nth}.collapsed" for nth in ("", "-2")]
        expect_equal([";keep" in open(name, encoding="utf-8").read() for name in names],
                     [False, True], "which file has the second program's stacks")


def cpu_time_ns(path):
    """The CPU time in a pprof profile's comments. The comment is a string of less than 128 bytes.
    The byte before the string is its length."""
    with gzip.open(path) as file:
        data = file.read()
    at = data.index(b"cpu_time_ns: ")
    return int(data[at:at + data[at - 1]].split()[1])


@test(beside="wide")
def processes_cpu_time_from_exec():
    """The CPU time that a shell used before it executed the selected program does not count as the
    program's."""
    burn = 'i=0; while [ $i -lt 400000 ]; do i=$((i+1)); done; exec "$@"'

    with place() as directory:
        program = shutil.copy(FAMILY, os.path.join(directory, "late_program"))
        with Tracer("--comm", "late_program", "-f", "pprof", "-o", directory + "/run") as tracer:
            process = start(["sh", "-c", burn, "sh", program, "leak", "100000", "1000", "50"])
            wait_until(lambda: os.readlink(f"/proc/{process.pid}/exe") == program,
                       "the shell runs the program")
            time.sleep(1)
            used = own_cpu_s(process.pid)
            tracer.stop()
            end(process)
        told = cpu_time_ns(glob.glob(directory + "/run*.pb.gz")[0]) / 1e9
    expect(used > 0.2, "the shell used too little CPU time to tell:", used)
    expect(told < 0.1, "CPU time of the program:", told, "s, of the process:", used, "s")


@test(beside="wide")
def processes_by_user():
    nobody = pwd.getpwnam("nobody")
    as_nobody = ["setpriv", "--reuid", str(nobody.pw_uid), "--clear-groups"]
    with tempfile.TemporaryDirectory() as directory:
        os.chmod(directory, 0o755)
        program = os.path.join(directory, "family")
        with open(FAMILY, "rb") as source, open(program, "wb") as copy:
            copy.write(source.read())
        os.chmod(program, 0o755)
        with leaker(1000) as one, leaker(1100, *as_nobody, program=program) as theirs, \
                contextlib.ExitStack() as later:
            wait_until(lambda: os.stat(f"/proc/{theirs.pid}").st_uid == nobody.pw_uid,
                       "setpriv has done its work")
            profiles, two = trace_selected("--user", "nobody", during=lambda: later.enter_context(
                leaker(1200, *as_nobody, program=program)))
            check_selected(profiles, [(theirs, 1100), (two, 1200)], [one])


@contextlib.contextmanager
def cgroup(name):
    """A cgroup (v2) for one test."""
    with open("/proc/self/mountinfo", encoding="utf-8") as file:
        mounts = [line.split() for line in file]
    root = next((m[4] for m in mounts if m[m.index("-") + 1] == "cgroup2"), None)
    expect(root, "there is no cgroup2 here")
    path = os.path.join(root, name)
    os.mkdir(path)
    try:
        yield path
    finally:
        wait_until(lambda: not open(path + "/cgroup.procs", encoding="utf-8").read(),
                   "the cgroup is empty")
        os.rmdir(path)


def test_cgroup_selection(option, value_of):
    name = f"docker-{os.getpid():08d}deadbeef.scope"
    with cgroup(name) as path, contextlib.ExitStack() as later:
        enter = ["sh", "-c", f'echo $$ >{path}/cgroup.procs; exec "$@"', "sh"]
        with leaker(1000) as one, leaker(1100, *enter) as inside:
            def member():
                with open(path + "/cgroup.procs", encoding="utf-8") as file:
                    return str(inside.pid) in file.read().split()
            wait_until(member, "the target is in the cgroup")
            profiles, two = trace_selected(option, value_of(path), during=lambda:
                                           later.enter_context(leaker(1200, *enter)))
            later.close()
            check_selected(profiles, [(inside, 1100), (two, 1200)], [one])


@test(beside="wide")
def processes_by_cgroup():
    test_cgroup_selection("--cgroup", lambda path: path)


@test(beside="wide")
def processes_by_container():
    test_cgroup_selection("--container", lambda path: f"{os.getpid():08d}deadbeef")


# --- memtrace's own cost, seen from outside ---

def own_cpu_s(pid):
    """CPU time of a process, and of those of its children that it has waited for."""
    with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
        fields = file.read().rsplit(")", 1)[1].split()
    return sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")


def own_bytes(pid):
    """Resident set, its peak, and the kernel's memory for the BPF maps that the process has
    open."""
    with open(f"/proc/{pid}/status", encoding="utf-8") as file:
        status = dict(line.split(":", 1) for line in file)
    maps = {}
    for name in glob.glob(f"/proc/{pid}/fdinfo/*"):
        with contextlib.suppress(OSError), open(name, encoding="utf-8") as file:
            info = dict(line.split(":", 1) for line in file if ":" in line)
            if "map_id" in info:
                maps[info["map_id"]] = int(info["memlock"])
    kib = {key: int(status[key].split()[0]) << 10 for key in ("VmRSS", "VmHWM")}
    return kib["VmRSS"], kib["VmHWM"], sum(maps.values())


def mib(n_bytes):
    return f"{n_bytes / (1 << 20):.1f} MiB"


class Crowd:
    """Processes that begin and end all the time."""

    def __init__(self):
        self.running, self.ended = [], []  # ended: (pid, bytes that it held, ms)

    def add(self, n, size, ms):
        self.running.append((holder(n, size, ms), n, size, ms))

    def reap(self, wait=False):
        """Checks that each ended process ended without an error, and printed the bytes that it
        held."""
        left = []
        for process, n, size, ms in self.running:
            if not wait and process.poll() is None:
                left.append((process, n, size, ms))
                continue
            out, err = process.communicate(timeout=30)
            expect_equal((process.returncode, out, err), (0, f"{process.pid} {n * size} {n}\n", ""),
                         "status, truth and errors of a short life")
            self.ended.append((process.pid, n * size, ms))
            end(process)
        self.running = left

    def storm(self, seconds, per_s, make, each=lambda: None):
        """Starts per_s processes a second. make(i): (blocks, bytes of each, ms to live) of the i-th
        process."""
        begin, n = time.monotonic(), 0
        while n < seconds * per_s:
            due = begin + n / per_s - time.monotonic()
            if due > 0:
                self.reap()
                each()
                time.sleep(max(0, min(due, 0.05)))
                continue
            self.add(*make(n))
            n += 1
        self.reap(wait=True)

    def check(self, profiles, longer_than_ms):
        """Each process that lived longer than this has a profile, and all profiles are exact."""
        for i, (pid, size, ms) in enumerate(self.ended):
            if ms > longer_than_ms or pid in profiles:
                expect(pid in profiles, f"process {i} of {len(self.ended)} was missed")
                expect_equal(profiles[pid]["live_bytes"], size, f"process {i}: bytes")


@test(long=True)
def processes_all():
    """Two hundred processes run, one of which leaks, and fifty a second begin and end. No process
    is harmed, and each process that lives longer than half a second has an exact profile.
    memtrace's own memory is bounded and printed."""
    # a block is 24 times as large as the interval, so it is always sampled and has a weight of 1
    block, interval = 400000, "16K"
    crowd, taken = Crowd(), {}

    def note_memory():
        for n in (300, 1500):
            if len(crowd.ended) >= n:
                taken.setdefault(n, own_bytes(tracer.process.pid))

    with contextlib.ExitStack() as stack, place() as directory:
        for _ in range(200):
            stack.enter_context(leaker(64, every_ms=200, stdout=subprocess.DEVNULL))
        leak = stack.enter_context(leaker(200000, every_ms=5))
        path = os.path.join(directory, "all.json")
        with Tracer("-a", "--max-overhead", "off", "-i", interval, f"--json={path}") as tracer:
            pid, begin = tracer.process.pid, time.monotonic()
            cpu = own_cpu_s(pid)
            time.sleep(4)
            idle_pct = 100 * (own_cpu_s(pid) - cpu) / (time.monotonic() - begin)
            crowd.storm(30, 50, lambda i: (1 + i % 7, block, 50 if i % 5 == 4 else 600),
                        note_memory)
            note_memory()
            last = own_bytes(pid)
            all_pct = 100 * (own_cpu_s(pid) - cpu) / (time.monotonic() - begin)
            tracer.stop()
        with open(path, encoding="utf-8") as file:
            profiles = by_pid(file.read())
        crowd.check(profiles, 500)
        own = profiles[leak.pid]["memtrace"]
        with Tracer("-a", "--max-overhead", "off", "-i", interval, "-n", "5") as tracer:
            time.sleep(2)
            result = tracer.stop()
        rows = [line.split() for line in result.out.splitlines()]
        first = next((row for row in rows if row and row[0].isdigit()), None)
        expect(first, "no row of a process in", result.out)
        expect_equal(first[:2], [str(leak.pid), "family"], f"the first row of\n{result.out}")
        expect_words(result.out, "^memtrace itself: [0-9.]+ % of one core, (at most )?[0-9.]+ MiB, "
                                 "of which [0-9.]+ MiB in the kernel$")

    # The figures that memtrace prints about itself are as large as the figures measured from
    # outside, or a little larger.
    expect(last[1] <= own["user_bytes"] < last[1] + (64 << 20), "own memory:", own, last)
    kernel = own.get("kernel_bytes", own.get("kernel_bytes_at_most"))
    # last[2] has only BPF maps that memtrace holds open. Unwind tables (96 MiB at most) and
    # programs are not in it.
    expect(0.9 * last[2] < kernel < 1.2 * last[2] + (110 << 20), "kernel memory:", own, last)
    expect(0.5 * all_pct - 1 < own["cpu_pct"] < 2 * all_pct + 1, "own CPU:", own, all_pct)
    # -a also traces the machine's own programs. So memtrace's memory may grow to its own limits: 64
    # MiB for profiles of ended processes, 256 for symbols, 32 for lines. In the kernel a table may
    # fill up. (The next test is stricter.)
    (few, _, few_kernel), (many, _, many_kernel) = taken[300], taken[1500]
    expect(many - few < 352 << 20, "grew from", mib(few), "to", mib(many), "with the ended ones")
    expect(many_kernel - few_kernel < 130 << 20, "the kernel's tables grew from", mib(few_kernel),
           "to", mib(many_kernel), "with the ended ones")
    expect(idle_pct < 80, f"{idle_pct:.1f} % of a core at idle load: does it spin?")
    return (f"{len(crowd.ended)} short-lived ones; memtrace: {idle_pct:.1f} % of a core idle, "
            f"{all_pct:.1f} % in all; {mib(few)} and {mib(few_kernel)} in the kernel after 300, "
            f"{mib(many)} and {mib(many_kernel)} after 1,500")


@test(long=True)
def processes_short_lived():
    """Each profile is exact, and the stacks of ended processes make room for those of later
    processes. The table has room for a third of all stacks. memtrace's memory does not grow with
    the number of processes."""
    crowd, taken = Crowd(), []

    def note_memory():
        if not taken and len(crowd.ended) >= 100:
            taken.append(own_bytes(tracer.process.pid))

    with Tracer("--comm", "family", "-i", "1", "--json", "-f", "none",
                "--max-stacks", "500") as tracer:
        crowd.storm(12, 50, lambda i: (20 + i % 150, 1000, 600), note_memory)
        taken.append(own_bytes(tracer.process.pid))
        profiles = by_pid(tracer.stop().out)
    crowd.check(profiles, 500)
    for pid, _, _ in crowd.ended:
        expect_equal(losses(profiles[pid]), {}, f"pid {pid}: losses")
    (few, _, few_kernel), (many, _, many_kernel) = taken
    # memtrace keeps the profiles of 500 ended processes: 16 KiB each, and malloc's own overhead
    expect(many - few < 10 << 20 and many_kernel - few_kernel < 2 << 20, "grew from", mib(few),
           "and", mib(few_kernel), "in the kernel to", mib(many), "and", mib(many_kernel))
    return (f"{mib(few)} and {mib(few_kernel)} in the kernel after 100, {mib(many)} and "
            f"{mib(many_kernel)} after {len(crowd.ended)}")


@test
def processes_own_cost():
    """The CPU time of a traced command, memtrace's child, does not count as memtrace's own."""
    spin = "import time\nwhile time.process_time() < 3: pass"
    profile = memtrace("--max-overhead", "off", "-i", "64K", "--json=-", "-f", "none",
                       "--", "python3", "-c", spin).json()
    expect(profile["duration_s"] > 2.8, "it took", profile["duration_s"], "s")
    own = profile["memtrace"]
    expect(0 <= own["cpu_pct"] * profile["duration_s"] < 150, own, profile["duration_s"])
    expect(1 << 20 < own["user_bytes"] < 1 << 30, own)


@test(beside="wide")
def processes_none_found():
    """A run that traced nothing fails, and says which processes it looked for."""
    for options in ((), ("--json",), ("-q",)):
        result = memtrace("--comm", "no-such-name", "--user", "0", "-d", "0.3", *options)
        expect_equal((result.status, result.out), (1, ""), result)
        expect_words(result.err, "nothing was traced", "--comm no-such-name --user 0")


@test
def processes_wrong_selection():
    for options, words in ((["--comm", ""], ["comm", "value"]),
                           (["--user", "nobody-knows"], ["no user", "nobody-knows"]),
                           (["--sort", "size"], ["growth", "size"]),
                           (["--sort", "rss", "-p", "1"], ["--sort", "processes", "-a"]),
                           (["--sort", "rss", "--", "true"], ["--sort", "processes", "-a"]),
                           (["--sort", "rss", "-a", "--json"], ["--sort", "--json"]),
                           (["--sort", "rss", "-a", "-q"], ["--sort", "--quiet"]),
                           (["-F"], ["which process"])):
        result = memtrace(*options, "-d", "1")
        expect_equal(result.status, 2, result)
        expect_words(result.err, *words)
    for options, words in ((["--cgroup", "/no/such/cgroup"], ["/no/such/cgroup"]),
                           (["--container", "0123456789abcdef"], ["0123456789abcdef"])):
        result = memtrace(*options, "-d", "1")
        expect_equal(result.status, 1, result)
        expect_words(result.err, *words)
