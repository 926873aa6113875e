#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Judges the results of a guest: every test that must pass on its kernel passed, and the kernel
reported no fault.

usage: check.py SERIES RESULTS KIND...

RESULTS holds the lines of guest.py. KINDs are the kinds of probe that must have worked, best first.
Exit status: 0, or 1 after a message that says what is wrong.
"""
import json
import re
import sys

import guest


def problems(path, kinds):
    outcomes, log = {}, None
    with open(path, encoding="utf-8", errors="replace") as results:
        for line in results:
            result = json.loads(line)
            log = result.get("dmesg", log)
            if "test" in result:
                outcomes[result["test"]] = result["outcome"]
    wanted = guest.names(kinds)
    for name in wanted:
        if outcomes.get(name) != "passed":
            yield f"{name}: {outcomes.get(name, 'not run')}"
    for name in outcomes.keys() - set(wanted):
        yield f"{name}: {outcomes[name]}, but this kernel should not have run it"
    if log is None or "Linux version" not in log:
        yield "the guest did not come to its end, or sent no whole kernel log"
    for line in re.findall(r".*(?:BUG:|WARNING:|Oops|general protection|segfault).*", log or ""):
        yield f"kernel log: {line}"


def main():
    if len(sys.argv) < 4:
        sys.exit("usage: check.py SERIES RESULTS KIND...")
    try:
        wrong = list(problems(sys.argv[2], sys.argv[3:]))
    except (OSError, ValueError) as error:
        wrong = [repr(error)]
    for sentence in wrong:
        print(f"kernels: {sys.argv[1]}: FAIL: {sentence}")
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
