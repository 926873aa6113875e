# SPDX-License-Identifier: BSD-2-Clause
"""memtrace agent pushes to receivers the same profiles that it serves. Faulty receivers do no harm
and are counted."""
import os
import re
import urllib.parse

from harness import (MEMTRACE, Endless, Target, expect, expect_equal, expect_words, memtrace,
                     need_tool, place, run, test, wait_until)
from push_receiver import Receiver, read_name, read_otlp, read_pprof, read_push
from test_agent import Agent
from test_harmless import expect_unchanged

FOUR = [("alloc_objects", "count"), ("alloc_space", "bytes"), ("inuse_objects", "count"),
        ("inuse_space", "bytes")]


def metric(agent, name, cause=None):
    """A metric's sum over all receivers."""
    text = agent.get("/metrics")[1].decode()
    labels = r"\{[^}]*" + (f'cause="{cause}"' if cause else "") + r"[^}]*\}"
    values = re.findall(rf"^memtrace_push_{name}{labels} (\S+)$", text, re.M)
    expect(values, f"no {name} of {cause} in", text)
    return sum(map(float, values))


def interval(request):
    return int(request.query["from"]), int(request.query["until"])


def expect_chain(requests):
    """The requests' intervals follow each other without a gap, and no interval comes twice."""
    ends = sorted(map(interval, requests))
    for (_, until), (start, _) in zip(ends, ends[1:]):
        expect_equal(start, until, f"start of an interval in {ends}")


@test(beside=True)
def push_is_what_is_served():
    """Profiles for Pyroscope and OTLP have the stacks of /debug/pprof/heap, with the bytes
    allocated in each interval."""
    with place() as directory, Receiver() as pyroscope, Receiver() as otlp, \
            Target("truth_basic") as target:
        token = os.path.join(directory, "token")
        with open(token, "w", encoding="ascii") as file:
            file.write("abc.DEF-123\n")
        with Agent("-p", target.pid, "-i", "1", "--push-pyroscope", pyroscope.url + "/",
                   "--push-tenant", "team-1", "--push-otlp", otlp.url, "--push-token-file", token,
                   "--label", "env=a,b}", "--label", "service_name=shop") as agent:
            agent.wait_for(target.pid)
            target.go()
            before = agent.targets()[target.pid]["snapshot"]
            wait_until(lambda: agent.targets()[target.pid]["snapshot"] >= before + 2,
                       "a profile of all")
            taken = len(pyroscope.taken()), len(otlp.taken())
            wait_until(lambda: len(pyroscope.taken()) > taken[0] and len(otlp.taken()) > taken[1],
                       "what is pushed")
            served_types, served, _ = read_pprof(
                agent.get(f"/pid/{target.pid}/debug/pprof/heap")[1])
            expect_equal(served_types[:4], FOUR, "what is served")
            expect_equal((metric(agent, "failed_total"), metric(agent, "dropped_total")), (0, 0),
                         "failed, dropped")
            expect(metric(agent, "sent_total") >= 4, "sent")
            expect_words(agent.get("/push")[1].decode(), f"^pyroscope {pyroscope.url}: \\d+ sent",
                         f"^otlp {otlp.url}: \\d+ sent")
            checked = run([need_tool("promtool"), "check", "metrics"],
                          input=agent.get("/metrics")[1].decode())
            expect_equal((checked.status, checked.err), (0, ""), "promtool")
            agent.stop()
        expect_unchanged(target.pid, "after the end")

        last = pyroscope.taken()[-1]
        expect_equal((last.path, last.query["format"], last.query["spyName"]),
                     ("/ingest", "pprof", "memtrace"), "request")
        expect_equal((last.headers.get("X-Scope-OrgID"), last.headers.get("Authorization")),
                     ("team-1", None), "tenant and token")
        app, labels = read_name(last.query["name"])
        expect_equal((app, urllib.parse.unquote(labels["env"]), labels["comm"], labels["pid"],
                      labels["node"]),
                     ("shop", "a,b}", "truth_basic", str(target.pid),
                      urllib.parse.quote(os.uname().nodename)), "series")
        types, pushed, profile = read_pprof(last.body)
        expect_equal(types, FOUR, "value types")
        expect(not any(sample.label for sample in profile.sample), "labels, which make series")
        expect_equal({s: v[2:] for s, v in pushed.items() if v[3]},
                     {s: v[2:4] for s, v in served.items() if v[3]}, "in use")
        expect_equal((profile.time_nanos, profile.time_nanos + profile.duration_nanos),
                     interval(last), "its interval")
        expect_chain(pyroscope.taken())
        allocated = sum(v[1] for r in pyroscope.taken() for v in read_pprof(r.body)[1].values())
        whole = sum(v[1] for v in served.values())
        expect(whole > 0 and abs(allocated - whole) <= len(served) * len(pyroscope.taken()),
               allocated, "allocated, not", whole)

        last = otlp.taken()[-1]
        expect_equal((last.path, last.headers.get("Authorization"),
                      last.headers.get("X-Scope-OrgID"), last.headers["Content-Type"]),
                     ("/v1development/profiles", "Bearer abc.DEF-123", None,
                      "application/x-protobuf"), "request")
        resource, kinds, profiles, _ = read_otlp(last.body)
        expect_equal({k: resource[k] for k in ("service.name", "process.pid",
                                               "process.executable.name", "env", "host.name")},
                     {"service.name": "shop", "process.pid": target.pid,
                      "process.executable.name": "truth_basic", "env": "a,b}",
                      "host.name": os.uname().nodename}, "resource")
        expect_equal(sorted(kinds), sorted(FOUR), "value types")
        for i, kind in ((2, FOUR[2]), (3, FOUR[3])):
            expect_equal(kinds[kind], {s: v[i] for s, v in served.items() if v[i]}, kind)
        ids = [p.profile_id for r in otlp.taken() for p in read_otlp(r.body)[2]]
        expect_equal((len(profiles), len(set(ids))), (4, len(ids)), "profiles and their ids")
    leak = max(served, key=lambda s: served[s][3])
    return (f"{len(pyroscope.taken())} and {len(otlp.taken())} requests; most in {leak[1]}: "
            f"{served[leak][3]} bytes")


