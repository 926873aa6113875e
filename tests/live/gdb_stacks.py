# SPDX-License-Identifier: BSD-2-Clause
"""Runs inside gdb, not in the tests: records every call of the allocator, with the stack that gdb
unwinds.

The caller has set `config`: libc (path), functions (name -> offset from libc's first mapping), out
(path). The script writes JSON to out, with three keys. calls: the calls in order, as [function,
rdi, rsi, rsp, pcs (leaf first), outermost]. outermost: true if the unwind information says that the
stack ends there, false if gdb could not go on. start: the address of the dynamic linker's entry
point, where the process begins. status: the exit status."""
import json
import os
import re
import struct

import gdb

AT_BASE = 7
E_ENTRY = 24  # offset of e_entry in a 64-bit ELF header
UINT64 = (1 << 64) - 1
# gdb shows frames of these types, but such frames have no return address
NOT_ON_STACK = (gdb.INLINE_FRAME, gdb.TAILCALL_FRAME)

result = {"calls": [], "start": 0, "status": None}


class Function(gdb.Breakpoint):
    """A breakpoint on a function's first instruction, where the function has no frame yet."""

    def __init__(self, name, addr):
        super().__init__(f"*{addr:#x}", internal=True)
        self.name = name

    def stop(self):
        frame, pcs = gdb.newest_frame(), []
        registers = [int(frame.read_register(r)) & UINT64 for r in ("rdi", "rsi", "rsp")]
        while frame:
            if frame.type() not in NOT_ON_STACK:
                pcs.append(frame.pc())
            reason = frame.unwind_stop_reason()
            frame = frame.older()
        result["calls"].append([self.name, *registers, pcs,
                                reason == gdb.FRAME_UNWIND_OUTERMOST])
        return False


def process_start(pid):
    with open(f"/proc/{pid}/auxv", "rb") as file:
        base = dict(struct.iter_unpack("QQ", file.read()))[AT_BASE]
    with open(f"/proc/{pid}/mem", "rb") as file:
        file.seek(base + E_ENTRY)
        return base + struct.unpack("Q", file.read(8))[0]


def on_new_objfile(event):
    """Sets the breakpoints when libc is mapped, before any code of libc has run."""
    if os.path.realpath(event.new_objfile.filename) != config["libc"]:
        return
    pid = gdb.selected_inferior().pid
    with open(f"/proc/{pid}/maps", encoding="utf-8") as file:
        base = re.search(rf"^(\w+)-.* {re.escape(config['libc'])}$", file.read(), re.M)[1]
    for name, off in config["functions"].items():
        Function(name, int(base, 16) + off)
    result["start"] = process_start(pid)


def on_exited(event):
    result["status"] = getattr(event, "exit_code", None)


for setting in ("disable-randomization on", "startup-with-shell off", "debuginfod enabled off",
                "pagination off", "backtrace past-main on", "backtrace past-entry on",
                "backtrace limit 1000"):
    gdb.execute("set " + setting)
for name in ("LINES", "COLUMNS"):  # gdb adds these variables to the program's environment
    gdb.execute("unset environment " + name)
gdb.events.new_objfile.connect(on_new_objfile)
gdb.events.exited.connect(on_exited)
gdb.execute("run")
with open(config["out"], "w", encoding="utf-8") as out:
    json.dump(result, out)
