# SPDX-License-Identifier: BSD-2-Clause
"""What the options promise, and the ways in which a run ends."""
import json
import os
import re
import signal
import sys
import time

from harness import (Endless, MEMTRACE, Failure, PATIENCE_S, PROGS, Target, Tracer, by_function,
                     end, expect, expect_equal, expect_words, memtrace, need_tool, place, run,
                     start, test, test_each_kind, wait_until)

BASIC = os.path.join(PROGS, "truth_basic")
KEYS = {"pid", "comm", "duration_s", "mode", "interval_bytes", "alloc_calls", "free_calls",
        "samples", "live_bytes", "live_bytes_low", "live_bytes_high", "live_objects",
        "contradictions", "overhead_pct", "stacks", "lost", "probes", "files"}


def children(pid):
    with open(f"/proc/{pid}/task/{pid}/children", encoding="utf-8") as file:
        return [int(child) for child in file.read().split()]


# --- output ---

@test(beside=True)
def options_json_file():
    """The file has one JSON object per process, each on a line, with the documented keys. Nothing
    is written to stdout."""
    with place() as directory, Target("truth_basic") as first, Target("exec_chain") as second:
        pids = [first.pid, second.pid]
        with Tracer("-p", f"{first.pid},{second.pid}", "-i", "1", f"--json={directory}/json",
                    "-o", directory + "/out") as tracer:
            truths = [first.go(), second.go()]
            result = tracer.stop()
        expect_equal(result.out, "", "stdout")
        with open(directory + "/json", encoding="utf-8") as file:
            profiles = [json.loads(line) for line in file]
        expect_equal([p["pid"] for p in profiles], pids, "pids")
        for profile, truth in zip(profiles, truths):
            expect(KEYS <= profile.keys(), "keys missing:", KEYS - profile.keys())
            functions = truth["functions"]
            for name, (nbytes, objects, _) in by_function(profile, functions).items():
                expect_equal((nbytes, objects), (functions[name]["live_bytes"],
                                                 functions[name]["live_objects"]), name)
            for stack in profile["stacks"]:
                expect({"live_bytes", "live_bytes_low", "live_bytes_high", "live_objects",
                        "frames"} <= stack.keys(), stack)
            for probe in profile["probes"]:
                expect({"function", "object", "offset", "instruction", "emulated",
                        "kind"} <= probe.keys(), probe)
            expect_equal(profile["files"], [f"{directory}/out.{profile['pid']}.{extension}"
                                            for extension in ("heap", "collapsed",
                                                             "pb.gz")], "files")
        expect_equal(sorted(os.listdir(directory)),
                     sorted(["json", *(os.path.basename(f) for p in profiles
                                       for f in p["files"])]), "files")
        for target in (first, second):
            expect_equal(target.quit(), 0, "status of the target")


def forgotten_bytes(path):
    """Live bytes of the program's leak in a collapsed profile."""
    with open(path, encoding="utf-8") as file:
        lines = [line.rsplit(" ", 1) for line in file]
    return sum(int(n) for stack, n in lines if "forget" in stack.split(";"))


@test  # not beside other tests: on two CPUs a snapshot would come a second late
def options_snapshots():
    """Snapshots come each second, and on request. Each file is whole, and shows the state at the
    time of its snapshot. The tracing goes on."""
    with place() as directory, Endless("leaking", "--rate", "2000", "--leak", "300000") as target:
        prefix, suffix = f"{directory}/out.{target.pid}.", ".collapsed"
        with Tracer("-p", target.pid, "-i", "1", f"--json={directory}/json", "--every", "1", "-o",
                    directory + "/out") as tracer:
            begin = target.ask("truth")
            held = []
            for n in (1, 2, 3):
                path = f"{prefix}{n:04}{suffix}"
                wait_until(lambda p=path: os.path.exists(p), "snapshot")
                held.append((forgotten_bytes(path), target.ask("truth")))
            os.kill(tracer.process.pid, signal.SIGUSR1)
            wait_until(lambda: os.path.exists(f"{prefix}0004{suffix}"), "the one asked for")
            tracer.stop()
        # The truth is read a little later than the snapshot. So the two may differ by the leak of
        # half a second.
        for bytes_, then in held:
            leaked = then["leaked_bytes"] - begin["leaked_bytes"]
            expect(abs(bytes_ - leaked) < 150000, bytes_, "bytes in the snapshot,",
                   leaked, "leaked")
        names = sorted(name for name in os.listdir(directory) if name.endswith(".heap"))
        expect(f"out.{target.pid}.heap" in names and f"out.{target.pid}.0003.heap" in names, names)
        with open(directory + "/json", encoding="utf-8") as file:
            told = json.load(file)
        expect_equal(sorted(os.path.basename(path) for path in told["snapshots"]),
                     sorted(name for name in os.listdir(directory)
                            if re.match(rf"out\.{target.pid}\.\d{{4}}\.", name)), "snapshots told")
        expect_equal(told["files"], [prefix + extension for extension in
                                     ("heap", "collapsed", "pb.gz")], "files told")
        expect(forgotten_bytes(prefix + "collapsed") > held[-1][0], "less at the end than before")
        target.stop()


