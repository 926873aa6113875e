# SPDX-License-Identifier: BSD-2-Clause
"""Stacks reach from the allocator to main, and every frame is right, in code without frame pointers
and in code without unwind tables."""
import contextlib
import json
import os
import re
import subprocess

from harness import (PROGS, Target, Tracer, end, expect, expect_equal, expect_words, losses,
                     memtrace, need_tool, place, read_line, run, start, test, test_each_kind)

COMPLETE_PCT = 99  # per cent of the stacks: at least this many must be whole


# program -> its arguments. The source of a program in tests/progs says what it does.
CHAINS = {
    "chains": [os.path.join(PROGS, "library.so")],
    "chains_static": [],
    "chains_static_pie": [],
    "chains_frames": [os.path.join(PROGS, "library.so")],
    "chains_frames_static": [],
    "chains_frames_static_pie": [],
    "chains_mixed": [os.path.join(PROGS, "chains_step.so")],
    "chains_mixed_static": [],
    "chains_mixed_static_pie": [],
    "chains_cxx": [],
}
# The same programs, linked by other linkers and with other layouts.
LINKED = {f"chains_{how}": [] if "static" in how else [os.path.join(PROGS, "library.so")] for how in
          ("bfd_shared", "gold", "lld", "lld_one", "lld_separate", "lld_huge", "lld_norelro",
           "lld_static_pie", "mold", "mold_shared")}


def check_stack(what, stack, wanted, own):
    """Checks that the stack goes from malloc through the declared frames to the start, with no
    other frames of the program. Each run of consecutive frames that are not the program's own
    becomes one "*". A "*" in wanted matches such a run, or nothing."""
    frames = stack["frames"]
    # __malloc is malloc's only global name in a static PIE
    expect(frames[0] in ("malloc", "__malloc"), f"{what}: leaf {frames[0]}")
    if "main" in wanted:
        expect_equal(frames[-1], "_start", f"{what}: start")
    words = [f if f in own else "*" for f in frames[1:]]
    words = [word for i, word in enumerate(words) if i == 0 or word != "*" or words[i - 1] != "*"]
    pattern = "".join(r"(\*;)?" if w == "*" else re.escape(w) + ";" for w in wanted)
    expect(re.fullmatch(pattern + r"\*;", "".join(w + ";" for w in words)),
           f"{what}: {words} instead of {[*wanted, '*']}")


def check_stacks(program, truth, profile):
    own = {f for d in truth["stacks"] for f in d["frames"]} - {"*"}
    by_size = {}
    for stack in profile["stacks"]:
        if stack["live_objects"]:
            by_size.setdefault(stack["live_bytes"] / stack["live_objects"], []).append(stack)
        expect(not [f for f in stack["frames"] if f.startswith((f"{program}+0x", "0x", "["))],
               f"{program}: frames in none of its functions: {stack['frames']}")
    for declared in truth["stacks"]:
        what = f"{program}, blocks of {declared['size']} bytes"
        stacks = by_size.get(declared["size"], [])
        expect_equal([s["live_objects"] for s in stacks], [declared["objects"]],
                     f"{what}: blocks by stack")
        check_stack(what, stacks[0], declared["frames"], own)
    expect_equal(losses(profile), {}, f"{program}: losses")
    without_tables = "frames" in program or "mixed" in program
    expect_equal(profile["lost"].pop("stacks_bridged") > 0, without_tables,
                 f"{program}: is there code without tables")
    ends = {k: v for k, v in profile["lost"].items() if v and k.startswith("stacks_")}
    expect_equal((profile["stacks_complete_pct"], ends), (100, {}), f"{program}: complete stacks")
    return len(truth["stacks"])


