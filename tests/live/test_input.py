# SPDX-License-Identifier: BSD-2-Clause
"""Wrong input, missing rights and full disks lead to a clear message and the right status, and
leave nothing behind."""
import contextlib
import errno
import json
import os
import random
import re
import shlex
import sys
import time

from harness import (MEMTRACE, PATIENCE_S, Failure, NotRunnable, Target, Tracer, end, expect,
                     expect_equal, expect_words, found_kinds, memtrace, need_tool, place,
                     promised_kinds, read_line, run, start, test, wait_until)
from test_harmless import changed_text

QUICK = ("-d", "0.1", "-q", "-f", "none")


def refused(result, status, *words):
    """Checks that memtrace ended with this status, wrote no output, and wrote one line of error
    with these words. Wrong usage (status 2) adds a line with a hint."""
    expect_equal(result.status, status, result)
    expect_words(result.err, r"^memtrace: ", *words)
    expect_equal(result.out, "", f"output of {result}")
    lines = result.err.splitlines()
    expect_equal(len(lines), 2 if status == 2 else 1, f"lines of {lines}")


def refused_pid(pid, *words):
    refused(memtrace("-p", pid, *QUICK), 1, pid, *words)
    checked = memtrace("check", pid)
    expect_equal(checked.status, 1, checked)
    expect_words(checked.err, pid, *words)


# --- processes that cannot be traced ---

@test(beside=True)
def input_no_such_pid():
    child = start(["true"])
    child.wait(10)
    refused_pid(child.pid, "no process")
    refused_pid(2**31 - 1, "no process")


@test(beside=True)
def input_zombie():
    # the parent prints the child's pid, and never waits for the child
    parent = start([sys.executable, "-c", "import os,sys\npid = os.fork()\n"
                    "if not pid: os._exit(0)\nprint(pid, flush=True)\nsys.stdin.read()"])
    pid = parent.stdout.readline().strip()

    def state():
        with open(f"/proc/{pid}/stat", encoding="utf-8") as stat:
            return stat.read().rsplit(")", 1)[1].split()[0]
    wait_until(lambda: state() == "Z", "the zombie")
    refused_pid(pid, "ended")


@test(beside=True)
def input_kernel_thread():
    with open("/proc/2/stat", encoding="utf-8") as stat:
        if not int(stat.read().rsplit(")", 1)[1].split()[6]) & 0x200000:  # PF_KTHREAD
            raise NotRunnable("pid 2 is no kernel thread: this is a pid namespace")
    refused_pid(2, "kernel thread")


@test(beside=True)
def input_thread_id():
    with Target("truth_threads") as target:
        tids = {int(t) for t in os.listdir(f"/proc/{target.pid}/task")} - {target.pid}
        refused_pid(min(tids), "thread", f"-p {target.pid}")


@test(beside=True)
def input_memtrace_itself():
    """memtrace refuses to trace itself. A shell executes memtrace, so that $$ is memtrace's pid."""
    result = run(["sh", "-c", f"exec {shlex.quote(MEMTRACE)} -p $$ -d 0.1 -q -f none"])
    refused(result, 1, "itself")


STATIC = """
void _start(void)
{
	for (;;)
		__asm__ volatile("syscall" : : "a"(34) : "rcx", "r11", "memory"); /* pause */
}
"""


def compile_c(directory, text, *options):
    source, program = directory + "/program.c", directory + "/program"
    with open(source, "w", encoding="utf-8") as file:
        file.write(text)
    result = run([need_tool("gcc"), *options, source, "-o", program])
    return program if not result.status else None


@test(beside=True)
def input_no_allocator():
    with place() as directory:
        program = compile_c(directory, STATIC, "-nostdlib", "-static", "-fno-pie", "-no-pie")
        expect(program, "gcc made no static program")
        process = start([program])
        wait_until(lambda: os.readlink(f"/proc/{process.pid}/exe") == program, "exec")
        refused_pid(process.pid, "allocator")
        refused(memtrace(*QUICK, "--", program), 1, "allocator")
        end(process)


