# SPDX-License-Identifier: BSD-2-Clause
"""Who may call memtrace agent: unix sockets."""
import json
import os
import signal

from harness import MEMTRACE, Target, end, expect_equal, need_tool, place, run, start, test, wait_until


def curl(*args):
    """(status, body)"""
    said = run([need_tool("curl"), "--silent", "--show-error", "--max-time", "20", "--write-out", "\n%{http_code}", *args])
    body, _, status = said.out.rpartition("\n")
    return int(status), body


@test(beside=True)
def agent_on_a_unix_socket():
    """curl has the pages by any name; the socket goes with the agent, and one that a killed agent has left is replaced."""
    with place() as directory, Target("truth_basic") as target:
        path = os.path.join(directory, "socket")
        args = [MEMTRACE, "agent", "--listen", f"unix:{path}", "-p", str(target.pid), "--every", "1"]

        def there(name="localhost"):
            status, body = curl("--unix-socket", path, f"http://{name}/targets")
            return status == 200 and target.pid in [found["pid"] for found in json.loads(body)["targets"]]

        first = start(args)
        try:
            wait_until(there, "an answer")
            expect_equal(there("any.example"), True, "an answer by another name")
        finally:
            first.kill()
            first.wait()
        expect_equal(os.path.exists(path), True, "the socket is there after SIGKILL")
        wait_until(lambda: curl("--unix-socket", path, "http://localhost/")[0] == 0, "the end of its server")
        second = start(args)
        try:
            wait_until(there, "an answer of the second one")
            second.send_signal(signal.SIGTERM)
            expect_equal(second.wait(30), 0, "status")
            expect_equal(os.path.exists(path), False, "the socket is there after the end")
        finally:
            end(second)