@test(beside=True)
def options_snapshots_by_bytes_and_peaks():
    """Snapshots by allocated bytes, and at peaks, are numbered without a gap. The last file has no
    number."""
    with place() as directory, Endless("leaking", "--rate", "2000", "--leak", "4000000") as target:
        for cause in (("--every", "8M"), ("--peak",)):
            prefix, suffix = f"{directory}/{cause[0]}.{target.pid}.", ".collapsed"
            # Traces continuously even on a busy machine, because windows count only bytes that are
            # allocated in windows.
            with Tracer("-p", target.pid, "-i", "4K", "-q", "-f", "collapsed", *cause,
                        "--max-overhead", "off", "-o", f"{directory}/{cause[0]}") as tracer:
                begin = time.monotonic()
                wait_until(lambda p=f"{prefix}0002{suffix}": os.path.exists(p),
                           f"two by {cause[0]}")
                seconds = time.monotonic() - begin
                tracer.stop()
            files = sorted(name for name in os.listdir(directory) if name.startswith(cause[0]))
            numbered = [f"{prefix}{n:04}{suffix}" for n in range(1, len(files))]
            expect_equal(files,
                         sorted(map(os.path.basename, [*numbered, prefix + suffix[1:]])), "files")
            held = [forgotten_bytes(path) for path in numbered]
            expect(held == sorted(set(held)) and held[0] > 0, "no later ones:", held)
            # --every: the target leaks 4 MB/s, and other functions allocate, too. --peak: memtrace
            # checks for a peak every tenth of a second.
            most = (3 if cause[0] == "--every" else 10) * seconds + 3
            expect(len(numbered) <= most, len(numbered), "in", seconds, "s:", files)
        target.stop()


@test(beside=True)
def options_duration():
    with Target("truth_basic") as target, place() as directory:
        profile = memtrace("-p", target.pid, "-d", "0.5", "--json", "-o",
                           directory + "/out").json()
        # memtrace may end late, but not early
        expect(0.5 <= profile["duration_s"] < PATIENCE_S, "duration", profile["duration_s"])


@test(beside=True)
def options_ends_before_duration():
    """If a target ends before -d is over, the run ends with it and says so. report says so, too."""
    with place() as directory, Target("truth_basic") as target:
        with Tracer("-p", target.pid, "-i", "1", "-d", "30", "-f", "pprof",
                    "-o", directory + "/out") as tracer:
            target.go()
            target.quit()
            result = tracer.wait(PATIENCE_S)
        wanted = rf"^pid {target.pid} ended after \d+\.\d s of 30$"
        expect_equal(result.status, 0, result)
        expect_words(result.out, wanted)
        expect_words(memtrace("report", f"{directory}/out.{target.pid}.pb.gz").out, wanted)


