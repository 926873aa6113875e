# SPDX-License-Identifier: BSD-2-Clause
"""Every allocator: figures are exact at -i 1 and unbiased at 64K, and C++ exceptions are still
caught. The targets count their own blocks: these counts are the truth. redis-server's truth is its
INFO."""
import contextlib
import glob
import json
import os
import re
import subprocess

from harness import (PATIENCE_S, PROGS, NotRunnable, Target, Tracer, by_function, end, expect,
                     expect_equal, expect_words, kinds, losses, memtrace, need_tool, place,
                     read_line, start, test, test_each_kind, trace_script, untraced, wait_until)
from test_input import compile_c
from test_python import DEBIAN_11, DEBIAN_13, other_pythons
from test_sampled import Series
from test_truth import check_calls, check_exact


def library(name):
    found = glob.glob(f"/usr/lib/*/{name}")
    if not found:
        raise NotRunnable(f"{name} is not installed")
    return found[0]


LIBRARIES = {"jemalloc": "libjemalloc.so.2", "tcmalloc": "libtcmalloc_minimal.so.4",
             "mimalloc": "libmimalloc.so.2.0"}


def families(profile):
    return {os.path.basename(probe["object"]) for probe in profile["probes"]}


def check_functions(truth, profile):
    """As check_exact(), except for the number of calls, which differs if an allocator's functions
    call each other. The only allowed loss is returns_missing, from calls that threw an
    exception."""
    held = by_function(profile, truth["functions"])
    expect(None not in held, "stacks of nobody:", held.get(None))
    for name, wanted in truth["functions"].items():
        nbytes, objects, _ = held.get(name, (0, 0, []))
        expect_equal((nbytes, objects), (wanted["live_bytes"], wanted["live_objects"]),
                     f"bytes and objects of {name}")
    expect(set(losses(profile)) <= {"returns_missing"}, "losses:", losses(profile))
    check_calls(truth, profile)


@test_each_kind(beside=True, long=True)
def alloc_preloaded(kind):
    """Figures are exact for the malloc family of each library that is preloaded in place of
    glibc's."""
    for name in LIBRARIES.values():
        truth, profile, _ = trace_script(kind, "truth_basic", "--portable", preload=library(name))
        check_exact(truth, profile)
        expect("libc.so.6" not in families(profile), "probes on a malloc that nobody reaches")


@test(beside=True)
def alloc_static_and_musl():
    for variant in ("static", "musl", "musl_static"):
        truth, profile, _ = trace_script(None, f"truth_basic_{variant}", "--portable")
        check_exact(truth, profile)


@test(beside=True)
def alloc_stripped_static():
    """memtrace finds no allocator in a stripped static program, and says so."""
    with place() as directory:
        path = os.path.join(directory, "stripped")
        subprocess.run(["strip", "-o", path, os.path.join(PROGS, "truth_basic_static")], check=True)
        with Target(path) as target:
            result = memtrace("-p", target.pid, "-d", "1")
    expect_equal(result.status, 1, result)
    expect_words(result.err, "stripped static program", target.pid)


@test_each_kind(beside=True)
def alloc_jemalloc_own(kind):
    """Figures are exact for jemalloc's own functions, such as mallocx, also if a block is resized
    in place. The program with a prefixed jemalloc also uses glibc's malloc."""
    for program in ("truth_alloc_jemalloc", "truth_alloc_rjem"):
        truth, profile, _ = trace_script(kind, program)
        check_exact(truth, profile)
    expect_equal(families(profile), {"truth_alloc_rjem", "libc.so.6"}, "files with probes")


@test_each_kind(beside=True)
def alloc_mimalloc_own(kind):
    truth, profile, _ = trace_script(kind, "truth_alloc_mi")
    check_exact(truth, profile)


RETURNS = r"""
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
extern char __executable_start, etext;
static unsigned long changed;
__attribute__((noipa)) void *my_alloc(size_t size)
{
    char *back = __builtin_return_address(0);
    changed += back < &__executable_start || back >= &etext;
    void *p = malloc(size);
    __asm__ volatile("" : "+r"(p)); /* no jump to malloc */
    return p;
}
int main(void)
{
    setvbuf(stdout, NULL, _IOLBF, 0);
    printf("ready %d\n", getpid());
    getchar();
    for (int i = 0; i < 1000; i++)
        free(my_alloc(1000));
    printf("%lu\n", changed);
    getchar();
    return 0;
}
"""


