# SPDX-License-Identifier: BSD-2-Clause
"""A machine full of processes, all traced together (-a) at the host's limit. Each process is judged
by its own account, as if it were alone. For a busy process, results must be as good as if it were
traced alone. For the other processes, results must not be false."""
import contextlib
import os
import time

from account import MOST_GAP_S, Watch
from harness import Failure, end, place
from judge import judge
from synthetic import Lives, cache, case, leak_share

BUSY = 0.02  # share of a core from which a process counts as busy
EVERY_S = 0.5  # time between accounts, each of which needs answers from thirty processes


def some(n, one, *options):
    """n processes of a case, each with these options added."""
    return [{**one, "args": [*options, *one["args"]]} for _ in range(n)]


LEAK = case("a leak by work", "leak_work:every=100:size=200 cache:life_s=1:every=8 request")
SLOW_LEAK = case("a leak by the clock",
                 "leak_clock:per_s=50:size=2000 cache:life_s=1:size=400 request")

# Two processes use half of a core each, some use a tenth, most use a hundredth or nothing. The
# machine is not quite full, because the kernel needs RCU to place and remove probes. On a full
# machine RCU may stall: on Linux 6.18, RCU's thread once waited a minute for a CPU.
CROWD = [
    *some(1, cache(0.8, 0, every=4), "--rate", "1200000"), *some(1, LEAK, "--rate", "1200000"),
    *some(2, cache(2, 1, every=4), "--rate", "30000"), *some(2, LEAK, "--rate", "20000"),
    *some(2, leak_share("2", 0, every=4), "--rate", "20000"),
    *some(2, case("buffers that live 1 to 50 ms", "buffer:every=4:size=1000 request"),
          "--rate", "20000"),
    *some(4, cache(2, 1, size=400), "--rate", "1000"), *some(4, SLOW_LEAK, "--rate", "1000"),
    *some(12, cache(2, 1, size=400), "--rate", "20"),
]
CASES = {"crowd": {"what": f"{len(CROWD)} processes of mixed kinds at once, -a", "grows": [],
                   "members": CROWD}}


def cpu_share(series):
    """CPU time as a share of a core, on average."""
    return (series[-1]["cpu_s"] - series[0]["cpu_s"]) / (series[-1]["t"] - series[0]["t"])


def name_of(member, i):
    return f"{i + 1}: {member['what']}"


def measure(one, seconds, tracing_of, heaps_of, begin_of):
    """Runs all members once. Each must have a profile. Returns a record with a list of the members'
    records."""
    with contextlib.ExitStack() as stack:
        directory = stack.enter_context(place())
        os.chmod(directory, 0o755)
        members = one["members"]
        subjects = [stack.enter_context(Lives(member, seconds)) for member in members]
        for subject in subjects:
            subject.say("go")
        time.sleep(5)  # until caches are full
        with Watch(subjects, EVERY_S) as watch:
            time.sleep(1)
            tracing = tracing_of(directory, seconds, ["--leaks"])
            try:
                marks = [subject.mark() for subject in subjects]
                heaps = heaps_of([subject.pid for subject in subjects], tracing.begin + seconds)
                profiles = {profile["pid"]: profile for profile in tracing.wait()}
            finally:
                end(tracing.process)
        if watch.error:
            raise Failure(f"no account: {watch.error}")
        records, log = [], tracing.log()
        for i, (member, subject, series) in enumerate(zip(members, subjects, watch.series)):
            share, profile = cpu_share(series), profiles.get(subject.pid)
            if not profile:
                raise Failure(f"no profile of pid {subject.pid}, which used "
                              f"{100 * share:.1f} % of a core")
            begin = begin_of(f"{directory}/out.{subject.pid}.pb.gz")
            own = "\n".join(line for line in log.splitlines() if f"pid {subject.pid} " in line)
            record = judge(member, profile, own, series, begin, heaps[i])
            if marks[i]["t"] - begin > MOST_GAP_S:
                raise Failure(f"memtrace said {marks[i]['t'] - begin:.1f} s late that it traces: "
                              "the machine is too busy")
            records.append({"case": name_of(member, i), "share": share, "busy": share >= BUSY,
                            "gap_s": marks[i]["t"] - begin, **record})
        for subject in subjects:
            subject.stop()
    return {"case": "crowd", "processes": records}


def flat(records):
    """For a crowd, yields a record for each process that is busy or has a false result. Yields
    other records unchanged."""
    for record in records:
        whole = {key: value for key, value in record.items() if key != "processes"}
        for one in record.get("processes", [{"busy": True}]):
            if one["busy"] or one["accused"] or one["low_above_heap"]:
                yield {**whole, **one}
