# SPDX-License-Identifier: BSD-2-Clause
"""A Prometheus with the configuration and the rules of examples/ scrapes an agent."""
import contextlib
import json
import os
import urllib.request

from harness import (PROGS, ROOT, Endless, end, expect, expect_equal, need_tool, place, start, test,
                     wait_until)
from test_agent import Agent, free_port


def example(name, *changes):
    with open(os.path.join(ROOT, "examples", name), encoding="utf-8") as file:
        text = file.read()
    for old, new in changes:
        expect(old in text, f"examples/{name} has no {old!r}")
        text = text.replace(old, new)
    return text


class Prometheus:
    """Runs Prometheus with a copy of the example in a directory. quick: minutes in its files become
    seconds. change(directory) may change the files."""

    def __init__(self, directory, agent_port, quick=True, change=None):
        self.port = free_port()
        pace = (("interval: 15s", "interval: 1s"),) if quick else ()
        rules, config = (os.path.join(directory, name) for name in ("rules.yml", "prometheus.yml"))
        with open(rules, "w", encoding="utf-8") as file:
            file.write(example("prometheus-rules.yml", *(
                (("for: 2m", "for: 4s"), ("interval: 15s", "interval: 1s"),) if quick else ())))
        with open(config, "w", encoding="utf-8") as file:
            file.write(("global:\n  evaluation_interval: 1s\n" if quick else "") +
                       example("prometheus.yml", (":9178", f":{agent_port}"),
                               ("/etc/prometheus/memtrace-rules.yml", rules), *pace))
        if change:
            change(directory)
        self.process = start([need_tool("prometheus"), f"--config.file={config}",
                              f"--storage.tsdb.path={directory}/data",
                              f"--web.listen-address=127.0.0.1:{self.port}", "--log.level=error"])

    def __enter__(self):
        return self

    def __exit__(self, *_):
        end(self.process)

    def ask(self, path):
        """The answer of /api/v1/PATH, or {} if there is none yet."""
        expect(self.process.poll() is None, "prometheus ended:", self.process.poll())
        with contextlib.suppress(OSError), urllib.request.urlopen(
                f"http://127.0.0.1:{self.port}/api/v1/{path}", timeout=20) as reply:
            return json.load(reply)["data"]
        return {}

    def targets(self):
        return self.ask("targets").get("activeTargets", [])

    def alerts(self):
        return self.ask("alerts").get("alerts", [])


@test(beside=True, long=True)
def agent_and_prometheus():
    """Prometheus finds each process by http_sd and scrapes it. The example alert fires only for the
    process that leaks."""
    with place() as directory, contextlib.ExitStack() as stack:
        steady = os.path.join(directory, "steady")
        os.symlink(os.path.join(PROGS, "leaking"), steady)
        leaking = stack.enter_context(Endless("leaking", "--rate", "2000", "--leak", "200000"))
        innocent = stack.enter_context(Endless(steady, "--rate", "2000", "--leak", "0"))
        agent = stack.enter_context(Agent("-p", f"{leaking.pid},{innocent.pid}",
                                          "--interval", "4096"))
        agent.wait_for(leaking.pid, innocent.pid)
        prometheus = stack.enter_context(Prometheus(directory, agent.port))

        def found():
            return {target["labels"].get("pid"): target
                    for target in prometheus.targets() if target["health"] == "up"}

        wait_until(lambda: len(found()) == 3, "three targets that are up")
        expect_equal({pid: target["labels"].get("comm") for pid, target in found().items()},
                     {None: None, str(leaking.pid): "leaking", str(innocent.pid): "steady"},
                     "targets")

        [function] = leaking.ask("truth")["leaks"]

        def firing():
            return [alert["labels"] for alert in prometheus.alerts()
                    if alert["state"] == "firing" and alert["labels"].get("function") == function]

        # The test waits for seconds instead of minutes. In so short a time, other stacks of the
        # process may grow, too.
        wait_until(firing, f"an alert for {function}")
        labels = firing()[0]
        expect_equal((labels["alertname"], labels["group"]), ("MemoryLeak", "leaking"), "alert")
        frames = agent.get(f"/stack/{labels['stack']}")[1].decode()
        expect(f"({leaking.pid}): " in frames and function in frames, frames)
        # at first, the steady process grows until it has all the memory that it needs
        wait_until(lambda: {alert["labels"].get("group") for alert in prometheus.alerts()
                            if alert["state"] == "firing"} == {"leaking"},
                   "an alert for the leaking group alone", 60)
        [sample] = [result for result in prometheus.ask(
            f"query?query=memtrace_live_bytes%7Bpid=%22{innocent.pid}%22%7D")["result"]]
        expect_equal((sample["metric"]["group"], sample["metric"]["job"]),
                     ("steady", "memtrace-processes"), "series of a process")
        expect_equal(agent.ask("/metrics?pid=x")[0], 400, "status of no number")
        expect_equal(agent.ask("/metrics?pid=2147483647")[0], 404, "status of no process")
        agent.stop()
        for target in (leaking, innocent):
            target.stop()
