# SPDX-License-Identifier: BSD-2-Clause
"""Tables show a stack from the program's own code on, on terminals of any width and in pipes."""
import os

from harness import PROGS, expect, expect_equal, expect_words, memtrace, place, start, test, wait_until

TITLE = "WHERE (leaf first)"


def rows_of(text):
    """The text in the column WHERE, by row."""
    lines = iter(text.splitlines())
    column = next(line.index(TITLE) for line in lines if TITLE in line)
    return [line[column:] for line in lines if len(line) > column and line[column - 2:column] == "  "]


def wide(columns):
    return {"env": {**os.environ, "COLUMNS": str(columns)}}


def told(*args, **options):
    result = memtrace(*args, **options)
    expect_equal(result.status, 0, f"status of {args}: {result.err}")
    return result.out


def check_rows(text, room, what):
    """At any width each row begins with a function of the program, under its short name."""
    rows = rows_of(text)
    expect(len(rows) > 1, what, "rows", text)
    for row in rows:
        expect(row.startswith(("open_session", "load_rows")), what, "begins elsewhere:", row)
        expect("allocator<" not in row and "__cxx11" not in row, what, "not folded:", row)
        expect(len(row) <= room, what, "longer than", room, row)
    return rows


@test(beside=True)
def where_begins_with_own_code():
    """A program all of whose leaks have innermost frames of the standard library."""
    with place() as directory:
        program = start([os.path.join(PROGS, "sessions")])
        comm = f"/proc/{program.pid}/comm"
        wait_until(lambda: open(comm, encoding="utf-8").read() == "sessions\n", "the program")
        out = told("-p", program.pid, "-d", "6", "-i", "4K", "--leaks", "--sites", "--max-overhead", "off", "--every", "3", "-f",
                   "pprof", "-o", directory + "/out", timeout=60)
        file, first = f"{directory}/out.{program.pid}.pb.gz", f"{directory}/out.{program.pid}.0001.pb.gz"
        session = r"open_session \(via std::string\) < Server<..>::handle_request < main < __libc_start"
        vector = r"load_rows \(via std::vector<..>::push_back\) < Server<..>::handle_request < main < __libc_start"
        # in a pipe a table is as wide as its rows
        for what, text in (("the run", out), ("report", told("report", file)), ("diff", told("diff", first, file)),
                           ("leaks", told("leaks", file))):
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
            expect_words(text, r"\n\d\. open_session", r"\n\d\. load_rows", "To confirm: .*look at open_session[:.]",
                         "To confirm: .*look at load_rows[:.]")
        expect_words(told("report", "--tree", file), session)
        # files for other programs have full names
        for form in ("json", "collapsed"):
            expect_words(told("report", "-f", form, file), r"std::__cxx11::basic_string<char, ")


@test(beside=True, long=True)
def where_pipes_lose_no_columns():
    """The table of processes leaves columns out on a narrow terminal or for a small COLUMNS, but not in a pipe."""
    program = start([os.path.join(PROGS, "sessions")])
    run = ["--comm", "sessions", "-d", "2", "-i", "4K", "-f", "none", "--max-overhead", "off"]
    out = told(*run, timeout=60)
    expect("left out for want of room" not in out, out)
    expect_words(out, r"THREADS +COST +TOP SITE", rf"\n *{program.pid}  sessions .*  (open_session|load_rows)\n")
    expect_words(told(*run, timeout=60, **wide(60)), "left out for want of room: THREADS, COST")
