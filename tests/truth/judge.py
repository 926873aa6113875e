# SPDX-License-Identifier: BSD-2-Clause
"""Compares what memtrace printed with the truth: pure arithmetic, from one profile and a series of
accounts to a record. It starts nothing and reads no clock.

Words. A *row* is all stacks of the profile that belong to one function (or group of functions)
whose truth is known. A *look* is a moment at which memtrace prints which stacks grow: each status
line of --leaks, and the end. A stack grows *surely* if the lower limit of its growth is above zero.
A row *counts* if its true or printed live bytes are at least 2 % of all, or if it leaks. The
intervals of other rows are not judged."""
import re

COUNTS = 0.02  # share of all live bytes, true or printed, from which a row counts
# bytes of a block: a row that holds one block less than at the beginning has not shrunk
A_BLOCK = 100
# the row of blocks that memtrace knows of, without knowing who allocated them
UNSEEN = "[large blocks that no window saw]"
UNITS = {"": 1, "B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "TiB": 1 << 40}
NUMBER = r"([+-]?[\d.,]+) ?([KMGT]iB|B)?"
STATUS = re.compile(rf"fastest growth {NUMBER}/s(?: \({NUMBER} - {NUMBER}\))? (.+)$", re.M)


# --- accounts over time ---

def at(series, t, of):
    """of(account) at the time t, interpolated between two accounts. None: no account has the
    value."""
    points = [(account["t"], of(account)) for account in series]
    points = [(s, value) for s, value in points if value is not None]
    if not points:
        return None
    if t <= points[0][0]:
        return points[0][1]
    for (t0, v0), (t1, v1) in zip(points, points[1:]):
        if t <= t1:
            return v0 + (v1 - v0) * (t - t0) / max(t1 - t0, 1e-9)
    return points[-1][1]


def growth_between(series, t0, t1, of):
    """Bytes per second."""
    a, b = at(series, t0, of), at(series, t1, of)
    return None if a is None or b is None or t1 <= t0 else (b - a) / (t1 - t0)


# --- the profile ---

def owner(frames, groups):
    """The group whose pattern matches the frame nearest to the leaf (if several groups do, the
    first), or None."""
    for frame in frames:
        for name, pattern in groups.items():
            if re.fullmatch(pattern, frame):
                return name
    return None


def sum_of(figures):
    """The sum of figures [estimate, low, high] with independent errors. low and high may be
    unknown."""
    total = sum(f[0] or 0 for f in figures)
    if not figures or any(None in f for f in figures):
        return [total, None, None]
    down, up = (sum((f[i] - f[0]) ** 2 for f in figures) ** 0.5 for i in (1, 2))
    return [total, total - down, total + up]


def figures(stack):
    growth = [stack.get(key) for key in ("growth_bytes_per_s", "growth_low", "growth_high")]
    return [stack["live_bytes"], stack["live_bytes_low"],
            stack["live_bytes_high"]], [growth[0] or 0, *growth[1:]]


def rows_of(profile, groups):
    """name -> {"live": [...], "growth": [...], "stacks", "sure": stacks that surely grow}. Stacks
    of no group form rows by their first named frames."""
    found = {}
    for stack in profile["stacks"]:
        if stack.get("allocators_own"):
            continue
        name = owner(stack["frames"], groups)
        if not name:
            named = [f for f in stack["frames"] if "+0x" not in f]
            name = "other: " + " < ".join(named[:4])
        found.setdefault(name, []).append(stack)
    rows = {}
    for name, stacks in found.items():
        live, growth = zip(*map(figures, stacks))
        # A row of one stack keeps its interval. For several stacks, errors are taken as
        # independent, because it is not known how they depend on each other.
        rows[name] = {"live": sum_of(live), "growth": sum_of(growth), "stacks": len(stacks),
                      "sure": sum((g[1] or 0) > 0 for g in growth),
                      "best": max(((g[1] or 0) > 0, g[0]) for g in growth)}
    return rows


def holds(figure, truth, grain=0):
    """Does the interval contain the truth? grain: the error of the truth. None: there is no
    interval, or no truth."""
    if truth is None or figure[1] is None or figure[2] is None:
        return None
    return figure[1] - grain <= truth <= figure[2] + grain


def width(figure, truth):
    """Width of the interval, divided by the truth."""
    if not truth or figure[1] is None or figure[2] is None:
        return None
    return (figure[2] - figure[1]) / abs(truth)


def bytes_of(number, unit):
    return float(number.replace(",", "")) * UNITS[unit or ""]


def looks_of(log, groups):
    """[name, estimate, low, high] of each status line of the run: the fastest growth that the line
    names."""
    looks = []
    for n, u, n_low, u_low, n_high, u_high, frames in STATUS.findall(log):
        frames = re.sub(r" \(via .*?\)(?= < |$)", "", frames)
        name = owner(frames.split(" < "), groups) or "other: " + " < ".join(frames.split(" < ")[:4])
        high = bytes_of(n_high, u_high) if n_high else None
        low = bytes_of(n_low, u_low or u_high) if n_low else None
        looks.append([name, bytes_of(n, u), low, high])
    return looks


def first_right(order, grows, any_of_them):
    """Do all groups that grow come first? If any_of_them is set, it is enough that one of them
    comes first. None: no group grows."""
    if not grows:
        return None
    n = 1 if any_of_them else len(grows)
    return len(order) >= n and set(order[:n]) <= set(grows)


def judge(case, profile, log, series, begin, heap):
    """case: name, groups, and
      grows  names of groups that grow by design
      any    if set, it is enough that one of these comes first
      zero   names of groups whose growth is 0 on average, though not between two moments
      may    names of groups that may grow or not
      grain  the account's precision in bytes: if a server takes memory by the page, the
             interpolation between two accounts may be wrong by a page
    series: accounts from before begin until after the end. begin: when tracing began. heap: sizes
    of mappings at the end."""
    end = begin + profile["duration_s"]
    quarter = begin + profile["duration_s"] / 4
    rows, looks = rows_of(profile, case["groups"]), looks_of(log, case["groups"])
    total_truth, grain = at(series, end, lambda a: a.get("total_since")), case.get("grain", 0)
    total = [profile["live_bytes"], profile["live_bytes_low"], profile["live_bytes_high"]]
    whole = max(total[0] if total_truth is None else total_truth, 1)
    stacks, unseen = {}, rows.get(f"other: {UNSEEN}", {}).get("live")
    for name in dict.fromkeys([*case["groups"], *rows]):
        # the memory of a row without a stack may be any part of what no window saw
        row = rows.get(name, {"live": [0, 0, unseen[2]] if unseen else [0, None, None],
                              "growth": [0, None, None], "stacks": 0, "sure": 0})
        known = name in case["groups"]
        live_truth = at(series, end, lambda a: a.get("since", {}).get(name)) if known else None
        growth_truth = growth_between(series, quarter, end,
                                      lambda a: a.get("live", {}).get(name)) if known else None
        if name in case["zero"]:
            growth_truth = 0.0
        counts = (max(live_truth or 0, row["live"][0]) >= COUNTS * whole or
                  name in case["grows"]) and known
        printed = row["stacks"] > 0
        told = printed or bool(unseen)
        stacks[name] = {
            "live": row["live"], "live_truth": live_truth, "growth": row["growth"],
            "growth_truth": growth_truth,
            "stacks": row["stacks"], "sure": row["sure"], "counts": counts,
            # A row that is not printed misses the truth (False) if it should have a sample. A row
            # with live bytes of four sampling intervals has a sample in 98 % of cases.
            "live_in": holds(row["live"], live_truth, grain) if told or live_truth is None else
            (False if counts and live_truth >= 4 * profile["interval_bytes"] else None),
            "growth_in": holds(row["growth"], growth_truth, max(grain, A_BLOCK) / (end - quarter))
            if printed else (False if name in case["grows"] else None),
            "live_width": width(row["live"], live_truth),
            "growth_width": width(row["growth"], growth_truth)}
    order = sorted((name for name in rows if rows[name]["best"][1] > 0),
                   key=lambda name: rows[name]["best"], reverse=True)
    grows = case["grows"]
    free = {*grows, *case.get("may", ())}
    accused = [[name for name, row in rows.items() if row["sure"] and name not in free]]
    accused += [[name] if low is not None and low > 0 and name not in free else []
                for name, _, low, _ in looks]
    windows = profile.get("windows") or {"n": 0, "seconds": 0,
                                         "continuous_seconds": profile["duration_s"]}
    process = profile.get("process_growth") or {}
    return {
        "mode": profile["mode"], "n_windows": windows["n"], "windows_s": windows["seconds"],
        "continuous_s": windows["continuous_seconds"], "duration_s": profile["duration_s"],
        "overhead_pct": profile["overhead_pct"], "samples": profile["samples"], "stacks": stacks,
        "total": {"live": total, "truth": total_truth, "in": holds(total, total_truth, grain)},
        "growth_total": {"truth": growth_between(series, quarter, end,
                                                 lambda a: a.get("total_live")), **process},
        "heap": heap, "live_above_heap": bool(heap) and profile["live_bytes"] > heap["size"],
        "low_above_heap": bool(heap) and (profile["live_bytes_low"] or 0) > heap["size"],
        "first": order[:3], "first_right": first_right(order, grows, case.get("any")),
        "grows_surely": {name: bool(rows.get(name, {}).get("sure")) for name in grows},
        "looks": len(accused), "accused": [names for names in accused if names], "said": looks,
        "quarters": [{name: at(series, begin + i * profile["duration_s"] / 4,
                               lambda a: a.get("live", {}).get(name))
                      for name in case["groups"]}
                     for i in range(5)],
        "speed": [growth_between(series, series[0]["t"], begin, lambda a: a.get("ops")),
                  growth_between(series, begin, end, lambda a: a.get("ops"))],
        "lost": {name: n for name, n in profile["lost"].items() if n}}
