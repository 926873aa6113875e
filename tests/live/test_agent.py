# SPDX-License-Identifier: BSD-2-Clause
"""memtrace agent serves what memtrace finds, in formats that other programs read. No client can
harm it."""
import contextlib
import http.client
import json
import math
import os
import re
import signal
import socket
import time
import xml.etree.ElementTree

from harness import (MEMTRACE, Endless, Target, by_function, end, expect, expect_equal,
                     expect_words, memtrace, need_tool, place,
                     read_line, run, start, test, wait_until)
from test_harmless import changed_text, expect_unchanged
from test_json_schema import check, expect_keys
from test_processes import cgroup


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


class Agent:
    def __init__(self, *args):
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.process = start([MEMTRACE, "agent", "--listen", f"127.0.0.1:{self.port}",
                              "--every", "1", *args])

    def __enter__(self):
        return self

    def __exit__(self, *_):
        end(self.process)

    def ask(self, path, method="GET", body=None, headers=None):
        """(status, type, body)"""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=20)
        try:
            connection.request(method, path, body, headers or {})
            response = connection.getresponse()
            return response.status, response.getheader("Content-Type"), response.read()
        finally:
            connection.close()

    def get(self, path):
        status, kind, body = self.ask(path)
        expect_equal(status, 200, f"status of {path}: {body[:300]}")
        return kind, body

    def refused(self):
        """How many requests were answered with 4xx."""
        return int(re.search(rb'^memtrace_requests_total\{class="4xx"\} (\d+)$',
                             self.get("/metrics")[1], re.M)[1])

    def targets(self):
        try:
            return {target["pid"]: target
                    for target in json.loads(self.get("/targets")[1])["targets"]}
        except (ConnectionError, TimeoutError):
            return {}

    def check_json(self, *keys):
        """Checks that the agent's JSON fits docs/agent.schema.json, and that these keys are in
        it."""
        schema = "docs/agent.schema.json"
        expect_keys(check("targets", self.get("/targets")[1].decode(), schema) +
                    check("deaths", self.get("/deaths?format=json")[1].decode(), schema), *keys)

    def wait_for(self, *pids, snapshots=1):
        def there():
            expect(self.process.poll() is None, "agent ended:", self.process.poll())
            found = self.targets()
            return all(pid in found and found[pid]["snapshots"] >= snapshots for pid in pids)

        wait_until(there, f"{snapshots} profiles of {pids}")

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        out, err = self.process.communicate(timeout=30)
        expect_equal((self.process.returncode, out), (0, ""), f"status, output ({err})")
        return err


@contextlib.contextmanager
def watching_a_leak():
    with Target("truth_basic") as target, Agent("-p", target.pid, "-i", "1") as agent:
        agent.wait_for(target.pid)
        target.go()
        before = agent.targets()[target.pid]["snapshot"]
        wait_until(lambda: agent.targets()[target.pid]["snapshot"] >= before + 2,
                   "a profile of all")
        yield target, agent
        agent.stop()
        expect_unchanged(target.pid, "after the end")


@test(beside=True)
def agent_serves_what_there_is():
    """Every route answers, and the number of live bytes is the same on each."""
    with watching_a_leak() as (target, agent):
        pid = target.pid
        live = agent.targets()[pid]["live_bytes"]
        expect(live > 0, "nothing is live:", agent.targets())
        kind, page = agent.get("/")
        expect_equal(kind, "text/html; charset=utf-8", "type of /")
        expect_words(page.decode(), f'href="/pid/{pid}/"', "truth_basic")
        expect_equal(agent.ask(f"/pid/{pid}")[0], 301, f"status of /pid/{pid}")
        _, page = agent.get(f"/pid/{pid}/")
        expect_words(page.decode(), "live heap", "flame.svg", "main")
        kind, graph = agent.get(f"/pid/{pid}/flame.svg")
        expect_equal(kind, "image/svg+xml", "type of the flame graph")
        expect(xml.etree.ElementTree.fromstring(graph).tag.endswith("svg"), graph[:200])
        profile = json.loads(agent.get(f"/pid/{pid}/profile.json")[1])
        expect_equal((profile["pid"], profile["live_bytes"]), (pid, live), "pid and live bytes")
        collapsed = agent.get(f"/pid/{pid}/collapsed")[1].decode()
        expect_equal(sum(int(line.rsplit(" ", 1)[1]) for line in collapsed.splitlines()), live,
                     "collapsed bytes")
        with place() as directory:
            for path in ("debug/pprof/heap", "debug/pprof/allocs", "pprof/heap"):
                file = os.path.join(directory, path.replace("/", "_"))
                with open(file, "wb") as to:
                    to.write(agent.get(f"/pid/{pid}/{path}")[1])
                read = memtrace("report", "-f", "json", file).json()
                # heap_v2 is not exact: it has integers that a reader multiplies by a factor
                # (user/encode/heap_v2.c)
                expect(abs(read["live_bytes"] - live) <=
                       (live / 1000 if path == "pprof/heap" else 0),
                       path, read["live_bytes"], "for", live)
        expect_words(agent.get(f"/debug/pprof/heap?pid={pid}&debug=1")[1].decode(), "live heap")
        snapshots = json.loads(agent.get(f"/pid/{pid}/snapshots")[1])
        expect(len(snapshots) >= 2, snapshots)
        expect_words(agent.get(
            f"/pid/{pid}/diff?from={snapshots[0]['id']}&to={snapshots[-1]['id']}")[1].decode(),
                     "main")
        diff = json.loads(agent.get(f"/pid/{pid}/diff?format=json")[1])
        expect_equal(diff["profiles"][0]["pid"], pid, "pid of the diff")
        [entry] = json.loads(agent.get("/sd")[1])
        expect_equal((entry["targets"], entry["labels"]["pid"]),
                     ([f"127.0.0.1:{agent.port}"], str(pid)), "discovery")
        expect_equal(agent.get("/healthz")[1], b"ok\n", "health")
        before = agent.targets()[pid]["snapshot"]
        expect_equal(agent.ask(f"/pid/{pid}/snapshot", "POST")[0], 202,
                     "status of a snapshot that was asked for")
        wait_until(lambda: agent.targets()[pid]["snapshot"] > before, "the snapshot")
    return f"{live} bytes on each of them"