@test(beside=True)
def options_quiet_and_formats():
    with place() as directory:
        for options, extensions in ((["-f", "heap"], ["heap"]),
                                    (["-f", "collapsed"], ["collapsed"]),
                                    (["-f", "svg,heap"], ["heap", "svg"]),
                                    (["-f", "none"], []), ([], ["collapsed", "gz", "heap"])):
            result = memtrace("-q", *options, "-o", directory + "/out", "--", "true")
            expect_equal((result.status, result.out, result.err), (0, "", ""), result)
            found = sorted(name.rsplit(".", 1)[1] for name in os.listdir(directory))
            expect_equal(found, extensions, options)
            for name in os.listdir(directory):
                expect(re.fullmatch(r"out\.\d+\.(heap|collapsed|pb\.gz|svg)", name), name)
                os.unlink(f"{directory}/{name}")


@test(beside=True)
def options_default_output():
    """By default memtrace.PID.heap, .collapsed and .pb.gz are written to the current directory."""
    with place() as directory:
        result = memtrace("--", "true", cwd=directory)
        expect_equal((result.status, result.out), (0, ""), result)
        expect_equal(sorted(re.sub(r"\d+", "PID", name) for name in os.listdir(directory)),
                     ["memtrace.PID.collapsed", "memtrace.PID.heap", "memtrace.PID.pb.gz"], "files")
        for name in os.listdir(directory):
            expect_words(result.err, "written:.*" + re.escape(name))


@test(beside=True)
def options_top():
    counts = []
    for top in (3, 1000):
        result = memtrace("-n", top, "-i", "1", "-f", "none", "--", BASIC, "--auto")
        rows = [line for line in result.err.splitlines() if re.match(r" *[\d.]+ (B|[KM]iB) ", line)]
        counts.append(len(rows))
        expect_equal("more stacks" in result.err, top == 3, "the rest")
    expect_equal(counts[0], 3 + 1, "rows")
    expect(counts[1] > 12, "rows", counts[1])


@test(beside=True)
def options_max_live():
    """If the table of live blocks is full, its blocks stay right, and a counter has the number of
    dropped blocks."""
    result = memtrace("-i", "1", "--max-live", "1000", "--json=-", "-f", "none", "--", BASIC,
                      "--auto")
    truth, profile = map(json.loads, result.out.splitlines())
    live = sum(f["live_objects"] for f in truth["functions"].values())
    expect(profile["lost"]["live_full"] > 0, "nothing counted as dropped")
    expect(0 < profile["live_objects"] <= 1000 < live, profile["live_objects"])
    expect_equal(profile["live_bytes_high"], None, "an upper bound that nobody knows")
    for name, (nbytes, _, _) in by_function(profile, truth["functions"]).items():
        expect(nbytes <= truth["functions"][name]["live_bytes"], f"too much in {name}: {nbytes}")


@test(beside=True)
def options_small_tables():
    """Only the target's own blocks and stacks are in the tables."""
    for option, n in (("--max-live", 10), ("--max-stacks", 2)):
        profile = json.loads(memtrace("-i", "1", option, str(n), "--json=-", "-f", "none", "--",
                                      os.path.join(PROGS, "churn"), "--auto", "--pairs", "1",
                                      "--threads", "20").out.splitlines()[-1])
        expect(profile["samples"] > 0, f"{option} {n}: nothing recorded", profile["lost"])


@test(beside=True)
def check_shows_a_process():
    with Target("truth_basic") as target:
        result = memtrace("check", target.pid)
        expect_equal((result.status, result.err), (0, ""), result)
        expect_words(result.out, "^Kernel: ", r"yes +privileges", "<- used", "Hazards", target.pid,
                     "truth_basic", r"libc\.so\.6")
        # the costs are measured, so none of them is 0
        expect_words(result.out, r"such a call takes [1-9]\d+ ns longer .*system calls [1-9]\d+, .*"
                     r"machine [1-9]\d*\)")
        for function in ("malloc", "calloc", "realloc", "posix_memalign", "free"):
            expect_words(result.out, rf"^ +{function} +\+\d+ .* \d+ ns$")
        expect(target.go()["alloc_calls"] > 0, "no calls")
        expect_equal(target.quit(), 0, "status of the target")


# --- the end of a run ---

