# SPDX-License-Identifier: BSD-2-Clause
"""Compares every stack with gdb's. Debian's own programs run twice from the same initial state,
without address randomization: under gdb with breakpoints on the allocator, and under memtrace -i 1.
For every call both must name the same return addresses, to the last one."""
import collections
import ctypes
import functools
import json
import math
import os
import re
import shutil

from harness import (MEMTRACE, Failure, NotRunnable, expect, expect_equal, lengthy, need_tool,
                     place, run, sociable, tests)

AGREE_PCT = 99  # per cent of calls, stacks and frames: at least this many must agree
LEAST_STACKS = 200  # each program must have at least this many different stacks
TIMEOUT_S = 120

# libc's functions that these programs call, and how many bytes a call asks for.
FUNCTIONS = {"malloc": lambda rdi, rsi: rdi,
             "calloc": lambda rdi, rsi: rdi * rsi,
             "realloc": lambda rdi, rsi: rsi}

# The dynamic linker's first instructions are assembly without unwind information. None of its other
# functions begins this near to its entry point.
START_BYTES = 64


# --- the two views of a run ---

def libc_functions():
    """libc's path, and its functions' offsets from its first mapping, both taken from this
    process."""
    libc = ctypes.CDLL("libc.so.6")
    with open("/proc/self/maps", encoding="utf-8") as maps:
        base, path = re.search(r"^(\w+)-.* (/\S*/libc\.so\.6)$", maps.read(), re.M).groups()
    return path, {name: ctypes.cast(getattr(libc, name), ctypes.c_void_p).value - int(base, 16)
                  for name in FUNCTIONS}


def by_gdb(command, env, directory):
    """The result of gdb_stacks.py. gdb's `run` splits the arguments at blanks."""
    expect(not any(" " in word for word in command), "blanks in", command)
    libc, functions = libc_functions()
    config = {"libc": libc, "functions": functions, "out": directory + ".gdb"}
    script = os.path.join(os.path.dirname(os.path.abspath(__file__)), "gdb_stacks.py")
    result = run([need_tool("gdb"), "-nx", "-batch", "-iex", "set auto-load off", "-iex",
                  f"python config = {config!r}", "-x", script, "--args", *command],
                 timeout=TIMEOUT_S, env=env, cwd=directory)
    expect(os.path.exists(config["out"]), result)
    with open(config["out"], encoding="utf-8") as file:
        found = json.load(file)
    expect_equal(found["status"], 0, f"exit status under gdb; {result}")
    return found


def allocated(path):
    """stack -> bytes of all its calls, as a reader of heap_v2 computes them."""
    sums, stack = {}, None
    with open(path, encoding="utf-8") as file:
        expect_equal(next(file), "heap_v2/1\n", f"first line of {path}")
        for line in file:
            if line == "\n":
                return sums
            if line.startswith("@ "):
                stack = tuple(int(addr, 16) for addr in line.split()[1:])
            elif stack and line.startswith("  t*:"):
                n, size = map(int, re.search(r"\[(\d+): (\d+)\]", line).groups())
                sums[stack] = sums.get(stack, 0) + (size / (1 - math.exp(-size / n)) if n else 0)
    raise Failure(f"{path} has no end of its stacks")


def by_memtrace(command, env, directory):
    """stack -> bytes of all its calls, and the counters of losses."""
    path, prefix = directory + ".json", directory + ".memtrace"
    result = run([need_tool("setarch"), "-R", MEMTRACE, "-q", "-i", "1", "-f", "heap", "-o", prefix,
                  f"--json={path}", "--", *command], timeout=TIMEOUT_S, env=env, cwd=directory)
    expect_equal(result.status, 0, result)
    with open(path, encoding="utf-8") as file:
        profile = json.load(file)
    return allocated(profile["files"][0]), {name: n for name, n in profile["lost"].items() if n}


