# SPDX-License-Identifier: BSD-2-Clause
"""Whole stacks in Debian's own servers, to which memtrace attaches while they work.

Each server runs in a directory of its own, on sockets there or on 127.0.0.1. It is given the same
load before, while and after it is traced. Every answer is checked, and at last the server must end
normally when it gets its signal. Debian's servers use glibc's malloc, mariadbd too. Only
redis-server does not: it gets glibc's malloc by preload.

The tests do not rely on the tracer for the ends of stacks. They read the code at the last address
of each stack. A stack may start at two places only: in _start, whose call is followed by a halt,
and at the start of a thread, whose call is followed by the system call that ends the thread. And
each frame must be a return address, so the instruction before it must be a call."""
import contextlib
import glob
import gzip
import hashlib
import http.client
import json
import os
import pwd
import re
import shutil
import signal
import socket
import subprocess

from harness import (PATIENCE_S, Failure, NotRunnable, Tracer, end, expect, expect_equal, losses,
                     need_tool, place, read_line, run, start, test, wait_until)
from test_processes import by_pid
from test_real import Redis, libc_path
from test_strange import stop_it

COMPLETE_PCT = 99  # per cent of the samples: at least this many stacks must be whole
SAMPLES = 300      # at least


# --- servers ---

@contextlib.contextmanager
def place_of(user, parent=None):
    """A temporary directory for one test. The directory belongs to a server's user."""
    try:
        entry = pwd.getpwnam(user)
    except KeyError:
        raise NotRunnable(f"there is no user {user}") from None
    with place(parent) as directory:
        shutil.chown(directory, entry.pw_uid, entry.pw_gid)
        yield directory


def as_user(user):
    """Options for start() and run() that run a program as this user."""
    entry = pwd.getpwnam(user)
    return {"user": entry.pw_uid, "group": entry.pw_gid, "extra_groups": []}


class Server:
    """A process that serves from its directory, where its log is, until a signal asks it to end.
    SIGKILL would leave its children running."""

    def __init__(self, directory, args, stop_by=signal.SIGTERM, **options):
        self.stop_by = stop_by
        self.log_path = os.path.join(directory, "server.log")
        with open(self.log_path, "wb") as log:
            self.process = start(args, stdin=subprocess.DEVNULL, stdout=log,
                                 stderr=subprocess.STDOUT, cwd=directory, start_new_session=True,
                                 **options)
        self.pid = self.process.pid

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.send_signal(self.stop_by)
            try:
                self.process.wait(20)
            except subprocess.TimeoutExpired:
                os.killpg(self.pid, signal.SIGKILL)
        end(self.process)

    def log(self):
        with open(self.log_path, encoding="utf-8", errors="replace") as log:
            return log.read()

    def wait_for(self, answers):
        wait_until(lambda: self.process.poll() is not None or answers(),
                   f"{self.process.args[0]} answers")
        expect(self.process.poll() is None, "the server ended:", self.log()[-600:])

    def stop(self):
        """Asks the server to end, and checks that it ends as it does untraced."""
        expect(self.process.poll() is None, "the server ended:", self.log()[-600:])
        self.process.send_signal(self.stop_by)
        try:
            status = self.process.wait(PATIENCE_S)
        except subprocess.TimeoutExpired:
            raise Failure(f"{self.process.args[0]} does not end") from None
        expect_equal(status, 0, f"status of {self.process.args[0]}: {self.log()[-600:]}")


def listens(path):
    with socket.socket(socket.AF_UNIX) as s:
        s.settimeout(PATIENCE_S)
        return s.connect_ex(path) == 0


class UnixHTTP(http.client.HTTPConnection):
    def __init__(self, path):
        super().__init__("localhost", timeout=PATIENCE_S)
        self.path = path

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(PATIENCE_S)
        self.sock.connect(self.path)

    def ask(self, method, target, body=None, **headers):
        """Returns the body of the answer, whose status must be 200."""
        headers = {name.replace("_", "-"): value for name, value in headers.items()}
        self.request(method, target, body, headers)
        answer = self.getresponse()
        body = answer.read()
        expect_equal(answer.status, 200, f"status of {method} {target}")
        if answer.getheader("content-encoding") == "gzip":
            body = gzip.decompress(body)
        return body


# --- stacks, and where they end ---