@test(beside=True)
def push_by_pyroscopes_api():
    """Pyroscope's push API gets the same profiles as its /ingest. The labels are those of the
    process. A profile that is sent again has the same id."""
    with Receiver() as ingest, Receiver() as api, Endless("leaking", "--rate", "1000") as target, \
            Agent("-p", target.pid, "--push-pyroscope", ingest.url, "--push-pyroscope-rpc", api.url,
                  "--push-tenant", "team-1", "--label", "env=a,b}", "--label", "pid=none") as agent:
        api.mode = 503
        wait_until(lambda: ingest.taken() and len(api.requests) >= 2, "a second attempt")
        first, second = api.requests[:2]
        expect_equal((second.body, read_push(second.body)[1]),
                     (first.body, read_push(first.body)[1]), "the same profile")
        api.mode = 200
        wait_until(lambda: len(api.taken()) >= 2, "what is pushed")
        last = api.taken()[-1]
        wait_until(lambda: len(ingest.taken()) >= len(api.taken()), "the same for /ingest")
        agent.stop()
        target.stop()
    expect_equal((last.path, last.headers["Content-Type"], last.headers["Connect-Protocol-Version"],
                  last.headers["X-Scope-OrgID"]),
                 ("/push.v1.PusherService/Push", "application/proto", "1", "team-1"), "request")
    labels, profile_id, file = read_push(last.body)
    expect(re.fullmatch("[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", profile_id), "no UUID:",
           profile_id)
    expect_equal({k: v for k, v in labels.items() if k not in ("container_id", "pod_uid")},
                 {"__name__": "memory", "__delta__": "false", "service_name": "leaking",
                  "comm": "leaking", "env": "a,b}", "node": os.uname().nodename, "pid": "none"},
                 "labels")
    ids = [read_push(r.body)[1] for r in api.taken()]
    expect_equal(len(set(ids)), len(ids), "ids")
    types, stacks, profile = read_pprof(file)
    expect_equal(types, FOUR, "value types")
    [same] = [r for r in ingest.taken()
              if interval(r) == (profile.time_nanos, profile.time_nanos + profile.duration_nanos)]
    expect_equal(read_pprof(same.body)[1], stacks, "what /ingest gets")
    expect_equal(read_name(same.query["name"])[1]["pid"], "none", "pid for /ingest")