@test(beside=True)
def end_by_signal():
    """SIGINT, SIGTERM and SIGHUP end the run, and nothing is lost. (The tests may run under nohup,
    which makes programs ignore SIGHUP. Then SIGHUP does not end the run.)"""
    for sig in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        with Target("truth_basic") as target, place() as directory:
            with Tracer("-p", target.pid, "-i", "1", "--json", "-o", directory + "/out",
                        preexec_fn=lambda s=sig: signal.signal(s, signal.SIG_DFL)) as tracer:
                truth = target.go()
                profile = tracer.stop(sig).json()
            live = sum(f["live_bytes"] for f in truth["functions"].values())
            expect_equal(profile["live_bytes"], live, f"live bytes after {sig.name}")
            expect_equal(len(os.listdir(directory)), 3, f"files after {sig.name}")
            expect(target.alive(), "the target died")


@test(beside=True)
def end_by_lost_connection():
    """When ssh without a terminal loses its connection, no signal comes, but both streams lose
    their reader. The run ends, and its files are written. With -d, the run goes on."""
    with place() as directory, Target("truth_basic") as target:
        def begin(*options):
            process = start([MEMTRACE, "-p", target.pid, "-v", "-i", "1", *options])
            for line in process.stderr:
                if "tracing" in line:
                    break
            process.stdout.close()
            process.stderr.close()
            return process
        lost = begin("-o", directory + "/lost")
        wait_until(lambda: lost.poll() is not None, "the end of the run")
        expect_equal(sorted(os.listdir(directory)),
                     [f"lost.{target.pid}.{extension}" for extension in
                      ("collapsed", "heap", "pb.gz")], "files")
        goes_on = begin("-o", directory + "/on", "-d", "5")
        time.sleep(2)
        expect(goes_on.poll() is None, "a run with -d has ended early")
        wait_until(lambda: goes_on.poll() is not None, "the end of -d")
        expect(os.path.exists(f"{directory}/on.{target.pid}.pb.gz"), "no file")
        expect(target.alive(), "the target died")


@test(beside=True)
def end_by_signal_of_a_background_job():
    """A shell without job control starts `memtrace ... &` with SIGINT ignored. Nevertheless a
    SIGINT ends the run."""
    with Target("truth_basic") as target:
        with Tracer("-p", target.pid, "-i", "1", "--json", "-f", "none",
                    preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_IGN)) as tracer:
            truth = target.go()
            profile = tracer.stop(signal.SIGINT).json()
        expect_equal(profile["live_bytes"],
                     sum(f["live_bytes"] for f in truth["functions"].values()), "live bytes")


@test(beside=True)
def end_of_the_target():
    """The target's exit ends the run. The memory that it held at the end is in the profile, with
    names."""
    with Target("truth_basic") as target, place() as directory:
        with Tracer("-p", target.pid, "-i", "1", "--json", "-o", directory + "/out") as tracer:
            truth = target.go()
            expect_equal(target.quit(), 0, "status of the target")
            result = tracer.wait()
        expect_equal(result.status, 0, result)
        held = by_function(result.json(), truth["functions"])
        for name, wanted in truth["functions"].items():
            expect_equal(held.get(name, [0])[0], wanted["live_bytes"], name)


@test(beside=True)
def end_of_one_of_two():
    with Target("truth_basic") as first, Target("truth_basic") as second:
        with Tracer("-p", f"{first.pid},{second.pid}", "-i", "1", "--json", "-f", "none") as tracer:
            truth = first.go()
            first.quit()
            second.go()
            lines = tracer.stop().out.splitlines()
        live = sum(f["live_bytes"] for f in truth["functions"].values())
        expect_equal([json.loads(line)["live_bytes"] for line in lines], [live, live], "live bytes")


@test(beside=True)
def leaks_of_a_moment():
    """A run too short to measure growth says so, instead of leaving the column out."""
    with Target("truth_basic") as target:
        result = memtrace("-p", target.pid, "-d", "0.3", "-f", "none", "--leaks")
        expect_words(result.out, "which stacks leak cannot be told: it does not tell growth, for")
        expect("GROWTH/s" not in result.out, "a growth that nobody knows:\n" + result.out)


# --- commands ---

def command(*args, **options):
    return memtrace("-q", "-f", "none", "--", *args, **options)