# The code after the call in _start: hlt. The code after the call in clone and clone3: mov
# %rax,%rdi; mov $SYS_exit,%eax; syscall.
STARTS = {b"\xf4": "process", b"\x48\x89\xc7\xb8\x3c\x00\x00\x00\x0f\x05": "thread"}


class Stacks:
    """The stacks of a .heap file: [addresses, samples]. samples is the number of objects that the
    file has for the stack. This is the number of samples if the interval is 1 or all blocks have
    one size. Otherwise it is nearly this number."""

    def __init__(self, path):
        with open(path, encoding="utf-8", errors="replace") as file:
            head, maps = file.read().split("MAPPED_LIBRARIES:\n")
        self.stacks = [[[int(a, 16) for a in addresses.split()], int(n)] for addresses, n in
                       re.findall(r"^@((?: 0x[0-9a-f]+)+)\n +t\*: \d+: \d+ \[(\d+): \d+\]", head,
                                  re.M)]
        self.maps = [(int(low, 16), int(high, 16), int(off, 16), path) for low, high, off, path in
                     re.findall(r"^([0-9a-f]+)-([0-9a-f]+) ..x. ([0-9a-f]+) \S+ \d+ +(/.*)$", maps,
                                re.M)]
        self.known = {}  # address -> code

    def code(self, addr):
        """The 8 bytes before addr and the 16 from addr on; None if they are in no file."""
        if addr not in self.known:
            self.known[addr] = None
            for low, high, off, path in self.maps:
                if low + 8 <= addr < high:
                    with open(path, "rb") as file:
                        file.seek(addr - 8 - low + off)
                        self.known[addr] = file.read(24)
        return self.known[addr]

    def start_at(self, addr):
        """Returns what starts at addr: a process or a thread. None: neither does."""
        code = (self.code(addr) or b"")[8:]
        return next((what for after, what in STARTS.items() if code.startswith(after)), None)

    def returns_to(self, addr):
        """Is the instruction before addr a call (e8 and a distance, or ff /2 in one of its
        lengths)? Also true for code that is in no file, because nothing is known of it."""
        code = self.code(addr)
        return not code or code[3] == 0xe8 or any(
            code[8 - n] == 0xff and code[9 - n] >> 3 & 7 == 2 for n in (2, 3, 4, 6, 7))

    def samples(self):
        return sum(n for _, n in self.stacks)

    def depth(self):
        return sum(len(ips) * n for ips, n in self.stacks) / max(1, self.samples())

    def pct(self, is_such):
        return 100 * sum(n for ips, n in self.stacks if is_such(ips)) / max(1, self.samples())


def check_whole(profile, names, starts=("process", "thread")):
    """names: patterns, each of which must match a frame of some stack that holds memory. starts:
    the kinds of start ("process", "thread") that must be found."""
    lost = {name: n for name, n in profile["lost"].items() if n}
    expect_equal(losses(profile), {}, "losses")
    expect(profile["samples"] >= SAMPLES, "only", profile["samples"], "samples")
    share = profile["stacks_complete_pct"]
    expect(share is not None and share >= COMPLETE_PCT, share, "% complete:", lost)

    stacks = Stacks(next(path for path in profile["files"] if path.endswith(".heap")))
    whole = stacks.pct(lambda ips: stacks.start_at(ips[-1]))
    expect(whole >= COMPLETE_PCT, whole, "% end where something starts, others at",
           {hex(ips[-1]) for ips, _ in stacks.stacks if not stacks.start_at(ips[-1])})
    called = stacks.pct(lambda ips: all(stacks.returns_to(addr) for addr in ips[1:]))
    expect(called >= COMPLETE_PCT, called, "% hold nothing but return addresses, others",
           {hex(addr) for ips, _ in stacks.stacks for addr in ips[1:]
            if not stacks.returns_to(addr)})
    seen = {stacks.start_at(ips[-1]) for ips, _ in stacks.stacks}
    for what in starts:
        expect(what in seen, "no stack begins with the start of a", what)
    frames = {frame for stack in profile["stacks"] for frame in stack["frames"]}
    for name in names:
        expect(any(re.fullmatch(name, frame) for frame in frames), "no", name, "in", sorted(frames))
    return (f"{share:.2f} % of {profile['samples']} samples in {len(stacks.stacks)} stacks of "
            f"{stacks.depth():.1f} frames; cost {profile['overhead_pct']:.1f} %; {lost}")