@test(beside=True)
def input_32_bit():
    with place() as directory:
        # the program does not use libc, so that it compiles even without a 32-bit libc
        program = compile_c(directory, STATIC.replace("34", "29").replace("syscall", "int $0x80")
                            .replace('"rcx", "r11", ', ""), "-m32", "-nostdlib", "-static")
        if not program:
            return "gcc -m32 does not work here"
        try:
            process = start([program])
        except OSError as error: # a kernel without IA32 emulation: memtrace has nothing to refuse
            expect(error.errno == errno.ENOEXEC, f"{program}: {error}")
            return None
        wait_until(lambda: os.readlink(f"/proc/{process.pid}/exe") == program, "exec")
        refused_pid(process.pid, "32-bit")
        end(process)


@test(beside=True, long=True)
def input_exits_during_attach():
    """The target ends at a random moment, and memtrace soon writes a profile or a message. The
    times are chosen so that some targets end in each stage of attaching."""
    seed = int.from_bytes(os.urandom(4), "little")
    dice = random.Random(seed)
    seen = {0: 0, 1: 0}
    for _ in range(30):
        with Target("truth_basic") as target, place() as directory:
            tracer = Tracer("-p", target.pid, "-o", directory + "/out", "-q", "--json", wait=False)
            time.sleep(dice.uniform(0, 0.4))
            target.process.kill()
            target.process.wait(10)  # so that no zombie is left
            result = tracer.wait(20)
            expect(result.status in seen, f"seed {seed}:", result)
            seen[result.status] += 1
            if result.status:
                expect_words(result.err, target.pid)
                expect_equal(os.listdir(directory), [], "files")
            else:
                expect_equal(result.json()["pid"], target.pid, "pid")
                expect_equal(len(os.listdir(directory)), 3, "files")
    return f"{seen[0]} profiles, {seen[1]} messages (seed {seed})"


# --- rights and the kernel ---

@test(beside=True)
def input_not_root():
    with Target("truth_basic") as target:
        # other users may not enter the build's directory, so the program is passed as a descriptor
        with open(MEMTRACE, "rb") as program:
            path = f"/proc/self/fd/{program.fileno()}"
            result = run([need_tool("setpriv"), "--reuid=65534", "--regid=65534",
                          "--clear-groups", path, "-p", target.pid, "-d", "0.1", "-f", "none"],
                         pass_fds=[program.fileno()])
        refused(result, 1, "root|sudo", "cap_", "missing")


@test(beside=True)
def input_not_root_nor_writable():
    """A user who is not root cannot write the output. The message advises sudo, not another
    directory, because root could write the output."""
    with Target("truth_basic") as target, place() as directory, open(MEMTRACE, "rb") as program:
        result = run([need_tool("setpriv"), "--reuid=65534", "--regid=65534", "--clear-groups",
                      f"/proc/self/fd/{program.fileno()}", "-p", target.pid, "-d", "0.1",
                      "-o", directory + "/out"],
                     pass_fds=[program.fileno()])
        refused(result, 1, "sudo", "missing")
        expect("cannot write" not in result.err, result)


@test(beside=True)
def input_missing_capability():
    """If root lacks one capability that is needed, the message names only this capability."""
    with Target("truth_basic") as target:
        for drop, name in (("-sys_admin,-perfmon", "cap_perfmon"), ("-sys_admin,-bpf", "cap_bpf"),
                           ("-sys_ptrace,-sys_admin,-bpf,-perfmon", "cap_sys_ptrace")):
            result = run([need_tool("setpriv"), f"--bounding-set={drop}", MEMTRACE, "-p",
                          target.pid, *QUICK])
            refused(result, 1, "missing", name)


def in_own_mounts(script, *args):
    """Runs a shell script in a mount namespace of its own. args: the script's arguments, from $1
    on."""
    return run([need_tool("unshare"), "-m", "--propagation", "private", "sh", "-ec", script, "sh",
                *args])