@test_each_kind(long=True)
def alloc_without_return_probes(kind):
    """With --no-return-probes no call returns through a return probe; the target itself checks
    this. memtrace still knows the values that calls return, with one exception: glibc's calloc
    jumps to memset, so its return value counts as unknown. A malloc whose return value cannot be
    found is not traced."""
    changed, said = {}, {}
    with place() as directory:
        program = compile_c(directory, RETURNS, "-O1")
        for option in ([], ["--no-return-probes"]):
            with Target(program) as target:
                with Tracer("-p", target.pid, "-i", "1", "--max-overhead", "off",
                            "--probe-kind", kind, *option, "--alloc", "exe:my_alloc(size=1)->ret",
                            "--json", "-f", "none") as tracer:
                    target.say("")
                    changed[bool(option)] = int(target.line())
                    result = tracer.stop()
                    profile, said[bool(option)] = result.json(), result.err
                expect(profile["alloc_calls"] >= 1000, "calls seen:", profile["alloc_calls"])
                expect_equal((profile["live_bytes"], losses(profile)), (0, {}),
                             "live bytes, and what is lost")
    # by default memtrace uses no return probes where they would make the kernel kill the target
    default = 0 if "no return probes" in said[False] else 1000
    expect_equal(changed, {False: default, True: 0}, "calls that were to return elsewhere")
    options = ("-i", "1", "--no-return-probes")
    for name in LIBRARIES.values() if kind == kinds()[0] else [LIBRARIES["jemalloc"]]:
        truth, profile, _ = trace_script(kind, "truth_basic", "--portable", preload=library(name),
                                         options=options)
        check_exact(truth, profile)
    truth, profile, _ = trace_script(kind, "truth_basic", "--portable", options=options)
    held, lost = by_function(profile, truth["functions"]), losses(profile)
    for name, wanted in truth["functions"].items():
        if "calloc" not in name:
            expect_equal(tuple(held.get(name, (0, 0))[:2]),
                         (wanted["live_bytes"], wanted["live_objects"]), name)
    expect_equal(set(lost), {"result_unknown"}, "what is lost")
    expect_equal(lost["result_unknown"], truth["functions"]["keep_calloc"]["alloc_objects"],
                 "calls of calloc")
    with Target("truth_basic_musl", "--portable") as target:
        result = memtrace("-p", target.pid, "-d", "1", "--probe-kind", kind, "--no-return-probes",
                          "-f", "none")
    expect_equal(result.status, 1, result)
    expect_words(result.err, "musl", "malloc", "without a return probe", "no unwind information")


@test_each_kind(beside=True)
def alloc_destroyed_at_once(kind):
    """Blocks of heaps that were destroyed do not count as live."""
    truth, profile, _ = trace_script(kind, "truth_alloc_mi", "--destroy")
    truth["alloc_calls"] += 3 * 40  # mi_heap_new allocates a block for each heap
    check_functions(truth, profile)
    expect_equal(losses(profile), {}, "losses")
    wanted = truth["functions"]["keep_of_many_heaps"]
    expect(0 < wanted["live_objects"] < wanted["alloc_objects"] / 10,
           "blocks of deleted heaps in truth:", wanted)


@test(beside=True)
def alloc_destroyed_unseen():
    """memtrace does not know which blocks belonged to destroyed heaps, so some freed blocks seem to
    be live. So no output may call the figures exact."""
    with place() as directory:
        prefix = os.path.join(directory, "destroyed")
        with Target("truth_alloc_mi", "--default") as target:
            with Tracer("-p", target.pid, "-i", "1", "--max-overhead", "off", "-f", "pprof,svg",
                        "-o", prefix) as tracer:
                truth = target.go()
                table = tracer.stop()
            expect_equal(target.quit(), 0, "status of the target")
        path = prefix + f".{target.pid}.pb.gz"
        profile, report = memtrace("report", "-f", "json", path).json(), memtrace("report", path)
        with open(prefix + f".{target.pid}.svg") as file:
            svg = file.read()
    books = truth["functions"]["keep_of_the_thread"]
    expect_equal((books["live_objects"], books["alloc_objects"]), (0, 16000), "blocks in truth")
    unseen = losses(profile)["freed_unobserved"]
    expect(unseen > 400 and profile["live_objects"] > 0, "no block was thought to live:", unseen,
           profile["live_objects"])
    expect_equal([(c["rule"], c["fact"]) for c in profile["contradictions"]],
                 [("frees_unseen", unseen)], "findings")
    expect_equal((profile["live_bytes_low"], profile["live_bytes_high"]),
                 (None, profile["live_bytes"]), "interval")
    for text in (table.out, report.out, svg):
        expect_words(text, r"AT MOST [0-9.]+ [KM]iB in [0-9,]+ object",
                     rf"note: {unseen:,} blocks were found dead")
        expect("exact" not in text, "called exact:", text)