def trace_load(directory, pid, interval, load):
    """Runs the load untraced, traced, and untraced again. Returns the profile."""
    load()
    with Tracer("-p", pid, "--max-overhead", "off", "-i", interval, "--json",
                "-o", directory + "/out") as tracer:
        load()
        profile = tracer.stop().json()
    load()
    return profile


# --- nginx ---

NGINX = """
daemon off; master_process on; worker_processes %d; user www-data;
pid nginx.pid; error_log error.log notice;
events { worker_connections 64; }
http {
    access_log access.log;
    client_body_temp_path body; proxy_temp_path proxy; fastcgi_temp_path fastcgi;
    uwsgi_temp_path uwsgi; scgi_temp_path scgi;
    keepalive_requests 1000000;
    server {
        listen 127.0.0.1:%d;  # ab knows no others
        listen unix:%s/http.sock;
        root %s;
        gzip on; gzip_types text/plain; gzip_comp_level 6;
        location = /pid { return 200 "$pid"; }
    }
}
"""


@contextlib.contextmanager
def nginx(workers, files):
    """Yields the master process, its directory, its port and socket. files: name below /files ->
    contents."""
    # The test binds a port and passes it on to nginx, in the way in which an old nginx passes its
    # ports to a new nginx.
    with place_of("www-data") as directory, socket.create_server(("127.0.0.1", 0)) as bound:
        os.chmod(directory, 0o755)
        os.mkdir(directory + "/files", 0o755)
        for name, text in files.items():
            with open(f"{directory}/files/{name}", "w", encoding="utf-8") as file:
                file.write(text)
        port, sock = bound.getsockname()[1], directory + "/http.sock"
        with open(directory + "/nginx.conf", "w", encoding="utf-8") as file:
            file.write(NGINX % (workers, port, directory, directory))
        with Server(directory, [need_tool("nginx"), "-p", directory, "-c", "nginx.conf",
                                "-e", "stderr"], stop_by=signal.SIGQUIT, pass_fds=[bound.fileno()],
                    env={**os.environ, "NGINX": f"{bound.fileno()};"}) as server:
            server.wait_for(lambda: listens(sock))
            yield server, directory, port, sock


@test(beside=True)
def servers_nginx():
    ab = need_tool("ab")
    files = {f"{i}.txt": "".join(f"{i} {k * k} some text\n" for k in range(200 * i + 1))
             for i in range(8)}
    with nginx(1, files) as (server, directory, port, sock):
        asked, kept = UnixHTTP(sock), []
        worker = int(asked.ask("GET", "/pid"))
        expect(worker != server.pid, "the worker is the master")

        def get_files(connection):
            for name, text in files.items():
                for encoding in ("identity", "gzip"):
                    got = connection.ask("GET", "/files/" + name, accept_encoding=encoding)
                    expect_equal(got.decode(), text, f"{name}, {encoding}")

        def load():
            for header in ("Accept-Encoding: gzip", "Accept-Encoding: identity"):
                for options in (["-k"], []):
                    result = run([ab, "-q", *options, "-n", 800, "-c", 8, "-H", header,
                                  f"http://127.0.0.1:{port}/files/5.txt"])
                    expect_equal(result.status, 0, result)
                    expect_equal(re.findall(r"^(?:Complete|Failed) requests: +(\d+)|^(Non-2xx)",
                                            result.out, re.M), [("800", ""), ("0", "")],
                                 "ab's requests")
            kept.append(UnixHTTP(sock))  # so that the worker keeps its memory for this connection
            get_files(kept[-1])

        profile = trace_load(directory, worker, 1, load)
        told = check_whole(profile, ["ngx_create_pool", "ngx_event_accept",
                                     "ngx_process_events_and_timers", "ngx_spawn_process",
                                     "main"], ["process"])
        expect_equal(int(asked.ask("GET", "/pid")), worker, "the worker afterwards")
        for connection in [asked, *kept]:
            connection.close()
        server.stop()
        return told


def children(pid):
    with open(f"/proc/{pid}/task/{pid}/children", encoding="utf-8") as file:
        return {int(child) for child in file.read().split()}


def profiled(profiles, pid):
    expect(pid in profiles, f"no profile of pid {pid}; there are", sorted(profiles))
    expect_equal(losses(profiles[pid]), {}, f"pid {pid}: losses")
    return profiles[pid]


