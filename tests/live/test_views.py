# SPDX-License-Identifier: BSD-2-Clause
"""Views of threads, of stacks over time, and of lifetimes. tests/progs/handover prints the truth of
each."""
import glob
import json
import os
import re

from harness import (PROGS, Endless, expect, expect_equal, expect_words, memtrace, need_tool, place,
                     run, test, test_each_kind)

MAKERS, USERS = ("make-1", "make-2"), ("use-1", "use-2", "use-3")


def record(*options):
    """Traces handover. Returns the profile and the truth."""
    with place() as directory:
        path = os.path.join(directory, "json")
        result = memtrace(*options, f"--json={path}", "-f", "none", "--sites",
                          "--", f"{PROGS}/handover")
        expect_equal(result.status, 0, result)
        truth = json.loads(next(line for line in result.out.splitlines() if line.startswith("{")))
        with open(path, encoding="utf-8") as file:
            return json.load(file), truth


def stack_of(profile, function):
    found = [s for s in profile["stacks"] if function in s["frames"]]
    expect_equal(len(found), 1, f"stacks of {function}: {found}")
    return found[0]


def check_threads(profile, truth):
    names = {thread["tid"]: thread["name"] for thread in profile["threads"]}
    pairs = {(names[t["owner"]], names.get(t["freer"])): t["bytes"] for t in profile["transfers"]}
    for maker, known in zip(MAKERS, truth["makers"]):
        ours = {freer: n for (owner, freer), n in pairs.items() if owner == maker}
        # own: bytes that libc allocates for the thread
        own = ours.pop(None) - known["allocated"]
        expect(0 <= own < 2000, maker, "allocated", own, "more than it knows")
        expect(0 <= ours.pop(maker, 0) - known["freed"][0] <= own, maker,
               "freed of its own:", pairs)
        expect_equal(ours, dict(zip(USERS, known["freed"][1:])),
                     f"who freed what {maker} allocated")
        owned = known["freed"][-1]
        stacks = sum(s["live_bytes"] for s in profile["stacks"] if "make_block" in s["frames"])
        expect_equal(stacks, sum(m["freed"][-1] for m in truth["makers"]),
                     "what is owned by nobody else")
        expect(owned > 0, "nothing is left:", known)


@test_each_kind(beside=True, best=True)
def views_exact(kind):
    profile, truth = record("-i", "1", "--max-overhead", "off", "--probe-kind", kind)
    check_threads(profile, truth)

    held = stack_of(profile, "hold")
    for ours, known in zip(held["freed_by_age"], truth["by_age"]):
        expect(known <= ours <= known + truth["between_ages"], "ages:", held, truth)
    expect_equal(sum(held["freed_by_age"]), sum(truth["by_age"]) + truth["between_ages"],
                 "blocks held")
    expect_equal(held["live_by_age"], [0] * 10, "held at the end")

    wave = stack_of(profile, "wave_block")
    expect_equal({key: wave[key]
                  for key in ("alloc_objects", "freed_objects", "live_objects", "high_objects",
                              "alloc_bytes", "freed_bytes", "live_bytes", "high_bytes")},
                 {"alloc_objects": 120, "freed_objects": 110, "live_objects": 10,
                  "high_objects": 100, "alloc_bytes": 120000, "freed_bytes": 110000,
                  "live_bytes": 10000, "high_bytes": 100000}, "the wave")
    expect_equal(sum(wave["live_by_age"]), 10, "ages of what is left")


@test(beside=True)
def views_sampled():
    """If one byte in 4096 is sampled, the error of each figure is as small as expected."""
    profile, truth = record("-i", "4096", "--max-overhead", "off")
    names = {thread["tid"]: thread["name"] for thread in profile["threads"]}
    total = {"all": 0, "others": 0}
    for t in profile["transfers"]:
        if names[t["owner"]] in MAKERS and t["freer"] != t["owner"]:
            total["others" if t["freer"] else "all"] += t["bytes"]
    for what, known in (("all", sum(m["allocated"] for m in truth["makers"])),
                        ("others", sum(sum(m["freed"][1:-1]) for m in truth["makers"]))):
        error = 4 * (4096 * known) ** 0.5  # twice the 95 % interval
        expect(abs(total[what] - known) < error + 2000, what, total[what], "for", known,
               "+-", error)