@test(beside=True, long=True)
def agent_tells_what_is_new():
    """An idle process has no new profile in most rounds, but counts as alive. After the process has
    worked, the next round has a new profile of it."""
    with Target("truth_basic") as quiet, Endless("leaking", "--rate", "1000") as busy, \
            Agent("-p", f"{quiet.pid},{busy.pid}", "-i", "1") as agent:
        agent.wait_for(quiet.pid, busy.pid)
        wait_until(lambda: agent.targets()[busy.pid]["snapshot"] >= 10,
                   "ten profiles of the one that runs")
        found = agent.targets()
        rounds = found[busy.pid]["snapshot"] - found[quiet.pid]["snapshot"]
        expect(rounds >= 2, "as many profiles of the one that rests:", found)
        expect_equal((found[quiet.pid]["ended"], found[quiet.pid]["live_bytes"]), (False, 0), "it")
        held = sum(function["live_bytes"] for function in quiet.go()["functions"].values())
        wait_until(lambda: agent.targets()[quiet.pid]["live_bytes"] >= held, f"{held} live bytes")
        before = agent.targets()[quiet.pid]["snapshot"]
        expect_equal(agent.ask(f"/pid/{quiet.pid}/snapshot", "POST")[0], 202,
                     "status of a snapshot that was asked for")
        wait_until(lambda: agent.targets()[quiet.pid]["snapshot"] > before, "the snapshot")
        quiet.quit()
        wait_until(lambda: agent.targets()[quiet.pid]["ended"], "its end")
        agent.stop()
        busy.stop()
    return f"{rounds} of 10 rounds had no profile of it"


@test(beside=True)
def agent_metrics():
    """promtool accepts the metrics. They have labels for groups. Each stack's number leads to a
    page with its frames."""
    with watching_a_leak() as (target, agent):
        _, kind, text = agent.ask("/metrics", headers={
            "Accept": "application/openmetrics-text;version=1.0.0,text/plain;q=0.5"})
        expect_equal(kind, "application/openmetrics-text; version=1.0.0; charset=utf-8", "type")
        expect(text.endswith(b"# EOF\n") and b"# TYPE memtrace_rounds counter" in text,
               text[-1000:])
        kind, text = agent.get("/metrics")
        expect_equal(kind, "text/plain; version=0.0.4; charset=utf-8", "type")
        text = text.decode()
        live = float(
            re.search(r'^memtrace_live_bytes\{group="truth_basic"\} (\S+)$', text, re.M)[1])
        expect_equal(live, agent.targets()[target.pid]["live_bytes"], "live bytes of the group")
        stacks = re.findall(
            r'^memtrace_stack_live_bytes\{group="truth_basic",stack="([0-9a-f]{16})",'
            r'function="([^"]+)"\} (\S+)$', text, re.M)
        expect(stacks, "no stacks in", text)
        for number, function, _ in stacks:
            expect_words(agent.get(f"/stack/{number}")[1].decode(),
                         rf"\({target.pid}\): .*{re.escape(function.split('(')[0].strip())}")
        checked = run([need_tool("promtool"), "check", "metrics"], input=text)
        expect_equal((checked.status, checked.err), (0, ""), "promtool")


@test(beside=True)
def agent_is_read_by_others():
    """jeprof and go tool pprof over HTTP name the same function first."""
    with watching_a_leak() as (target, agent):
        with place() as directory:
            environment = {**os.environ, "HOME": directory, "JEPROF_TMPDIR": directory}
            said = run([need_tool("jeprof"), "--text", "--cum",
                        f"{agent.url}/pid/{target.pid}/pprof/heap"],
                       env=environment, cwd=directory)
            expect_equal(said.status, 0, said)
            expect_words(said.out, r"\bmain\b")
            said = run([need_tool("go"), "tool", "pprof", "-top", "-cum",
                        f"{agent.url}/pid/{target.pid}/debug/pprof/heap"],
                       env=environment, cwd=directory)
            expect_equal(said.status, 0, said)
            expect_words(said.out, r"\bmain\b", "inuse_space")


@test(beside=True)
def agent_heap_of_some_seconds():
    """From heap?seconds=S, go tool pprof reads the memory that leaks in these S seconds. Meanwhile
    the agent serves other clients. Too many such requests at once are refused."""
    with place() as directory, Endless("leaking", "--rate", "2000", "--leak", "100000") as target, \
            Agent("-p", target.pid, "-i", "1", "--max-overhead", "off") as agent, \
            contextlib.ExitStack() as stack:
        agent.wait_for(target.pid)
        path = f"/pid/{target.pid}/debug/pprof/heap?seconds="
        for seconds in ("0", "301", "x", "2&debug=1"):
            expect_equal(agent.ask(path + seconds)[0], 400, f"status of seconds={seconds}")
        before, start_s = target.ask("truth")["leaked_bytes"], time.monotonic()
        waiting = [stack.enter_context(socket.create_connection(("127.0.0.1", agent.port), 20))
                   for _ in range(64)]
        for i, s in enumerate(waiting):
            s.sendall(f"GET {path}{4 if i == 0 else 300} HTTP/1.1\r\n"
                      "Host: localhost\r\nConnection: close\r\n\r\n".encode())

        def refused():
            status, _, body = agent.ask(path + "1")
            expect(status in (200, 429), status, body)
            return status == 429

        wait_until(refused, "a refusal")
        expect_equal(agent.ask("/healthz")[0], 200, "status of others meanwhile")
        for s in waiting[32:]:
            s.close()
        expect_equal(agent.ask(f"/debug/pprof/allocs?pid={target.pid}&seconds=1")[0], 200,
                     "status after others have left")
        answer = b"".join(iter(lambda: waiting[0].recv(1 << 16), b""))
        expect(answer.startswith(b"HTTP/1.1 200 "), answer[:300])
        most = target.ask("truth")["leaked_bytes"] - before
        expect(time.monotonic() - start_s >= 4, "it was answered early")
        file = os.path.join(directory, "delta")
        with open(file, "wb") as to:
            to.write(answer.partition(b"\r\n\r\n")[2])
        said = run([need_tool("go"), "tool", "pprof", "-top", "-cum", "-unit=B",
                    "-sample_index=inuse_space", file],
                   env={**os.environ, "HOME": directory})
        expect_equal(said.status, 0, said)
        [leaking] = target.ask("truth")["leaks"]
        seconds = float(re.search(r"Duration: ([\d.]+)s", said.out)[1])
        grown = float(
            re.search(rf"^ *[\d.]+B\s+\S+\s+\S+\s+([\d.]+)B\s+\S+\s+{leaking}$", said.out, re.M)[1])
        expect(4 <= seconds < 60 and grown <= most and abs(grown / seconds / 100000 - 1) < 0.2,
               grown, "in", seconds, "s;", most, said)
        agent.stop()
    return f"{grown:.0f} bytes in {seconds} s, of {most}"


