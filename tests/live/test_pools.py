# SPDX-License-Identifier: BSD-2-Clause
"""Pools that memtrace knows: memory contexts of PostgreSQL, pools of nginx and of APR, PHP's pool
of a request. The truth is the memory that the test makes the programs hold, and the counts of
PostgreSQL and PHP themselves."""
import contextlib
import glob
import http.client
import json
import os
import shutil
import socket
import subprocess

from harness import (NotRunnable, PATIENCE_S, ROOT, Tracer, by_function, end, expect, expect_equal,
                     expect_words, losses, memtrace, place, read_line, start, test, wait_until)
from test_input import compile_c
from test_servers import POSTGRES, Psql, UnixHTTP, children, nginx, postgres

EXACT = ("-i", "1", "--max-overhead", "off", "--json", "-f", "none")
TEXT = "some text\n" * 1000
# only these losses are allowed: calls that had begun before tracing, and functions without a symbol
BEGUN = {"returns_missing", "frames_no_symbol_at_address"}


def held(profile, name):
    """Live bytes and objects of all stacks with a function of this name."""
    nbytes, objects, _ = by_function(profile, [name]).get(name, (0, 0, []))
    return nbytes, objects


def probes_of(pid):
    """The output of `memtrace check` for a process."""
    result = memtrace("check", pid)
    expect_equal(result.status, 0, result)
    return result.out


@test(beside=True)
def pools_nginx():
    """Pools of open connections are live. Pools of ended requests and connections are not. The
    memory that a pool takes from malloc is not counted a second time."""
    n = 20
    with nginx(1, {"a.txt": TEXT}) as (server, _, _, path), contextlib.ExitStack() as kept:
        wait_until(lambda: children(server.pid), "nginx has a worker")
        worker, = children(server.pid)
        expect_words(probes_of(worker), r"^ +ngx_palloc ", r"^ +ngx_destroy_pool ")

        sockets = len(os.listdir(f"/proc/{worker}/fd"))

        def ask(times, others):
            client = UnixHTTP(path)
            for _ in range(times):
                client.ask("GET", "/files/a.txt", Accept_Encoding="gzip")
            client.close()
            wait_until(lambda: len(os.listdir(f"/proc/{worker}/fd")) == sockets + others,
                       "the connection has ended")

        with Tracer("-p", worker, *EXACT) as tracer:
            ask(20, 0)
            for _ in range(n):
                s = kept.enter_context(socket.socket(socket.AF_UNIX))
                s.settimeout(PATIENCE_S)
                s.connect(path)
                s.sendall(b"GET /files/a.txt HTTP/1.1\r\nHost: x\r\n\r\n")
                answer = b""
                while not answer.endswith(TEXT.encode()):
                    answer += s.recv(65536)
            ask(20, n)
            stays = tracer.stop().json()
        with Tracer("-p", worker, *EXACT) as tracer:
            ask(20, n)
            ends = tracer.stop().json()
    expect(set(losses(stays)) <= BEGUN and set(losses(ends)) <= BEGUN, "losses:", losses(stays),
           losses(ends))
    nbytes, objects = stays["live_bytes"], stays["live_objects"]
    expect_equal((nbytes % n, objects % n), (0, 0),
                 f"what is left of {nbytes} bytes in {objects} blocks by {n} connections")
    # each connection has at least its pool and the block for which the pool was made
    expect(80 * n < held(stays, "ngx_event_accept")[0] <= nbytes < 4096 * n,
           f"{nbytes} bytes of {n} connections")
    expect_equal(ends["live_bytes"], 0, "live bytes when all connections have ended")
    return f"{nbytes // n} bytes in {objects // n} blocks of each connection"


# a root directory: scripts/fetch-libcs
DEBIAN_13 = os.path.join(ROOT, "build", "libcs", "trixie", "postgres")

