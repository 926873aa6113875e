# SPDX-License-Identifier: BSD-2-Clause
"""Memory by component, of a real server, with rules as the server's user would write them."""
import json
import os
import re

from harness import PROGS, Tracer, expect, expect_equal, memtrace, place, test
from test_allocators import redis_cli, redis_server

RULES = """# redis, as its source is laid out
networking      function ^(readQueryFromClient|createClient|addReply|acceptCommonHandler)
data/keys       function ^(dbAdd|dictAdd|dictExpand|_dictExpand|setKey|genericSetKey)
data/values     function ^(createStringObject|tryObjectEncoding|listTypePush|quicklist|hashTypeSet)
"""
ROW = re.compile(r"^( *)(\S.*?)  +[\d.,]+ \S+  +(?:exact|[\d.]+ - [\d.]+ \S+)  +([\d,]+)  ", re.M)
# The table's head and rows. memtrace prints losses below the rows, and in a run also above the
# head.
TABLE = re.compile(r"^COMPONENT(?:.* % .*\n)+", re.M)


@test(beside=True)
def modules_redis():
    """Networking, data and the remainder add up to the whole. Numbers of objects do so exactly."""
    keys = 3000
    with place() as directory, redis_server() as (server, socket):
        rules = os.path.join(directory, "rules")
        with open(rules, "w", encoding="utf-8") as file:
            file.write(RULES)
        with Tracer("-p", server.pid, "-i", "1", "--modules", rules, "-f", "pprof",
                    "-o", directory + "/redis") as tracer:
            redis_cli(socket, input="".join(f"SET key:{i} {'v' * 500}\n" for i in range(keys)))
            redis_cli(socket,
                      input="".join(f"RPUSH list:{i % 50} {'w' * 200}\n" for i in range(keys)))
            out = tracer.stop().out
        path = f"{directory}/redis.{server.pid}.pb.gz"
        again = memtrace("report", "--modules", rules, path)
        objects = json.loads(memtrace("report", "--modules", rules, "-f", "json",
                                      path).out)["modules"]
    whole = int(re.search(r"^live heap: .* in ([\d,]+) objects", out, re.M)[1].replace(",", ""))
    table = TABLE.search(out)[0]
    rows = [(len(m[1]), m[2], int(m[3].replace(",", ""))) for m in ROW.finditer(table)]
    expect_equal([name for _, name, _ in rows],
                 ["networking", "data", "keys", "values", "(no rule)"], out)
    expect_equal(sum(n for depth, _, n in rows if not depth), whole, out)
    held = {name: n for _, name, n in rows}
    expect_equal(held["keys"] + held["values"], held["data"], out)
    # each SET adds a key, a value and an entry of the table
    expect(held["data"] >= 2 * keys, out)
    expect(held["networking"] > 0 and held["(no rule)"] < 0.2 * whole, out)
    expect_equal(again.status, 0, again)
    expect_equal(TABLE.search(again.out)[0], table, "the same from the file")
    expect_equal([(m["component"], m["live_objects"]) for m in objects],
                 list(zip(["networking", "data", "data/keys", "data/values", None],
                          (n for _, _, n in rows))), "in JSON")
    expect(out.count("lost:") <= 1, out)
    return ", ".join(f"{name} {n}" for name, n in held.items()) + f" of {whole} objects"


@test(beside=True)
def modules_wrong_file():
    """If a file of rules is missing or malformed, the error comes before tracing begins and names
    the line."""
    with place() as directory:
        path = os.path.join(directory, "rules")
        for text, why in ((None, "cannot open"), ("a function f\nb symbol g\n", "line 2")):
            if text:
                with open(path, "w", encoding="utf-8") as file:
                    file.write(text)
            result = memtrace("-p", os.getpid(), "--modules", path)
            expect_equal(result.status, 1, result)
            expect(path in result.err and why in result.err, result)


@test(beside=True)
def modules_of_a_run_in_json():
    """Bytes and objects of each component, and of the memory of no component, are exact."""
    with place() as directory:
        rules = os.path.join(directory, "rules")
        with open(rules, "w", encoding="utf-8") as file:
            file.write("blocks function ^many_blocks$\nkept function ^keep_\n")
        result = memtrace("-i", "1", "-f", "none", "--json=-", "--modules", rules,
                          "--", PROGS + "/truth_basic", "--auto")
    expect_equal(result.status, 0, result)
    truth, profile = map(json.loads, result.out.splitlines())
    wanted = {"blocks": [0, 0], "kept": [0, 0], None: [0, 0]}
    for name, f in truth["functions"].items():
        sums = wanted["blocks" if name == "many_blocks" else "kept" if name.startswith("keep_")
                      else None]
        sums[0] += f["live_bytes"]
        sums[1] += f["live_objects"]
    expect_equal({m["component"]: [m["live_bytes"], m["live_objects"]] for m in profile["modules"]},
                 wanted, "components")
    for m in profile["modules"]:
        expect(m["live_bytes_low"] == m["live_bytes"] == m["live_bytes_high"] and
               m["stacks"] > 0, m)
