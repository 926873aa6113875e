# SPDX-License-Identifier: BSD-2-Clause
"""Names and lines of inlined functions, of a JIT's code and of the kernel's mappings, and names
from debug files. Some files exist only below the target's root directory, and some targets give
false data."""
import contextlib
import http.server
import json
import os
import re
import shutil
import signal
import struct
import subprocess
import threading
import time

from harness import (PROGS, Failure, Target, Tracer, end, expect, expect_equal, expect_words,
                     memtrace, need_tool, place, run, start, test)

INLINED, JIT, TICK = "3001", "3002", "3003"  # the sizes of the blocks of tests/progs/names.c


def trace(target, *options, prepare=None, **how):
    """Lets the target's script run under memtrace; returns its truth and the profile."""
    with Tracer("-p", target.pid, "-i", "1", "-f", "none", "--json", *options, **how) as tracer:
        if prepare:
            prepare(target)
        truth = target.go()
        profile = tracer.stop().json()
    expect_equal(target.quit(), 0, "status of the target")
    return truth, profile


def stacks_of(profile, size):
    return [s for s in profile["stacks"] if s["live_bytes"] % int(size) == 0 and
            s["live_bytes"] // int(size) == s["live_objects"]]


def the_stack(profile, size):
    found = stacks_of(profile, size)
    expect_equal(len(found), 1, f"stacks of blocks of {size} bytes")
    return found[0]


def check_inlined(truth, profile):
    stack = the_stack(profile, INLINED)
    names = [name for name, _ in truth["inlined"]]
    expect_equal(stack["frames"][1:5], [*names, "main"], "frames")
    for (name, line), told in zip(truth["inlined"], stack["lines"][1:4]):
        expect(told.endswith(f"names.c:{line}"), f"{name} is in line {line}, not in {told}")


@test(beside=True)
def names_of_inlined_functions():
    with Target("names") as target:
        truth, profile = trace(target)
    check_inlined(truth, profile)
    expect_equal(profile["lost"]["debug_info_failed"], 0, "debug_info_failed")


@test(beside=True)
def names_without_inlined_functions():
    """With --no-inline the profile has the functions as compiled, and no lines."""
    with Target("names") as target:
        _, profile = trace(target, "--no-inline")
    stack = the_stack(profile, INLINED)
    expect_equal(stack["frames"][1:3], ["outer", "main"], "frames")
    expect("lines" not in stack, stack)


@contextlib.contextmanager
def other_target(*command, wrapper=()):
    """A Target whose program is not in the build directory."""
    process = start([*wrapper, *command])

    class Other(Target):
        def __init__(self):  # pylint: disable=super-init-not-called
            self.process = process
            self.pid = int(self.line().split()[1])

    try:
        yield Other()
    finally:
        end(process)


def strip_into(directory, name="names"):
    """Makes a copy of the program without symbols, with its debug file in .debug/. Returns both
    paths."""
    for tool in ("objcopy", "strip"):
        need_tool(tool)
    path = os.path.join(directory, name)
    os.mkdir(os.path.join(directory, ".debug"))
    debug = os.path.join(directory, ".debug", name + ".debug")
    subprocess.run(["objcopy", "--only-keep-debug", os.path.join(PROGS, "names"), debug],
                   check=True)
    subprocess.run(["strip", "-o", path, os.path.join(PROGS, "names")], check=True)
    subprocess.run(["objcopy", "--add-gnu-debuglink", debug, path], check=True)
    return path, debug


@test(beside=True)
def names_from_debug_file():
    """Names come from the debug file beside the program, unless this file belongs to another
    program."""
    with place() as directory:
        path, debug = strip_into(directory)
        with other_target(path) as target:
            check_inlined(*trace(target))
        shutil.copy(os.path.join(PROGS, "busy"), debug)
        with other_target(path) as target:
            _, profile = trace(target)
        frame = the_stack(profile, INLINED)["frames"][1]
        expect_words(frame, r"^names\+0x[0-9a-f]+$")
        expect(profile["lost"]["frames_no_symbols"] > 0, profile["lost"])


@test(beside=True)
def names_from_debug_file_in_container():
    """The debug file is below the target's root directory, and exists only in the target's mount
    namespace."""
    need_tool("unshare")
    with place() as directory:
        inside = os.path.join(directory, "inside")
        os.mkdir(inside)
        os.chmod(directory, 0o755)
        stage = os.path.join(directory, "stage")
        os.mkdir(stage)
        strip_into(stage)
        script = f"mount -t tmpfs none {inside} && cp -r {stage}/. {inside} && exec {inside}/names"
        with other_target("sh", "-c", script, wrapper=["unshare", "-m", "--propagation",
                                                      "private"]) as target:
            expect(not os.listdir(inside), "it is seen from outside")
            check_inlined(*trace(target))


@contextlib.contextmanager
def debuginfod(directory):
    """A server of the files below directory, on the loopback; yields its address and the list of
    requested paths."""
    asked = []

    class Handler(http.server.SimpleHTTPRequestHandler):
        def __init__(self, *args):
            super().__init__(*args, directory=directory)

        def log_message(self, *_):
            asked.append(self.path)

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield f"http://127.0.0.1:{server.server_port}", asked
        finally:
            server.shutdown()


@test(beside=True)
def names_from_debuginfod():
    """memtrace asks a debuginfod server only if DEBUGINFOD_URLS names one."""
    with place() as directory:
        path, debug = strip_into(directory)
        notes = run(["readelf", "-n", path]).out
        build_id = re.search(r"Build ID: (\w+)", notes)[1]
        served = os.path.join(directory, "www", "buildid", build_id)
        os.makedirs(served)
        os.rename(debug, os.path.join(served, "debuginfo"))
        with debuginfod(os.path.join(directory, "www")) as (url, asked):
            environment = {**os.environ, "DEBUGINFOD_CACHE_PATH": directory + "/cache"}
            for urls in ("", url):
                with other_target(path) as target:
                    result = trace(target, env={**environment, "DEBUGINFOD_URLS": urls})
                if urls:
                    check_inlined(*result)
                    expect(any(build_id in path for path in asked), asked)
                else:
                    expect_equal(asked, [], "questions to the server")
                    expect_words(the_stack(result[1], INLINED)["frames"][1], r"^names\+0x")


@test(beside=True)
def names_of_the_vdso():
    """The stack of a signal handler that interrupts the vdso is unwound through the vdso."""
    with Target("names") as target:
        truth, profile = trace(target)
    stacks = stacks_of(profile, TICK)
    expect_equal(sum(s["live_objects"] for s in stacks), truth["ticks"], "ticks")
    expect_equal(profile["stacks_complete_pct"], 100, "stacks_complete_pct")
    for stack in stacks:
        expect_equal(stack["frames"][1:3], ["allocate", "on_tick"], "frames")
        expect("read_clock" in stack["frames"] and "main" in stack["frames"], stack)
    # libc's clock_gettime calls the vdso's function of the same name
    expect(any(s["frames"].count("clock_gettime") == 2 for s in stacks),
           "the vdso was not interrupted, or has no name:", [s["frames"] for s in stacks])


# --- JIT ---

def perf_map(pid):
    return f"/tmp/perf-{pid}.map"


@contextlib.contextmanager
def names_with_map(make):
    """Returns the profile and the JIT's stack. make(path) makes the target's perf map."""
    with Target("names") as target:
        path = perf_map(target.pid)
        try:
            _, profile = trace(target, prepare=lambda _: make(path))
            yield profile, the_stack(profile, JIT)["frames"]
        finally:
            if os.path.isdir(path) and not os.path.islink(path):
                os.rmdir(path)
            elif os.path.lexists(path):
                os.unlink(path)


def write_map(path):
    with open(path, "w", encoding="utf-8") as file:
        file.write("0fffff00 10 before\n10000000 8 LazyCompile:*hot /app.js:1\nnonsense\n")


@test(beside=True)
def names_of_a_jit():
    with names_with_map(write_map) as (profile, frames):
        expect_equal(frames[1:4], ["allocate", "LazyCompile:*hot /app.js:1", "run_jit"], "frames")
        expect_equal(profile["lost"]["perf_map_skipped"], 1, "lines skipped")
        expect_equal(profile["stacks_complete_pct"], 100, "stacks_complete_pct")


def refuse_map(make):
    with names_with_map(make) as (profile, frames):
        expect_equal(frames[1:4], ["allocate", "[anon]+0x5", "run_jit"], "frames")
        expect(profile["lost"]["frames_not_a_file"] > 0, profile["lost"])


@test(beside=True)
def names_of_a_jit_without_a_map():
    refuse_map(lambda path: None)


@test(beside=True)
def hostile_perf_map_fifo():
    """The perf map is a FIFO: memtrace does not wait for a writer."""
    refuse_map(os.mkfifo)


@test(beside=True)
def hostile_perf_map_symlink():
    with place() as directory:
        path = os.path.join(directory, "map")
        write_map(path)
        refuse_map(lambda link: os.symlink(path, link))


@test(beside=True)
def hostile_perf_map_of_another_user():
    def make(path):
        write_map(path)
        os.chown(path, 65534, 65534)
    refuse_map(make)


@test(beside=True)
def hostile_perf_map_directory():
    refuse_map(os.mkdir)


@test(beside=True)
def hostile_perf_map_huge():
    """A perf map with a gigabyte of zeros is not read to its end. Its valid lines are used."""
    def make(path):
        write_map(path)
        os.truncate(path, 1 << 30)
    with names_with_map(make) as (profile, frames):
        expect_equal(frames[2], "LazyCompile:*hot /app.js:1", "frame")
        expect(profile["lost"]["perf_map_skipped"] > 1, profile["lost"])


@test(beside=True)
def names_of_node():
    """The functions of a script get their names from the perf map that node writes."""
    node = "/usr/bin/node"
    if not os.path.exists(node):
        need_tool("nodejs")
    script = ("function leakyHandler(i) { return Buffer.allocUnsafeSlow(5000 + i % 7); }\n"
              "const kept = []; for (let i = 0; i < 20000; i++) kept.push(leakyHandler(i));\n"
              "process.kill(process.pid, 'SIGKILL')")  # a normal end would free all blocks
    with place() as directory:
        path = os.path.join(directory, "json")
        result = memtrace("-q", "--max-overhead", "off", "-i", "64K", "-f", "none",
                          "--json=" + path, "--", node,
                          "--perf-basic-prof", "--interpreted-frames-native-stack", "--no-opt",
                          "-e", script, cwd=directory)
        expect_equal(result.status, 128 + signal.SIGKILL, result)
        with open(path, encoding="utf-8") as file:
            profile = json.load(file)
        os.unlink(perf_map(profile["pid"]))
    expect(profile["stacks_complete_pct"] >= 99, profile["stacks_complete_pct"])
    named = sum(s["alloc_bytes"] for s in profile["stacks"]
                if any("leakyHandler" in f for f in s["frames"]))
    total = sum(s["alloc_bytes"] for s in profile["stacks"])
    expect(named > 0.8 * 20000 * 5003, f"only {named} of {total} bytes are leakyHandler's")


@test(beside=True)
def hostile_symbol_table():
    """A symbol table of 4 GB, which is a hole in the file, does no harm."""
    with place() as directory:
        path = os.path.join(directory, "names")
        with open(os.path.join(PROGS, "names"), "rb") as file:
            elf = bytearray(file.read())
        sections, n = struct.unpack_from("<Q", elf, 40)[0], struct.unpack_from("<H", elf, 60)[0]
        end_of_file = (len(elf) + 4095) & ~4095
        for header in range(sections, sections + 64 * n, 64):
            if struct.unpack_from("<I", elf, header + 4)[0] == 2:  # SHT_SYMTAB
                struct.pack_into("<QQ", elf, header + 24, end_of_file, 4 << 30)
        with open(path, "wb") as file:
            file.write(elf)
            file.truncate(end_of_file + (4 << 30))
        os.chmod(path, 0o755)
        with other_target(path) as target:
            check_inlined(*trace(target))  # the file's DWARF is sound


# --- addresses and pids that are used again ---

@test(beside=True)
def names_of_code_that_took_a_place():
    """Generated code is mapped in place of a library. It does not get the names of the library's
    functions, and a counter says that the code was replaced."""
    with Target("takeover", os.path.join(PROGS, "library.so")) as target:
        with Tracer("-p", target.pid, "-i", "1", "-f", "none", "--json") as tracer:
            target.go()
            expect_equal(target.quit(), 0, "status of the target")
            profile = tracer.wait().json()  # the process and its mappings no longer exist by then
    frames = the_stack(profile, "3002")["frames"]
    expect_equal((frames[1], frames[3]), ("allocate", "main"), frames)
    expect_words(frames[2], r"^\[anon\]\+0x[0-9a-f]+$")
    expect_equal(profile["lost"]["code_replaced"], 1, "code_replaced")


def start_as(pid):
    """Starts a program with this pid, which must be free."""
    for _ in range(50):
        with open("/proc/sys/kernel/ns_last_pid", "w", encoding="utf-8") as file:
            file.write(str(pid - 1))
        process = start(["sleep", "60"])
        if process.pid == pid:
            return process
        end(process)
    raise Failure(f"no process got pid {pid}")


@test(beside=True)
def names_when_another_has_the_pid():
    """After a process has ended, another process gets its pid. The profile of the first keeps its
    names."""
    with Target("names") as target, Target("busy") as other:
        pids = f"{target.pid},{other.pid}"
        with Tracer("-p", pids, "--max-overhead", "off", "-i", "1K", "-f", "none",
                    "--json") as tracer:
            target.go()
            expect_equal(target.quit(), 0, "status of the target")
            successor = start_as(target.pid)
            try:
                time.sleep(0.5)  # memtrace learns of the new process a little later
                lines = tracer.stop().out.splitlines()
            finally:
                end(successor)
    profile = next(p for p in map(json.loads, lines) if p["pid"] == target.pid)
    expect(profile["stacks"], "no samples")
    for stack in profile["stacks"]:
        expect("main" in stack["frames"], stack["frames"])
    expect_equal(profile["lost"]["dropped_by_exec"], 0, "dropped_by_exec")


# --- linkers' names ---

@test(beside=True)
def names_mangled():
    """With --no-demangle names are the linker's; without it they are demangled."""
    for options, wanted in (([], "std::"), (["--no-demangle"], "_ZSt")):
        with Target("chains_cxx") as target:
            _, profile = trace(target, *options)
        frames = {f for stack in profile["stacks"] for f in stack["frames"]}
        expect(any(f.startswith(wanted) for f in frames), f"no {wanted}... among {sorted(frames)}")
        if options:
            expect(not any("::" in f for f in frames), sorted(frames))