@test(beside=True)
def input_kinds_of_this_kernel():
    """memtrace finds all kinds of probe that the kernel's version promises."""
    expect(promised_kinds() <= found_kinds(), f"on {os.uname().release}: {found_kinds()}")


@test(beside=True)
def input_no_btf():
    with Target("truth_basic") as target:
        script = 'mount -t tmpfs none /sys/kernel/btf; exec "$@"'
        refused(in_own_mounts(script, MEMTRACE, "-p", target.pid, *QUICK), 1, "BTF",
                "CONFIG_DEBUG_INFO_BTF")
        result = in_own_mounts(script, MEMTRACE, "check")
        expect_equal(result.status, 1, result)
        expect_words(result.out, "NO +BTF")


@test(beside=True)
def input_missing_kind():
    for kind in {"session", "multi", "perf"} - found_kinds():
        with Target("truth_basic") as target:
            refused(memtrace("-p", target.pid, "--probe-kind", kind, *QUICK), 1, kind)


@test(beside=True)
def input_perf_everywhere():
    """With perf uprobes in the code of every process, memtrace cannot keep a limit. So it refuses
    perf uprobes there, even if the user chose them on a kernel that has better kinds."""
    if "perf" in found_kinds():
        refused(memtrace("-a", "--probe-kind", "perf", *QUICK), 1,
                "memtrace: perf uprobes .*-p.*--max-overhead off")


# --- the command line ---

@test(beside=True)
def input_usage():
    pid = os.getpid()
    for options, words in (
            (["-i", "0", "-p", pid], ["'0'", "interval"]),
            (["-i", "", "-p", pid], ["''", "interval"]),
            (["-i", "many", "-p", pid], ["'many'", "interval"]),
            (["-i", "-5", "-p", pid], ["'-5'", "interval"]),
            (["-i", "5G", "-p", pid], ["'5G'", "interval"]),
            (["-i", "4Q", "-p", pid], ["'4Q'", "interval"]),
            (["-i", "18446744073709551617", "-p", pid], ["interval"]),
            (["-i", "0x10", "-p", pid], ["interval"]),
            (["-i", "1.5K", "-p", pid], ["interval"]),
            (["-d", "0", "-p", pid], ["'0'", "duration"]),
            (["-d", "-1", "-p", pid], ["'-1'", "duration"]),
            (["-d", "soon", "-p", pid], ["'soon'", "duration"]),
            (["-d", "nan", "-p", pid], ["'nan'", "duration"]),
            (["-d", "inf", "-p", pid], ["'inf'", "duration"]),
            (["-d", "", "-p", pid], ["duration"]),
            (["-f", "dot,heap", "-p", pid], ["'dot'", "format"]),
            (["-o", "", "-p", pid], ["prefix|output"]),
            (["-n", "0", "-p", pid], ["'0'", "rows"]),
            (["--probe-kind", "magic", "-p", pid], ["'magic'", "kind"]),
            (["--frobnicate"], ["frobnicate"]),
            (["-Z"], ["-Z"]),
            (["-p"], ["-p", "value"]),
            (["-p", "one"], ["'one'", "pid", "--comm"]),
            (["-p", "1,"], ["''", "pid"]),
            (["-p", "0"], ["'0'", "pid"]),
            (["-p", "-1"], ["'-1'", "pid"]),
            (["-p", "99999999999"], ["'99999999999'", "pid"]),
            (["--"], ["which process"]),
            (["-p", "1", "2"], ["separated by commas"]),
            (["frobnicate"], ["'frobnicate'", "pgrep -d, -x frobnicate"]),
            (["1234"], ["'1234'", "memtrace -p 1234"]),
            (["./leak"], ["'./leak'", "memtrace -- ./leak"]),
            (["-p", pid, "true"], ["'true'", "--"]),
            (["-p", pid, "--", "true"], ["cannot be combined"]),
            (["check", "one"], ["'one'", "pid"]),
            (["check", "1", "2"], ["one pid"]),
    ):
        result = memtrace(*options)
        try:
            refused(result, 2, *words)
        except Failure as e:
            raise Failure(f"memtrace {' '.join(map(str, options))}: {e}") from None
    result = memtrace()
    expect_equal((result.status, result.out), (2, ""), "without arguments")
    expect_words(result.err, "-p PID", "--")


