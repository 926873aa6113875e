# SPDX-License-Identifier: BSD-2-Clause
"""Who may call memtrace agent: clients of a unix socket, and other hosts with TLS and a token."""
import contextlib
import json
import os
import signal
import socket

from harness import (MEMTRACE, Target, end, expect, expect_equal, expect_words, memtrace, need_tool,
                     place, run, start, test, wait_until)
from test_agent import free_port


def curl(*args):
    """(status, body)"""
    said = run([need_tool("curl"), "--silent", "--show-error", "--max-time", "20",
                "--write-out", "\n%{http_code}", *args])
    body, _, status = said.out.rpartition("\n")
    return int(status), body


@test(beside=True)
def agent_on_a_unix_socket():
    """curl gets the pages from a unix socket, for any host name in the request. The agent removes
    its socket when it ends, and replaces a socket that a killed agent has left."""
    with place() as directory, Target("truth_basic") as target:
        path = os.path.join(directory, "socket")
        args = [MEMTRACE, "agent", "--listen", f"unix:{path}", "-p", str(target.pid),
                "--every", "1"]

        def there(name="localhost"):
            status, body = curl("--unix-socket", path, f"http://{name}/targets")
            return (status == 200 and
                    target.pid in [found["pid"] for found in json.loads(body)["targets"]])

        first = start(args)
        try:
            wait_until(there, "an answer")
            expect_equal(there("any.example"), True, "an answer by another name")
            url = f"unix:{path}:/pid/{target.pid}/debug/pprof/heap"
            expect_equal([found["pid"]
                          for found in memtrace("diff", "--json", url, url).json()["profiles"]],
                         2 * [target.pid], "pids of a diff")
            expect_words(memtrace("diff", url + "x", url).err, "cannot fetch unix:.*404")
            expect_words(memtrace("diff", "unix:/x", url).err, "not of the form unix:SOCKET:PATH")
            expect_words(memtrace("diff", url, url, env={**os.environ, "PATH": directory}).err,
                         "curl.* is missing")
        finally:
            first.kill()
            first.wait()
        expect_equal(os.path.exists(path), True, "the socket is there after SIGKILL")
        wait_until(lambda: curl("--unix-socket", path, "http://localhost/")[0] == 0,
                   "the end of its server")
        second = start(args)
        try:
            wait_until(there, "an answer of the second one")
            second.send_signal(signal.SIGTERM)
            expect_equal(second.wait(30), 0, "status")
            expect_equal(os.path.exists(path), False, "the socket is there after the end")
        finally:
            end(second)


def make_certificate(directory):
    said = run([need_tool("openssl"), "req", "-x509", "-newkey", "ec", "-pkeyopt",
                "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2", "-subj", "/CN=memtrace",
                "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", "key", "-out", "cert"],
               cwd=directory)
    expect_equal(said.status, 0, said)
    os.chmod(os.path.join(directory, "key"), 0o600)


def put(path, text, mode=0o600):
    with open(path, "w", encoding="ascii") as file:
        file.write(text)
    os.chmod(path, mode)


