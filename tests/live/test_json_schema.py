# SPDX-License-Identifier: BSD-2-Clause
"""Every line of JSON fits docs/memtrace.schema.json, and has only keys of the schema.
(test_agent.py checks the agent's answers against docs/agent.schema.json.)"""
import copy
import json
import os
import re
import signal
import time

from harness import (Endless, NotRunnable, ROOT, Target, Tracer, expect, expect_equal, imported,
                     memtrace, place, test, wait_until)

jsonschema = imported("jsonschema")


def read(path):
    with open(os.path.join(ROOT, path), encoding="utf-8") as file:
        return file.read()


def validator(kind, path="docs/memtrace.schema.json"):
    """Validators for one kind of document and for the whole schema. Messages of the first are
    better than the second's "none of five"."""
    if not jsonschema:
        raise NotRunnable("python3-jsonschema is not installed")
    schema = json.loads(read(path))
    jsonschema.Draft202012Validator.check_schema(schema)
    expect({"$ref": f"#/$defs/{kind}"} in schema["oneOf"], f"the schema has no document {kind}")
    return (jsonschema.Draft202012Validator({**schema, "oneOf": [{"$ref": f"#/$defs/{kind}"}]}),
            jsonschema.Draft202012Validator(schema))


def innermost(error):
    while error.context:
        error = max(error.context, key=lambda e: len(e.absolute_path))
    return f"{'/'.join(map(str, error.absolute_path))}: {error.message[:300]}"


def check(kind, text, *path):
    """Returns the documents in the text. Each must be of this kind, and of no other kind of the
    schema."""
    one, whole = validator(kind, *path)
    counters = read("docs/numbers.md")
    documents = [json.loads(line) for line in text.splitlines()]
    expect(documents, "no JSON")
    for document in documents:
        wrong = [innermost(error) for error in one.iter_errors(document)]
        expect(not wrong, f"{kind}:", *wrong[:5])
        expect(whole.is_valid(document), f"{kind}: it fits another kind of document as well")
        for name in document.get("lost", {}):
            expect(f"`{name}`" in counters, f"docs/numbers.md does not name the counter {name}")
    return documents


def keys_of(value):
    """All keys at any depth of the value."""
    if isinstance(value, dict):
        return set(value).union(*map(keys_of, value.values()))
    return set().union(*map(keys_of, value)) if isinstance(value, list) else set()


def expect_keys(documents, *keys):
    """Checks that the documents have these keys. If a key is missing, the run did not test its part
    of the schema."""
    missing = set(keys) - keys_of(documents)
    expect(not missing, "no document has", *sorted(missing))


def objects_in(value):
    if isinstance(value, dict):
        yield value
    for item in (value.values() if isinstance(value, dict) else value
                 if isinstance(value, list) else ()):
        yield from objects_in(item)


@test(beside=True)
def json_schema_of_a_profile():
    with place() as directory:
        rules = directory + "/rules"
        with open(rules, "w", encoding="utf-8") as file:
            file.write("all/kept function ^keep_\n")
        with Target("truth_basic") as target:
            with Tracer("-p", target.pid, "-i", "1", "--max-overhead", "off", "--rss",
                        "--modules", rules, "--threads", "--sites", "--lifetimes", "-d", 60,
                        "-f", "pprof,heap,collapsed", "-o", directory + "/p", "--json") as tracer:
                target.go()
                text = tracer.stop().out
            target.quit()
        documents = check("profile", text)
        expect_keys(documents, "resident", "rows", "modules", "component", "threads", "transfers",
                    "freed_by_age", "live_by_age", "high_bytes", "planned_s", "probes", "memtrace",
                    "kinds", "earlier_gone_bytes")
        expect_equal({d["what"] for d in documents}, {"heap", "regions"}, "what")
        one, whole = validator("profile")
        # the schema must refuse an unknown key anywhere, or else this test could not fail
        for d in documents:
            for name in [None, *(key for key, value in d.items() if any(objects_in(value)))]:
                spoilt = copy.deepcopy(d)
                next(objects_in(spoilt[name] if name else spoilt))["not_documented"] = None
                expect(not one.is_valid(spoilt) and not whole.is_valid(spoilt),
                       "an unknown key passes in", name)
        files = [path for document in documents for path in document["files"]]
        expect(len(files) >= 3, "files:", files)
        for path in files:
            check("profile", memtrace("report", "-f", "json", "--modules", rules, path).out)


@test(beside=True)
def json_schema_of_page_faults():
    with Target("truth_faults") as target:
        with Tracer("-p", target.pid, "--what", "faults,regions", "-f", "none", "--json") as tracer:
            target.go()
            text = tracer.stop().out
        target.quit()
    documents = check("profile", text)
    expect_keys(documents, "resident_change_bytes", "kinds")
    expect_equal({d["what"] for d in documents}, {"faults", "regions"}, "what")