def holds(profile, *names):
    """Objects and bytes of the stacks that contain these frames in a row."""
    at = [s for s in profile["stacks"] if ";".join(names) in ";".join(s["frames"])]
    return sum(s["live_objects"] for s in at), sum(s["live_bytes"] for s in at)


def nginx_workers(*selection):
    """One of two workers is killed, and another takes its place. Each worker has its own profile.
    The truth is the number of connections that each has accepted, because every connection has a
    pool."""
    with nginx(2, {}) as (server, _, _, sock), contextlib.ExitStack() as kept:
        wait_until(lambda: len(children(server.pid)) == 2, "two workers")
        first, second = children(server.pid)

        def connect(worker, others, n):
            """Opens n connections to a worker. Meanwhile the other workers are stopped, so that
            they accept no connection."""
            for pid in others:
                stop_it(pid)
            for _ in range(n):
                connection = UnixHTTP(sock)
                kept.callback(connection.close)
                expect_equal(int(connection.ask("GET", "/pid")), worker, "who accepts")
            for pid in others:
                os.kill(pid, signal.SIGCONT)

        options = selection or ("-F", "-p", server.pid)
        with Tracer(*options, "-i", "1", "--json", "-f", "none") as tracer:
            connect(first, [second], 5)
            connect(second, [first], 7)
            os.kill(second, signal.SIGKILL)
            wait_until(lambda: len(children(server.pid) - {first, second}) == 1, "a new worker")
            third, = children(server.pid) - {first, second}
            connect(third, [first], 11)
            profiles = by_pid(tracer.stop().out)
        for worker, n in ((first, 5), (second, 7), (third, 11)):
            profile = profiled(profiles, worker)
            expect_equal(holds(profile, "ngx_create_pool", "ngx_event_accept")[0], n,
                         f"connections of worker {worker}")
        kept.close()
        server.stop()


@test(beside="wide")
def servers_nginx_workers_by_name():
    nginx_workers("--comm", "nginx")


@test(beside="wide")
def servers_nginx_workers_of_master():
    nginx_workers()


# --- postgres ---

# The directory of Debian's postgres. PATH may lead to another one.
POSTGRES = max(glob.glob("/usr/lib/postgresql/*/bin"), default="/usr/lib/postgresql/none/bin")
ROWS = 3000


class Psql:
    """A session. The server has a process of its own for it."""

    def __init__(self, path):
        self.process = start([f"{POSTGRES}/psql", "-XqAt", "-v", "ON_ERROR_STOP=1", "-h", path,
                              "-U", "postgres", "postgres"])
        self.pid = int(self.ask("select pg_backend_pid();"))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        end(self.process)

    def ask(self, sql):
        self.process.stdin.write(sql + "\n\\echo :END\n")
        self.process.stdin.flush()
        lines = []
        while True:
            try:
                lines.append(read_line(self.process, self.process.stdout))
            except Failure as e:
                self.process.kill()  # so that the read of its errors below ends
                raise Failure(f"{sql}: {e} {self.process.stderr.read()}") from None
            if lines[-1] == ":END\n":
                return "".join(lines[:-1]).strip()


def postgres_queries(i):
    """Yields (query, answer) of one round."""
    rows = range(1, ROWS + 1)
    digest = [hashlib.md5(str(n).encode()).hexdigest() for n in rows]
    some = [n for n in rows if n % 100 == i % 100]
    yield (f"select count(*), sum(i) from t where g = {i % 100};", f"{len(some)}|{sum(some)}")
    yield ("select md5(string_agg(s, '' order by i desc)) from t;",
           hashlib.md5("".join(reversed(digest)).encode()).hexdigest())
    yield (f"select count(*) from t a join t b on a.i = b.i + {i} where a.s <> b.s;",
           str(ROWS - i))
    yield (f"select count(*) from (select distinct substr(s, 1, 3) from t where i > {i}) x;",
           str(len({d[:3] for d in digest[i:]})))
    yield (f"select jsonb_array_length(jsonb_agg(to_jsonb(t))) from t where i <= {10 * i};",
           str(10 * i))
    yield (f"do $$ begin perform 1 / (i - {i}) from t; exception when division_by_zero then "
           f"update t set s = s where i = {i}; end $$;", "")
    yield (f"begin; savepoint a; insert into t values ({-i}, 'x', 1); delete from t where i < 0; "
           "rollback to a; commit;", "")
    yield (f"prepare p{i}(int) as select i, rank() over (order by s) from t where i = $1; "
           f"execute p{i}({i}); deallocate p{i};", f"{i}|1")