@test(beside=True)
def agent_for_other_hosts():
    """curl gets pages only with TLS and the token. A reload reads certificate and token again. The
    agent closes 250 connections with unfinished handshakes."""
    with place() as directory, Target("truth_basic") as target, contextlib.ExitStack() as stack:
        make_certificate(directory)
        cert, key, token = (os.path.join(directory, name) for name in ("cert", "key", "token"))
        put(token, "0123456789abcdef\n")
        port = free_port()
        args = ("--listen", f"0.0.0.0:{port}", "-p", target.pid)
        tls = ("--tls-cert", cert, "--tls-key", key)
        for given in ((), tls, ("--token-file", token)):
            result = memtrace("agent", *args, *given)
            expect_equal(result.status, 2, result)
            expect_words(result.err, "give --tls-cert, --tls-key and --token-file")
        expect_equal(memtrace("agent", *args, "--tls-cert", cert, "--token-file", token).status, 2,
                     "without a key")
        put(os.path.join(directory, "short"), "0123456789abcde")
        put(os.path.join(directory, "open"), "0123456789abcdef", 0o644)
        for given, words in (
                ((*tls, "--token-file", os.path.join(directory, "short")), "16 or more"),
                ((*tls, "--token-file", os.path.join(directory, "open")), "everybody may read"),
                (("--tls-cert", key, "--tls-key", key, "--token-file", token),
                 "do not hold a certificate and its key"),
                (("--tls-cert", cert, "--tls-key", token, "--token-file", token),
                 "do not hold a certificate and its key")):
            result = memtrace("agent", *args, *given)
            expect_equal(result.status, 1, result)
            expect_words(result.err, words)

        agent = start([MEMTRACE, "agent", *map(str, args), *tls, "--token-file", token,
                       "--every", "1"])
        stack.callback(end, agent)
        url = f"https://127.0.0.1:{port}"

        def ask(path, bearer=None, *more):
            return curl("--cacert", cert, *(("--oauth2-bearer", bearer) if bearer else ()), *more,
                        url + path)

        wait_until(lambda: f"/pid/{target.pid}/" in ask("/", "0123456789abcdef")[1], "the page")
        expect_equal(ask("/healthz")[0], 200, "status of /healthz without a token")
        for path in ("/", "/metrics", "/targets", f"/pid/{target.pid}/pprof/heap", "/nowhere"):
            status, head = ask(path, None, "--include")
            expect_equal(status, 401, f"status of {path} without a token")
            expect_words(head, "(?i)www-authenticate: bearer")
            expect_equal(ask(path, "0123456789abcdeg")[0], 401,
                         f"status of {path} with another token")
        expect_equal(ask(f"/pid/{target.pid}/snapshot", None, "--request", "POST")[0], 401,
                     "status of a POST without a token")
        [entry] = json.loads(ask("/sd", "0123456789abcdef")[1])
        expect_equal((entry["labels"]["__scheme__"], entry["targets"]),
                     ("https", [f"127.0.0.1:{port}"]), "discovery")
        expect(curl(f"http://127.0.0.1:{port}/")[0] != 200, "an answer without TLS")
        expect(curl("--cacert", cert, "--tls-max", "1.1", url + "/healthz")[0] != 200,
               "an answer over TLS 1.1")

        heap = f"{url}/pid/{target.pid}/debug/pprof/heap"
        compared = memtrace("diff", "--json", "--token-file", token, "--cacert", cert, heap, heap)
        expect_equal([found["pid"] for found in compared.json()["profiles"]], 2 * [target.pid],
                     "pids of a diff")
        compared = memtrace("diff", "--cacert", cert, heap, heap)
        expect_equal(compared.status, 1, compared)
        expect_words(compared.err, f"cannot fetch {heap}: .*401")
        expect_words(memtrace("diff", "--token-file", token, heap, heap).err,
                     f"cannot fetch {heap}: .*certificate")

        make_certificate(directory)
        put(token, "fedcba9876543210")
        agent.send_signal(signal.SIGHUP)
        wait_until(lambda: ask("/", "fedcba9876543210")[0] == 200,
                   "the new token over the new certificate")
        expect_equal(ask("/", "0123456789abcdef")[0], 401, "status with the old token")

        for i in range(250):
            s = stack.enter_context(socket.socket())
            s.settimeout(1)
            with contextlib.suppress(OSError):
                s.connect(("127.0.0.1", port))
                s.send(b"\x16\x03\x01\x02\x00\x01\x00\x01"[:1 + i % 8])  # a part of a ClientHello
        wait_until(lambda: ask("/healthz")[0] == 200, "an answer beside them")
        agent.send_signal(signal.SIGTERM)
        expect_equal(agent.wait(30), 0, "status")
