# SPDX-License-Identifier: BSD-2-Clause
"""memtrace agent as its systemd unit runs it: with the unit's capabilities and system calls, and
the example configuration. systemd itself is not needed."""
import ctypes
import os
import re
import shlex
import signal
import stat
import struct
import time

from harness import (MEMTRACE, ROOT, Endless, expect, expect_equal, need_tool, place, run, start,
                     test, wait_until)
from test_agent import Agent, free_port
from test_capabilities import capabilities, status
from test_harmless import changed_text

UNIT = os.path.join(ROOT, "systemd", "memtrace-agent.service")
CONFIG = os.path.join(ROOT, "systemd", "agent.conf")
PR_SET_SECCOMP, SECCOMP_MODE_FILTER, PR_SET_NO_NEW_PRIVS = 22, 2, 38
ARCH_X86_64, EPERM = 0xC000003E, 1


def settings():
    """Key -> value. The values of a key that is given several times are joined."""
    found = {}
    with open(UNIT, encoding="utf-8") as file:
        for key, value in re.findall(r"^(\w+)=(.*)$", file.read(), re.M):
            found[key] = (found[key] + " " if key in found else "") + value
    return found


def groups():
    """systemd's groups of system calls: @name -> its system calls and groups."""
    text = run([need_tool("systemd-analyze"), "syscall-filter"]).out
    found, group = {}, None
    for line in text.splitlines():
        if re.fullmatch(r"@[\w-]+", line):
            group = found[line] = []
        elif group is not None and re.fullmatch(r"    @?\w[\w-]*", line):
            group.append(line.strip())
    return found


def members(words, of):
    """The system calls that the words name; a word with @ is a group."""
    return set().union(*(members(of[word], of) if word.startswith("@") else {word}
                         for word in words))


def filter_of(words):
    """A seccomp filter like systemd's: it allows these system calls, and lets all others fail with
    EPERM."""
    with open("/usr/include/x86_64-linux-gnu/asm/unistd_64.h", encoding="ascii") as file:
        numbers = dict(re.findall(r"#define __NR_(\w+) (\d+)", file.read()))
    allowed = sorted(int(numbers[name]) for name in members(words, groups()) if name in numbers)
    expect(len(allowed) > 200, "too few system calls are known:", len(allowed))
    # load arch, compare it, kill if it differs; load nr
    code = [(0x20, 0, 0, 4), (0x15, 1, 0, ARCH_X86_64), (0x06, 0, 0, 0), (0x20, 0, 0, 0)]
    for number in allowed:
        code += [(0x15, 0, 1, number), (0x06, 0, 0, 0x7FFF0000)]
    code.append((0x06, 0, 0, 0x00050000 | EPERM))
    return b"".join(struct.pack("HBBI", *step) for step in code)


def install(program):
    """Runs in the child before its exec. If it raises an exception, start() raises the exception,
    too."""
    libc = ctypes.CDLL(None, use_errno=True)
    steps = ctypes.create_string_buffer(program, len(program))
    head = ctypes.create_string_buffer(struct.pack("HxxxxxxP", len(program) // 8,
                                                   ctypes.addressof(steps)))
    if (libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) or
            libc.prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, head, 0, 0)):
        raise OSError(ctypes.get_errno(), "seccomp")


def agent_of_the_unit(config, port):
    unit = settings()
    given = ",".join("+" + word[4:].lower() for word in unit["CapabilityBoundingSet"].split())
    program, *args = shlex.split(unit["ExecStart"])
    expect_equal((program, args[-2:]),
                 ("/usr/bin/memtrace", ["--config", "/etc/memtrace/agent.conf"]), "ExecStart")
    rules = filter_of(unit["SystemCallFilter"].split())
    agent = Agent.__new__(Agent)
    agent.port = port
    agent.process = start([need_tool("setpriv"), f"--bounding-set=-all,{given}", "--inh-caps=-all",
                           "--no-new-privs", MEMTRACE, *args[:-1], config],
                          preexec_fn=lambda: install(rules))
    return agent


@test(beside=True)
def agent_under_its_unit():
    """With the unit's rights the agent finds a leak, names its stack, and reloads."""
    with place() as directory:
        path = os.path.join(directory, "agent.conf")
        port = free_port()
        with open(CONFIG, encoding="utf-8") as file:
            text = file.read()
        spool = os.path.join(directory, "spool")
        os.mkdir(spool)
        for key in ("RuntimeDirectory", "StateDirectory"):
            expect_equal(settings()[key], "memtrace", key)
        for line, other in (("/var/lib/memtrace\n", f"{spool}\n"), (":9178\n", f":{port}\n"),
                            ("every = 15\n", "every = 1\n"),
                            ("unix:/run/memtrace/", f"unix:{directory}/")):
            expect(line in text, "the example has no", line, text)
            text = text.replace(line, other)
        with Endless("leaking", "--rate", "2000", "--leak", "100000") as target, \
                Endless("leaking", "--rate", "2000") as killed:
            with open(path, "w", encoding="utf-8") as file:
                file.write(text)
                file.write(f"pid = {target.pid},{killed.pid}\ninterval = 4096\n")
            agent = agent_of_the_unit(path, port)
            agent.wait_for(target.pid, killed.pid)
            wanted = {word[4:].lower() for word in settings()["CapabilityBoundingSet"].split()}
            expect_equal(capabilities(agent.process.pid), wanted, "capabilities")
            expect_equal(status(agent.process.pid)["Seccomp"], "2", "seccomp")
            expect_equal(os.stat(os.path.join(directory, "socket")).st_mode, stat.S_IFSOCK | 0o660,
                         "mode of the unix socket")
            [leaking] = target.ask("truth")["leaks"]
            wait_until(
                lambda: f";{leaking} " in agent.get(f"/pid/{target.pid}/collapsed")[1].decode(),
                f"{leaking} in the profile")
            agent.process.send_signal(signal.SIGHUP)
            time.sleep(0.5)
            agent.wait_for(target.pid, killed.pid)
            killed.process.kill()
            wait_until(lambda: [name for name in os.listdir(spool)
                                if name.endswith(f"Z.leaking.{killed.pid}.pb.gz")], "its profile")
            said = agent.stop()
            expect(not re.search("not permitted|denied|cannot|failed", said, re.I),
                   "it complains:", said)
            expect_equal(changed_text(target.pid), [], "code changed after the end")
            expect_equal(sorted(os.listdir(directory)), ["agent.conf", "spool"],
                         "files that are left")
            target.stop()