@test(beside=True)
def input_help():
    for options, words in ((["--help"], ["-p PID", "check"]), (["record", "--help"], ["--pid"]),
                           (["check", "--help"], ["check"]), (["--version"], [r"memtrace \d"])):
        result = memtrace(*options)
        expect_equal((result.status, result.err), (0, ""), result)
        expect_words(result.out, *words)
        lines = result.out.splitlines()
        expect(len(lines) <= 50 and max(map(len, lines)) <= 80, "more than two screens:",
               result.out)


# --- places to write to ---

UNITS = {"B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}


def check_says(select):
    """Bytes of kernel memory that `memtrace check` announces, and how many of these depend on the
    number of CPUs."""
    line = re.search(rf"^ *{select} .*", memtrace("check").out, re.M)
    expect(line, f"check says nothing of {select}")
    return [float(n) * UNITS[unit]
            for n, unit in re.findall(r"([\d.]+) (B|KiB|MiB|GiB)\b", line[0])][:2]


def tables_of(pid):
    """The bytes of the process's BPF maps, as the kernel counts them: of all maps, and of the maps
    that have a part for each CPU. Each map counts once."""
    found = {}
    for fd in os.listdir(f"/proc/{pid}/fdinfo"):
        with contextlib.suppress(OSError), \
                open(f"/proc/{pid}/fdinfo/{fd}", encoding="utf-8") as file:
            info = dict(line.split(":", 1) for line in file if ":" in line)
            if "map_type" in info:
                # PERCPU_ARRAY
                found[info["map_id"]] = int(info["memlock"]), int(info["map_type"]) == 6
    return sum(n for n, _ in found.values()), sum(n for n, each_cpu in found.values() if each_cpu)


@test
def check_kernel_memory():
    """The kernel memory that `memtrace check` announces is what the kernel counts during the run,
    with two exceptions: samples that are recorded meanwhile, and the buffers for records of
    mappings. The kernel counts these buffers, half a megabyte for each CPU, elsewhere."""
    cpus = os.sysconf("SC_NPROCESSORS_CONF")
    with Target("truth_basic") as target:
        for select, args in (("-p", ("-p", target.pid)), ("-a,", ("--comm", "truth_basic"))):
            said, for_cpus = check_says(select)
            with Tracer(*args, "--what", "heap,regions", "-q", "-f", "none") as tracer:
                counted, counted_cpus = tables_of(tracer.process.pid)
            buffers = cpus * 129 * 4096
            expect(abs(said - buffers - counted) < 0.03 * counted,
                   f"{select} {said} B said, {counted} B counted")
            expect(abs(for_cpus - buffers - counted_cpus) < 0.1 * counted_cpus + (64 << 10) * cpus,
                   f"{select} for CPUs {for_cpus} B said, {counted_cpus} B counted")
    return f"{said / 2**20:.1f} MiB said, {(counted + buffers) / 2**20:.1f} counted"


def with_descriptors(n, *args):
    return [need_tool("prlimit"), f"--nofile={n}:{n}", MEMTRACE, *args]


@test(beside=True)
def input_few_descriptors():
    """With too few descriptors memtrace says how many it may have and how many it needs, and does
    not begin. With just enough descriptors it captures all memory and writes all files."""
    with Target("truth_basic") as target:
        for select in (("-p", target.pid), ("--comm", "truth_basic")):
            for n in (6, 12, 64):
                result = run(with_descriptors(n, *select, *QUICK))
                expect_equal(result.status, 1, result)
                expect_words(result.err, rf"memtrace: .*may have {n} files open .*raise the limit")
                expect_equal(changed_text(target.pid), [], "code that is changed")
    # descriptors needed without a pid; one pid needs four more
    needed = int(re.search(r"needs (\d+) at least", result.err)[1])
    refused(run(with_descriptors(needed + 3, "-p", os.getpid(), *QUICK)), 1,
            f"needs {needed + 4} at least")
    for options in (), ("--what", "heap,regions"):
        with Target("truth_basic") as target, place() as directory:
            tracer = start(with_descriptors(needed + 4, "-v", "-p", target.pid, "-i", "1",
                                            "--max-overhead", "off", "--json", "-o",
                                            directory + "/out", *options))
            try:
                while "; tracing" not in (line := read_line(tracer, tracer.stderr)):
                    pass
                truth = target.go()
                tracer.send_signal(2)
                out, err = tracer.communicate(timeout=PATIENCE_S)
            finally:
                end(tracer)
            expect_equal(tracer.returncode, 0, err)
            profile = json.loads(out.splitlines()[0])
            expect_equal(profile["live_bytes"],
                         sum(w["live_bytes"] for w in truth["functions"].values()), "live bytes")
            expect(profile["files"] and all(os.path.getsize(path) for path in profile["files"]),
                   "files", profile["files"])


@test(beside="wide")
def input_few_descriptors_for_many():
    """With more processes than descriptors, memtrace says which processes are not traced, and
    writes the profiles of the others."""
    with contextlib.ExitStack() as stack, place() as directory:
        targets = [stack.enter_context(Target("truth_basic")) for _ in range(60)]
        tracer = start(with_descriptors(110, "-v", "--comm", "truth_basic", "-i", "1",
                                        "--max-overhead", "off", "--json", "-o",
                                        directory + "/out"))
        try:
            while "; tracing" not in (line := read_line(tracer, tracer.stderr)):
                pass
            # only every 12th target allocates, because the tables cannot hold the memory of all
            truths = {target.pid: target.go() for target in targets[::12]}
            tracer.send_signal(2)
            out, err = tracer.communicate(timeout=PATIENCE_S)
        finally:
            end(tracer)
        expect_equal(tracer.returncode, 0, err)
        profiles = {p["pid"]: p for p in map(json.loads, out.splitlines())}
        whole = 0
        for pid, truth in truths.items():
            expect(pid in profiles, f"pid {pid} is missing")
            if profiles[pid].get("not_traced"):
                continue
            whole += 1
            expect_equal(profiles[pid]["live_bytes"],
                         sum(w["live_bytes"] for w in truth["functions"].values()), "live bytes")
            files = profiles[pid]["files"]
            expect(files and all(os.path.getsize(path) for path in files), "files", files)
    return f"{whole} of {len(truths)} traced"


def refused_before_start(target, output, *words, runner=run):
    """The error is found before tracing begins: a run with -d 30 would take longer than the test
    allows."""
    begin = time.monotonic()
    result = runner([MEMTRACE, "-p", target.pid, "-d", "30", "-o", output])
    refused(result, 1, *words)
    expect(time.monotonic() - begin < 25, "told only after the run")


@test(beside=True)
def output_missing_directory():
    with Target("truth_basic") as target, place() as directory:
        refused_before_start(target, directory + "/not/there", "No such file or directory",
                             re.escape(directory + "/not/there"))
        result = memtrace("-p", target.pid, "-d", "30", f"--json={directory}/not/json", "-f",
                          "none")
        refused(result, 1, "No such file or directory", "not/json")


@test(beside=True)
def output_is_a_directory():
    with Target("truth_basic") as target, place() as directory:
        os.mkdir(f"{directory}/out.{target.pid}.heap")
        refused_before_start(target, directory + "/out", f"out.{target.pid}.heap")


@test(beside=True)
def output_nowhere_by_default():
    """Nobody asked for files, so a directory without room for them does not stop the run."""
    with Target("truth_basic") as target, place() as directory:
        result = in_own_mounts(
            f'mount -t tmpfs -o ro none {directory}; cd {directory}; exec "$@"',
            MEMTRACE, "-p", str(target.pid), "-d", "0.5", "-i", "1")
        expect_equal(result.status, 0, result)
        expect_words(result.err, "Read-only file system", "No files are written; -o DIR/")
        expect_words(result.out, rf"^memtrace: pid {target.pid} \(truth_basic\)")
        refused(in_own_mounts(f'mount -t tmpfs -o ro none {directory}; cd {directory}; exec "$@"',
                              MEMTRACE, "-p", str(target.pid), "-d", "0.5", "-f", "heap"),
                1, "Read-only")


@test(beside=True)
def output_read_only():
    with Target("truth_basic") as target, place() as directory:
        refused_before_start(target, directory + "/out", "Read-only", runner=lambda args:
                             in_own_mounts(f'mount -t tmpfs -o ro none {directory}; exec "$@"',
                                           *args))


@test(beside=True)
def output_not_permitted():
    """Root can write everywhere with CAP_DAC_OVERRIDE, but not without it."""
    with Target("truth_basic") as target, place() as directory:
        os.chown(directory, 65534, 65534)
        os.chmod(directory, 0o500)
        refused_before_start(target, directory + "/out", "Permission denied",
                             runner=lambda args: run([need_tool("setpriv"), "--bounding-set",
                                                      "-dac_override", *args]))


def in_small_disk(directory, script, *args):
    return in_own_mounts(f"mount -t tmpfs -o size=64k none {directory}; {script}", *args)


@test(beside=True)
def output_disk_is_full():
    with Target("truth_basic") as target, place() as directory:
        fill = f"dd if=/dev/zero of={directory}/fill bs=4k 2>/dev/null || true; "
        refused_before_start(target, directory + "/out", "No space", runner=lambda args:
                             in_small_disk(directory, fill + 'exec "$@"', *args))


@test(beside=True)
def output_disk_fills_meanwhile():
    """The disk fills during the run. An earlier file stays as it was, and no half-written file is
    left."""
    with Target("truth_sampled", "--scale", "20") as target, place() as directory:
        # $1 the pid, $2 memtrace
        script = f"""
            cd {directory}
            echo earlier >out.$1.heap
            "$2" -v -p $1 -d 2 -i 64K -o out -f heap >/dev/null 2>err & memtrace=$!
            until grep -q tracing err; do sleep 0.05; done
            dd if=/dev/zero of=fill bs=4k 2>/dev/null || true
            status=0; wait $memtrace || status=$?
            grep -v probe err; echo "status $status"; cat out.$1.heap; ls"""
        # the target may run before tracing begins: a heap file is written in any case
        target.say("go")
        result = in_small_disk(directory, script, target.pid, MEMTRACE)
        expect_equal(result.status, 0, result)
        expect_words(result.out, f"cannot write out.{target.pid}.heap: No space", "^status 1$",
                     "^earlier$")
        files = result.out.split("earlier\n")[1].split()
        expect_equal(sorted(files), ["err", "fill", f"out.{target.pid}.heap"], "files")


@test(beside=True)
def output_full_device():
    with Target("truth_basic") as target, open("/dev/full", "w", encoding="utf-8") as full:
        for options in (["--json"], []):
            result = memtrace("-p", target.pid, "-d", "0.1", "-f", "none", *options, stdout=full)
            expect_equal(result.status, 1, result)
            expect_words(result.err, "standard output", "No space")
        for args in (["--help"], ["--version"], ["diff", "--help"], ["check"]):
            result = memtrace(*args, stdout=full)
            expect_equal(result.status, 1, result)
            expect_words(result.err, "cannot write .*standard output")


@test(beside=True)
def output_closed():
    """The files are written even if stdout is closed, or is a pipe that nobody reads."""
    with Target("truth_basic") as target:
        for redirect in (">&-", "| true"):
            with place() as directory:
                result = run(["sh", "-c", f'{{ "$@"; echo "status $?" >&2; }} {redirect}', "sh",
                              MEMTRACE, "-p", target.pid, "-d", "0.3", "-o", directory + "/out"])
                expect_words(result.err, "status 1$", "memtrace: .*standard output")
                expect_equal(len(os.listdir(directory)), 3, "files")