@test(beside=True)
def push_to_a_receiver_that_hangs():
    """If a receiver hangs, tracing and serving go on. A profile that the receiver may have got is
    sent again with the same interval and id. The agent counts such profiles."""
    with Receiver() as receiver, Endless("leaking", "--rate", "1000") as target, \
            Agent("-p", target.pid, "--push-pyroscope", receiver.url) as agent:
        agent.wait_for(target.pid)
        wait_until(receiver.taken, "a profile")
        receiver.mode = "hang"
        wait_until(lambda: receiver.hanging, "a request that hangs")
        before = agent.targets()[target.pid]["snapshot"]
        for _ in range(2):  # each second there is a new profile, and each page is served at once
            before += 1
            wait_until(lambda: agent.targets()[target.pid]["snapshot"] >= before, "profiles go on",
                       timeout=5)
            expect_equal(agent.get("/healthz")[1], b"ok\n", "health")
        expect(metric(agent, "queued") >= 2, "queued while it hangs")
        expect(target.alive(), "the target ended")
        hung = [r for r in receiver.requests if r.status == "hung"]
        receiver.mode = 200
        wait_until(lambda: metric(agent, "repeated_total") >= 1 and metric(agent, "queued") == 0,
                   "what had waited is sent")
        expect(metric(agent, "failed_total", "outcome_unknown") >= 1, "failed")
        expect_equal(metric(agent, "dropped_total"), 0, "dropped")
        taken = receiver.taken()
        for request in hung:
            [again] = [r for r in taken
                       if r.headers["Idempotency-Key"] == request.headers["Idempotency-Key"]]
            expect_equal((interval(again), again.body), (interval(request), request.body),
                         "sent again")
            expect(int(again.headers["X-Memtrace-Attempt"]) > 1 and
                   "X-Memtrace-Attempt" not in request.headers, "is not marked")
        expect_equal(len({r.headers["Idempotency-Key"] for r in taken}), len(taken), "ids")
        expect_chain(taken)
        agent.stop()
        target.stop()
    return f"{len(hung)} sent again"


@test(beside=True)
def push_to_a_receiver_that_refuses():
    """After status 429 with Retry-After, the agent waits. If nobody listens, it tries again later.
    After status 400 or a redirect, it gives up. All of this is counted."""
    with Receiver() as receiver, Receiver() as other, \
            Endless("leaking", "--rate", "1000") as target:
        receiver.mode, receiver.answer_headers = 429, {"Retry-After": "2"}
        with Agent("-p", target.pid, "--push-otlp", receiver.url,
                   "--push-otlp", "http://127.0.0.1:1") as agent:
            agent.wait_for(target.pid)
            wait_until(lambda: len(receiver.requests) >= 2, "another attempt")
            first, second = receiver.requests[:2]
            expect(second.at - first.at >= 1.9, "only", second.at - first.at,
                   "s after Retry-After: 2")
            expect_equal(second.headers["Idempotency-Key"], first.headers["Idempotency-Key"],
                         "id of the same profile")
            receiver.mode, receiver.answer_headers = (
                307, {"Location": other.url + "/v1development/profiles"})
            wait_until(lambda: metric(agent, "dropped_total", "refused") >= 1,
                       "a redirect is a refusal")
            receiver.mode, receiver.answer_headers = 400, {}
            count = metric(agent, "dropped_total", "refused")
            wait_until(lambda: metric(agent, "dropped_total", "refused") > count,
                       "400 is a refusal")
            receiver.mode = 200
            wait_until(receiver.taken, "a profile")
            expect_equal(other.requests, [], "what was redirected")
            expect(metric(agent, "failed_total", "busy") >= 1, "busy")
            expect(metric(agent, "failed_total", "connection") >= 1, "nobody there")
            expect(metric(agent, "queued") >= 2, "what waits for nobody")
            keys = [r.headers["Idempotency-Key"] for r in receiver.requests if r.status != 429]
            expect_equal(len(set(keys)), len(keys), "what was refused comes once")
            agent.stop()
        target.stop()