@test(beside=True)
def alloc_loaded_late():
    """The program loads mimalloc with dlopen while it is traced."""
    with Target("truth_alloc_mi", "--dlopen") as target:
        with Tracer("-p", target.pid, "-i", "1", "--json", "-f", "none") as tracer:
            target.say("go")
            address = int(re.fullmatch(r"loaded (0x[0-9a-f]+)\n", target.line())[1], 16)
            with open(f"/proc/{target.pid}/mem", "rb", buffering=0) as memory:
                wait_until(lambda: 0xcc in os.pread(memory.fileno(), 64, address) or
                           0xe8 == os.pread(memory.fileno(), 1, address)[0], "probe on mi_malloc")
            truth = target.go()
            profile = tracer.stop().json()
        expect_equal(target.quit(), 0, "status of the target")
    held = by_function(profile, truth["functions"])
    for name, wanted in truth["functions"].items():
        expect_equal(tuple(held[name][:2]) if name in held else (0, 0),
                     (wanted["live_bytes"], wanted["live_objects"]), f"bytes and objects of {name}")
    expect_equal(families(profile), {"libc.so.6", os.path.basename(os.path.realpath(
        library("libmimalloc.so.2.0")))}, "files with probes")


def trace_refused(name, *options):
    """Traces refusing.c, which loads its allocator while it is traced. Returns the profile, the
    text on standard error, and the output of `report` for the file."""
    with place() as directory, Target("refusing", os.path.join(PROGS, name)) as target:
        with Tracer(*(() if "--comm" in options else ("-p", target.pid)), *options, "-i", "1",
                    "--max-overhead", "off", "--json", "-f", "pprof",
                    "-o", directory + "/r") as tracer:
            target.say("go")
            expect_equal(target.line(), "loaded\n", "the target's answer")
            while "cannot be probed" not in tracer.log:
                tracer.log += read_line(tracer.process, tracer.process.stderr)
            target.go()
            result = tracer.stop()
        expect_equal(target.quit(), 0, "status of the target")
        profile, = (one for one in map(json.loads, result.out.splitlines())
                    if one["pid"] == target.pid)
        return profile, result.err, memtrace("report", profile["files"][0]).out


def check_refused(result, function, held, counters):
    profile, err, report = result
    expect_equal(tuple(by_function(profile, {"give"}).get("give", (0, 0))[:2]), held,
                 "bytes and objects of give()")
    expect_equal({name: n for name, n in profile["lost"].items() if name.endswith("s_refused") and
                  n}, counters, "lost")
    for text in (err, profile["refused"], report):
        expect_words(text, function, "cannot be probed", "nop")
    expect_equal(err.count("cannot be probed"), 1, "how often that is said")


@test_each_kind(beside=True)
def alloc_refused(kind):
    """If the kernel refuses the probe on an allocator's free, this allocator gets no probes, and
    other allocators keep theirs. If the kernel refuses the probe on valloc, only this probe is
    missing."""
    check_refused(trace_refused("refused_free.so", "--probe-kind", kind), "je_free", (7 * 200, 7),
                  {"allocators_refused": 1})
    check_refused(trace_refused("refused_valloc.so", "--probe-kind", kind), "je_valloc",
                  (7 * 200 + 3 * 1000, 10), {"functions_refused": 1})


@test(beside="wide")
def alloc_refused_everywhere():
    """As alloc_refused, with probes in the code of every process."""
    check_refused(trace_refused("refused_free.so", "--comm", "refusing"), "je_free", (7 * 200, 7),
                  {"allocators_refused": 1})


