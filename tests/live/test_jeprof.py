# SPDX-License-Identifier: BSD-2-Clause
"""jeprof reads memtrace's .heap file. It must show the same functions and bytes as memtrace's JSON,
table and .collapsed file.

Both the heap file and jeprof round. For each stack, the heap file has a pair of integers. jeprof
multiplies them by a factor. The result is wrong by up to half a byte, or by 0.5 % if a stack's
number of objects is not an integer (TOLERANCE in user/encode/heap_v2.c). At an interval of 1,
jeprof reads a block of one byte as 1.58. It then cuts off the fraction of each line. So a stack may
differ by one byte for the line. In addition, it may differ by 0.5 % of its bytes, or by one byte
for each of its entries in the heap file."""
import re

from harness import (expect, expect_equal, memtrace, need_tool, place, run, test, trace_script,
                     PROGS)

# Names of libc's functions. For a function without a symbol jeprof prints the nearest exported
# symbol, memtrace prints module+0xoffset. Only the program's own functions, and strdup, are
# compared by name.
LIBC_NAMES = ("strdup", "strndup")


def plain(name):
    """malloc@@GLIBC_2.2.5<0000000000099060>, as jeprof writes it -> malloc; __strdup, and its name
    in libc's debug information, __GI___strdup -> strdup."""
    name = re.sub(r"<[0-9a-f]{8,}>$", "", name)
    name = name.split("@@")[0].removeprefix("__GI_")
    return name.lstrip("_") if name.lstrip("_") in LIBC_NAMES else name


def program_functions(path):
    out = run([need_tool("nm"), path]).out
    return {line.split()[2] for line in out.splitlines() if re.match(r"\S+ [tT] ", line)} | \
        set(LIBC_NAMES)


def read_collapsed(text, known):
    """(root, ..., leaf) -> [bytes, lines]. Only known functions are in the stacks."""
    stacks = {}
    for line in text.splitlines():
        m = re.fullmatch(r"(.+) (\d+)", line)
        expect(m, "not a line of the collapsed form:", repr(line))
        key = tuple(f for f in map(plain, m[1].split(";")) if f in known)
        sums = stacks.setdefault(key, [0, 0])
        sums[0] += int(m[2])
        sums[1] += 1
    return stacks


def inclusive(stacks):
    """function -> [bytes, stacks] of all stacks that contain it."""
    held = {}
    for key, (nbytes, n) in stacks.items():
        for function in set(key):
            sums = held.setdefault(function, [0, 0])
            sums[0] += nbytes
            sums[1] += n
    return held


def our_stacks(profile, known):
    stacks = {}
    for stack in profile["stacks"]:
        if stack["live_bytes"]:
            key = tuple(f for f in map(plain, reversed(stack["frames"])) if f in known)
            sums = stacks.setdefault(key, [0, 0])
            sums[0] += stack["live_bytes"]
            sums[1] += 1
    return stacks


def compare(got, wanted, what):
    """got, wanted: name or stack -> [bytes, ...]. An entry that only one of the two has must have
    nearly no bytes."""
    for key in got.keys() | wanted.keys():
        a, n = got.get(key, (0, 0))
        b, m = wanted.get(key, (0, 0))
        # a stack has one or two entries in the heap file
        expect(abs(a - b) <= max(0.005 * b, 2 * max(n, m) + 1), f"{what} {key}: {a}, ours {b}")


def check_lines(path):
    """Reads every line as flamegraph.pl does. No name may break a line."""
    total = 0
    with open(path, encoding="utf-8", newline="\n") as file:
        for line in file:
            m = re.match(r"^(.*)\s+?(\d+(?:\.\d*)?)$", line.rstrip("\n"))
            expect(m, "flamegraph.pl would leave out", repr(line))
            expect(m[1] and all(m[1].split(";")), "an empty frame:", repr(line))
            expect(not re.search(r"[\x00-\x1f\x7f]", m[1]), "a control character:", repr(line))
            expect_equal(line, f"{m[1]} {m[2]}\n", "the line")
            total += int(m[2])
    return total


def check(program, args, options):
    jeprof = need_tool("jeprof")
    for tool in ("perl", "nm", "addr2line", "objdump"):  # jeprof calls them
        need_tool(tool)
    with place() as directory:
        _, profile, files = trace_script(None, program, *args, options=options,
                                         prefix=directory + "/out")
        path = f"{PROGS}/{program}"
        known = program_functions(path)
        ours = our_stacks(profile, known)
        expect(len(ours) >= 10, "too few stacks to compare:", ours)

        with open(files["collapsed"], encoding="utf-8") as file:
            text = file.read()
        total = check_lines(files["collapsed"])
        lines = text.count("\n")
        expect(abs(total - profile["live_bytes"]) <= lines, f"sum of .collapsed: {total}")
        # one line may be the sum of several stacks of the JSON, and each stack is rounded
        for key, (nbytes, n) in ours.items():
            expect(abs(read_collapsed(text, known)[key][0] - nbytes) <= n, "collapsed:", key)

        collapsed = run([jeprof, "--collapsed", path, files["heap"]])
        expect_equal(collapsed.status, 0, collapsed)
        theirs = read_collapsed(collapsed.out, known)
        compare({k: v for k, v in theirs.items() if v[0]}, ours, "stack")

        text = run([jeprof, "--text", "--show_bytes", path, files["heap"]])
        expect_equal(text.status, 0, text)
        m = re.search(r"^Total: (\d+) B$", text.out, re.M)
        expect(m, "no total:", text.out)
        compare({"": [int(m[1]), len(ours)]}, {"": [profile["live_bytes"], len(ours)]}, "total")
        rows = re.findall(r"^ *(\d+) +\S+% +\S+% +(\d+) +\S+% (\S+)", text.out, re.M)
        theirs = {plain(name): [int(cum), 1] for _, cum, name in rows if plain(name) in known}
        compare({k: v for k, v in theirs.items() if v[0]}, inclusive(ours), "function")
        return profile


@test(beside=True)
def jeprof_exact():
    check("truth_basic", (), ("-i", "1"))


@test(beside=True, long=True)
def jeprof_sampled():
    check("truth_sampled", ("--scale", "25"), ("-i", "16K"))


@test(beside=True)
def table_agrees():
    """The table's rows show the truth of truth_basic, in human-readable units."""
    result = memtrace("-i", "1", "-f", "none", "-n", "5", "--weight", "live", "-o", "-",
                      "--", f"{PROGS}/truth_basic", "--auto")
    expect_equal(result.status, 0, result)
    rows = [line.split(None, 5) for line in result.out.splitlines()
            if re.match(r" *[\d.]+ (B|KiB|MiB) ", line)]
    # 8,348,719 bytes in 8,334 objects of many_blocks and so on: see truth_basic.c
    for row, (live, objects, name) in zip(rows, (("8.0", "8,334", "many_blocks"),
                                                 ("3.1", "10", "keep_malloc"),
                                                 ("2.0", "1", "vector_push"))):
        expect_equal((row[0], row[1], row[2]), (live, "MiB", objects), f"row {row}")
        expect(row[4].startswith(name) or row[5].startswith(name), "row", row)
    expect_equal(len(rows), 6, "five rows and the rest")