@test(beside=True)
def command_statuses():
    for script, status in (("exit 0", 0), ("exit 7", 7), ("exit 255", 255), ("kill -9 $$", 137),
                           ("kill -TERM $$", 143)):
        result = command("sh", "-c", script)
        expect_equal((result.status, result.out, result.err), (status, "", ""), script)


@test(beside=True)
def command_cannot_run():
    with place() as directory:
        with open(directory + "/text", "w", encoding="utf-8") as file:
            file.write("no program\n")
        for name, words in (("no-such-program-anywhere", "No such file"),
                            (directory + "/none", "No such file"),
                            (directory + "/text", "Permission denied"),
                            (directory, "Permission denied|directory")):
            result = command(name)
            expect_equal((result.status, result.out), (1, ""), result)
            expect_words(result.err, "^memtrace: ", re.escape(name), words)


@test(beside=True)
def command_gets_its_streams_and_arguments():
    result = command("sh", "-c", 'cat; echo "$@" >&2', "sh", "-d", "--", "a b", input="text")
    expect_equal((result.status, result.out, result.err), (0, "text", "-d -- a b\n"), result)


@test(beside=True)
def command_has_stdout_for_itself():
    """A pipe on stdout gets only the command's output. With -o - and --json=- it also gets
    memtrace's output."""
    for option in ((), ("--json",), ("--what", "heap,regions"), ("--max-overhead", "5")):
        result = memtrace("-i", "1", "-f", "none", *option, "--", "echo", "said")
        expect_equal((result.status, result.out), (0, "said\n"), option)
        if "--json" in option:
            expect_equal(json.loads(result.err)["comm"], "echo", "JSON on stderr")
        else:
            expect_words(result.err, r"^memtrace: pid \d+ \(echo\)", "WHERE")
    for option in (("-o", "-"), ("--json=-",), ("-o", "-", "--json")):
        result = memtrace("-i", "1", "-f", "none", *option, "--", "echo", "said")
        expect_equal((result.status, result.err), (0, ""), option)
        expect_words(result.out, "^said",
                     r"^\{" if "json" in "".join(option) else r"^memtrace: pid \d+ \(echo\)")
    # "-o -" sets no prefix for files. Their prefix is that of an earlier -o, or the default.
    with place() as directory:
        for option in (("-o", "-"), ("-o", "out", "-o", "-")):
            expect_equal(memtrace("-f", "heap", *option, "--", "true", cwd=directory).status,
                         0, option)
        names = sorted(re.sub(r"\d+", "PID", name) for name in os.listdir(directory))
        expect_equal(names, ["memtrace.PID.heap", "out.PID.heap"], "files")
        result = memtrace("-i", "1", "-f", "none", f"--json={directory}/json", "--", "echo", "said")
        expect_equal((result.status, result.out, result.err), (0, "said\n", ""), "JSON in a file")
    with open("/dev/full", "w", encoding="utf-8") as full:
        result = memtrace("-f", "none", "--", "echo", "said", stderr=full)
        expect_equal((result.status, result.out), (1, "said\n"),
                     "a table that could not be written")


@test(beside=True)
def command_whose_children_work():
    """A shell, like a compiler's driver, has busy children. The table's head says that they are not
    traced, unless -F is given."""
    busy = "i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done"
    for script, told in ((f"sh -c '{busy}'; exit 0", True), (busy, False)):
        result = memtrace("-f", "none", "--", "sh", "-c", script)
        expect_equal(result.status, 0, result)
        expect_equal(bool(re.search(r"^NOT TRACED: its children, which used \d+ % .*-F",
                                    result.err, re.M)), told, result.err)
    result = memtrace("-f", "none", "-F", "--", "sh", "-c", f"sh -c '{busy}'; exit 0")
    expect_equal((result.status, "NOT TRACED" in result.err), (0, False), result)