@test_each_kind(beside=True)
def alloc_cxx(kind):
    """Figures are exact for operator new and delete in all their forms, also if they fail."""
    for family, name in LIBRARIES.items():
        # where other allocators throw an exception, mimalloc ends the program
        how = ("--no-throw",) if family == "mimalloc" else ()
        truth, profile, _ = trace_script(kind, "truth_alloc_cxx", *how, preload=library(name))
        check_functions(truth, profile)
        new = {os.path.basename(p["object"]) for p in profile["probes"] if p["function"] == "_Znwm"}
        expect_equal(new, {os.path.basename(os.path.realpath(library(name)))},
                     "files whose operator new is probed")


@test_each_kind(beside=True, long=True)
def alloc_bad_alloc(kind):
    """A traced program catches the same exceptions as an untraced one, ten thousand times with
    glibc and the best kind of probe. Other allocators differ only in their code, so these runs have
    fewer rounds. Other kinds differ only at a function's entry, so glibc is enough. (Debian's
    mimalloc is built as C: it aborts instead of throwing, traced or not.)"""
    best = kind == kinds()[0]
    others = ["libjemalloc.so.2", "libtcmalloc_minimal.so.4", "libtcmalloc.so.4"]
    for name in [None, *(others if best else ())]:
        preload = library(name) if name else None
        rounds = "1000" if not best else "3000" if name else "10000"
        with Target("cxx_throw", "--rounds", rounds, preload=preload) as target:
            with Tracer("-p", target.pid, "-i", "1", "-q", "-f", "none", "--probe-kind",
                        kind) as tracer:
                got = target.go()
                tracer.stop()
            expect_equal(target.quit(), 0, f"status under {name}")
        wanted = json.loads(untraced("cxx_throw", "--rounds", rounds)[1])
        expect_equal(got, wanted, f"what the program says under {name}")


@test_each_kind(beside=True)
def alloc_all_names(kind):
    """Functions that the other programs do not call (pvalloc, C23's free_sized ...), with each
    allocator that has them."""
    truth, profile, _ = trace_script(kind, "truth_alloc_names")
    check_functions(truth, profile)
    # (removing a perf uprobe takes a tenth of a second, so this kind is tested with one library
    # only)
    for name in list(LIBRARIES.values())[:1 if kind == "perf" else None]:
        truth, profile, _ = trace_script(kind, "truth_alloc_names", preload=library(name))
        check_functions(truth, profile)


@test_each_kind(beside=True, long=True)
def alloc_standin(kind):
    """Stand-ins define the functions of two allocators that Debian does not have: Google's
    tcmalloc, and a newer C library's malloc (tests/progs/standin.cc). No call is missed or counted
    twice."""
    for name in ("google", "glibc"):
        preload = os.path.join(PROGS, f"standin_{name}.so")
        programs = (("truth_alloc_names",), ("truth_basic", "--portable"))
        for program, *args in programs[:1 if kind == "perf" else None]:
            truth, profile, _ = trace_script(kind, program, *args, preload=preload)
            check_exact(truth, profile)
            expect_equal(families(profile), {f"standin_{name}.so"}, "files with probes")
    preload = os.path.join(PROGS, "standin_google.so")
    truth, profile, _ = trace_script(kind, "truth_alloc_cxx", preload=preload)
    check_functions(truth, profile)


@test_each_kind(beside=True, best=True)
def alloc_standin_linked(kind):
    """The stand-in is linked into a program. As in vendors' servers, all names are stripped from
    this program, except those that it exports to libc. The target's functions have no names then,
    so only the sum is compared."""
    truth, profile, _ = trace_script(kind, "truth_alloc_google")
    check_functions(truth, profile)
    truth, profile, _ = trace_script(kind, "truth_alloc_google_stripped", options=("-i", "1"))
    wanted = truth["functions"].values()
    expect_equal((profile["live_bytes"], profile["live_objects"]),
                 (sum(f["live_bytes"] for f in wanted), sum(f["live_objects"] for f in wanted)),
                 "bytes and objects")
    check_calls(truth, profile)


POOL = ("--alloc", "exe:pool_alloc(size=2,pool=1)->ret", "--alloc", "exe:pool_get(size=2*3)->*1",
        "--free", "exe:pool_free(ptr=2)", "--end", "exe:pool_end(pool=1)")


@test_each_kind(beside=True)
def alloc_pool(kind):
    """Blocks of a pool that the user names are counted. Memory that the pool takes from malloc is
    not counted."""
    for options in (POOL, [option.replace(")->", ",throws)->") for option in POOL]):
        truth, profile, _ = trace_script(kind, "truth_alloc_pool", options=("-i", "1", *options))
        check_functions(truth, profile)
        expect_equal(losses(profile), {}, "losses")