@contextlib.contextmanager
def postgres(root=""):
    """root: a root directory with the server of another release. Clients are this machine's."""
    need_tool(f"{POSTGRES}/postgres")
    with place_of("postgres", root + "/tmp" if root else None) as directory:
        inside, programs, prefix, user = directory[len(root):], POSTGRES, [], as_user("postgres")
        if root:
            entry = pwd.getpwnam("postgres")
            with open(root + "/etc/passwd", "w", encoding="utf-8") as file:
                file.write(f"postgres:x:{entry.pw_uid}:{entry.pw_gid}::/:/bin/sh\n")
            programs = max(glob.glob(root + "/usr/lib/postgresql/*/bin"))[len(root):]
            prefix, user = ["chroot", f"--userspec={entry.pw_uid}:{entry.pw_gid}",
                            "--groups=", root], {}
        result = run([*prefix, f"{programs}/initdb", "-D", inside + "/data", "-U", "postgres",
                      "-A", "trust", "-N", "--locale=C"],
                     cwd=directory, **user)
        expect_equal(result.status, 0, result)
        with Server(directory, [*prefix, f"{programs}/postgres", "-D", inside + "/data",
                                "-k", inside, "-c", "listen_addresses=", "-c", "fsync=off"],
                    stop_by=signal.SIGINT, **user) as server:
            server.wait_for(lambda: run([f"{POSTGRES}/pg_isready", "-q", "-h",
                                         directory]).status == 0)
            yield server, directory


@test(beside=True)
def servers_postgres():
    with postgres() as (server, directory):
        with Psql(directory) as session:
            session.ask("create table t as select i, md5(i::text) s, i % 100 g from "
                        f"generate_series(1, {ROWS}) i; create index on t(g); analyze t;")
            rounds = iter(range(1, 1000))

            def load():
                for _ in range(4):
                    for query, answer in postgres_queries(next(rounds)):
                        expect_equal(session.ask(query), answer, query)
                # plans that are live at the end
                session.ask(f"prepare kept{next(rounds)} as select * from t order by s;")

            profile = trace_load(directory, session.pid, 64, load)
            told = check_whole(profile, ["palloc.*|MemoryContextAlloc.*",
                                         "PostgresMain", "PostmasterMain", "main"], ["process"])
        server.stop()
    return told


KEPT = 3_000_000  # bytes of the row that each of the smaller cursors holds


def postgres_sessions(*selection):
    """A session that begins before the run, one that begins during the run, and one that ends
    during the run each have their own profile. The truth is the size of the row that each session's
    cursor holds."""
    with postgres() as (server, directory), contextlib.ExitStack() as sessions:
        def keep(session, size):
            session.ask("set work_mem = '64MB'; begin; declare kept cursor with hold for "
                        f"select repeat('x', {size}); commit;")

        before = sessions.enter_context(Psql(directory))
        options = selection or ("-F", "-p", server.pid)
        with Tracer(*options, "-i", "1", "--json", "-f", "none") as tracer:
            keep(before, KEPT)
            meanwhile = sessions.enter_context(Psql(directory))
            keep(meanwhile, 2 * KEPT)
            with Psql(directory) as short:
                keep(short, KEPT)
                short.ask("close kept;")
            wait_until(lambda: short.pid not in children(server.pid), "the session's end")
            profiles = by_pid(tracer.stop().out)
        for session, size in ((before, KEPT), (meanwhile, 2 * KEPT), (short, 0)):
            held = sum(s["live_bytes"] for s in profiled(profiles, session.pid)["stacks"]
                       if "PersistHoldablePortal" in s["frames"])
            expect(size <= held <= size + 65536, f"pid {session.pid} holds {held} of {size} bytes")
        sessions.close()
        server.stop()


@test(beside="wide")
def servers_postgres_sessions_by_name():
    postgres_sessions("--comm", "postgres")


@test(beside="wide")
def servers_postgres_sessions_of_master():
    postgres_sessions()


# --- memcached ---

