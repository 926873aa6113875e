# SPDX-License-Identifier: BSD-2-Clause
"""Stacks by other weights than live bytes, by thread, process or module, and by age. Targets print
the truth."""
import json
import os
import re
import shutil
import sys
import time

from harness import (ROOT, Endless, Tracer, expect, expect_equal, expect_words, memtrace, need_tool,
                     owner, place, run, test, trace_script)
from test_jeprof import compare, inclusive, our_stacks, plain, program_functions

sys.path.insert(0, os.path.join(ROOT, "tests", "golden"))
import read_svg  # noqa: E402


def report(*args):
    result = memtrace("report", *args)
    expect_equal(result.status, 0, result)
    return result.out


def refused(status, why, *args):
    result = memtrace(*args)
    expect_equal(result.status, status, result)
    expect_words(result.err, why)


def by_root_and_function(text, functions):
    """(root, function) -> the sum of its collapsed stacks."""
    sums = {}
    for line in text.splitlines():
        names, _, number = line.rpartition(" ")
        frames = names.split(";")
        key = (frames[0], owner(reversed(frames), functions))
        sums[key] = sums.get(key, 0) + int(number)
    return sums


def by_function(text, functions):
    sums = {}
    for (_, function), number in by_root_and_function(text, functions).items():
        sums[function] = sums.get(function, 0) + number
    return {function: number for function, number in sums.items() if number}


@test(beside=True)
def views_by_weight():
    """The bytes and objects that each function allocated, freed and holds are right."""
    with place() as directory:
        truth, _, files = trace_script(None, "truth_basic", prefix=directory + "/out", options=(
            "-i", "1", "-f", "collapsed,svg,pprof", "--weight", "freed"))
        functions = truth["functions"]

        def wanted(key):
            return {name: f[key] for name, f in functions.items() if f[key]}

        with open(files["collapsed"], encoding="utf-8") as file:
            expect_equal(by_function(file.read(), functions), wanted("freed_bytes"),
                         "the run's own, freed")
        head, boxes = read_svg.read(files["svg"])
        expect_words(head[0], "allocated during the run and freed again")
        expect_equal(boxes[0]["figures"][0], sum(wanted("freed_bytes").values()),
                     "freed, in the picture")
        for weight, key in (("live", "live_bytes"), ("objects", "live_objects"),
                            ("allocated", "alloc_bytes"), ("freed", "freed_bytes")):
            out = report("-f", "collapsed", "--weight", weight, files["gz"])
            expect_equal(by_function(out, functions), wanted(key), weight)
        refused(1, "stores no growth", "report", "-f", "collapsed", "--weight", "growth",
                files["collapsed"])
        refused(1, "does not record objects", "report", "-f", "svg", "--weight", "objects",
                files["collapsed"])
        refused(1, "only what is live", "report", "-f", "svg", "--weight", "freed",
                files["collapsed"])
        refused(2, "not by 'size'", "report", "-f", "svg", "--weight", "size", files["gz"])
        expect_words(report("--weight", "freed", files["gz"]), "^freed of what was allocated",
                     "^ *FREED +OBJECTS")
        refused(1, "only what is live", "report", "--weight", "freed", files["collapsed"])
        refused(2, "works for the table of stacks", "report", "--weight", "freed",
                "--tree", files["gz"])
        refused(2, "give --leaks or --weight", "-p", os.getpid(), "--leaks", "--weight", "freed")


@test(beside=True)
def views_by_root():
    """Eight threads of a pool are one root, a process's root has its pid, and roots of modules are
    the files of the code."""
    with place() as directory:
        truth, profile, files = trace_script(None, "truth_threads", prefix=directory + "/out",
                                             options=("-i", "1", "-f", "collapsed,pprof",
                                                      "--by", "thread"))
        functions = truth["functions"]
        held = {name: f["live_bytes"] for name, f in functions.items()}
        pool = {("thr-#", name): n for name, n in held.items()}
        with open(files["collapsed"], encoding="utf-8") as file:
            expect_equal(by_root_and_function(file.read(), functions), pool,
                         "the run's own, by thread")
        for root, name in (("thread", "thr-#"), ("process", f"truth_threads ({profile['pid']})"),
                           ("module", "truth_threads")):
            out = report("-f", "collapsed", "--by", root, files["gz"])
            expect_equal(by_root_and_function(out, functions),
                         {(name, f): n for f, n in held.items()}, root)
            tree = report("--tree", "--by", root, files["gz"])
            expect_equal(tree.count(f" < {name}\n"), len(held), f"the tree by {root}: {tree}")
            report("-f", "svg", "--by", root, "-o", directory + "/svg", files["gz"])
            _, boxes = read_svg.read(directory + "/svg")
            top = [box["name"] for box in boxes if box["depth"] == 1]
            expect_equal(top, [name], f"the picture by {root}")

        rules = directory + "/rules"
        with open(rules, "w", encoding="utf-8") as file:
            file.write("even function ^alloc_by_[0246]$\nodd/one function ^alloc_by_1$\n")
        out = report("-f", "collapsed", "--by", "module", "--modules", rules, "--weight", "objects",
                     files["gz"])
        for (root, function), number in by_root_and_function(out, functions).items():
            n = int(function[-1])
            expect_equal(root, "odd/one" if n == 1 else "(no rule)" if n % 2 else "even", function)
            expect_equal(number, functions[function]["live_objects"], f"objects of {function}")

        def total(*options):
            profile = json.loads(report("-f", "json", *options, files["gz"]))
            return sum(s["live_bytes"] for s in profile["stacks"])

        threads = {name: t["live_bytes"] for name, t in truth["threads"].items()}
        expect_equal(total("--thread", "thr-3"), threads["thr-3"], "--thread, a name")
        expect_equal(total("--thread", "^thr-[0-3]$"), sum(threads[f"thr-{i}"] for i in range(4)),
                     "--thread, an expression")
        refused(1, "no thread called 'thr-\\('", "report", "--thread", "thr-(", files["gz"])
        refused(2, "only what is live is known by thread", "report", "-f", "svg", "--by", "thread",
                "--weight", "freed", files["gz"])
        refused(2, "not 'core'", "report", "--tree", "--by", "core", files["gz"])
        refused(2, "works for --tree", "report", "--by", "thread", files["gz"])
        refused(1, "does not record threads", "report", "-f", "svg", "--by", "thread",
                files["collapsed"])


