#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Compares what memtrace said in a guest with what its targets know.

Usage: check.py SERIES WORK KIND...
WORK/results holds what the guest sent; KINDs are the kinds of probe that must have worked, best
first.
"""
import json
import re
import sys
from pathlib import Path

KINDS = ("session", "multi", "perf")


def owner(frames, functions):
    """The truth's function that a stack belongs to, or None."""
    for frame in frames:
        if frame in functions:
            return frame
    return None


def compare(truth, profile):
    """Sentences about every difference; none when the profile is exact."""
    wrong = []
    functions = truth["functions"]
    found = {name: [0, 0] for name in functions}
    for stack in profile["stacks"]:
        name = owner(stack["frames"], functions)
        if name is None:
            wrong.append(f"{stack['live_bytes']} bytes of no known function: {stack['frames']}")
            continue
        found[name][0] += stack["live_bytes"]
        found[name][1] += stack["live_objects"]
    for name, (size, objects) in found.items():
        expected = functions[name]["live_bytes"], functions[name]["live_objects"]
        if (size, objects) != expected:
            wrong.append(f"{name}: (bytes, objects) {size, objects}, in truth {expected}")
    lost = {
        k: v for k, v in profile["lost"].items()
        if v and not k.startswith(("frames_", "stacks_cut"))
    }
    if lost:
        wrong.append(f"losses: {lost}")
    return wrong


def last_json(path):
    for line in reversed(path.read_text(errors="replace").splitlines()):
        if line.startswith("{"):
            return json.loads(line)
    raise ValueError(f"no JSON in {path.name}")


class Run:
    def __init__(self, series, work, kinds):
        self.series, self.work, self.kinds = series, work, kinds
        self.results = work / "results"
        self.failures = 0
        lines = (self.results / "status").read_text().splitlines()
        self.status = {name: int(code) for name, code in (line.split() for line in lines)}

    def say(self, what, wrong, name=None):
        print(f"kernels: {self.series}: {'FAIL' if wrong else 'ok  '} {what}")
        for sentence in wrong:
            print(f"    {sentence}")
        if not wrong:
            return
        self.failures += 1
        for log in sorted(self.results.glob(f"{name}.[lt]*")) if name else []:
            text = log.read_text(errors="replace")
            print(f"    --- {log.name}\n{text[-6000:]}")

    def expect_status(self, name, good):
        code = self.status.get(name)
        return [] if code == good else [f"{name}: exit status {code}, not {good}"]

    def exact(self, kind, program):
        name = f"{kind}.{program}"
        wrong = self.expect_status(name, 0) + self.expect_status(f"{name}.target", 0)
        detail = ""
        if not wrong:
            try:
                truth = last_json(self.results / f"{name}.truth")
                profile = last_json(self.results / f"{name}.json")
                wrong = compare(truth, profile)
                detail = (
                    f": {profile['live_bytes']} bytes in {profile['live_objects']} objects,"
                    f" {len(profile['stacks'])} stacks"
                )
                # free is always an entry probe only, which "session" attaches as "multi"
                kinds = {p["kind"] for p in profile["probes"] if p["function"] != "free"}
                if kinds != {kind}:
                    wrong.append(f"probes are of kind {kinds}")
            except (OSError, ValueError, KeyError) as error:
                wrong = [repr(error)]
        self.say(f"{kind} {program} exact{detail}", wrong, name)

    def sampled(self, kind):
        name = f"{kind}.churn"
        wrong = self.expect_status(name, 0)
        detail = ""
        if not wrong:
            try:
                profile = last_json(self.results / f"{name}.json")
                # 20,000 pairs of 4,000 bytes at 512 KiB: 152.6 samples, standard deviation 12.4
                detail = f": {profile['alloc_calls']} calls, {profile['samples']} samples"
                if not 20000 <= profile["alloc_calls"] <= 20100:
                    wrong.append("20,000 calls were made")
                if not 90 <= profile["samples"] <= 215:
                    wrong.append("153 samples were expected")
                expected = self.kinds[0] if kind == "best" else kind
                kinds = {p["kind"] for p in profile["probes"] if p["function"] != "free"}
                if kinds != {expected}:
                    wrong.append(f"probes are of kind {kinds}, not {expected}")
            except (OSError, ValueError, KeyError) as error:
                wrong = [repr(error)]
        self.say(f"{kind} churn sampled{detail}", wrong, name)

    def refused(self, kind):
        log = self.results / f"{kind}.refused.log"
        wrong = self.expect_status(f"{kind}.refused", 1)
        text = log.read_text(errors="replace").strip() if log.exists() else ""
        lines = text.splitlines()
        if not wrong and (len(lines) != 1 or kind not in text):
            wrong.append("the refusal is not one line that names the kind")
        said = lines[0] if lines else "nothing said"
        self.say(f"{kind} refused: {said}", wrong, f"{kind}.refused")

    def kernel_log(self):
        path = self.results / "dmesg"
        text = path.read_text(errors="replace") if path.exists() else ""
        bad = re.findall(r".*(?:BUG:|WARNING:|Oops|general protection|segfault).*", text)
        self.say("kernel log", bad)

    def all(self):
        self.say("memtrace check", self.expect_status("check", 0), "check")
        for kind in KINDS:
            if kind not in self.kinds:
                self.refused(kind)
                continue
            self.exact(kind, "truth_basic")
            self.exact(kind, "truth_threads")
            self.sampled(kind)
        self.sampled("best")
        self.kernel_log()
        return self.failures


def main():
    if len(sys.argv) < 4:
        sys.exit("usage: check.py SERIES WORK KIND...")
    try:
        run = Run(sys.argv[1], Path(sys.argv[2]), sys.argv[3:])
    except (OSError, ValueError) as error:
        sys.exit(f"kernels: {sys.argv[1]}: FAIL: {error}")
    sys.exit(1 if run.all() else 0)


if __name__ == "__main__":
    main()