@test(beside=True)
def chains_are_built_as_said():
    """Checks which functions have unwind tables, and how each program is linked. The next test
    needs this."""
    def ask(*command):
        result = run(command)
        expect_equal((result.status, result.err), (0, ""), result)
        return result.out

    need_tool("readelf")
    for program in CHAINS:
        path = os.path.join(PROGS, program)
        static, pie = "_static" in program, not program.endswith("_static")
        header = ask("readelf", "-hlW", path)
        expect_words(header, r"Type: +" + ("DYN" if pie else "EXEC"))
        expect_equal("INTERP" in header, not static, f"{program}: has an interpreter")
        dump = ask("readelf", "-wf", path).split(".debug_frame section:")[0]
        tables = [(int(a, 16), int(b, 16)) for a, b in
                  re.findall(r"FDE .* pc=(\w+)\.\.(\w+)", dump)]
        described = {name: any(a <= int(addr, 16) < b for a, b in tables) for addr, name in
                     re.findall(r"(\w+) [tT] (\w+)$", ask("nm", path), re.M)}
        wanted = {name: name != "step_frame" and "frames" not in program
                  for name in ("main", "allocate", "handler", "step_frame", "step_table", "take")
                  if name in described}
        expect(described["_start"] and len(wanted) >= 1, f"{program}: {wanted}")
        expect_equal({name: described[name] for name in wanted}, wanted, f"{program}: has tables")
    expect(".eh_frame" not in ask("readelf", "-SW", os.path.join(PROGS, "chains_step.so")),
           "chains_step.so: has .eh_frame")


@test_each_kind(beside=True)
def stacks_as_declared(kind):
    """Each block's stack is the one that the program declares: deep chains, callbacks of C and C++,
    signal handlers, variable frames, tail calls, coroutines, exceptions, threads, a library that is
    loaded while traced. Functions have unwind tables, or frame pointers, or both kinds alternate on
    one stack."""
    return trace_chains(CHAINS, "--probe-kind", kind)


@test(beside=True)
def stacks_by_any_linker():
    """Stacks are right in programs that LLD has linked. In these programs, segments share pages of
    the file, so a mapping may begin with bytes of the segment before."""
    shared = 0
    for program in LINKED:
        result = run(["readelf", "-lW", os.path.join(PROGS, program)])
        loads = re.findall(r"LOAD +0x(\w+) 0x\w+ 0x\w+ 0x(\w+) 0x\w+ ([RWE ]{3})", result.out)
        ends = [int(off, 16) + int(size, 16) for off, size, _ in loads]
        begins = [int(off, 16) for off, _, mode in loads if "E" in mode]
        shared += any(begin % 4096 and any(begin - begin % 4096 < end <= begin for end in ends)
                      for begin in begins)
    expect(shared >= 3, f"only {shared} programs in which code shares a page with another segment")
    return trace_chains(LINKED)


def trace_chains(programs, *options):
    n = 0
    with contextlib.ExitStack() as ends:
        targets = {program: ends.enter_context(Target(program, *args))
                   for program, args in programs.items()}
        pids = ",".join(str(t.pid) for t in targets.values())
        tracer = ends.enter_context(Tracer("-p", pids, "-i", "1", "-f", "none", "--json", *options))
        truths = {program: target.go() for program, target in targets.items()}
        lines = tracer.stop().out.splitlines()
        profiles = {profile["pid"]: profile for profile in map(json.loads, lines)}
        for program, target in targets.items():
            expect_equal(target.quit(), 0, f"status of {program}")
            n += check_stacks(program, truths[program], profiles[target.pid])
    return f"{n} stacks in {len(programs)} programs"


def check_complete(profile, what, at_least=100):
    expect(profile["samples"] >= at_least, f"{what}: only {profile['samples']} samples")
    share = profile["stacks_complete_pct"]
    expect(share is not None and share >= COMPLETE_PCT,
           f"{what}: {share} % complete", {k: v for k, v in profile["lost"].items() if v})
    return f"{what} {share:.1f} %"


def trace_command(interval, *command, **options):
    with place() as directory:
        path = os.path.join(directory, "profile.json")
        result = memtrace("-q", "--max-overhead", "off", "-f", "none", "-i", interval,
                          f"--json={path}", "--", *command, **options)
        expect_equal(result.status, 0, result)
        with open(path, encoding="utf-8") as file:
            return json.load(file)


@test(beside=True)
def stacks_are_complete():
    """Stacks of Debian's own binaries, which have no frame pointers, are whole."""
    for tool in ("sqlite3", "git"):
        need_tool(tool)
    told = []
    profile = trace_command("4K", "sqlite3", ":memory:", "create table t(a,b); with recursive c(i) "
                            "as (select 1 union all select i+1 from c where i<12000) insert into t "
                            "select i, hex(randomblob(20)) from c; select count(*) from t;")
    told.append(check_complete(profile, "sqlite3"))
    environment = {**os.environ, "PYTHONMALLOC": "malloc"}
    profile = trace_command("16K", "/usr/bin/python3", "-c",
                            "import json\nfor i in range(5000): json.loads(json.dumps([i]*5))",
                            env=environment)
    told.append(check_complete(profile, "python3"))
    with place() as directory:
        subprocess.run(["git", "init", "-q", directory], check=True)
        for i in range(300):
            with open(os.path.join(directory, f"{i}.c"), "w", encoding="utf-8") as file:
                file.write("int a;\n" * 300)
        profile = trace_command("1K", "git", "-C", directory, "add", ".")
        told.append(check_complete(profile, "git"))
    return ", ".join(told)


