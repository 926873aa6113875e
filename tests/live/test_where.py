# SPDX-License-Identifier: BSD-2-Clause
"""Tables show a stack from the program's own code on, on terminals of any width and in pipes."""
import os

from harness import (PROGS, Target, Tracer, end, expect, expect_equal, expect_words, memtrace,
                     need_tool, place, start, test, wait_until)
from test_python import LEAK, running

TITLE = "WHERE (leaf first)"


def rows_of(text):
    """The text in the column WHERE, by row."""
    lines = iter(text.splitlines())
    column = next(line.index(TITLE) for line in lines if TITLE in line)
    return [line[column:] for line in lines if len(line) > column and
            line[column - 2:column] == "  "]


def figures_of(text):
    """A table without its title and without the stacks of its rows."""
    column = next(line.index(TITLE) for line in text.splitlines() if TITLE in line)
    return [line[:column].rstrip() if line[column - 2:column] == "  " else line
            for line in text.splitlines()]


def check_switch(args, own, runtime):
    """Every row with one of the program's functions begins with this function. With
    --hide-runtime=no the row has the same figures, but begins with the runtime's function that the
    program called, if any. Returns the number of such rows."""
    hiding, showing = told(*args), told(*args, "--hide-runtime=no")
    expect_equal(told(*args, "--hide-runtime"), hiding, "--hide-runtime is the default")
    expect_equal(figures_of(showing), figures_of(hiding), "figures")
    n = 0
    for hidden, shown in zip(rows_of(hiding), rows_of(showing)):
        if not any(name in shown for name in own):
            continue
        expect(hidden.startswith(own), args, "begins with", hidden)
        if hidden == shown:
            continue
        expect(shown.startswith(runtime), args, "does not begin with the runtime:", shown)
        n += 1
    expect(n > 1, "rows of the runtime:", n, hiding)
    return n


def wide(columns):
    return {"env": {**os.environ, "COLUMNS": str(columns)}}


def told(*args, **options):
    result = memtrace(*args, **options)
    expect_equal(result.status, 0, f"status of {args}: {result.err}")
    return result.out


def check_rows(text, room, what):
    """Checks that each row begins with the short name of a function of the program. room: the
    table's width."""
    rows = rows_of(text)
    expect(len(rows) > 1, what, "rows", text)
    for row in rows:
        expect(row.startswith(("open_session", "load_rows")), what, "begins elsewhere:", row)
        expect("allocator<" not in row and "__cxx11" not in row, what, "not folded:", row)
        expect(len(row) <= room, what, "longer than", room, row)
    return rows


@test(beside=True)
def where_begins_with_own_code():
    """Rows begin with the program's functions although all of its leaks have innermost frames of
    the standard library."""
    with place() as directory:
        program = start([os.path.join(PROGS, "sessions")])
        comm = f"/proc/{program.pid}/comm"
        wait_until(lambda: open(comm, encoding="utf-8").read() == "sessions\n", "the program")
        out = told("-p", program.pid, "-d", "6", "-i", "4K", "--leaks", "--sites", "--max-overhead",
                   "off", "--every", "3", "-f", "pprof", "-o", directory + "/out")
        file, first = (f"{directory}/out.{program.pid}.pb.gz",
                       f"{directory}/out.{program.pid}.0001.pb.gz")
        session = (r"open_session \(via std::string\) < Server<\.\.>::handle_request < main < "
                   r"__libc_start")
        vector = (r"load_rows \(via std::vector<\.\.>::push_back\) < Server<\.\.>::handle_request "
                  r"< main < __libc_start")
        # in a pipe no row of a table is cut
        for what, text in (("the run", out), ("report", told("report", file)),
                           ("diff", told("diff", first, file)), ("leaks", told("leaks", file))):
            expect_words(text, session, vector)
            expect("< ...\n" not in text, what, "was cut in a pipe:", text)
        for what, args in (("report", ["report", file]), ("diff", ["diff", first, file])):
            for columns in (40, 60, 80, 120, 200):
                text = told(*args, **wide(columns))
                head = next(line for line in text.splitlines() if TITLE in line).index(TITLE)
                check_rows(text, max(columns - head, 24), f"{what} in {columns} columns")
        expect_words(told("report", file, **wide(200)), session)
        for columns in (60, 120):
            text = told("leaks", file, **wide(columns))
            expect_words(text, r"\n\d\. open_session", r"\n\d\. load_rows",
                         "To confirm: .*look at open_session[:.]",
                         "To confirm: .*look at load_rows[:.]")
        expect_words(told("report", "--tree", file), session)
        for args in (["report", file], ["diff", first, file],
                     ["report", "--weight", "allocated", file],
                     ["report", "--churn", file], ["report", "--leaks", file]):
            check_switch(args, ("open_session", "load_rows"), "std::")
        for args in (["report", "--sites", file], ["report", "--lifetimes", file],
                     ["report", "--tree", file], ["leaks", file]):
            expect("std::string < open_session" not in told(*args), args, "shows the runtime first")
            expect_words(told(*args, "--hide-runtime=no"),
                         r"std::string < open_session < Server<\.\.>::handle_request < main")
        expect_words(memtrace("report", "--hide-runtime=maybe", file).err, "yes or no, not 'maybe'")
        # files for other programs have full names
        for form in ("json", "collapsed"):
            expect_words(told("report", "-f", form, "--hide-runtime", file),
                         r"std::__cxx11::basic_string<char, ")