@test(beside=True)
def push_names_are_text():
    """A name contains every character that could end a name. It is still the value of one label."""
    name = 'a{x=1},b="% '
    with place() as directory, Receiver() as pyroscope, Receiver() as otlp:
        path = os.path.join(directory, name)
        os.symlink(os.path.join(os.path.dirname(MEMTRACE), "progs", "leaking"), path)
        with Endless(path, "--rate", "1000") as target, \
                Agent("-p", target.pid, "--push-pyroscope", pyroscope.url,
                      "--push-otlp", otlp.url) as agent:
            wait_until(lambda: pyroscope.taken() and otlp.taken(), "what is pushed")
            agent.stop()
            target.stop()
    app, labels = read_name(pyroscope.taken()[0].query["name"])
    expect(re.fullmatch(r"[A-Za-z0-9_.-]+", app), "application", app)
    expect_equal(set(labels) - {"container_id", "pod_uid"}, {"node", "comm", "pid"}, "labels")
    expect_equal(urllib.parse.unquote(labels["comm"]), name, "comm")
    expect_equal(read_otlp(otlp.taken()[0].body)[0]["service.name"], name, "service.name")


@test(beside=True)
def push_options_are_checked():
    """A receiver's address that cannot work is refused at the start."""
    with place() as directory:
        paths = {}
        for key, text in (("good", "abc\n"), ("split", "abc\nX-Other: 1\n"), ("empty", "\n"),
                          ("long", "a" * 5000)):
            paths[key] = os.path.join(directory, key)
            with open(paths[key], "w", encoding="ascii") as file:
                file.write(text)
        here = ("--push-otlp", "http://127.0.0.1:4318", "--push-token-file")
        for args, status, words in (
                (("--push-otlp", "ftp://127.0.0.1"), 2, "not the URL"),
                (("--push-otlp", "127.0.0.1:4318"), 2, "not the URL"),
                (("--push-otlp", "http://user:pass@host"), 2, "without user"),
                (("--push-otlp", "http://"), 2, "not the URL"),
                (("--push-pyroscope", "http://host/?x=1"), 2, "not the URL"),
                (("--push-pyroscope", "http://h\nX: 1"), 2, "not the URL"),
                (("--push-tenant", "x"), 2, "is for the receiver before it"),
                (("--label", "env=x"), 2, "give --push"), (("--label", "1=x"), 2, "not a label"),
                (("--label", "__name__=x"), 2, "not a label"), (("--label", "a="), 2, "1 to 128"),
                (("--label", "a=x\ny"), 2, "one line"),
                (("--push-otlp", "http://h", "--push-tenant", "a b"), 2, "not a tenant"),
                (("--push-otlp", "http://example.org", "--push-token-file", paths["good"]), 2,
                 "unencrypted"),
                (("--push-otlp", "http://127.example.org", "--push-token-file", paths["good"]), 2,
                 "unencrypted"),
                ((*here, os.path.join(directory, "none")), 1, "No such file"),
                ((*here, directory), 1, "cannot read"),
                ((*here, paths["split"]), 1, "one bearer token"),
                ((*here, paths["empty"]), 1, "one bearer token"),
                ((*here, paths["long"]), 1, "cannot read"),
                (5 * ("--push-otlp", "http://h"), 2, "more than 4"),
                (("--push-otlp", "http://h", *(f"--label=a{i}=b" for i in range(17))), 2,
                 "more than 16"),
                (("--push-otlp", "http://h", "--label", "a=b", "--label", "a=c"), 2, "twice")):
            result = memtrace("agent", "-p", os.getpid(), *args)
            expect_equal(result.status, status, result)
            expect_words(result.err, words)
            expect("abc" not in result.err, "the token in", result.err)