HOSTILE = ("/pid/", "/pid/x/", "/pid/-1/", "/pid/99999999999999999999/", "/pid/1%2f/",
           "/pid/../../etc/passwd", "/pid/1/../../x", "/stack/", "/stack/zz", "/stack/" + "1" * 100,
           "/debug/pprof/heap", "/debug/pprof/heap?pid=", "/debug/pprof/heap?pid=x",
           "/nowhere", "//", "/pid/%25s%25n/", "/" + "a" * 3000, "/targets?a=1" + "&a=1" * 3000,
           "/targets?" + "&" * 7000)


@test(beside=True)
def agent_and_hostile_clients():
    """Wrong paths, methods, bodies and hosts are refused. Half a request, 500 requests at once, and
    a request of 20 MB do no harm."""
    with watching_a_leak() as (target, agent):
        for path in HOSTILE:
            status, _, body = agent.ask(path)
            expect(400 <= status < 500, path, status, body[:200])
        for query in ("from=x", "to=4294967296", "from=1&to=999999"):
            status, _, body = agent.ask(f"/pid/{target.pid}/diff?{query}")
            expect(400 <= status < 500, query, status, body[:200])
        expect_equal(agent.ask("/", "DELETE")[0], 405, "status of DELETE")
        expect_equal(agent.ask("/", "POST")[0], 405, "status of POST /")
        refused = agent.refused()
        expect_equal(agent.ask("/", headers={"Host": "example.org"})[0], 403,
                     "status of a foreign host")
        expect_equal(agent.refused(), refused + 1, "refused requests in the metrics")
        # load balancers check a server's health in this way
        for path, status in (("/", b"403"), ("/healthz", b"200")):
            with socket.create_connection(("127.0.0.1", agent.port), 5) as s:
                s.sendall(f"GET {path} HTTP/1.0\r\n\r\n".encode())
                expect_equal(s.recv(100).split()[1], status, f"status of {path} without a host")
        expect_equal(agent.ask(f"/pid/{target.pid}/snapshot", "POST",
                               headers={"Origin": "http://example.org"})[0],
                     403, "status of another site's page")
        expect_equal(agent.ask(f"/pid/{target.pid}/pprof/symbol", "POST", b"0x" + b"f" * 100000)[0],
                     413, "status of 100 kB")
        for body in (b"x", b"0x1+y", b"%s%n", b"+" * 1000):
            expect(agent.ask(f"/pid/{target.pid}/pprof/symbol", "POST", body)[0] in (200, 400),
                   body[:20])
        with contextlib.ExitStack() as stack:
            for i in range(500):
                s = stack.enter_context(socket.socket())
                s.settimeout(5)
                with contextlib.suppress(OSError):
                    s.connect(("127.0.0.1", agent.port))
                    s.send((b"GET / HTTP/1.1\r\n", b"\xff\xfe\x00",
                            b"POST / HTTP/1.1\r\nContent-Length: 99999999999\r\n\r\n")[i % 3])
            time.sleep(0.5)
        with socket.create_connection(("127.0.0.1", agent.port), 5) as s, \
                contextlib.suppress(OSError):
            s.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\nX: " + b"a" * (20 << 20))
        wait_until(lambda: agent.ask("/healthz")[0] == 200, "health")
        before = agent.targets()[target.pid]["snapshot"]
        wait_until(lambda: agent.targets()[target.pid]["snapshot"] > before, "profiles go on")


@test(beside=True)
def agent_and_slow_clients():
    """Slow clients, more than the agent accepts, send a byte now and then. Other clients still get
    their answer after a while."""
    with watching_a_leak() as (target, agent), contextlib.ExitStack() as stack:
        slow = [stack.enter_context(socket.socket()) for _ in range(250)]
        for s in slow:
            s.settimeout(1)
            with contextlib.suppress(OSError):
                s.connect(("127.0.0.1", agent.port))
                s.send(b"GET / HTTP/1.1\r\nX: ")

        def answers():
            for s in slow:
                with contextlib.suppress(OSError):
                    s.send(b"a")
            with contextlib.suppress(OSError, http.client.HTTPException), contextlib.closing(
                    http.client.HTTPConnection("127.0.0.1", agent.port, timeout=1)) as connection:
                connection.request("GET", "/healthz")
                return connection.getresponse().status == 200
            return False

        wait_until(answers, "an answer")
        expect(target.pid in agent.targets(), agent.targets())


@contextlib.contextmanager
def a_long_name():
    """An agent that traces a process with a function whose name has 4,000 bytes. Yields the agent,
    and a request whose answer has this name 7,000 times: 28 MB."""
    with Target("names") as target, contextlib.ExitStack() as stack:
        perf_map = f"/tmp/perf-{target.pid}.map"
        stack.callback(os.unlink, perf_map)
        with open(perf_map, "w", encoding="ascii") as file:
            file.write(f"10000000 8 {'x' * 4000}\n")  # the JIT's code of tests/progs/names.c
        agent = stack.enter_context(Agent("-p", target.pid, "-i", "1"))
        agent.wait_for(target.pid)
        target.go()
        path = f"/pid/{target.pid}/pprof/symbol"
        address = ""

        def has_the_name():
            nonlocal address
            heap = agent.get(f"/pid/{target.pid}/pprof/heap")[1].decode()
            address, = re.findall(r" 0x(1000000[0-8])\b", heap)[:1] or [""]
            return address and b"x" * 4000 in agent.ask(path, "POST", address.encode())[2]

        wait_until(has_the_name, "the long name")
        body = "+".join([address] * 7000)
        yield agent, (f"POST {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
                      f"Content-Length: {len(body)}\r\n\r\n{body}").encode()
        agent.stop()