def expected(found):
    """Returns gdb's results in memtrace's form: stack -> [calls, bytes], where a stack is the
    function's entry + 1 and the return addresses. Also returns the number of calls whose stack gdb
    could not follow to the end. Three differences are corrected:

    - realloc(NULL, n) jumps to malloc: gdb stops twice, for one call.
    - heap_v2 files leave out calls for no bytes.
    - In the dynamic linker's first instructions gdb has no unwind information. It mistakes argc and
      argv, which are on the stack, for further frames. But the process began with these
      instructions, so such frames are left out."""
    stacks, unfollowed, before = {}, 0, None
    for name, rdi, rsi, rsp, pcs, outermost in found["calls"]:
        size = FUNCTIONS[name](rdi, rsi)
        call = (rsp, size, pcs[1:])
        if (name, before) == ("malloc", ("realloc", call)):
            continue
        before = (name, call)
        if not size:
            continue
        for i, pc in enumerate(pcs):
            if found["start"] < pc < found["start"] + START_BYTES:
                pcs, outermost = pcs[:i + 1], True
                break
        unfollowed += not outermost
        sums = stacks.setdefault((pcs[0] + 1, *pcs[1:]), [0, 0])
        sums[0] += 1
        sums[1] += size
    return stacks, unfollowed


# --- the comparison ---

def same_bytes(wanted, got):
    """Are the sums equal, within the precision of a heap_v2 file's integers at an interval of 1? A
    sum may be off by a byte for a stack's blocks of one byte, and by a factor of 1.0003 for blocks
    of 8 bytes."""
    return abs(wanted - got) <= 1 + 0.001 * wanted


def nearest(stack, others):
    """Finds the stack in `others` that has the most leading frames in common with this stack.
    Returns the number of these frames, and the found stack."""
    def agree(other):
        n = 0
        while n < min(len(stack), len(other)) and stack[n] == other[n]:
            n += 1
        return n
    return max(((agree(other), other) for other in others), default=(0, ()))


def difference(stack, near, n):
    if n == len(stack) == len(near):
        return "other bytes"
    if n == len(near) > 0:
        return "memtrace ends earlier"
    return "gdb ends earlier" if n == len(stack) else "other frames"


def show(stack):
    return " ".join(f"{pc:#x}" for pc in stack)


def check_agreement(found, got, lost):
    """gdb and memtrace name the same stacks, with the same bytes, for at least AGREE_PCT of all
    calls."""
    wanted, unfollowed = expected(found)
    by_call = collections.defaultdict(list)
    for stack in got:
        by_call[stack[:2]].append(stack)
    calls = right_calls = right_stacks = frames = right_frames = 0
    classes, examples = collections.Counter(), ""
    for stack, (n, size) in wanted.items():
        alike, near = len(stack), stack
        if stack not in got or not same_bytes(size, got[stack]):
            alike, near = nearest(stack, by_call[stack[:2]])
            kind = difference(stack, near, alike)
            classes[kind] += n
            if examples.count("gdb") < 3:
                examples += (f"\n  gdb      {size} bytes: {show(stack)}"
                             f"\n  memtrace {got.get(near, 0):.0f} bytes: {show(near)}")
        else:
            right_stacks += 1
            right_calls += n
        calls += n
        frames += len(stack)
        right_frames += alike
    if unfollowed:
        classes["not followed by gdb"] = unfollowed
    # gdb stops in libc's functions only, so it does not see blocks of Python's own pool
    entries = {stack[0] for stack in wanted}
    n_stacks, n_got = len(wanted), sum(stack[0] in entries for stack in got)
    shares = [100 * part / max(whole, 1) for part, whole in
              ((right_calls - unfollowed, calls), (right_stacks, n_stacks), (right_stacks, n_got),
               (right_frames, frames))]
    depths = sorted(map(len, wanted)) or [0]
    told = (f"{calls} calls, {n_stacks} stacks of {depths[0]} to {depths[-1]} frames (median "
            f"{depths[len(depths) // 2]}), {frames} frames; the same: %.2f %% of calls, %.2f %% of "
            "gdb's stacks, %.2f %% of memtrace's, %.2f %% of frames" % tuple(shares))
    if classes:
        told += "; " + ", ".join(f"{what}: {n}" for what, n in classes.items())
    expect(n_stacks >= LEAST_STACKS, "too few stacks:", told)
    expect(min(shares) >= AGREE_PCT, told, examples, "\n  lost:", lost)
    return told


# --- programs: each function prepares directory and environment, and returns the arguments ---