@test(beside=True)
def children_of_a_named_process():
    """The named process has forked its workers. The table's head tells how many are not traced,
    unless -F is given."""
    parent = start(["sh", "-c", "sleep 60 & sleep 60 & sleep 60; true"], start_new_session=True)
    try:
        wait_until(lambda: len(children(parent.pid)) == 3, "the children")
        result = memtrace("-p", parent.pid, "-d", 0.5, "-f", "none", "--json")
        expect_equal(result.json()["untraced_children"], 3, "children in the JSON")
        for options, told in (((), True), (("-F",), False)):
            result = memtrace("-p", parent.pid, "-d", 0.5, "-f", "none", *options)
            expect_equal("\nNOT TRACED: 3 children of this process" in result.out, told, result)
    finally:
        os.killpg(parent.pid, signal.SIGKILL)
        end(parent)
    # a zombie, a child that has ended and that its parent does not reap, is not counted
    parent = start([sys.executable, "-c", "import os, time; os.fork() or os._exit(0); "
                                          "time.sleep(60)"])
    try:
        wait_until(lambda: children(parent.pid), "the child")
        result = memtrace("-p", parent.pid, "-d", 0.5, "-f", "none", "--json")
        expect("untraced_children" not in result.json(), result)
    finally:
        end(parent)


HEIGHTS = """
#include <stdlib.h>
#include <unistd.h>
static void *held[100];
__attribute__((noipa)) static void valley(void) { held[0] = malloc(70000); free(held[0]); }
__attribute__((noipa)) static void climb(void)
{
    for (int i = 0; i < 100; i++)
        held[i] = malloc(10000);
}
__attribute__((noipa)) static void descend(void) { for (int i = 0; i < 100; i++) free(held[i]); }
__attribute__((noipa)) static void last(void)
{
    for (int i = 0; i < 50; i++)
        held[i] = malloc(1000);
}
int main(int argc, char **argv)
{
    (void)argv;
    usleep((argc > 1) * 300000);
    valley();
    climb();
    descend();
    last();
    return 0;
}
"""


@test_each_kind(beside=True, best=True)
def command_at_its_highest(kind):
    """A command's table shows the moment when the command held most, to the byte, even if the
    blocks are freed later. This is also true of a program that a shell executes. (The program waits
    until memtrace has loaded its unwind table.)"""
    with place() as directory:
        source, program = directory + "/heights.c", directory + "/heights"
        with open(source, "w", encoding="utf-8") as file:
            file.write(HEIGHTS)
        expect_equal(run([need_tool("gcc"), "-O1", source, "-o", program]).status, 0, "gcc")
        for command in ([program], ["sh", "-c", f"exec {program} wait"]):
            result = memtrace("-i", "1", "--probe-kind", kind, "-f", "pprof",
                              "-o", directory + "/out", "--", *command)
            expect_words(result.err, r"^live heap at its end: 48\.8 KiB in 50 objects, exact$",
                         r"^at its highest, \d+ ms after the start: 976\.6 KiB "
                         r"in 100 objects, exact$", r"^ *AT PEAK +OBJECTS +SHARE +AT END +WHERE",
                         r"^976\.6 KiB +100 +100\.0% +0 B +climb < main")
            expect("valley" not in result.err and "last" not in result.err, result.err)
            path = re.search(r"^written: (.*)$", result.err, re.M)[1]
            again = memtrace("report", "--weight", "peak", path)
            expect_equal(again.out, result.err.replace(f"written: {path}\n", ""),
                         "the same by report")
            folded = memtrace("report", "--weight", "peak", "-f", "collapsed", path).out
            expect_equal([line.rsplit(" ", 1)[1] for line in folded.splitlines()],
                         ["1000000"], folded)
        profile = memtrace("-i", "1", "--probe-kind", kind, "-f", "none", "--json=-",
                           "--", program).json()
        expect_equal((profile["peak_bytes"], profile["peak_objects"], profile["live_bytes"]),
                     (1000000, 100, 50000), "JSON")
        expect_equal({stack["frames"][1]: stack["peak_bytes"] for stack in profile["stacks"]},
                     {"climb": 1000000, "last": 0}, "stacks")
        live = memtrace("-i", "1", "--probe-kind", kind, "-f", "none", "--weight", "live",
                        "--", program).err
        expect_words(live, r"^ +LIVE +OBJECTS", "last < main")


CHURN = """
#include <stdlib.h>
__attribute__((noipa)) static void brief(void)
{
    for (int i = 0; i < 2000; i++)
        free(malloc(1000));
}
__attribute__((noipa)) static void kept(void) { for (int i = 0; i < 10; i++) malloc(5000); }
int main(void) { brief(); kept(); return 0; }
"""