@test(beside=True)
def agent_and_answers_that_nobody_takes():
    """Clients ask for large answers and do not take them. At most 128 MiB of answers may wait. When
    a client has taken its answer, or has left, there is room for others again."""
    with a_long_name() as (agent, request), contextlib.ExitStack() as stack:
        def begin():
            """Asks, and takes the answer's first bytes. Returns the connection and the status."""
            connection = stack.enter_context(socket.create_connection(("127.0.0.1", agent.port),
                                                                      timeout=20))
            connection.sendall(request)
            return connection, connection.recv(12)[-3:].decode()

        waiting = [begin() for _ in range(4)]
        expect_equal([status for _, status in waiting], ["200"] * 3 + ["503"], "statuses")
        agent.get("/healthz")
        while waiting[0][0].recv(1 << 20):
            pass
        waiting.append(begin())
        expect_equal(waiting[-1][1], "200", "status after a client has taken its answer")
        for connection, _ in waiting:
            connection.close()

        def all_is_free():
            again = [begin() for _ in range(3)]
            for connection, _ in again:
                connection.close()
            return [status for _, status in again] == ["200"] * 3

        wait_until(all_is_free, "room after the clients have left")


@test(beside=True)
def agent_and_many_costly_requests():
    """Many requests that take long come at once. Meanwhile the server still reads the tracer's
    messages. Otherwise the tracer would take the server for one that hangs."""
    with a_long_name() as (agent, request), contextlib.ExitStack() as stack:
        def connect():
            return stack.enter_context(socket.create_connection(("127.0.0.1", agent.port),
                                                                timeout=60))

        took = math.inf  # the shortest of three times: other tests may slow a request
        for _ in range(3):
            begin = time.monotonic()
            connection = connect()
            connection.sendall(request)
            while connection.recv(1 << 20):
                pass
            took = min(took, time.monotonic() - begin)
        every = min(max(int(1.2 / took), 1), 15)  # costly requests before each scrape
        costly = [connect() for _ in range(6 * every)]
        scrapes = [connect() for _ in range(6)]
        for _ in range(20):  # after these answers, the server has accepted all connections
            agent.get("/healthz")
        for i, scrape in enumerate(scrapes):
            for connection in costly[i * every:(i + 1) * every]:
                connection.sendall(request)
            # as many bytes as a costly request, so that the server has read both at the same time
            scrape.sendall(re.sub(rb"^POST \S+", b"GET /metrics", request))
        rounds = []
        for scrape in scrapes:
            text = b"".join(iter(lambda c=scrape: c.recv(1 << 16), b"")).decode()
            rounds += [int(n) for n in re.findall(r"^memtrace_rounds_total (\d+)$", text, re.M)]
        expect_equal(len(rounds), len(scrapes), "scrapes")
        expect(max(rounds) - min(rounds) >= 2, "rounds:", rounds, f"{len(costly)} requests of",
               took)


def below(pid):
    """All descendants of the process, deepest last."""
    found = [pid]
    for one in found:
        with contextlib.suppress(OSError), \
                open(f"/proc/{one}/task/{one}/children", encoding="ascii") as file:
            found += map(int, file.read().split())
    return found


def comm(pid):
    with contextlib.suppress(OSError), open(f"/proc/{pid}/comm", encoding="ascii") as file:
        return file.read().strip()
    return None


def is_gone(pid):
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as file:
            return file.read().rsplit(")", 1)[1].split()[0] == "Z"
    except OSError:
        return True


@test(beside=True)
def agent_killed_anywhere():
    """After a SIGKILL of the supervisor, no process and no probe is left. After a SIGKILL of the
    keeper, the tracer ends and a new tracer begins."""
    with Target("truth_basic") as target, Agent("-p", target.pid, "-i", "1") as agent:
        agent.wait_for(target.pid)
        family = below(agent.process.pid)
        expect("memtrace-web" in map(comm, family), [(pid, comm(pid)) for pid in family])
        [keeper] = [pid for pid in family if comm(pid) == "mt-keeper"]
        os.kill(keeper, signal.SIGKILL)
        tracer = family[1]
        wait_until(lambda: is_gone(tracer), "the end of the tracer")
        agent.wait_for(target.pid)
        family = below(agent.process.pid)
        expect(changed_text(target.pid), "no probe is there")
        agent.process.kill()
        agent.process.wait()
        wait_until(lambda: all(map(is_gone, family)), f"the end of {family}")
        expect_unchanged(target.pid, "after SIGKILL")


@test(beside=True)
def agent_server_dies():
    """The agent's server is a process of its own, of the user nobody. If the server is killed, a
    new server starts, and tracing continues."""
    with watching_a_leak() as (target, agent):
        def server():
            return next((pid for pid in below(agent.process.pid) if comm(pid) == "memtrace-web"),
                        None)

        pid = server()
        expect(pid, "no server among the children")
        with open(f"/proc/{pid}/status", encoding="ascii") as file:
            status = dict(line.rstrip("\n").split(":\t", 1) for line in file if ":\t" in line)
        expect_equal((status["Uid"].split()[0], int(status["CapPrm"], 16), status["NoNewPrivs"]),
                     ("65534", 0, "1"), "user, capabilities, no_new_privs")
        os.kill(pid, signal.SIGKILL)
        wait_until(lambda: server() not in (None, pid), "another server")
        agent.wait_for(target.pid)
        expect(agent.process.poll() is None, "the agent ended")