@test(long=True)
def stacks_of_clang_are_complete():
    """Stacks of clang are whole. It takes half a second to make libLLVM's table, and until then
    stacks end in libLLVM. So clang gets much to compile."""
    need_tool("clang")
    with place() as directory:
        path = os.path.join(directory, "functions.c")
        with open(path, "w", encoding="utf-8") as file:
            file.writelines(f"int f{i}(int *a, int n) {{ int s = {i}; for (int k = 0; k < n; k++) "
                            f"s += a[k] * (k ^ s); return s; }}\n" for i in range(500))
        profile = trace_command("256K", "clang", "-fintegrated-cc1", "-O2", "-c",
                                "-o", "/dev/null", path)
    return check_complete(profile, "clang")


def wander(places, *options):
    """Traces a program whose code was mapped at this number of places. Returns the profile."""
    with Target("wander", os.path.join(PROGS, "library.so"), str(places)) as target:
        with Tracer("-p", target.pid, "-i", "1", "--json", *options) as tracer:
            target.go()
            profile = tracer.stop().json()
        expect_equal(target.quit(), 0, "status of the target")
    return profile


@test(beside=True)
def stacks_after_many_mappings():
    """Mappings that no longer exist take no room from those that exist."""
    profile = wander(1200, "-f", "none")
    expect_equal(profile["stacks_complete_pct"], 100, "stacks_complete_pct")
    expect("main" in profile["stacks"][0]["frames"], profile["stacks"])


@test(beside=True, long=True)
def stacks_after_endless_mappings():
    """memtrace drops mappings that no longer exist."""
    with place() as directory:
        profile = wander(60000, "-f", "heap", "-o", os.path.join(directory, "out"))
        with open(profile["files"][0], encoding="utf-8") as file:
            kept = sum("library.so" in line for line in file)
    expect(1000 < kept < 20000, f"{kept} mappings are kept")
    expect_equal(profile["stacks_complete_pct"], 100, "stacks_complete_pct")


MANY_LIBRARIES = """
import ctypes, sys
libraries = [ctypes.CDLL(path) for path in sys.argv[1:]]
malloc = ctypes.cast(ctypes.CDLL(None).malloc, ctypes.c_void_p)
print("ready", flush=True)
input()
for library in libraries:
    library.lib_leaf(malloc, ctypes.c_size_t(3001))
print("done", flush=True)
input()
"""


@test(beside=True)
def stacks_through_many_libraries():
    """A process loads so many libraries at once that one call cannot put all of their tables into
    the kernel. The process's stacks are whole."""
    n = 150
    with place() as directory:
        paths = [os.path.join(directory, f"library{i}.so") for i in range(n)]
        with open(os.path.join(PROGS, "library.so"), "rb") as file:
            library = file.read()
        for i, path in enumerate(paths):
            with open(path, "wb") as file:
                file.write(library + bytes([i]))  # all files differ
        process = start(["/usr/bin/python3", "-c", MANY_LIBRARIES, *paths])
        try:
            expect_equal(read_line(process, process.stdout), "ready\n", "first line")
            with Tracer("-p", process.pid, "-i", "1", "-f", "none", "--json") as tracer:
                process.stdin.write("go\n")
                process.stdin.flush()
                expect_equal(read_line(process, process.stdout), "done\n", "last line")
                profile = tracer.stop().json()
        finally:
            end(process)
    stacks = [s["frames"] for s in profile["stacks"] if s["live_bytes"] == 3001]
    expect_equal(len(stacks), n, "stacks")
    for frames in stacks:
        expect_equal((frames[:3], frames[-1]), (["malloc", "lib_middle", "lib_leaf"], "_start"),
                     frames)
    expect_equal(profile["lost"]["unwind_tables_refused"], 0, "unwind_tables_refused")
    expect_equal(profile["lost"]["unwinding_refused"], 0, "unwinding_refused")