@test(long=True)
def views_by_age_and_growth():
    """A program leaks evenly. The live bytes that are older than an age are the bytes that were
    leaked before that time. The growth is the leak's rate."""
    rate, seconds = 300000, 8
    with place() as directory, Endless("leaking", "--rate", "2000", "--leak", str(rate)) as target:
        with Tracer("-p", target.pid, "-i", "1", "-q", "-f", "pprof", "-o", directory + "/out",
                    f"--json={directory}/json") as tracer:
            time.sleep(seconds)
            tracer.stop()
        target.stop()
        with open(directory + "/json", encoding="utf-8") as file:
            profile = json.load(file)
        path = profile["files"][0]

        def held(*options):
            profile = json.loads(report("-f", "json", "--focus", "^forget$", *options, path))
            return sum(s["live_bytes"] for s in profile["stacks"])

        whole, duration = held(), profile["duration_s"]
        stacks = [s for s in profile["stacks"] if "forget" in s["frames"]]
        ages = [age for age, _ in stacks[0]["older"]]
        expect_equal(len(ages), 5, "ages")
        shares = []
        for age in ages:
            old, young = held("--age", age), held("--age", f"-{age}")
            expect(abs(old + young - whole) <= 4 * len(stacks), age, "s:", old, "and", young,
                   "of", whole)
            wanted = whole * (1 - age / duration)
            # The two numbers may differ by the leak of half a second. The reasons: the leak comes
            # in bursts, and the run ends only when memtrace has handled its last event.
            expect(abs(old - wanted) <= rate / 2, "older than", age, "s:", old,
                   "instead of", wanted)
            shares.append(f"{old / whole:.2f}")
        refused(1, "choose one of the ages that it stores, .*, .* s$", "report",
                "--age", "1000", path)
        refused(2, "cannot be combined with --thread", "report", "--age", ages[0],
                "--thread", "leaking", path)
        result = memtrace("report", "--age", ages[3], path)
        named = re.search(r"older than ([0-9.]+) s \(estimated\)", result.err)
        # The JSON object and the message round the same age to different numbers of digits.
        expect(named and abs(float(named[1]) - ages[3]) < 0.0101, "an age of", ages[3], "s:",
               result.err)

        grows = by_function(report("-f", "collapsed", "--weight", "growth", path),
                            {"forget"})["forget"]
        expect(abs(grows - rate) < rate / 4, "growth:", grows, "bytes/s instead of", rate)
        # a heap file has no ages
        report("-f", "heap", "-o", directory + "/heap", path)
        refused(1, "does not store the age", "report", "--age", ages[0], directory + "/heap")
        return f"older than {', '.join(f'{age:.2g}' for age in ages)} s: {', '.join(shares)} of it"


def rows(reader, path):
    """function -> [bytes, 1], callees included, as the reader shows them."""
    result = run([need_tool(reader), "--text", "--show_bytes", path])
    expect_equal(result.status, 0, result)
    found = re.findall(r"^ *\d+ +\S+% +\S+% +(\d+) +\S+% (.+)$", result.out, re.M)
    return {plain(name.removesuffix(" (inline)")): [int(n), 1] for n, name in found}


def check_symbolized(program, args, options):
    with place() as directory:
        path = os.path.join(directory, program)
        shutil.copy(os.path.join(ROOT, "build", "progs", program), path)
        known = program_functions(path)
        _, profile, files = trace_script(None, path, *args, prefix=directory + "/out",
                                         options=(*options, "-f", "symbolized,pprof"))
        os.unlink(path)
        ours = inclusive(our_stacks(profile, known))
        expect(len(ours) >= 10, "too few functions:", ours)
        for reader in ("jeprof", "google-pprof"):
            theirs = {name: n for name, n in rows(reader, files["symbolized"]).items()
                      if name in known and n[0]}
            compare(theirs, ours, f"{reader}, function")
        again = json.loads(report("-f", "json", files["symbolized"]))
        compare(inclusive(our_stacks(again, known)), ours, "memtrace report, function")
        report("-f", "symbolized", "-o", directory + "/later", files["gz"])
        compare({name: n for name, n in rows("jeprof", directory + "/later").items()
                 if name in known and n[0]},
                ours, "jeprof, of what report wrote, function")


@test(beside=True)
def symbolized_exact():
    """jeprof and google-pprof show the same bytes by function as memtrace, even after the program
    has ended and its file was deleted."""
    check_symbolized("truth_basic", (), ("-i", "1"))


@test(beside=True)
def symbolized_sampled():
    check_symbolized("truth_sampled", ("--scale", "25"), ("-i", "16K"))