@test(beside=True)
def agent_refuses():
    """If the agent cannot serve an address, its message says why and what to do."""
    for address, words in (("0.0.0.0:9178", "other hosts"), ("[::]:9178", "other hosts"),
                           ("example.org:1", "not an address"), ("127.0.0.1", "not an address"),
                           ("127.0.0.1:99999", "not an address"), ("unix:x", "not a unix socket")):
        result = memtrace("agent", "--listen", address, "-p", os.getpid())
        expect_equal(result.status, 2, result)
        expect_words(result.err, words)
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        s.listen()
        result = memtrace("agent", "--listen", f"127.0.0.1:{s.getsockname()[1]}", "-p", os.getpid())
    expect_equal(result.status, 1, result)
    expect_words(result.err, "in use")
    result = memtrace("agent", "--listen", "unix:/dev/null", "-p", os.getpid())
    expect_equal(result.status, 1, result)
    expect_words(result.err, "/dev/null: this is not a socket")
    for args in (("--every", "0"), ("--every", "x"), ("word",), ("-o", "-")):
        expect_equal(memtrace("agent", *args).status, 2, args)


@test(beside="wide")
def agent_that_follows_traces_all():
    """--follow alone selects no processes, so the agent traces all processes of the machine."""
    with Target("truth_basic") as target, Agent("--follow") as agent:
        agent.wait_for(target.pid)
        agent.stop()


@test(beside=True)
def agent_knows_containers():
    """The discovery page names the container and the pod that are in the path of the cgroup."""
    container, pod = f"{os.getpid():064x}", "2f9c0a1e_7d44_4a1b_9b1e_0c5d3e6f7a8b"
    with cgroup(f"kubepods-pod{pod}.slice") as outer:
        with cgroup(f"{os.path.basename(outer)}/cri-containerd-{container}.scope") as path:
            with Endless("leaking", "--rate", "1000") as target:
                with open(path + "/cgroup.procs", "w", encoding="ascii") as file:
                    file.write(str(target.pid))
                with Agent("-p", target.pid) as agent:
                    agent.wait_for(target.pid)
                    [entry] = json.loads(agent.get("/sd")[1])
                    for found in (entry["labels"], agent.targets()[target.pid]):
                        expect_equal((found["container_id"], found["pod_uid"]),
                                     (container, pod.replace("_", "-")), "labels")
                    agent.stop()
                target.stop()


@test(beside=True)
def agent_names_are_text():
    """A name full of markup stays plain text in every output format."""
    name = '<b>"x\\'
    with place() as directory:
        path = os.path.join(directory, name)
        os.symlink(os.path.join(os.path.dirname(MEMTRACE), "progs", "leaking"), path)
        with Endless(path, "--rate", "1000") as target, Agent("-p", target.pid) as agent:
            agent.wait_for(target.pid)
            for page in ("/", f"/pid/{target.pid}/"):
                text = agent.get(page)[1].decode()
                expect(name not in text and "&lt;b&gt;&quot;x" in text, "the name in", text[:600])
            expect_words(agent.get("/metrics")[1].decode(), re.escape('{group="<b>\\"x\\\\"}'))
            expect_equal(agent.targets()[target.pid]["comm"], name, "name in JSON")
            xml.etree.ElementTree.fromstring(agent.get(f"/pid/{target.pid}/flame.svg")[1])
            agent.stop()
            target.stop()


@test(beside=True)
def agent_begins_anew_with_a_good_configuration():
    """After SIGHUP a good file is applied. A bad file is refused with the number of the bad line,
    and the old configuration stays in force. A killed tracer is started again."""
    ports = free_port(), free_port()
    with place() as directory, Target("truth_basic") as target:
        path = os.path.join(directory, "agent.conf")

        def configure(*lines):
            with open(path, "w", encoding="ascii") as file:
                file.write("# a trial\n\n" + "".join(f"{line}\n" for line in lines))

        configure(f"listen = 127.0.0.1:{ports[0]}", "every = 1", f"pid = {target.pid}",
                  "interval = 1")
        agent = Agent.__new__(Agent)
        agent.port = ports[0]
        agent.process = start([MEMTRACE, "agent", "--config", path])
        with agent:
            agent.wait_for(target.pid)
            configure("every = 1", "every = often")
            agent.process.send_signal(signal.SIGHUP)
            time.sleep(2)
            agent.wait_for(target.pid)
            configure(f"listen = 127.0.0.1:{ports[1]}", "every = 1", f"pid = {target.pid}", "leaks")
            agent.process.send_signal(signal.SIGHUP)
            agent.port = ports[1]
            agent.wait_for(target.pid)
            profile = json.loads(agent.get(f"/pid/{target.pid}/profile.json")[1])
            expect_equal(profile["interval_bytes"], 65536, "interval with leaks")
            with open(f"/proc/{agent.process.pid}/task/{agent.process.pid}/children",
                      encoding="ascii") as file:
                [tracer] = map(int, file.read().split())
            os.kill(tracer, signal.SIGKILL)
            wait_until(lambda: not os.path.exists(f"/proc/{tracer}"), "the end of the tracer")
            # the keeper removes the probes, and a new tracer begins a second later
            wait_until(lambda: not changed_text(target.pid),
                       "the probes are gone after SIGKILL", 0.9)
            agent.wait_for(target.pid)
            err = agent.stop()
            expect_words(err, f"{path}:4: this line is refused",
                         "is refused; the earlier one stays in force", "signal 9")
            expect_unchanged(target.pid, "after the end")


@test(beside=True)
def agent_begins_anew_without_those_that_have_ended():
    """One of two named processes has ended. After SIGHUP the other one is traced again. When both
    have ended, the agent ends, too."""
    with Target("truth_basic") as target, Target("truth_basic") as other, \
            Agent("-p", f"{target.pid},{other.pid}") as agent:
        agent.wait_for(target.pid, other.pid)
        other.quit()
        agent.process.send_signal(signal.SIGHUP)
        wait_until(lambda: list(agent.targets()) == [target.pid], "only one process is traced")
        agent.wait_for(target.pid)
        target.quit()
        expect_equal(agent.process.wait(30), 0, "status when all have ended")
        expect_words(agent.process.stderr.read(), f"pid {other.pid}")