@test(beside=True)
def alloc_pool_unnamed():
    """If the user does not name the pool, memtrace sees only the pool's large blocks from malloc.
    This shows that the test alloc_pool is able to fail."""
    truth, profile, _ = trace_script(None, "truth_alloc_pool")
    held = by_function(profile, truth["functions"])
    expect(held["keep_pool_alloc"][1] < 100, "a pool's chunks:", held["keep_pool_alloc"][:2])


@test_each_kind(beside=True)
def alloc_python(kind):
    """With a stand-in for Python's pool, each block counts once, whether it comes from the pool or
    from malloc."""
    for program, script in (("truth_alloc_python", ()), ("truth_alloc_python", ("--malloc",)),
                            ("truth_alloc_python_named", ())):
        truth, profile, _ = trace_script(kind, program, *script)
        check_functions(truth, profile)
        expect_equal((losses(profile), profile.get("refused")), ({}, None),
                     "losses, and what is not seen")


HOLD = """
import sys
class Item:
    pass
def work(n):
    for i in range(n):
        {str(i): [i * 7777777, str(i) * (i % 50)]}
        item = Item()
        item.value = {str(i), i * 7777777}
work(100)
input()
before = sys.getallocatedblocks()
# blocks of many kinds: copies of the pool's functions are in the code that makes each
held = [{str(i): b"%d" % i * (i % 50)} for i in range(2000)]
held += [(1000 + i, len("x" * i), i / 7, complex(i), [i], {i}, range(i), slice(i), iter([i]),
          memoryview(b"x" * i), str(i).encode(), int(str(i * 1000)), work.__get__(i),
          property(work), (x for x in held), bytearray(i), chr(9000 + i), i.to_bytes(8, "big"),
          Item(), lambda: i, -i - 1000, i << 20, ~i - 1000, type("T", (), {}) if i % 50 == 0 else 0)
         for i in range(500)]
work(2000)
print(sys.getallocatedblocks() - before, flush=True)
input()
"""


def trace_python(kind, command, setting):
    """Traces a Python that holds objects. Returns memtrace's result, and the number of blocks in
    the pool by Python's own count."""
    with contextlib.ExitStack() as stack:
        target = start([*command, "-c", HOLD], env={**os.environ, "PYTHONMALLOC": setting})
        stack.callback(end, target)
        wait_until(
            lambda: "/python3" in open(f"/proc/{target.pid}/maps", encoding="utf-8").read() and
            open(f"/proc/{target.pid}/stat", encoding="utf-8").read().split()[2] == "S",
            "python3 waits")
        tracer = stack.enter_context(Tracer("-p", target.pid, "-i", "1", "--max-overhead", "off",
                                            "--json", "-f", "none",
                                            *(["--probe-kind", kind] if kind else [])))
        print(file=target.stdin, flush=True)
        blocks = int(read_line(target, target.stdout))
        return tracer.stop(), blocks


def check_pool(kind, *command):
    """Returns the number of blocks in the pool by Python's own count. Perf uprobes are too slow for
    so many copies, and memtrace says so."""
    result, blocks = trace_python(kind, command, "pymalloc")
    profile = result.json()
    if kind == "perf":
        expect_words(result.err, "pymalloc of .*python3.* PYTHONMALLOC=malloc")
        expect_words(profile["refused"], "pymalloc of .*python3.* PYTHONMALLOC=malloc")
        return blocks
    expect_equal((losses(profile), profile.get("refused")), ({}, None),
                 "losses, and what is not seen")
    expect(blocks >= 20000, "blocks of the pool:", blocks)
    expect(blocks <= profile["live_objects"] <= blocks + 50, "blocks, of", blocks,
           profile["live_objects"])
    return blocks


@test_each_kind(beside=True, best=True)
def alloc_python_copied(kind):
    """Debian's python3 contains many inlined copies of its pool's functions. memtrace sees as many
    live blocks as sys.getallocatedblocks() says, and no freed blocks. With PYTHONMALLOC=malloc it
    sees each object with every kind of probe."""
    python = need_tool("/usr/bin/python3")
    pooled = check_pool(kind, python)
    result, blocks = trace_python(kind, [python], "malloc")
    profile = result.json()
    expect_equal((losses(profile), profile.get("refused")), ({}, None),
                 "losses, and what is not seen")
    expect_equal(blocks, 0, "blocks of the pool")
    expect(pooled <= profile["live_objects"] <= pooled + 500, "objects seen, of", pooled,
           profile["live_objects"])