# A function that a server might have. Blocks that it leaks stay as long as the session. The
# declarations are those of PostgreSQL 15, 16 and 17.
FORGET = r"""
extern void *MemoryContextAlloc(void *, unsigned long), *palloc(unsigned long);
extern void *CacheMemoryContext;
static const struct { int len, version, args, keys, name, float8; char abi[32]; } magic =
    {56, VERSION * 100, 100, 32, 64, 1, "PostgreSQL"};
static const struct { int api; } info = {1};
static unsigned long n;
const void *Pg_magic_func(void) { return &magic; }
const void *pg_finfo_forget_row(void) { return &info; }
__attribute__((noipa)) static unsigned long *forget(void)
{
    unsigned long *p = MemoryContextAlloc(CacheMemoryContext, 200);
    p[0] = ++n;
    return p;
}
unsigned long forget_row(void *call)
{
    unsigned long *p = forget(), *q = palloc(100); /* the latter ends with the query */
    p[1] = q[0] = n * n;
    return n;
}
"""
USED = "select sum(used_bytes) from pg_backend_memory_contexts;"


@contextlib.contextmanager
def forgetful_postgres(version=15, root=""):
    """Yields the server's directory and a session. The server has the leaking function
    forget_row()."""
    if root and not os.path.exists(root):
        raise NotRunnable(f"{root} is not there: scripts/fetch-libcs build/libcs")
    with postgres(root) as (_, directory):
        library = compile_c(directory, FORGET, "-O2", "-shared", "-fPIC", f"-DVERSION={version}")
        expect(library, "gcc made no library")
        os.chmod(library, 0o755)
        with Psql(directory) as session:
            if session.ask("show server_version_num;")[:2] != str(version):
                raise NotRunnable(f"PostgreSQL is not {version}")
            session.ask(f"create function forget_row() returns bigint as '{library[len(root):]}' "
                        "language c volatile; create table t as select i, md5(i::text) s from "
                        "generate_series(1, 1000) i;")
            yield directory, session


def check_forgotten(chunk, probes, **server):
    """chunk: the bytes that a block of 200 bytes takes, with its header. probes: two functions that
    must be probed."""
    queries = ("select count(*) from t a join t b using (s);",
               "select md5(string_agg(s, '' order by s)) from t;",
               "select jsonb_agg(to_jsonb(t)) is null from t;",
               "prepare p as select * from t; execute p; deallocate p;",
               "with x as materialized (select * from t) "
               "select count(*) from x a join x b using (i);",
               "do $$ begin perform 1 / (i - 7) from t; "
               "exception when division_by_zero then null; end $$;")
    with forgetful_postgres(**server) as (_, session):
        for query in (*queries, "select forget_row();", USED):
            session.ask(query)
        with Tracer("-p", session.pid, *EXACT) as tracer:
            before = int(session.ask(USED))
            for _ in range(3):
                for query in queries:
                    session.ask(query)
            session.ask("select sum(forget_row()) from generate_series(1, 1000);")
            session.ask("prepare kept as select 1;")  # a prepared query has its own contexts
            used = int(session.ask(USED)) - before
            session.ask("select 1;")
            profile = tracer.stop().json()
        empty = int(session.ask("select min(used_bytes) from pg_backend_memory_contexts;"))
        expect_words(probes_of(session.pid), *(f"^ +{name} " for name in probes))
    expect(set(losses(profile)) <= BEGUN, "losses:", losses(profile))
    expect_equal(held(profile, "forget"), (200 * 1000, 1000),
                 "bytes and blocks that were forgotten")
    contexts = [s for s in profile["stacks"]
                if s["frames"][0] == "AllocSetContextCreateInternal" and s["live_objects"]]
    expect(contexts, "no context is live")
    expect_equal({s["live_bytes"] / s["live_objects"] for s in contexts}, {empty},
                 "bytes of a context")
    rest = profile["live_bytes"] - 200 * 1000
    expect(0 <= rest < 20000, "bytes that are live otherwise:", rest)
    expect(abs(used - chunk * 1000 - rest) < 20000,
           f"PostgreSQL uses {used} bytes more; {rest} beside those forgotten")
    return f"{used} bytes used, {rest} beside those forgotten"


@test(beside=True)
def pools_postgres():
    """Blocks that a function leaks in a context that stays are live, to the byte. Blocks in
    contexts that are reset or deleted are not. The total is PostgreSQL's own figure for its
    contexts, without PostgreSQL's headers and rounding."""
    # 200 bytes are rounded to 256, and a header has 16
    return check_forgotten(272, ("palloc", "MemoryContextDelete"))