@test(beside=True)
def agent_tells_the_service_manager():
    """The agent sends what sd_notify(3) demands of Type=notify-reload, over a real socket."""
    with place() as directory, Target("truth_basic") as target, \
            socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(os.path.join(directory, "notify"))
        manager.settimeout(30)
        env = {**os.environ, "NOTIFY_SOCKET": manager.getsockname(), "WATCHDOG_USEC": "2000000"}
        agent = start([MEMTRACE, "agent", "--listen", f"127.0.0.1:{free_port()}",
                       "-p", str(target.pid)], env=env)
        try:
            said = [manager.recv(256).decode() for _ in range(3)]
            expect_equal(said, ["READY=1", "WATCHDOG=1", "WATCHDOG=1"], "said at the start")

            def said_next():
                text = "WATCHDOG=1"
                while text == "WATCHDOG=1":
                    text = manager.recv(256).decode()
                return text

            agent.send_signal(signal.SIGHUP)
            reloading = said_next()
            expect(re.fullmatch(r"RELOADING=1\nMONOTONIC_USEC=\d+", reloading), reloading)
            expect_equal(said_next(), "READY=1", "said after the reload")
            agent.send_signal(signal.SIGTERM)
            expect_equal((said_next(), agent.wait(30)), ("STOPPING=1", 0),
                         "said at the end, status")
        finally:
            end(agent)


def check_left_alone(agent, target, other, probed):
    """A deactivated target is not traced. After its activation it is traced, with counts that begin
    at 0. `other` is traced all the time. probed(): are probes in the target's code?"""
    pid, path = target.pid, f"/pid/{target.pid}"

    def is_active(wanted):
        found = agent.targets().get(pid)
        return found and found["active"] == wanted and not found["ended"]

    agent.wait_for(pid, other.pid)
    wait_until(lambda: agent.targets()[pid]["live_bytes"] >= 200000, "what it leaks")
    expect_equal(agent.ask(f"{path}/activate", "POST")[0], 200, "status where it is active")
    expect_equal(agent.ask(f"{path}/deactivate", "GET")[0], 405, "status of a GET")
    for origin in ("http://example.org", "null", f"https://127.0.0.1:{agent.port}",
                   f"http://127.0.0.1:{agent.port + 1}"):
        expect_equal(agent.ask(f"{path}/deactivate", "POST", headers={"Origin": origin})[0], 403,
                     f"status of a page of {origin}")
    expect_equal(agent.ask("/pid/2147483647/deactivate", "POST")[0], 404, "status of no process")
    expect(is_active(True) and probed(), "it is not traced:", agent.targets()[pid])
    # sends the request that the page's button sends
    expect_equal(agent.ask(f"{path}/deactivate", "POST",
                           headers={"Origin": agent.url, "Accept": "text/html"})[0],
                 303, "status for a browser")
    wait_until(lambda: is_active(False), "it is inactive")
    wait_until(lambda: not probed(), "its probes are out")
    before = agent.targets()
    expect_words(agent.get("/metrics")[1].decode(), r'processes_inactive\{group="leaking"\} 1$',
                 r'memtrace_processes\{group="leaking"\} 0$')
    expect_words(agent.get(f"{path}/")[1].decode(), 'action="activate"', "not traced")
    expect_equal(agent.ask(f"{path}/snapshot", "POST")[0], 409, "status of a snapshot of it")
    expect_equal(agent.ask(f"{path}/debug/pprof/heap?seconds=1")[0], 409,
                 "status of its next seconds")
    wait_until(lambda: agent.targets()[other.pid]["snapshot"] >= before[other.pid]["snapshot"] + 2,
               "profiles of the other one")
    now = agent.targets()
    expect_equal((now[pid]["snapshot"], now[pid]["live_bytes"]),
                 (before[pid]["snapshot"], before[pid]["live_bytes"]), "its last profile")
    leaked = target.ask("truth")["leaked_bytes"]
    expect_equal(agent.ask(f"{path}/activate", "POST")[0], 202, "status of its activation")
    wait_until(lambda: is_active(True) and probed(), "it is active")
    [function] = target.ask("truth")["leaks"]

    def leaked_since():
        return by_function(json.loads(agent.get(f"{path}/profile.json")[1]),
                           {function}).get(function, [0])[0]

    wait_until(lambda: leaked_since() > 0, "what it leaks since")
    live, most = leaked_since(), target.ask("truth")["leaked_bytes"] - leaked
    expect(live <= most, f"{live} bytes are live, and {most} were leaked since")
    return f"{now[pid]['live_bytes']:.0f} bytes before, {live:.0f} of {most} after"


@test(beside=True)
def agent_leaves_alone():
    """POST deactivate removes the probes from a process, and POST activate puts them back, even if
    memtrace-web dies in between."""
    with Endless("leaking", "--rate", "2000", "--leak", "200000") as target, \
            Target("truth_basic") as other, \
            Agent("-p", f"{target.pid},{other.pid}", "-i", "1", "--max-overhead", "off") as agent:
        def changes():
            """Places of the target's code that probes have changed."""
            return changed_text(target.pid)

        told = check_left_alone(agent, target, other, changes)
        expect_equal(agent.ask(f"/pid/{target.pid}/deactivate", "POST")[0], 202, "status")
        wait_until(lambda: not changes(), "its probes are out")
        [server] = [pid for pid in below(agent.process.pid) if comm(pid) == "memtrace-web"]
        os.kill(server, signal.SIGKILL)
        agent.wait_for(other.pid)
        # the new server has no profile of the process, but can still activate it
        wait_until(lambda: agent.ask(f"/pid/{target.pid}/activate", "POST")[0] == 202,
                   "it may be activated")
        agent.wait_for(target.pid)
        expect(changes(), "no probes")
        agent.stop()
        expect_equal(changes(), [], "code changed after the end")
        target.stop()
    return told