@test(beside=True)
def command_that_churns():
    """The table shows which stacks allocate most, even if all is freed again, and how long blocks
    lived. report shows this, too."""
    with place() as directory:
        source, program = directory + "/churn.c", directory + "/churn"
        with open(source, "w", encoding="utf-8") as file:
            file.write(CHURN)
        expect_equal(run([need_tool("gcc"), "-O1", "-fno-builtin", source, "-o", program]).status,
                     0, "gcc")
        result = memtrace("-i", "1", "--churn", "-f", "pprof", "-o", directory + "/out",
                          "--", program)
        expect_words(result.err, r"^churn: .* in [\d,]+ objects/s, 98 % of the bytes freed again; "
                     r"half of the freed objects lived < 1\w+$",
                     r"^ *BYTES/s +OBJECTS/s +EACH +FREED +HALF LIVED +LIVE +WHERE",
                     r"^ *\S+ [KM]iB +[\d,]+ +1000 B +100% +< 1\w+ +0 B +brief < main",
                     r"^ *\S+ [KM]iB +[\d,]+ +4\.9 KiB +0% +48\.8 KiB +kept < main")
        path = re.search(r"^written: (.*)$", result.err, re.M)[1]
        expect_equal(memtrace("report", "--churn", path).out,
                     result.err.replace(f"written: {path}\n", ""), "the same by report")
        for options, status, words in (((path, "--tree"), 2, "different tables"),
                                       ((path, "-f", "svg"), 2, "-f writes a file"),
                                       ((path, "--weight", "freed"), 2, "works for the table")):
            refused = memtrace("report", "--churn", *options)
            expect_equal(refused.status, status, refused)
            expect_words(refused.err, words)
    for options in (("-a",), ("--leaks", "-p", os.getpid()),
                    ("--what", "regions", "-p", os.getpid())):
        expect_equal(memtrace("--churn", "-d", "0.1", *options).status, 2, options)


@test(beside=True)
def command_is_told_to_end():
    """memtrace passes a SIGTERM on to the command, which decides how to end: here with status 9."""
    with place() as directory:
        process = start([MEMTRACE, "-q", "-o", directory + "/out", "--", "sh", "-c",
                         "trap 'exit 9' TERM; echo started; while :; do sleep 0.1; done"])
        expect_equal(process.stdout.readline(), "started\n", "output")
        process.send_signal(signal.SIGTERM)
        _, err = process.communicate(timeout=PATIENCE_S)
        expect_equal((process.returncode, err), (9, ""), "status and messages")
        expect_equal(len(os.listdir(directory)), 3, "files")


@test(beside=True)
def command_outlives_its_duration():
    """-d ends the tracing, not the command; memtrace waits for the command's status."""
    result = memtrace("-q", "-f", "none", "-d", "0.1", "--", "sh", "-c", "sleep 1; exit 6")
    expect_equal(result.status, 6, result)


@test(beside=True, long=True)
def command_killed_with_memtrace():
    """memtrace is killed. If the command has not yet started, because memtrace holds it, it must
    not stay stopped for ever. A command that already runs goes on and ends as always."""
    for delay in (0.0, 0.02, 0.05, 0.1, 0.2, 0.3, 0.5):
        process = start([MEMTRACE, "-q", "-f", "none", "--", "sleep", "0.7"])
        time.sleep(delay)
        started = children(process.pid)
        process.kill()
        end(process)
        for pid in started:
            wait_until(lambda: not os.path.exists(f"/proc/{pid}"), f"end of {pid}", 10)


@test(beside=True)
def command_of_a_script():
    """If the command is a #! script, memtrace traces the interpreter."""
    with place() as directory:
        path = directory + "/script"
        with open(path, "w", encoding="utf-8") as file:
            file.write("#!/bin/sh\necho hello\nexit 4\n")
        os.chmod(path, 0o755)
        result = command(path)
        expect_equal((result.status, result.out), (4, "hello\n"), result)


# --- memory for tables ---

PYTHON_SCRIPT = "import json\nfor i in range(%d): json.loads(json.dumps([i] * 5))"