@test(beside=True)
def where_of_rust_begins_with_own_code():
    """Rows of memory that Rust's standard library allocates (vectors, boxes, strings) begin with
    the program's functions, with both ways to mangle names."""
    told_rows = []
    for program in ("rust_chain", "rust_chain_v0"):
        with place() as directory, Target(program) as target:
            with Tracer("-p", target.pid, "-i", "1", "-f", "pprof",
                        "-o", directory + "/out") as tracer:
                target.go()
                tracer.stop()
            told_rows.append(check_switch(
                ["report", f"{directory}/out.{target.pid}.pb.gz"], ("rust_chain::",),
                ("Vec<..>::", "Box<..>::", "String::", "alloc::", "std::", "allocate_dtv", "_dl_")))
    return f"{told_rows} rows"


@test(beside=True)
def where_of_python_begins_with_the_script():
    """Rows begin with the script's functions although a module of Python's library, or the
    interpreter, allocates the memory."""
    script = LEAK.replace("    kept.append(Record())\n",
                          "    kept.append(json.loads('[\"%0200d\"]' % i)); "
                          "kept.append(Record())\n")
    expect(script != LEAK, "the script has changed")
    with place() as directory, running(script) as (target, path):
        print(file=target.stdin, flush=True)
        told("-p", target.pid, "-d", "4", "-i", "16K", "--max-overhead", "off", "-f", "pprof",
             "-o", directory + "/out")
        file = f"{directory}/out.{target.pid}.pb.gz"
        rows = check_switch(["report", file], ("remember", "handle"),
                            ("Py", "_Py", "python3", "libpython", "_json", "lib"))
        expect_words(told("report", file), r"  remember \(via (\S+ < )?loads\) < <module>")
        expect_words(told("report", "-f", "collapsed", file), f"loads;.*;.*")
    return f"{rows} rows"


NODE = """
const kept = [];
function remember() { kept.push(Buffer.allocUnsafeSlow(20000)); }
function work() { for (let k = 0; k < 10; k++) remember(); }
setInterval(work, 5);
"""


@test(beside=True)
def where_of_node_begins_with_the_script():
    """Rows begin with the script's functions although Node.js allocates the buffers, and its timer
    calls the script."""
    need_tool("node")
    with place() as directory:
        path = directory + "/script.js"
        with open(path, "w", encoding="utf-8") as file:
            file.write(NODE)
        target = start(["node", "--perf-basic-prof", "--max-inlined-bytecode-size=0", path],
                       cwd=directory)
        names = f"/tmp/perf-{target.pid}.map"
        try:
            wait_until(lambda: os.path.exists(names) and
                       "remember" in open(names, encoding="utf-8").read(), "the script")
            told("-p", target.pid, "-d", "3", "-i", "16K", "--max-overhead", "off", "-f", "pprof",
                 "-o", directory + "/out")
        finally:
            end(target)
            if os.path.exists(names):
                os.unlink(names)
        file = f"{directory}/out.{target.pid}.pb.gz"
        for first in (rows_of(told("report", file))[0],
                      rows_of(told("report", "--weight", "allocated", file))[0]):
            expect("remember" in first.partition(" (via ")[0], "begins with", first)
        first = rows_of(told("report", "--hide-runtime=no", file))[0]
        expect(first.startswith(("node::", "v8::", "node+")), "begins with", first)


@test(beside=True, long=True)
def where_pipes_lose_no_columns():
    """The table of processes has fewer columns on a narrow terminal or with a small COLUMNS, but
    not in a pipe."""
    program = start([os.path.join(PROGS, "sessions")])
    run = ["--comm", "sessions", "-d", "2", "-i", "4K", "-f", "none", "--max-overhead", "off"]
    out = told(*run)
    expect("left out for want of room" not in out, out)
    expect_words(out, r"THREADS +COST +TOP SITE",
                 rf"\n *{program.pid}  sessions .*  (open_session|load_rows)\n")
    expect_words(told(*run, **wide(60)), "left out for want of room: THREADS, COST")