@test(long=True)
def agent_leaves_alone_without_a_main_thread():
    """The main thread of a deactivated process ends. The process stays in the agent's list. If
    probes are in the code of all processes, activation resumes its tracing. If the process had
    probes of its own, it stays untraced, and /targets says why."""
    for named in (False, True):
        with Target("strange", "headless") as target, \
                Agent(*(("-p", target.pid) if named
                        else ("--comm", "strange", "--max-overhead", "off")),
                      "-i", "1") as agent:
            pid = target.pid

            def inactive():
                return {entry["pid"]: entry["why"]
                        for entry in json.loads(agent.get("/targets")[1])["inactive"]}

            agent.wait_for(pid)
            expect_equal(agent.ask(f"/pid/{pid}/deactivate", "POST")[0], 202, "status")
            wait_until(lambda: pid in inactive(), "it is inactive")
            target.go()  # the main thread ends
            before = agent.targets()[pid]["snapshot"]
            # longer than a second: memtrace checks each second if inactive processes are alive
            time.sleep(3)
            expect(pid in inactive(), "it is forgotten:", agent.targets())
            expect_equal(agent.ask(f"/pid/{pid}/activate", "POST")[0], 202, "status")
            if named:
                wait_until(lambda: "main thread has ended while others run" in
                           inactive().get(pid, ""), "the reason")
            else:
                wait_until(lambda: agent.targets()[pid]["active"] and
                           agent.targets()[pid]["snapshot"] > before, "it is traced again")
                expect_equal(inactive(), {}, "inactive")
            expect(not agent.targets()[pid]["ended"], "it ended:", agent.targets())
            agent.stop()
            expect_equal(target.quit(), 0, "status of the target")


@test(beside="wide")
def agent_leaves_alone_an_exec_by_thread():
    """The main thread of a process has already ended when the process is deactivated. Then another
    thread executes a program. The process stays deactivated, and can be activated."""
    with Target("strange", "exec", "--headless") as target, \
            Agent("--comm", "strange", "--max-overhead", "off", "-i", "1") as agent:
        pid = target.pid

        def inactive():
            return {entry["pid"]: entry["why"]
                    for entry in json.loads(agent.get("/targets")[1])["inactive"]}

        agent.wait_for(pid)
        target.say("go")
        wait_until(lambda: is_gone(pid), "the main thread has ended")
        expect_equal(agent.ask(f"/pid/{pid}/deactivate", "POST")[0], 202, "status")
        wait_until(lambda: pid in inactive(), "it is inactive")
        target.say("exec")
        target.line()
        before = agent.targets()[pid]["snapshot"]
        expect_equal(agent.ask(f"/pid/{pid}/activate", "POST")[0], 202, "status")
        wait_until(lambda: not inactive() and agent.targets()[pid]["active"] and
                   agent.targets()[pid]["snapshot"] > before, "it is traced again")
        agent.stop()
        expect_equal(target.quit(), 0, "status of the target")


@test(beside="wide")
def agent_leaves_alone_what_is_selected():
    """Processes that were selected by name can be deactivated and activated, too, even after an
    exec. For such processes, probes are in the code of all processes."""
    program = os.path.join(os.path.dirname(MEMTRACE), "progs", "leaking")
    with place() as directory, Endless("leaking", "--rate", "1000", "--leak", "0") as other:
        shell = os.path.join(directory, "leaking")
        os.symlink("/bin/sh", shell)
        changing = start([shell, "-c", f"read x; exec {program} --rate 1000 --leak 200000"])
        with Agent("--comm", "leaking", "-i", "1") as agent:
            agent.wait_for(changing.pid, other.pid)
            path = f"/pid/{changing.pid}"
            expect_equal(agent.ask(f"{path}/deactivate", "POST")[0], 202, "status")
            wait_until(lambda: not agent.targets()[changing.pid]["active"], "it is inactive")
            before = agent.targets()
            changing.stdin.write("\n")
            changing.stdin.flush()
            expect_equal(read_line(changing, changing.stdout), f"ready {changing.pid}\n",
                         "the first line after its exec")
            changing.stdin.write("go\n")
            changing.stdin.flush()
            wait_until(lambda: agent.targets()[other.pid]["snapshot"] >=
                       before[other.pid]["snapshot"] + 3, "profiles of the other one")
            now = agent.targets()[changing.pid]
            expect_equal((now["active"], now["ended"], now["snapshot"]),
                         (False, False, before[changing.pid]["snapshot"]), "it")
            expect_equal(agent.ask(f"{path}/activate", "POST")[0], 202, "status")
            wait_until(lambda: agent.targets()[changing.pid]["active"] and
                       agent.targets()[changing.pid]["live_bytes"] > 100000, "what it leaks")
            agent.stop()
        end(changing)
        other.stop()


@test(beside=True)
def agent_json_fits_its_schema():
    """The JSON of /targets and /deaths fits its schema, for processes that are traced, deactivated,
    ended and killed."""
    with place() as directory, Endless("leaking", "--rate", "1000", "--leak", "100000") as leaks, \
            Target("truth_basic") as left, \
            Target("truth_basic") as ends, Target("truth_basic") as killed, \
            Agent("-p", f"{leaks.pid},{left.pid},{ends.pid},{killed.pid}", "-i", "1",
                  "--spool", directory) as agent:
        agent.wait_for(leaks.pid, left.pid, ends.pid, killed.pid)
        agent.check_json("live_bytes_high")
        ends.quit()
        killed.process.kill()
        expect_equal(agent.ask(f"/pid/{left.pid}/deactivate", "POST")[0], 202, "status")
        wait_until(lambda: not agent.targets()[left.pid]["active"] and
                   agent.targets()[ends.pid]["ended"], "they are not traced")
        wait_until(lambda: json.loads(agent.get("/deaths?format=json")[1])["deaths"], "a death")
        agent.check_json("why", "signal")
        agent.stop()
        leaks.stop()