@test(beside=True, long=True)
def pools_postgres_17():
    """As pools_postgres, with Debian 13's PostgreSQL, whose contexts have other functions and
    smaller headers."""
    return check_forgotten(264, ("AllocSetAlloc", "AllocSetDelete"), version=17, root=DEBIAN_13)


def check_leak(**server):
    with forgetful_postgres(**server) as (directory, session):
        with open(directory + "/load.sql", "w", encoding="utf-8") as file:
            file.write("select s from t where i = 7;\nselect forget_row();\n")
        load = start([f"{POSTGRES}/pgbench", "-n", "-c", 1, "-T", 60, "-f", directory + "/load.sql",
                      "-h", directory, "-U", "postgres", "postgres"],
                     env={**os.environ, "PGAPPNAME": "load"}, stdin=subprocess.DEVNULL,
                     stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            pids = []  # pgbench's first session only reads the tables
            wait_until(lambda: pids.append(session.ask(
                "select max(pid) from pg_stat_activity where application_name = 'load' "
                "and query like '%forget%';")) or pids[-1], "the load has a backend")
            result = memtrace("-p", pids[-1], "-d", 12, "--max-overhead", "off", "--leaks",
                              f"--json={directory}/json", "-f", "none")
            with open(directory + "/json", encoding="utf-8") as file:
                profile = json.loads(file.readline())
        finally:
            end(load)
    expect_equal(result.status, 0, result)
    stacks = [s for s in profile["stacks"] if s.get("growth_bytes_per_s") is not None]
    expect(stacks, "growth is not known:", profile["mode"])
    first = max(stacks, key=lambda s: s["growth_bytes_per_s"])
    expect("forget_row" in first["frames"], "first:", first["frames"])
    sure = [s["frames"] for s in stacks if s["growth_low"] > 0 and "forget_row" not in s["frames"]]
    expect(not sure, "what surely grows:", sure)
    return f"{first['growth_bytes_per_s'] / 1e6:.2f} MB/s"


@test(long=True)
def pools_postgres_leak():
    """Under load, and without a limit, the leaking function comes first, and no other stack surely
    grows."""
    return check_leak()


@test(long=True)
def pools_postgres_17_leak():
    """As pools_postgres_leak, with Debian 13's PostgreSQL."""
    return check_leak(version=17, root=DEBIAN_13)


# The truth: 1000 blocks of 100 to 109 bytes by keep(), 10 of 50 bytes by again(), and nothing by
# brief(). Three pools stay.
APR = r"""
#include <stdio.h>
#include <string.h>
#include <unistd.h>
typedef struct apr_pool_t apr_pool_t;
int apr_initialize(void), apr_pool_create_ex(apr_pool_t **, apr_pool_t *, void *, void *);
void *apr_palloc(apr_pool_t *, size_t), *apr_pcalloc(apr_pool_t *, size_t);
void apr_pool_clear(apr_pool_t *), apr_pool_destroy(apr_pool_t *);
#define NOINLINE __attribute__((noipa)) static
static apr_pool_t *make(apr_pool_t *parent)
{
    apr_pool_t *p;
    apr_pool_create_ex(&p, parent, NULL, NULL);
    return p;
}
NOINLINE void keep(apr_pool_t *p)
{
    for (int i = 0; i < 1000; i++)
        memset(apr_palloc(p, 100 + i % 10), 1, 100);
}
NOINLINE void again(apr_pool_t *p)
{
    for (int i = 0; i < 10; i++)
        memset(apr_pcalloc(p, 50), 1, 50);
}
NOINLINE void brief(apr_pool_t *p)
{
    for (int i = 0; i < 3000; i++)
        memset(apr_palloc(p, 200), 1, 200);
}
int main(void)
{
    apr_initialize();
    printf("ready\n");
    fflush(stdout);
    getchar();
    apr_pool_t *all = make(NULL), *request = make(all), *other = make(all);
    keep(all);
    for (int i = 0; i < 3; i++) {
        brief(request);
        brief(make(request));
        apr_pool_t *one = make(other);
        brief(make(one));
        apr_pool_clear(request);
        apr_pool_destroy(one);
    }
    again(request);
    printf("done\n");
    fflush(stdout);
    getchar();
    return 0;
}
"""


@test(beside=True)
def pools_apr():
    """Blocks of pools and their children in Debian's APR are exact, also after pools are cleared or
    destroyed."""
    found = glob.glob("/usr/lib/*/libapr-1.so.0")
    if not found:
        raise NotRunnable("libapr-1 is not installed")
    with place() as directory:
        program = compile_c(directory, APR, "-O1", "-Wl,--no-as-needed", found[0])
        expect(program, "gcc made no program")
        target = start([program])
        try:
            expect_equal(read_line(target, target.stdout), "ready\n", "the program")
            with Tracer("-p", target.pid, *EXACT) as tracer:
                target.stdin.write("\n")
                target.stdin.flush()
                expect_equal(read_line(target, target.stdout), "done\n", "the program")
                profile = tracer.stop().json()
        finally:
            end(target)
    expect_equal(losses(profile), {}, "losses")
    expect_equal(held(profile, "keep"), (1000 * 100 + 4500, 1000), "bytes and blocks of keep()")
    expect_equal(held(profile, "again"), (500, 10), "bytes and blocks of again()")
    expect_equal(profile["live_objects"], 1010 + 3, "blocks, and pools")


# The truth: PHP's own count. After the second round, these blocks stay: 500 strings, each of which
# fills a block of 1280 bytes; 400 objects of 72 bytes, in the size class of 80 bytes; a string of 3
# MB; and a string that grew to 30,000 bytes. Nothing stays of brief(). PHP's tables got room for
# all this in the first round.
PHP = r"""<?php
class Order { public $a; public $b; }
$kept = [];
function keep_strings($n) {
    global $kept;
    for ($i = 0; $i < $n; $i++) $kept[] = str_repeat("x", 1248);
}
function keep_objects($n) { global $kept; for ($i = 0; $i < $n; $i++) $kept[] = new Order; }
function keep_large() { global $kept; $kept[] = str_repeat("q", 3000000); }
function grow() {
    global $kept;
    $s = "";
    for ($i = 0; $i < 300; $i++) $s .= str_repeat("z", 100);
    $kept[] = $s;
}
function brief() { for ($i = 0; $i < 3000; $i++) $s = strrev(str_repeat("y", 700 + $i % 100)); }
echo "ready\n";
foreach ([2, 1] as $times) {
    fgets(STDIN);
    $before = memory_get_usage();
    keep_strings(500 * $times);
    keep_objects(400 + 1000 * ($times - 1));
    keep_large();
    grow();
    brief();
    echo memory_get_usage() - $before, "\n";
}
fgets(STDIN);
"""


def php_cli():
    php = shutil.which("php")
    if not php:
        raise NotRunnable("php-cli is not installed")
    return php


@contextlib.contextmanager
def php_script(text, **environment):
    """Yields a process of PHP's command line that runs the script."""
    with place() as directory:
        path = f"{directory}/script.php"
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        target = start([php_cli(), path], env={**os.environ, **environment})
        try:
            yield target
        finally:
            end(target)


def said(target, answer_to=None):
    """Sends a line to the program if one is given. Returns the program's next line."""
    if answer_to is not None:
        target.stdin.write(answer_to)
        target.stdin.flush()
    return read_line(target, target.stdout).strip()


def php_blocks(profile):
    """Live bytes and objects from PHP's pool."""
    stacks = [s for s in profile["stacks"] if s["frames"] and s["frames"][0].startswith("_e")]
    return sum(s["live_bytes"] for s in stacks), sum(s["live_objects"] for s in stacks)


@test(beside=True)
def pools_php():
    """The live bytes of a PHP script are what memory_get_usage() returns, except for the rounding
    of sizes. All kinds of blocks are seen: blocks of size classes, large blocks, huge blocks, and
    blocks that realloc has grown."""
    with php_script(PHP) as target:
        expect_equal(said(target), "ready", "the script")
        said(target, "\n")
        expect_words(probes_of(target.pid), r"^ +_emalloc_56 ", r"^ +shutdown_memory_manager ")
        with Tracer("-p", target.pid, *EXACT) as tracer:
            used = int(said(target, "\n"))
            profile = tracer.stop().json()
    expect(set(losses(profile)) <= BEGUN, "losses:", losses(profile))
    nbytes, objects = php_blocks(profile)
    # PHP counts 80 bytes for an object of 72 bytes, and whole pages for the two large blocks
    expect(8 * 400 <= used - nbytes < 8 * 400 + 2 * 4096,
           f"PHP counts {used} bytes, memtrace {nbytes}")
    expect_equal(objects, 500 + 400 + 2, "blocks")
    return f"PHP counts {used} bytes, memtrace {nbytes} in {objects} blocks"


PHP_SERVER = r"""<?php
$kept = [];
for ($i = 0; $i < 500; $i++) $kept[] = str_repeat("x", 1255) . strrev("abc");
if ($_SERVER["REQUEST_URI"] == "/stay") { echo str_repeat(" ", 10000); flush(); sleep(60); }
echo memory_get_usage();
"""


@test(beside=True)
def pools_php_requests():
    """When a request of a PHP server ends, all its blocks end. Blocks of a running request are
    live. In a run with a limit this pool is not probed, and the output says so."""
    with place() as directory:
        with open(f"{directory}/index.php", "w", encoding="utf-8") as file:
            file.write(PHP_SERVER)
        with socket.socket() as s:
            s.bind(("127.0.0.1", 0))
            port = s.getsockname()[1]
        target = start([php_cli(), "-S", f"127.0.0.1:{port}", "index.php"], cwd=directory,
                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

        def ask(path):
            client = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE_S)
            client.request("GET", path)
            answer = client.getresponse()
            return client, answer

        def answers():
            try:
                return int(ask("/")[1].read())
            except ConnectionError:
                return 0

        try:
            wait_until(answers, "the server answers")
            with Tracer("-p", target.pid, *EXACT) as tracer:
                for _ in range(10):
                    used = answers()
                ends = tracer.stop().json()
            with Tracer("-p", target.pid, *EXACT) as tracer:
                answers()
                client, answer = ask("/stay")
                answer.read(1)
                stays = tracer.stop().json()
                client.close()
            limited = memtrace("-p", target.pid, "-d", 1, "--json", "-f", "none")
        finally:
            end(target)
    expect(set(losses(ends)) <= BEGUN and set(losses(stays)) <= BEGUN, "losses:", losses(ends),
           losses(stays))
    expect_equal(php_blocks(ends), (0, 0), "live bytes and blocks when all requests have ended")
    nbytes, objects = php_blocks(stays)
    expect(500 * 1280 <= nbytes < used and objects >= 500,
           f"{nbytes} bytes in {objects} blocks of a request; PHP: {used}")
    expect_equal(limited.status, 0, limited)
    refused = json.loads(limited.out.splitlines()[0])["refused"]
    expect_words(str(refused), "zend_mm", "--max-overhead off")
    return f"{nbytes} bytes of a request that runs, {used} by PHP's own count"


# A script that keeps one more block in every 200th round, and frees all other blocks.
PHP_LEAK = r"""<?php
$kept = [];
function remember($i) { global $kept; $kept[] = str_repeat("o", 900); }
function work($i) { return strlen(strrev(str_repeat("x", 100 + $i % 900))); }
echo "ready\n";
for ($i = 0; $i < 200000000; $i++) {
    work($i);
    if ($i % 200 == 0) remember($i);
    if ($i % 2000 == 0) usleep(1000);
}
"""


@test(beside=True)
def pools_php_limited():
    """At the defaults, the pool of PHP's command line is probed, in windows if need be. If the pool
    is switched off, it is not mentioned."""
    with php_script(PHP_LEAK) as target:
        expect_equal(said(target), "ready", "the script")
        result = memtrace("-p", target.pid, "-d", 5, "-i", "16K", "--json", "-f", "none")
    expect_equal(result.status, 0, result)
    profile = json.loads(result.out.splitlines()[0])
    expect(not profile.get("refused"), "refused:", profile.get("refused"))
    expect(any(s["frames"] and s["frames"][0].startswith("_emalloc") for s in profile["stacks"]),
           "no block of PHP's pool:", profile["stacks"][:3])
    with php_script(PHP_LEAK, USE_ZEND_ALLOC="0") as target:
        expect_equal(said(target), "ready", "the script")
        expect("zend_mm" not in probes_of(target.pid), "the pool is probed, but not used")
