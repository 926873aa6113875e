# SPDX-License-Identifier: BSD-2-Clause
"""Stacks reach from the allocator to main, with every frame right, in code without frame pointers."""
import json
import os
import subprocess
import sys
import time

from harness import (PROGS, Target, Tracer, end, expect, expect_equal, memtrace, need_tool, place,
                     start, test, test_each_kind)

COMPLETE_PCT = 99  # of the stacks, at least


@test_each_kind
def stacks_as_declared(kind):
    """Deep chains, callbacks of qsort and bsearch, a signal handler, variable frames, a coroutine, a
    thread, a library loaded while traced: what the program says of each block's stack."""
    library = os.path.join(PROGS, "library.so")
    with Target("chains", library) as target:
        with Tracer("-p", target.pid, "-i", "1", "-f", "none", "--json", "--probe-kind",
                    kind) as tracer:
            truth = target.go()["stacks"]
            profile = tracer.stop().json()
        expect_equal(target.quit(), 0, "status of chains")
    own = {name for names in truth.values() for name in names}
    found = {}
    for stack in profile["stacks"]:
        # the program's own functions: what libc has in between is not declared
        found[str(stack["live_bytes"])] = [f for f in stack["frames"] if f in own]
    for size, names in truth.items():
        expect_equal(found.get(size), names, f"stack of the block of {size} bytes")
    expect_equal(profile["lost"]["stacks_truncated"], 0, "stacks_truncated")
    return f"{len(truth)} stacks"


def check_complete(profile, what, at_least=100):
    expect(profile["samples"] >= at_least, f"{what}: only {profile['samples']} samples")
    share = profile["stacks_complete_pct"]
    expect(share is not None and share >= COMPLETE_PCT,
           f"{what}: {share} % complete", {k: v for k, v in profile["lost"].items() if v})
    return f"{what} {share:.1f} %"


def trace_command(interval, *command, **options):
    with place() as directory:
        path = os.path.join(directory, "profile.json")
        result = memtrace("-q", "-f", "none", "-i", interval, f"--json={path}", "--", *command,
                          **options)
        expect_equal(result.status, 0, result)
        with open(path, encoding="utf-8") as file:
            return json.load(file)


@test
def stacks_are_complete():
    """Debian's own binaries, none of which has frame pointers."""
    for tool in ("sqlite3", "git"):
        need_tool(tool)
    told = []
    profile = trace_command("4K", "sqlite3", ":memory:",
                            "create table t(a,b); with recursive c(i) as (select 1 union all select "
                            "i+1 from c where i<50000) insert into t select i, hex(randomblob(20)) "
                            "from c; select count(*) from t;")
    told.append(check_complete(profile, "sqlite3"))
    environment = {**os.environ, "PYTHONMALLOC": "malloc"}
    profile = trace_command("16K", "/usr/bin/python3", "-c",
                            "import json\nfor i in range(20000): json.loads(json.dumps([i]*5))",
                            env=environment)
    told.append(check_complete(profile, "python3"))
    with place() as directory:
        subprocess.run(["git", "init", "-q", directory], check=True)
        for i in range(300):
            with open(os.path.join(directory, f"{i}.c"), "w", encoding="utf-8") as file:
                file.write("int a;\n" * 300)
        profile = trace_command("1K", "git", "-C", directory, "add", ".")
        told.append(check_complete(profile, "git"))
    profile = trace_command("64K", "clang", "-fintegrated-cc1", "-O2", "-x", "c", "-c", "-o",
                            "/dev/null", os.path.join(os.path.dirname(__file__), "..", "progs",
                                                      "leaky.c"), "-D_GNU_SOURCE")
    told.append(check_complete(profile, "clang"))
    return ", ".join(told)