@test(beside=True, long=True)
def agent_sees_what_others_allocate_in_a_process():
    """A process sleeps while a child with CLONE_VM, which is not one of its threads, allocates in
    its memory. New profiles of the process follow, and contain this memory. If the kernel does not
    run a process's probes for such a child, the profile says so."""
    with Target("lender") as target, Agent("-p", target.pid, "-i", "1") as agent:
        agent.wait_for(target.pid)
        target.say("go")

        def is_told():
            profile = json.loads(agent.get(f"/pid/{target.pid}/profile.json")[1])
            return (agent.targets()[target.pid]["live_bytes"] > 100000 or
                    profile.get("lost", {}).get("borrowers_unseen") == 1)

        wait_until(is_told, "what is not seen is told")
        agent.stop()
        target.say("stop")
        target.line()
        expect_equal(target.quit(), 0, "status of lender")
    with Target("lender") as target, Endless("leaking", "--rate", "1000", "--leak", "0") as other, \
            Agent("--comm", "lender", "--comm", "leaking", "-i", "1",
                  "--max-overhead", "off") as agent:
        agent.wait_for(target.pid, other.pid)
        target.say("go")
        agent.wait_for(other.pid, snapshots=6)
        before = agent.targets()
        wait_until(lambda: agent.targets()[other.pid]["snapshot"] >=
                   before[other.pid]["snapshot"] + 5, "five profiles")
        rounds = agent.targets()[target.pid]["snapshot"] - before[target.pid]["snapshot"]
        # an idle process would have only two or three profiles, because it gets fewer of them
        expect(rounds >= 4, f"{rounds} profiles; of a process that works, five")
        target.say("stop")
        truth = json.loads(target.line())
        wait_until(lambda: agent.targets()[target.pid]["live_bytes"] == truth["bytes"], "all bytes")
        expect_words(agent.get(f"/pid/{target.pid}/collapsed")[1].decode(), "lent_leak")
        agent.stop()
        other.stop()
        expect_equal(target.quit(), 0, "status of lender")


@test(beside=True)
def agent_gives_who_grows_more_windows():
    """A program that is traced in windows begins to leak. It gets more windows. /targets, the
    program's page and /metrics say so."""
    with Endless("leaking", "plugin_late", "--rate", "400000", "--leak", "20000000") as target, \
            Agent("-p", target.pid, "--debug-window-period", "100") as agent:
        agent.wait_for(target.pid, snapshots=7)
        expect_equal(agent.targets()[target.pid]["mode"], "windowed", "mode")
        target.say("event")
        wait_until(lambda: agent.targets()[target.pid].get("rise", {}).get("more_windows") == "now",
                   "it has more windows")
        rise = agent.targets()[target.pid]["rise"]
        expect(595 < rise["more_windows_until"] - rise["more_windows_from"] < 605, rise)
        expect(rise["noticed"] <= rise["more_windows_from"] + 2, rise)
        wait_until(lambda: agent.targets()[target.pid]["rise"]["detailed"] > rise["at"],
                   "a profile of these windows")
        rise = agent.targets()[target.pid]["rise"]
        diff = json.loads(agent.get(
            f"/pid/{target.pid}/diff?from={rise['before']}&to={rise['detailed']}&format=json")[1])
        expect(rise["function"] in json.dumps(diff), diff)
        expect_words(agent.get(f"/pid/{target.pid}/")[1].decode(), "more windows than others until")
        expect_words(agent.get("/")[1].decode(), "<td>more windows</td>")
        agent.check_json("rise", "more_windows")
        expect_words(agent.get("/metrics")[1].decode(), "memtrace_processes_with_more_windows 1",
                     "memtrace_more_windows_total 1")
        expect_words(agent.stop(), f"pid {target.pid} surely grows, and has more windows")
        target.stop()
    return f"noticed and granted {rise['more_windows_from'] - rise['since']:.1f} s after it began"


@test(beside=True, long=True)
def agent_tells_when_it_began():
    """A quiet program begins to leak. The agent says when and in which function, and stores the
    profiles from before and after."""
    with Endless("leaking", "plugin_late", "--rate", "1000", "--leak", "300000") as target, \
            Agent("-p", target.pid, "-i", "4096") as agent:
        agent.wait_for(target.pid, snapshots=7)
        expect(not agent.targets()[target.pid].get("rise"), "it grows before it leaks:",
               agent.targets())
        began = time.time()
        target.say("event")
        wait_until(lambda: agent.targets()[target.pid].get("rise"), "it is noticed")
        found = agent.targets()[target.pid]
        rise = found["rise"]
        [function] = target.ask("truth")["leaks"]
        expect_equal((found["surely_grows"], rise["function"], rise["until"]),
                     (True, function, None), "what grows")
        expect(rise["growth_low"] <= 300000 and rise["growth_high"] > 0, rise)
        expect(abs(rise["since"] - began) < 6, "since", rise["since"] - began,
               "s after it began:", rise)
        expect(rise["since_low"] is None or
               rise["since_low"] <= rise["since"] <= rise["since_high"] <= rise["noticed"], rise)
        expect_words(agent.get(f"/stack/{rise['stack']}")[1].decode(),
                     rf"\({target.pid}\): .*{function}")
        expect_words(agent.get(f"/pid/{target.pid}/")[1].decode(), f"surely grows, in {function}")
        agent.check_json("rise", "more_windows")
        diff = json.loads(agent.get(
            f"/pid/{target.pid}/diff?from={rise['before']}&to={rise['at']}&format=json")[1])
        expect(function in json.dumps(diff), diff)
        text = agent.get("/metrics")[1].decode()
        pools = re.findall(r'^memtrace_pool_live_bytes\{group="leaking",pool="([^"]*)"\} (\S+)$',
                           text, re.M)
        expect_equal([name for name, _ in pools], ["leaking"], "pools of a program of one thread")
        growth = re.compile(
            r'^memtrace_pool_growth_low_bytes_per_second\{group="leaking",pool="leaking"\} (\S+)$',
            re.M)
        wait_until(lambda: any(float(low) > 0
                               for low in growth.findall(agent.get("/metrics")[1].decode())),
                   "its pool of threads grows")
        checked = run([need_tool("promtool"), "check", "metrics"], input=text)
        expect_equal((checked.status, checked.err), (0, ""), "promtool")
        agent.stop()
        target.stop()
    return f"noticed after {rise['noticed'] - began:.1f} s, as since {rise['since'] - began:+.1f} s"