@test(beside=True)
def views_as_tables():
    result = memtrace("-i", "1", "--max-overhead", "off", "-f", "none", "--threads", "--sites",
                      "--lifetimes", "-o", "-", "-n", "30", "--", f"{PROGS}/handover")
    expect_equal(result.status, 0, result)
    truth = json.loads(next(line for line in result.out.splitlines() if line.startswith("{")))
    expect_words(result.out, r"^make-# +2 ", r"^use-# +3 ",
                 r"^WHOSE, by whom freed:.* make-# .*use-#")
    row = re.search(r"^make-# +2 .*$", result.out, re.M)[0]
    handed = sum(sum(m["freed"][1:-1]) for m in truth["makers"])
    expect(f"{handed / 1024:.1f} KiB" in row, handed, "is not in", row)
    expect_words(result.out, r"^ *120 +117\.2 KiB +110 +107\.4 KiB +\d+ +\S+ \S+ +10 +9\.8 KiB "
                 r"+100 +97\.7 KiB *\n? +wave_block", r"^ +[\d,]+ +freed +61 .*\n? +hold <")


@test(long=True)
def views_in_windows():
    """In windows, lifetimes are estimates. The other views say which figures cannot be known from
    windows."""
    with Endless("vectors", "--sessions", "100") as target:
        result = memtrace("-p", target.pid, "-d", "10", "--max-overhead", "2", "-f", "none",
                          "--threads", "--sites", "--lifetimes")
        target.stop()
    expect_words(result.out,
                 r"threads: estimated from windows.*\nTHREAD +THREADS +STILL OWNED +95 % INTERVAL",
                 "sites: not known for this run",
                 r"lifetimes are estimated from windows\n *ALLOCATED/s +AGES",
                 r"^ +[\d,]+ +freed +[\d,]+ ", r"^ +half of them live longer than [\d.]+ [um]?s")
    wrong = memtrace("--threads=each", "-p", "1")
    expect_equal(wrong.status, 2, wrong)
    expect_words(wrong.err, "--threads takes no value")

VIEWS = ("--threads", "--sites", "--lifetimes")


def check_file(tables, path, *views):
    """report prints the same tables from the run's file, except for the line with the file's
    name."""
    ours = [line for line in tables.splitlines() if not line.startswith("written: ")]
    result = memtrace("report", *views, "-n", "30", path)
    expect_equal(result.status, 0, result)
    expect_equal(result.out.splitlines(), ours, "the file's tables, and the run's")


@test(beside=True)
def views_of_a_file():
    """report prints the run's tables from its file. The run is sampled, so that no figure is a
    whole number. The tables of stacks are sorted by live bytes, because a file does not show that
    its run had a command."""
    with place() as directory:
        result = memtrace("-i", "4096", "--max-overhead", "off", "-f", "pprof", *VIEWS, "--weight",
                          "live", "-n", "30", "-o", f"{directory}/out", "--", f"{PROGS}/handover")
        expect_equal(result.status, 0, result)
        path, = glob.glob(f"{directory}/*.pb.gz")
        check_file(result.err[result.err.index("memtrace: pid"):], path, *VIEWS)
        lacking = memtrace("report", "--rss", path)
        expect_equal(lacking.status, 1, lacking)
        expect_words(lacking.err, "what the resident set is made of: the .pb.gz file of record "
                     "--rss")
        # pprof reads the same figures, but writes a file that has none of these views
        env = {**os.environ, "HOME": directory, "PPROF_TMPDIR": directory}
        again = run([need_tool("go"), "tool", "pprof", "-proto", "-symbolize=none",
                     f"-output={directory}/again", path], env=env)
        expect_equal(again.status, 0, again)
        for file in (path, f"{directory}/again"):
            top = run([need_tool("go"), "tool", "pprof", "-top", "-unit=B", "-symbolize=none",
                       file], env=env)
            expect_words(top.out, r"^Showing nodes accounting for .* total$")
            expect_equal(json.loads(memtrace("report", "-f", "json", file).out)["live_bytes"],
                         int(re.search(r" of (\d+)B? total$", top.out, re.M)[1]), file)
        lacking = memtrace("report", "--threads", f"{directory}/again")
        expect_equal(lacking.status, 1, lacking)
        expect_words(lacking.err,
                     "who freed whose memory: an older memtrace wrote it, or another program")


@test(beside=True)
def views_of_a_windowed_file():
    with place() as directory, Endless("vectors", "--sessions", "100") as target:
        result = memtrace("-p", target.pid, "-d", "4", "--max-overhead", "1", "-f", "pprof",
                          "-n", "30", "--rss", "-o", f"{directory}/out", "--threads", "--lifetimes")
        target.stop()
        expect_equal(result.status, 0, result)
        path, = glob.glob(f"{directory}/*{target.pid}.pb.gz")
        check_file(result.out, path, "--threads", "--lifetimes", "--rss")
        lacking = memtrace("report", "--sites", path)
        expect_equal(lacking.status, 1, lacking)
        expect_words(lacking.err,
                     "what stacks held at least and at most: the .pb.gz file of record "
                     "--max-overhead off")