SQL = """
create table t(id integer primary key, a text, b blob);
create index ti on t(a);
create view v as select a, length(b) as l from t;
create trigger tr after insert on t begin update t set a = a || 'x' where id = new.id; end;
with recursive c(i) as (select 1 union all select i + 1 from c where i < 40)
  insert into t(a, b) select i, zeroblob(i * 100) from c;
select group_concat(a, ','), sum(l) from v
  where l in (select length(b) from t order by b desc limit 10);
select json_extract('{"a":[1,2,{"b":3}]}', '$.a[2].b'), printf('%s %d', 'x', 12345),
  (select count(*) from t x join t y using (a));
pragma integrity_check;
"""

# Uses only modules built into Debian's python3: memtrace has the unwind table of a loaded library
# only after a while.
PYTHON = """
import ast, collections, functools, math, re
Point = collections.namedtuple("Point", "x y")
tree = ast.parse("def f(a, *b): return [a + c for c in b if c] or {'k': lambda: a}")
text = " ".join(re.findall(r"(a|b)+\\d*", ast.dump(tree)))
numbers = sorted((Point(i % 7, math.sqrt(i)) for i in range(50)), key=lambda p: (p.x, -p.y))
eval(compile(tree, "tree", "exec"))
print(text, functools.reduce(lambda a, p: a + p.y, numbers, 0), "{:>20,}".format(10 ** 30))
"""

C = """
struct s { int a; struct s *next; };
static int sum(const struct s *s) { int n = 0; while (s) { n += s->a; s = s->next; } return n; }
int f(int x) { struct s a = {x, 0}, b = {2, &a}; return sum(&b) ? x * 3 : 7; }
"""


def write(path, text):
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)


def sqlite3(directory, env):
    write(os.path.join(directory, "in.sql"), SQL)
    return ["-init", "in.sql", ":memory:"]


def python3(directory, env):
    """Most blocks come from Python's own pool. gdb can follow the remaining calls in a second. The
    program gets another name, because in a program called python memtrace replaces native frames by
    Python's."""
    shutil.copy("/usr/bin/python3", os.path.join(directory, "program"))
    env["PYTHONHOME"] = "/usr"
    write(os.path.join(directory, "in.py"), PYTHON)
    env.update(PYTHONHASHSEED="0", PYTHONDONTWRITEBYTECODE="1")
    return ["-S", "in.py"]


def git(directory, env):
    """Three commits, made at a fixed time."""
    env.update(GIT_CONFIG_NOSYSTEM="1", GIT_PAGER="cat")
    for who in ("AUTHOR", "COMMITTER"):
        env.update({f"GIT_{who}_NAME": "a", f"GIT_{who}_EMAIL": "a@b",
                    f"GIT_{who}_DATE": "@1700000000 +0000"})
    def do(*words):
        result = run([need_tool("git"), *words], env=env, cwd=directory)
        expect_equal(result.status, 0, result)

    do("init", "-q", ".")
    for i in range(3):
        for k in range(8):
            write(os.path.join(directory, f"{k}.c"),
                  "".join(f"int a{n};\n" for n in range(i * k, 60)))
        do("add", ".")
        do("commit", "-q", "-m", f"number {i}")
    return ["log", "-p", "--stat"]


def clang(directory, env):
    """C++, with some thousand calls in constructors before main."""
    write(os.path.join(directory, "in.c"), C)
    return ["-fintegrated-cc1", "-c", "in.c", "-o", "/dev/null"]


def stacks_as_gdb(path, prepare):
    need_tool("gdb")
    if run([need_tool("setarch"), "-R", "true"]).status:
        raise NotRunnable("address randomization cannot be turned off here")
    with place() as outside:
        # both runs use this directory; the results are written beside it
        directory = os.path.join(outside, "run")
        os.mkdir(directory)
        env = {"PATH": os.environ["PATH"], "HOME": directory, "LC_ALL": "C.UTF-8"}
        command = [need_tool(path), *prepare(directory, env)]
        if os.path.exists(os.path.join(directory, "program")):
            command[0] = os.path.join(directory, "program")
        return check_agreement(by_gdb(command, env, directory),
                               *by_memtrace(command, env, directory))


for prepare in (sqlite3, python3, git, clang):
    # Debian's python3, because the first one in PATH may be any build
    path = f"/usr/bin/{prepare.__name__}"
    name = f"stacks_as_gdb[{prepare.__name__}]"
    tests[name] = functools.partial(stacks_as_gdb, path, prepare)
    lengthy.add(name)
    sociable.add(name)
