# SPDX-License-Identifier: BSD-2-Clause
"""Stacks of programs in Rust, and in Go. Go switches stacks on calls to C and back."""
import os

from harness import (Target, Tracer, expect, expect_equal, need_tool, place, test, test_each_kind)
from test_stacks import check_complete, trace_command


def trace_chain(program, kind=None):
    """Returns the stacks that the program names, by their bytes; the stacks that memtrace found, by
    their bytes; and the profile."""
    with Target(program) as target:
        with Tracer("-p", target.pid, "-i", "1", "--no-inline", "-f", "none", "--json",
                    *(["--probe-kind", kind] if kind else [])) as tracer:
            truth = target.go()["stacks"]
            profile = tracer.stop().json()
        expect_equal(target.quit(), 0, f"status of {program}")
    found = {}
    for stack in profile["stacks"]:
        found.setdefault(str(stack["live_bytes"]), []).append(stack["frames"])
    return truth, found, profile


def check_chain(program, kind=None):
    """Each of the program's own functions is in the stacks that the program names. Every stack is
    whole, also those of the language's runtime."""
    truth, found, profile = trace_chain(program, kind)
    own = {name for names in truth.values() for name in names}
    for size, names in truth.items():
        seen = [[f for f in frames if f in own] for frames in found.get(size, [])]
        expect(names in seen, f"{program}, {size} bytes: {seen} instead of {names}")
    expect_equal(profile["stacks_complete_pct"], 100.0, f"{program}: complete")
    expect_equal(profile["lost"]["stacks_truncated"], 0, f"{program}: stacks_truncated")
    return f"{program} {len(truth)} stacks"


@test_each_kind(beside=True, best=True)
def stacks_of_go(kind):
    """Stacks of Go programs are right: in goroutines, after a stack has grown and moved, in C code
    that calls back, and in threads that C starts. Go links one program in its default way and one
    for any address (PIE)."""
    return ", ".join(check_chain(program, kind) for program in ("go_chain", "go_chain_pie"))


@test(beside=True)
def stacks_of_stripped_go():
    """Without symbols Go's functions have no names; the stacks have the same frames."""
    _, named, _ = trace_chain("go_chain")
    truth, bare, profile = trace_chain("go_chain_stripped")
    for size in truth:
        expect_equal([len(frames) for frames in bare.get(size, [])],
                     [len(frames) for frames in named[size]], f"frames, {size} bytes")
    expect_equal(profile["stacks_complete_pct"], 100.0, "complete")


@test_each_kind(beside=True, best=True)
def stacks_of_rust(kind):
    """Stacks of an optimized Rust program are whole, with both ways to mangle names."""
    return ", ".join(check_chain(program, kind) for program in ("rust_chain", "rust_chain_v0"))


@test(beside=True)
def stacks_of_go_and_rust_are_complete():
    """Stacks of Debian's own stripped binaries are whole: OpenSSL below goroutines, and a Rust
    program with threads."""
    for tool in ("gocryptfs", "rg"):
        need_tool(tool)
    told = [check_complete(trace_command("4K", "gocryptfs", "-speed"), "gocryptfs")]
    with place() as directory:
        for i in range(100):
            with open(os.path.join(directory, f"{i}.c"), "w", encoding="utf-8") as file:
                file.write("int a;\n" * 300)
        told.append(check_complete(trace_command("256", "rg", "-c", "[a-c];", directory),
                                   "ripgrep"))
    return ", ".join(told)