def trace_python(budget, *wrapper, rounds=3000):
    """The profile of a traced command: python3, or a wrapper that in the end executes python3. When
    many programs start on the machine, records of python3's mappings can get lost. memtrace then
    cannot distinguish old and new mappings, so the run is repeated."""
    for _ in range(5):
        profile = trace_python_once(budget, *wrapper, rounds=rounds)
        if not profile["lost"]["map_records_lost"]:
            return profile
    raise Failure("news of maps is lost again and again")


def trace_python_once(budget, *wrapper, rounds):
    with place() as directory:
        path = directory + "/json"
        result = memtrace("-q", "--max-overhead", "off", "-i", "16K", "-f", "none",
                          "--json=" + path, "--max-unwind", budget,
                          "--", *wrapper, "/usr/bin/python3", "-c", PYTHON_SCRIPT % rounds,
                          env={**os.environ, "PYTHONMALLOC": "malloc"})
        expect_equal(result.status, 0, result)
        with open(path, encoding="utf-8") as file:
            return json.load(file)


@test(beside=True, long=True)
def options_max_unwind():
    """Counters show the tables for which there was no room, and the stacks that needed them. The
    tables of an ended program make room for the tables of the next program."""
    low, high = 64, 8192  # KiB: too little, enough
    profile = trace_python(f"{low}K")
    expect(profile["lost"]["unwind_tables_refused"] > 0, profile["lost"])
    expect(profile["lost"]["stacks_end_no_table"] > 0, profile["lost"])
    expect(profile["stacks_complete_pct"] < 90, profile["stacks_complete_pct"])
    while high - low > 32:
        middle = (low + high) // 2
        refused = trace_python(f"{middle}K", rounds=300)["lost"]["unwind_tables_refused"]
        low, high = (middle, high) if refused else (low, middle)
    # After python3's tables, at most 32 KiB are free. bash's tables take more, so they must make
    # room for python3's.
    profile = trace_python(f"{high}K", "bash", "-c", 'exec "$@"', "bash", rounds=20000)
    expect_equal(profile["lost"]["unwind_tables_refused"], 0, f"refused within {high} KiB")
    # less than 100 %, because memtrace does not know the new program for a fraction of a second
    # after the exec
    expect(profile["stacks_complete_pct"] > 80, profile["stacks_complete_pct"])
    return f"python3 needs {high} KiB"


def cpu_s(pid):
    with open(f"/proc/{pid}/stat", encoding="utf-8") as file:
        fields = file.read().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@test()
def options_waits_idle():
    """When the tracing is over, memtrace waits for the command, and uses hardly any CPU time. In a
    run with a limit of overhead, the timer for the next step must not wake memtrace any more."""
    with place() as directory:
        process = start([MEMTRACE, "-d", "1", "--max-overhead", "5", "-f", "none",
                         f"--json={directory}/json", "--", "sleep", "4"])
        wait_until(lambda: os.path.exists(directory + "/json"), "the end of the tracing")
        time.sleep(0.5)
        before = cpu_s(process.pid)
        time.sleep(1.5)
        used = cpu_s(process.pid) - before
        expect_equal(process.wait(PATIENCE_S), 0, "the command's status")
    expect(used < 0.2, used)
    return f"{used:.2f} s of CPU time in 1.5 s"


@test(beside=True)
def options_snapshot_signals():
    """The signal for a snapshot is for memtrace only: a command that still runs after the end of
    tracing does not get it. If there is nothing to write, memtrace says so."""
    with place() as directory:
        process = start([MEMTRACE, "-d", "1", "-f", "heap", "-o", directory + "/out", "--",
                         "sh", "-c", "sleep 3; exit 7"])
        wait_until(lambda: any("0001" not in name and name.endswith(".heap")
                               for name in os.listdir(directory)), "the end of the tracing")
        time.sleep(0.3)
        os.kill(process.pid, signal.SIGUSR1)
        expect_equal(process.wait(PATIENCE_S), 7, "the command's status")
    result = memtrace("--every", "1", "-f", "none", "-p", os.getpid())
    expect_equal(result.status, 2, result)
    expect("no format is chosen" in result.err, result)