@test(beside=True, long=True)
def json_schema_of_windows():
    with Endless("leaking", "churn") as target:
        with Tracer("-p", target.pid, "--max-overhead", "2", "--leaks", "--lifetimes", "-f", "none",
                    "--json") as tracer:
            time.sleep(20)
            text = tracer.stop().out
        target.stop()
    documents = check("profile", text)
    expect_equal(documents[0]["mode"], "windowed", "mode")
    expect_keys(documents, "windows", "continuous_seconds", "evidence", "process_growth",
                "blocks_per_s", "half_life_us", "growth_low", "survival", "alloc_bytes_low",
                "resident_set_bytes")


@test(beside=True)
def json_schema_of_a_command():
    with place() as directory:
        result = memtrace("-i", "1", "-f", "none", "--json=" + directory + "/json", "--", "sh",
                          "-c", "ls -lR /usr/include >/dev/null; true")
        expect_equal(result.status, 0, result)
        with open(directory + "/json", encoding="utf-8") as file:
            documents = check("profile", file.read())
        expect_keys(documents, "peak_s", "peak_bytes", "peak_bytes_low", "ended", "children_cpu_s")


@test(beside=True, long=True)
def json_schema_of_comparisons():
    with place() as directory:
        with Endless("leaking", "churn", "--rate", "20000") as target:
            for name in "ab":
                with Tracer("-p", target.pid, "-i", "16K", "--max-overhead", "off", "-f", "pprof",
                            "-o", f"{directory}/{name}", "--json") as tracer:
                    for i in range(1, 5 if name == "a" else 2):
                        time.sleep(1.5)
                        tracer.process.send_signal(signal.SIGUSR1)
                        path = f"{directory}/{name}.{target.pid}.{i:04}.pb.gz"
                        wait_until(lambda path=path: os.path.exists(path), f"snapshot {i}")
                    time.sleep(1)
                    documents = check("profile", tracer.stop().out)
                expect_keys(documents, "snapshots")
            target.stop()
        snapshots = [f"{directory}/a.{target.pid}.{i:04}.pb.gz" for i in range(1, 5)]
        last = [f"{directory}/{name}.{target.pid}.pb.gz" for name in "ab"]
        steps = check("diff", memtrace("diff", "--json", *snapshots).out)
        expect_keys(steps, "trend", "bytes_per_s_low", "values", "p_grows", "start_unix_s")
        runs = check("diff", memtrace("diff", "--json", "--by", "live", *last).out)
        expect(runs[0]["warnings"], "two runs are compared without a warning")
        leaks = check("leaks", memtrace("leaks", "--json", last[0]).out)
        expect_keys(leaks, "surely_grows", "freed_with_age", "least_growth_bytes_per_s")
        check("leaks_of_several", memtrace("leaks", "--json", *snapshots).out)


@test(beside=True, long=True)
def json_schema_of_replicas():
    """The last of three processes leaks far more than the others."""
    with place() as directory:
        targets = [Endless("leaking", "churn", "--rate", "5000", "--size", "4000", "--leak", leak)
                   for leak in (20000, 20000, 8000000)]
        with Tracer("-p", ",".join(str(t.pid) for t in targets), "-i", "16K",
                    "--max-overhead", "off", "-f", "pprof", "-o", directory + "/r", "-q") as tracer:
            time.sleep(5)
            tracer.stop()
        for t in targets:
            t.stop()
        result = memtrace("diff", "--per-process", "--json",
                          *(f"{directory}/r.{t.pid}.pb.gz" for t in targets))
    replicas = check("replicas", result.out)
    expect_keys(replicas, "excess", "p", "per_second")
    expect_equal(replicas[0]["replicas"][0]["profile"], 3, "the odd one")


@test(beside=True)
def json_schema_of_heap():
    with Target("truth_basic") as target:
        check("heap_census", memtrace("heap", "-p", target.pid, "--json").out)
        told, = check("heap_census",
                      memtrace("heap", "-p", target.pid, "--stacks", "-d", 1, "--json").out)
        expect_keys(told["origins"], "stacks", "unknown")


@test(beside=True)
def json_schema_is_closed():
    """Every object of the schema lists its keys, and allows no others."""
    validator("profile")
    schema = json.loads(read("docs/memtrace.schema.json"))
    described = [o for o in objects_in(schema["$defs"]) if o.get("type") == "object"]
    expect(len(described) > 20, "objects:", len(described))
    for o in described:
        expect(o.get("additionalProperties") is False, "open:", str(o)[:200])
    version = re.search(r"#define ENCODE_JSON_VERSION (\d+)", read("user/encode/encode.h"))
    expect_equal(schema["$defs"]["version"], {"const": int(version[1])}, "version")