@test_each_kind(beside=True, best=True)
def alloc_python_copied_debian_11(kind):
    """As alloc_python_copied, with Debian 11's python3.9, whose arenas are in an array."""
    if not os.path.exists(DEBIAN_11):
        raise NotRunnable(f"{DEBIAN_11} is not there: scripts/fetch-libcs build/libcs")
    check_pool(kind, "chroot", DEBIAN_11, "/usr/bin/python3.9")


@test_each_kind(beside=True, best=True)
def alloc_python_copied_debian_13(kind):
    """As alloc_python_copied, with Debian 13's python3.13, whose interpreter has a pointer to its
    pools."""
    if not os.path.exists(DEBIAN_13):
        raise NotRunnable(f"{DEBIAN_13} is not there: scripts/fetch-libcs build/libcs")
    check_pool(kind, "chroot", DEBIAN_13, "/usr/bin/python3.13")


@test(beside=True, long=True)
def alloc_python_others():
    """As alloc_python_copied, with Pythons that have no such copies, and call the pool's functions.
    With PYTHONMALLOC=debug, Python's own functions return other addresses than the pool's functions
    do."""
    said = []
    for version, path in sorted(other_pythons().items()):
        for setting in ("pymalloc", "debug"):
            result, blocks = trace_python(None, [path], setting)
            profile = result.json()
            expect_equal((losses(profile), profile.get("refused")), ({}, None),
                         f"{version}: losses, and what is not seen")
            expect(20000 <= blocks <= profile["live_objects"] <= blocks + 50, version, setting,
                   "blocks, of", blocks, profile["live_objects"])
            said.append(f"{version}: {profile['live_objects']} of {blocks}")
    return "; ".join(said)


@test(beside=True)
def alloc_named_wrongly():
    with Target("truth_alloc_pool") as target:
        result = memtrace("-p", target.pid, "-d", "1",
                          "--alloc", "exe:no_such_function(size=1)->ret")
        expect_equal(result.status, 1, result)
        expect_words(result.err, "truth_alloc_pool has no function no_such_function")
    for option, text, word in (
            ("--alloc", "f(size=1)->ret", "FILE:FUNCTION"), ("--alloc", "exe:f", "size="),
            ("--alloc", "exe:f(size=9)->ret", "argument"), ("--alloc", "exe:f(size=1)", "->"),
            ("--alloc", "exe:f(size=1)->*", "->"), ("--free", "exe:f(size=1)", "ptr="),
            ("--free", "exe:f(ptr=0)", "argument"), ("--alloc", ":f(size=1)->ret", "FILE:FUNCTION"),
            ("--alloc", "exe:f(size=1*)->ret", "argument"), ("--end", "exe:f(ptr=1)", "pool="),
            ("--end", "exe:f", "pool="), ("--free", "exe:f(pool=1)", "ptr=")):
        result = memtrace("-p", "1", option, text)
        expect_equal(result.status, 2, f"{option} {text}: {result}")
        expect_words(result.err, re.escape(word))


@test(beside=True)
def alloc_named_checked():
    """`memtrace check` says where the functions that the user names are, or why they are not
    found."""
    with Target("truth_alloc_pool") as target:
        result = memtrace("check", *POOL, target.pid)
        expect_equal((result.status, result.err), (0, ""), result)
        for function in ("pool_alloc", "pool_get", "pool_free", "pool_end"):
            expect_words(result.out,
                         rf"^ +--(alloc|free|end) exe:{function}: found in .*truth_alloc_pool$",
                         rf"^ +{function} +\+\d+ .* \d+ ns")
        result = memtrace("check", *POOL[:2], "--free", "exe:no_such(ptr=1)", "--alloc",
                          "libnone.so:f(size=1)->ret", target.pid)
        expect_equal(result.status, 1, result)
        expect_words(result.out, "exe:pool_alloc: found", "exe:no_such: NOT FOUND: .* no function",
                     r"libnone\.so:f: no file libnone\.so is mapped", r"^ +pool_alloc +\+",
                     "^ +malloc ")
        for args, word in ((("--alloc", "exe:f", target.pid), "size="),
                           (("--free",), "needs a value"),
                           (("--free", "exe:f(ptr=1)"), "give its pid")):
            result = memtrace("check", *args)
            expect_equal(result.status, 2, f"{args}: {result}")
            expect_words(result.err, word, "check")


