# SPDX-License-Identifier: BSD-2-Clause
"""Traces a process as in a container, from outside. The process has user, pid and mount namespaces
of its own. Its files exist only there, and its C library is not the machine's."""
import contextlib
import json
import os
import re
import shutil

from harness import (PROGS, Failure, NotRunnable, Target, Tracer, end, expect, expect_equal,
                     need_tool, place, start, test)
from test_truth import check_exact

LOADER = "/lib/ld-musl-x86_64.so.1"
PROGRAM = "contained"  # the program's name inside


def only_child(pid):
    with open(f"/proc/{pid}/task/{pid}/children", encoding="utf-8") as file:
        children = file.read().split()
    return int(children[0]) if len(children) == 1 else 0


@contextlib.contextmanager
def contained():
    """truth_basic, linked with musl, as pid 1 of its container. It follows the protocol of
    truth.h."""
    program = os.path.join(PROGS, "truth_basic_musl")
    if not os.path.exists(program) or not os.path.exists(LOADER):
        raise NotRunnable("musl, or the test program that is built with it, is missing")
    with place() as directory:
        inside, stage = directory + "/inside", directory + "/stage"
        for path in (inside, stage, stage + "/lib", stage + "/bin", stage + "/proc"):
            os.mkdir(path, 0o755)
        shutil.copy(LOADER, stage + "/lib")
        shutil.copy(program, f"{stage}/bin/{PROGRAM}")
        script = (f"mount -t tmpfs none {inside} && cp -r {stage}/. {inside} && mount -t proc none "
                  f"{inside}/proc && exec chroot {inside} /bin/{PROGRAM} --portable")
        process = start([need_tool("unshare"), "-Urmpf", "--propagation", "private", "--kill-child",
                         "sh", "-c", script])

        class Contained(Target):
            def __init__(self):  # pylint: disable=super-init-not-called
                self.process = process
                try:
                    expect_equal(self.line(), "ready 1\n", "the first line")
                except Failure:
                    end_of = process.poll() is not None and process.stderr.read()
                    raise Failure(f"no container: {end_of}") from None
                self.pid = only_child(process.pid)

        try:
            target = Contained()
            expect(target.pid, "which process is it?")
            expect(not os.listdir(inside), "its files are seen from outside")
            for namespace in ("user", "pid", "mnt"):
                ours, theirs = (os.readlink(f"/proc/{who}/ns/{namespace}")
                                for who in ("self", target.pid))
                expect(ours != theirs, "it is in our namespace:", namespace)
            yield target
        finally:
            end(process)


def check_contained(*selection):
    with contained() as target:
        options = selection or ("-p", target.pid)
        with Tracer(*options, "-i", "1", "--max-live", 4 << 20, "--json", "-f", "none") as tracer:
            truth = target.go()
            lines = tracer.stop().out.splitlines()
        expect_equal(target.quit(), 0, "status of the target")
    profile = next((p for p in map(json.loads, lines) if p["pid"] == target.pid), None)
    expect(profile, f"no profile of pid {target.pid}")
    if selection:  # a loss of the whole run: other processes of the machine came and went
        profile["lost"].pop("processes_unseen", None)
    check_exact(truth, profile)
    expect_equal(profile["comm"], PROGRAM, "its name")
    for stack in profile["stacks"]:
        expect("main" in stack["frames"], "not from main:", stack["frames"])
        ours = stack["frames"][:stack["frames"].index("main")]  # musl's own functions have no names
        expect(all(re.fullmatch(r"\w+", f) for f in ours), "without a name:", stack["frames"])


@test(beside=True)
def namespaces_by_pid():
    check_contained()


@test(beside="wide")
def namespaces_by_name():
    check_contained("--comm", PROGRAM)


@test(beside="wide")
def namespaces_all():
    check_contained("-a")
