# SPDX-License-Identifier: BSD-2-Clause
"""A receiver of pushed profiles: Pyroscope's /ingest and push API, and OTLP over HTTP. It reads
them with the protocols' own schemas. A test chooses whether the receiver accepts a request, answers
with an error, or does not answer."""
import collections
import gzip
import http.server
import sys
import tempfile
import threading
import time
import urllib.parse

from harness import ROOT, NotRunnable, expect, expect_equal, imported, need_tool, run

# One request that was received.
Request = collections.namedtuple("Request", "at path query headers body status")


def _schemas():
    """The modules that protoc makes of tests/proto."""
    if not imported("google.protobuf"):
        raise NotRunnable("python3-protobuf is not installed")
    if "otlp_profiles_pb2" not in sys.modules:
        with tempfile.TemporaryDirectory(prefix="memtrace-proto-") as directory:
            made = run([need_tool("protoc"), f"--proto_path={ROOT}/tests/proto",
                        f"--python_out={directory}",
                        "otlp_profiles.proto", "pprof.proto", "pyroscope_push.proto"])
            expect_equal(made.status, 0, made)
            sys.path.insert(0, directory)
            try:
                __import__("otlp_profiles_pb2")
                __import__("pprof_pb2")
                __import__("pyroscope_push_pb2")
            finally:
                sys.path.remove(directory)
    return sys.modules["otlp_profiles_pb2"], sys.modules["pprof_pb2"]


def read_pprof(body):
    """(types, {stack: [value by type]}, profile): a stack is its functions' names, the leaf
    first."""
    profile = _schemas()[1].Profile()
    profile.ParseFromString(gzip.decompress(body))
    names = {function.id: profile.string_table[function.name] for function in profile.function}
    frames = {place.id: tuple(names[line.function_id] for line in place.line)
              for place in profile.location}
    types = [(profile.string_table[t.type], profile.string_table[t.unit])
             for t in profile.sample_type]
    stacks = collections.defaultdict(lambda: [0] * len(types))
    for sample in profile.sample:
        stack = sum((frames[i] for i in sample.location_id), ())
        expect_equal(len(sample.value), len(types), "values of a sample")
        stacks[stack] = [a + b for a, b in zip(stacks[stack], sample.value)]
    return types, dict(stacks), profile


def read_push(body):
    """({label: value}, id, pprof file) of a request of Pyroscope's push API."""
    _schemas()
    request = sys.modules["pyroscope_push_pb2"].PushRequest()
    request.ParseFromString(body)
    [series] = request.series
    [sample] = series.samples
    names = [label.name for label in series.labels]
    expect_equal(names, sorted(set(names)), "labels, in order and each once")
    return {label.name: label.value for label in series.labels}, sample.ID, sample.raw_profile


def _value(any_value):
    return getattr(any_value, any_value.WhichOneof("value"))


def read_otlp(body):
    """(resource, {type: {stack: value}}, [Profile], request)"""
    request = _schemas()[0].ExportProfilesServiceRequest()
    request.ParseFromString(gzip.decompress(body))
    tables = request.dictionary
    text = tables.string_table
    for table in (tables.mapping_table, tables.location_table, tables.function_table,
                  tables.link_table, tables.attribute_table, tables.stack_table):
        expect(table and not table[0].ListFields(), "the first entry of a table is to be empty:",
               table[:1])
    expect_equal(text[0], "", "the first text")
    [of_resource] = request.resource_profiles
    [of_scope] = of_resource.scope_profiles
    expect_equal(of_scope.scope.name, "memory", "name of the scope")
    resource = {a.key: _value(a.value) for a in of_resource.resource.attributes}
    types = {}
    for profile in of_scope.profiles:
        stacks = collections.Counter()
        for sample in profile.samples:
            places = [tables.location_table[i]
                      for i in tables.stack_table[sample.stack_index].location_indices]
            [value] = sample.values
            stacks[tuple(text[tables.function_table[line.function_index].name_strindex]
                         for place in places for line in place.lines)] += value
            for place in places:
                expect_equal([(text[a.key_strindex], _value(a.value)) for a in map(
                    tables.attribute_table.__getitem__, place.attribute_indices)],
                             [("profile.frame.type", "native")], "attributes of a location")
        types[text[profile.sample_type.type_strindex],
              text[profile.sample_type.unit_strindex]] = dict(stacks)
        expect_equal((text[profile.period_type.type_strindex],
                      text[profile.period_type.unit_strindex]),
                     ("memory", "bytes"), "period")
        expect(profile.period > 0, "no period")
    return resource, types, of_scope.profiles, request


def read_name(name):
    """(application, labels) of "app{name=value,...}", by Pyroscope's grammar, which has no
    quotes."""
    app, brace, rest = name.partition("{")
    expect(brace and rest.endswith("}") and "}" not in rest[:-1], "no name of a series:", name)
    labels = {}
    for part in rest[:-1].split(","):
        key, _, value = part.partition("=")
        expect(key and key not in labels, "label", key, "in", name)
        labels[key.strip()] = value.strip()
    return app, labels


class Receiver:
    """mode: the status to answer, with the headers of answer_headers; or "hang": the receiver does
    not answer, and closes the connection when the mode changes."""

    def __init__(self):
        self.mode, self.answer_headers = 200, {}
        self.requests = []  # each a Request; .status: the status of the answer, or "hung"
        self.hanging = 0
        receiver = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self):
                body = self.rfile.read(int(self.headers["Content-Length"]))
                url = urllib.parse.urlsplit(self.path)
                mode = receiver.mode
                request = Request(time.monotonic(), url.path,
                                  dict(urllib.parse.parse_qsl(url.query)), dict(self.headers), body,
                                  "hung" if mode == "hang" else mode)
                receiver.requests.append(request)
                if mode == "hang":
                    receiver.hanging += 1
                    while receiver.mode == "hang":
                        time.sleep(0.01)
                    receiver.hanging -= 1
                    self.close_connection = True
                    return
                self.send_response(mode)
                for name, value in receiver.answer_headers.items():
                    self.send_header(name, value)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *args):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.server.handle_error = lambda *_: None
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"
        self.thread = threading.Thread(target=self.server.serve_forever, args=(0.05,), daemon=True)
        self.thread.start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.mode = 503
        self.server.shutdown()
        self.server.server_close()

    def taken(self):
        return [r for r in self.requests if r.status == 200]