def sampled_under(program, preload):
    """Tests the allocator as test_sampled tests glibc's malloc. A second series runs only if the
    first is out of bounds."""
    told = []
    for attempt in range(2):
        series = Series()
        for i in range(3):
            series.run(None, 100 + attempt * 3 + i, 10, program=program, preload=preload)
        told.append(str(series))
        if series.good(0.85):
            return "; then ".join(told)
    return expect(False, f"twice wrong under {program} {preload}:", "; ".join(told))


@test(beside=True, long=True)
def alloc_sampled():
    told = []
    for program, name in (("truth_sampled", "libjemalloc.so.2"),
                          ("truth_sampled", "libtcmalloc_minimal.so.4"),
                          ("truth_sampled", "libmimalloc.so.2.0"),
                          ("truth_sampled_static", None), ("truth_sampled_musl", None),
                          ("truth_sampled_musl_static", None)):
        told.append(f"{name or program}: " +
                    sampled_under(program, library(name) if name else None))
    return "; ".join(told)


def redis_cli(socket, *args, input=None):
    return subprocess.run(["redis-cli", "-s", socket, *args], input=input, capture_output=True,
                          text=True, check=True, timeout=PATIENCE_S).stdout


def redis_used(socket):
    return int(re.search(r"^used_memory:(\d+)", redis_cli(socket, "info", "memory"), re.M)[1])


@contextlib.contextmanager
def redis_server():
    """Starts Debian's redis-server. Yields the process and its socket."""
    with place() as directory:
        socket = os.path.join(directory, "socket")
        server = start(["redis-server", "--port", "0", "--unixsocket", socket, "--save", "",
                        "--dir", directory], stdout=subprocess.DEVNULL)
        try:
            wait_until(lambda: os.path.exists(socket), "redis-server's socket")
            yield server, socket
        finally:
            end(server)


def redis_estimate():
    """Most of the memory is in 10,000 keys whose values fill jemalloc's size class of 5 KiB. So the
    requested bytes and the used bytes differ by about 1 %. Returns (used, least, most)."""
    with redis_server() as (server, socket):
        before = redis_used(socket)
        with Tracer("-p", server.pid, "-i", "64K", "--max-overhead", "off", "--json",
                    "-f", "none") as tracer:
            redis_cli(socket, input="".join(f"SET key:{i} {'v' * (5120 - 6)}\n"
                                            for i in range(10000)))
            grown = redis_used(socket) - before
            profile = tracer.stop().json()
    expect_equal(losses(profile), {}, "losses")
    expect(grown > 10000 * 5120, f"the load is too small: {grown}")
    low, high = profile["live_bytes_low"], profile["live_bytes_high"]
    expect(high < 1.3 * low, f"{low} to {high}: who could be outside?")
    return grown, low, high


@test(beside=True)
def alloc_redis_estimate():
    """The growth of used_memory is in the printed interval. (By chance, the interval misses it in
    one run of twenty.)"""
    told = []
    for _ in range(2):
        grown, low, high = redis_estimate()
        told.append(f"used_memory has grown by {grown}, estimated {low} to {high}")
        if 0.99 * low <= grown <= 1.01 * high:
            return "; then ".join(told)
    return expect(False, "; then ".join(told))


@test(beside=True)
def alloc_redis():
    """The live bytes of Debian's redis-server on its jemalloc are right. The server counts the
    usable sizes of its blocks (used_memory). With jemalloc's size classes, a usable size exceeds
    the requested size by at most a quarter."""
    with redis_server() as (server, socket):
        before = redis_used(socket)
        with Tracer("-p", server.pid, "-i", "1", "--json", "-f", "none") as tracer:
            redis_cli(socket, input="".join(f"SET key:{i} {'v' * (20 + i % 400)}\n"
                                            for i in range(20000)))
            after = redis_used(socket)
            profile = tracer.stop().json()
    grown, live = after - before, profile["live_bytes"]
    expect_equal(losses(profile), {}, "losses")
    expect("libjemalloc.so.2" in families(profile), "not jemalloc:", families(profile))
    expect(0.8 * grown <= live <= 1.01 * grown, f"{live} bytes live, INFO says {grown} more")
    return f"{live} bytes live, used_memory has grown by {grown}"
