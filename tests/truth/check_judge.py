#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Tests judge.py on profiles written by hand. Run by `make check`."""
import os
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from judge import at, judge, looks_of, owner, rows_of, sum_of  # noqa: E402

GROUPS = {"keep": "keep_.*", "drop": "drop"}
CASE = {"groups": GROUPS, "grows": ["keep"], "zero": []}


def expect(got, wanted, what):
    if got != wanted:
        sys.exit(f"check_judge: {what}: {got!r} instead of {wanted!r}")


def stack(frames, live, growth):
    return dict(zip(("live_bytes", "live_bytes_low", "live_bytes_high",
                     "growth_bytes_per_s", "growth_low", "growth_high"),
                    (*live, *growth)), frames=frames)


def profile(*stacks, live=(1000, 800, 1200)):
    return {"stacks": list(stacks), "duration_s": 20.0, "mode": "windowed", "overhead_pct": 3.0,
            "samples": 9, "lost": {}, "interval_bytes": 64,
            **dict(zip(("live_bytes", "live_bytes_low", "live_bytes_high"), live))}


def account(t, keep, drop):
    return {"t": t, "live": {"keep": keep, "drop": drop}, "since": {"keep": keep, "drop": drop},
            "ops": 10 * t, "total_live": keep + drop, "total_since": keep + drop}


def judged(*stacks, log="", heap=5000, case=None, **more):
    series = [account(100, 0, 100), account(105, 200, 100), account(120, 800, 100),
              account(130, 5000, 100)]
    return judge({**CASE, **(case or {})}, profile(*stacks, **more), log, series, 100.0,
                 {"size": heap, "rss": 0})


def main():
    expect(owner(["malloc", "keep_it", "drop"], GROUPS), "keep", "the leaf's first")
    expect(owner(["malloc", "kept", "main"], GROUPS), None, "whole names only")
    expect(at([account(0, 0, 0), account(10, 100, 0)], 2.5, lambda a: a["live"]["keep"]), 25,
           "in proportion")
    expect(sum_of([[10, 7, 14], [20, 16, 23]]), [30, 25, 35], "errors that are independent")
    expect(sum_of([[10, 7, 14], [20, None, 23]]), [30, None, None], "an end that is not known")
    expect([row[:2] for row in looks_of(
        "x: fastest growth 1.5 KiB/s (-2.0 - 3.0 KiB) drop < main\n", GROUPS)],
           [["drop", 1536]], "a status line")
    two = rows_of(profile(stack(["keep_a"], (10, 7, 14), (1, 1, 1)),
                          stack(["keep_b"], (20, 16, 23), (2, -1, 3))), GROUPS)
    expect((two["keep"]["live"], two["keep"]["sure"]), ([30, 25, 35], 1), "two stacks of a group")

    right = judged(stack(["malloc", "keep_it"], (790, 700, 900), (41, 30, 50)),
                   stack(["malloc", "drop"], (99, 90, 110), (0, -3, 3)))
    rows = right["stacks"]
    expect((rows["keep"]["live_truth"], rows["keep"]["growth_truth"]), (800, 40),
           "truth at the end of the run")
    expect([(row["live_in"], row["growth_in"]) for row in rows.values()], [(True, True)] * 2,
           "all is right")
    expect((right["first_right"], right["accused"], right["live_above_heap"]), (True, [], False),
           "all is right")

    # the memory of a row that is not printed may be a part of what no window saw
    unseen = [judged(stack(["malloc", "keep_it"], (790, 700, 900), (41, 30, 50)),
                     stack(["[large blocks that no window saw]"], (size, size, size), (1, 0, 1)),
                     case={"groups": {"keep": "keep_.*", "drop": "drop"}})["stacks"]["drop"]
              for size in (150, 50)]
    expect([(row["live"], row["live_in"]) for row in unseen],
           [([0, 0, 150], True), ([0, 0, 50], False)], "large blocks that no window saw")

    wrong = judged(stack(["malloc", "drop"], (9000, 8000, 9900), (70, 60, 80)), heap=950,
                   case={"zero": ["drop"]},
                   log="memtrace: 10 s: fastest growth 5 B/s (1 - 9 B) drop < main\n")
    rows = wrong["stacks"]
    expect((rows["drop"]["live_in"], rows["drop"]["growth_in"]), (False, False),
           "intervals elsewhere")
    expect((rows["keep"]["live_in"], rows["keep"]["growth_in"]), (False, False),
           "what is not printed is missed")
    expect((wrong["first_right"], wrong["accused"], wrong["looks"]), (False, [["drop"]] * 2, 2),
           "false accusations")
    expect(wrong["live_above_heap"], True, "more than there is room for")
    expect(judged(case={"grows": []})["first_right"], None, "nothing grows")
    pages = [judged(stack(["malloc", "keep_it"], (690, 690, 690), (41, 30, 50)),
                    case={"grain": grain})["stacks"]["keep"]
             for grain in (100, 120)]
    expect([row["live_in"] for row in pages], [False, True], "an account by pages")


main()