class Memcache:
    def __init__(self, path):
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.settimeout(PATIENCE_S)
        self.socket.connect(path)
        self.answers = self.socket.makefile("rb")

    def close(self):
        self.answers.close()
        self.socket.close()

    def ask(self, line, data=None):
        """Sends a request; returns the first line of the answer."""
        self.socket.sendall(line.encode() + b"\r\n" + (b"" if data is None else data + b"\r\n"))
        return self.answers.readline().decode().strip()

    def block(self, line):
        """Sends a request; returns the lines of the answer up to END."""
        lines = [self.ask(line).encode()]
        while lines[-1] != b"END":
            lines.append(self.answers.readline().strip())
            expect(lines[-1], line, "is not answered:", lines)
        return lines[:-1]


@test(beside=True)
def servers_memcached():
    with place_of("memcache") as directory:
        path = directory + "/memcached.sock"
        with Server(directory, [need_tool("memcached"), "-s", path, "-t", 4, "-m", 64],
                    **as_user("memcache")) as server:
            server.wait_for(lambda: listens(path))

            def set_get_delete(client, key, size):
                value = (key * (size // len(key) + 1))[:size].encode()
                expect_equal(client.ask(f"set {key} 5 0 {size}", value), "STORED", key)
                expect_equal(client.block(f"get {key} none"),
                             [f"VALUE {key} 5 {size}".encode(), value], key)
                if size % 3:
                    expect_equal(client.ask(f"delete {key}"), "DELETED", key)
                    expect_equal(client.block(f"get {key}"), [], key)

            kept = []

            def load():
                for wave in range(4):
                    clients = [Memcache(path) for _ in range(40)]
                    for i in range(400):
                        set_get_delete(clients[i % 40], f"key{wave}.{i}",
                                       (i * 7919 + wave) % 20000 + 1)
                    for client in clients:
                        expect(len(client.block("stats")) > 20, "stats")
                        client.block("stats items")
                        client.block("stats slabs")
                    # so that the thread keeps its memory for this client
                    kept.append(clients.pop())
                    for client in clients:
                        client.close()

            profile = trace_load(directory, server.pid, 1, load)
            told = check_whole(profile, ["event_base_loop"], ["thread"])
            for client in kept:
                client.close()
            server.stop()
        return told


# --- mariadb ---

SQL_ROWS = 2000


@test(beside=True)
def servers_mariadb():
    slap, client = need_tool("mariadb-slap"), need_tool("mariadb")
    with place_of("mysql") as directory:
        sock = directory + "/mariadb.sock"
        os.mkdir(directory + "/data")
        shutil.chown(directory + "/data", "mysql", "mysql")
        with Server(directory, [need_tool("mariadbd"), "--no-defaults", "--datadir=" + directory +
                                "/data", "--socket=" + sock, "--skip-networking",
                                "--skip-grant-tables", "--innodb-flush-log-at-trx-commit=0"],
                    **as_user("mysql")) as server:
            server.wait_for(lambda: listens(sock))

            def ask(sql):
                result = run([client, "--no-defaults", "-S", sock, "-N", "-B"], input=sql)
                expect_equal(result.status, 0, result)
                return result.out

            ask("create database test; use test; create table t(i int primary key, s varchar(40), "
                "g int, index(g)) engine=InnoDB; "
                f"insert into t select seq, md5(seq), seq % 100 from seq_1_to_{SQL_ROWS};")

            numbers = iter(range(1000))

            def queries(i):
                digest = [hashlib.md5(str(n).encode()).hexdigest() for n in range(1, SQL_ROWS + 1)]
                return (
                    f"use test; select count(*), sum(i) from t where g = {i};"
                    "select length(group_concat(s order by i desc)) from t where i <= 20;"
                    f"select count(*) from t a join t b on a.i = b.i + {i} where a.s <> b.s;"
                    "select count(*) from (select distinct substr(s, 1, 3) from t) x;"
                    f"begin; insert into t values ({-i}, 'x', 1); delete from t where i < 0; "
                    "rollback; create temporary table u as select * from t order by s; "
                    "select count(*) from u; drop table u; "
                    f"""select json_value('{{"a": [1, {i}]}}', '$.a[1]');"""
                    f"select regexp_replace('a{i}b', '[0-9]+', '-');",
                    "\n".join([f"20\t{sum(n for n in range(1, SQL_ROWS + 1) if n % 100 == i)}",
                               str(20 * 32 + 19), str(SQL_ROWS - i),
                               str(len({d[:3] for d in digest})), str(SQL_ROWS), str(i),
                               "a-b\n"]))

            def load():
                result = run([slap, "--no-defaults", "-S", sock, "--auto-generate-sql",
                              "--auto-generate-sql-load-type=mixed", "--concurrency=4",
                              "--auto-generate-sql-write-number=50", "--number-of-queries=1200"])
                expect_equal(result.status, 0, result)
                for i in range(1, 21):
                    sql, answer = queries(i)
                    expect_equal(ask(sql), answer, sql)
                # the server's data about a new table is live at the end
                ask(f"use test; create table kept{next(numbers)} like t;")

            profile = trace_load(directory, server.pid, 1, load)
            told = check_whole(profile, ["my_malloc", "dispatch_command",
                                         "do_handle_one_connection"], ["thread"])
            server.stop()
        return told


# --- redis ---

@test(beside=True)
def servers_redis():
    benchmark = need_tool("redis-benchmark")
    with place() as directory, Redis(directory, libc_path()) as redis:
        def load():
            result = run([benchmark, "-s", redis.path, "-q", "-P", 4, "-r", 1000, "-d", 100, "-n",
                          4000, "-t", "set,get,incr,lpush,rpop,sadd,hset,spop,zadd,zpopmin,"
                          "lrange_100,mset"])
            expect_equal(result.status, 0, result)
            expect("error" not in (result.out + result.err).lower(), result.out, result.err)
            expect(len(re.findall(r": [\d.]+ requests per second", result.out)) >= 12, result.out)
            for i in range(200):
                expect_equal(redis.ask("EVAL", "redis.call('set', KEYS[1], ARGV[1]) return "
                                       "redis.call('get', KEYS[1]) .. 'x'", 1, "lua", i),
                             f"{i}x", "the script's answer")

        profile = trace_load(directory, redis.pid, "4K", load)
        return check_whole(profile, ["processCommand", "aeMain", "main"], ["process"])


# --- node ---

NODE = """
const http = require('http'), zlib = require('zlib'), crypto = require('crypto');
const kept = [];
const server = http.createServer((request, response) => {
    const parts = [];
    request.on('data', part => parts.push(part));
    request.on('end', () => {
        const asked = JSON.parse(Buffer.concat(parts));
        const rows = Array.from({length: asked.n}, (_, i) => ({i, text: 'row ' + i * i}));
        const body = JSON.stringify({
            rows,
            sha: crypto.createHash('sha256').update(Buffer.alloc(asked.n, 'x')).digest('hex'),
            back: zlib.inflateSync(zlib.deflateSync(Buffer.from(asked.text))).toString(),
        });
        kept.push(Buffer.alloc(5000, asked.n));
        if (kept.length > 50)
            kept.shift();
        if (asked.n % 2)
            response.end(body);
        else
            zlib.gzip(body, (error, zipped) => {
                response.setHeader('content-encoding', 'gzip');
                response.end(zipped);
            });
    });
});
process.on('SIGTERM', () => { server.close(() => process.exit(0)); server.closeAllConnections(); });
// on a busy machine a connection may rest for longer than node's usual limits
server.keepAliveTimeout = server.headersTimeout = server.requestTimeout = 0;
server.listen(process.argv[2]);
"""


@test(beside=True)
def servers_node():
    with place() as directory:
        sock, script = directory + "/http.sock", directory + "/server.js"
        with open(script, "w", encoding="utf-8") as file:
            file.write(NODE)
        with Server(directory, [need_tool("/usr/bin/node"), script, sock]) as server:
            server.wait_for(lambda: listens(sock))
            clients = [UnixHTTP(sock) for _ in range(4)]

            def ask(client, n):
                asked = {"n": n, "text": f"text {n} " * n}
                answer = json.loads(client.ask("POST", "/", json.dumps(asked)))
                wanted = {"rows": [{"i": i, "text": f"row {i * i}"} for i in range(n)],
                          "sha": hashlib.sha256(b"x" * n).hexdigest(), "back": asked["text"]}
                expect_equal(answer, wanted, f"answer for {n}")

            def load():
                for i in range(600):
                    ask(clients[i % 4], 1 + i % 200)

            profile = trace_load(directory, server.pid, "4K", load)
            told = check_whole(profile, ["node::.*", "v8::.*", "uv_run", "_start"])
            for client in clients:
                client.close()
            server.stop()
        return told
