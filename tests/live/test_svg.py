# SPDX-License-Identifier: BSD-2-Clause
"""The flame graph in a real browser: its boxes, and how it reacts to clicks, keys and searches.

Screenshots stay in the directory that MEMTRACE_SCREENSHOTS names, if it is set."""
import base64
import contextlib
import functools
import hashlib
import http.server
import os
import re
import threading
import xml.etree.ElementTree as ElementTree

from browser import BACKSPACE, DOWN, ENTER, ESCAPE, RIGHT, Browser
from harness import (ROOT, NotRunnable, expect, expect_equal, expect_words, memtrace, place, run,
                     test, trace_script)

EMIT = os.path.join(ROOT, "build", "check", "golden", "emit_svg")
SVG = "{http://www.w3.org/2000/svg}"

# Runs in the page. Returns the visible boxes with this name, in screen coordinates. Line i of the
# element "boxes" has the figures of the i-th rectangle. The second figure says which line of
# "names" has the box's name.
BOXES = """
const lines = (id) => document.getElementById(id).textContent.split("\\n").filter((line) => line);
const names = lines("names").map((line) => line.split("\\t")[0]);
const figures = lines("boxes").map((line) => line.split(" ").map(Number));
const rects = document.querySelectorAll("#rows rect");
return figures.map((f, i) =>
        [i ? f[1] < 0 ? `(${-f[1]} smaller)` : names[f[1]] : "all", rects[i], f])
    .filter(([name, rect]) => name === arguments[0] && rect.getBoundingClientRect().width > 0)
    .map(([, rect, f]) => {
        const r = rect.getBoundingClientRect();
        return {x: r.x, y: r.y, width: r.width, height: r.height,
            classes: rect.getAttribute("class") || "", fill: getComputedStyle(rect).fill,
            bytes: f[2]};
    });
"""
LABELS = """
return Array.from(document.querySelectorAll("#labels text"), (text) => {
    const r = text.getBoundingClientRect();
    return {text: text.textContent, x: r.x, y: r.y, width: r.width};
});
"""
TIP = """
const tip = document.getElementById("tip");
return tip.getAttribute("display") === "none" ? "" :
    Array.from(tip.querySelectorAll("tspan"), (line) => line.textContent).join("\\n");
"""


class Page:
    """An open flame graph."""

    def __init__(self, browser, url):
        self.browser = browser
        browser.go(url)
        browser.until("return document.documentElement.classList.contains('live');",
                      what="the script")

    def boxes(self, name):
        return self.browser.run(BOXES, name)

    def box(self, name):
        found = self.boxes(name)
        expect_equal(len(found), 1, f"boxes of {name}")
        return found[0]

    def click(self, name):
        """Zooms to the frame."""
        box = self.box(name)
        before = self.browser.run("return location.hash;")
        self.browser.move(box["x"] + min(box["width"] / 2, 200), box["y"] + 8, click=True)
        self.browser.until("return location.hash !== arguments[0];", before, what=f"zoom to {name}")
        self.settle()

    def settle(self):
        """Waits until listeners have been told that the address changed."""
        self.browser.ask("POST", "/execute/async", {
            "script": "setTimeout(arguments[0], 0);", "args": []})

    def press(self, *keys):
        self.browser.type(keys)
        self.settle()

    def point(self, name):
        """Points at a frame; returns the tooltip."""
        box = self.box(name)
        self.browser.move(box["x"] + box["width"] / 2, box["y"] + 8)
        return self.browser.run(TIP)

    def text(self, selector):
        return self.browser.run("return document.querySelector(arguments[0]).textContent;",
                                selector)

    def shot(self, name):
        kept = os.environ.get("MEMTRACE_SCREENSHOTS")
        with place() as directory:
            path = os.path.join(kept or directory, name + ".png")
            self.browser.screenshot(path)
            expect(os.path.getsize(path) > 10000, "an empty screenshot:", os.path.getsize(path))

    def check(self):
        """Makes the checks that every page must pass: labels are within their boxes, and the
        console has no messages."""
        boxes = self.browser.run("""
            return Array.from(document.querySelectorAll("#rows rect"),
                              (rect) => rect.getBoundingClientRect())
                .filter((r) => r.width > 0).map((r) => [r.x, r.x + r.width, r.y]);""")
        for label in self.browser.run(LABELS):
            expect(any(x <= label["x"] and label["x"] + label["width"] <= end + 0.5 and
                       y <= label["y"] <= y + 18 for x, end, y in boxes),
                   "a label outside its box:", label)
        expect_equal(self.browser.log(), [], "what the console says")


def near(got, wanted, what, slack=0.5):
    expect(abs(got - wanted) <= slack, f"{what}: {got} instead of {wanted}")


@contextlib.contextmanager
def served(directory, policy):
    """Serves the directory's files by http, under a Content-Security-Policy."""
    class Handler(http.server.SimpleHTTPRequestHandler):
        extensions_map = {".svg": "image/svg+xml"}

        def end_headers(self):
            self.send_header("Content-Security-Policy", policy)
            super().end_headers()

        def log_message(self, *_):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0),
                                             functools.partial(Handler, directory=directory))
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def policy_for(path):
    """A policy that allows only the file's script and style, whatever else the file contains."""
    root = ElementTree.parse(path).getroot()
    script, style = ("'sha256-" +
                     base64.b64encode(hashlib.sha256(root.find(SVG + tag).text.encode()).digest())
                     .decode() + "'" for tag in ("script", "style"))
    return f"default-src 'none'; script-src {script}; style-src {style}"


def emit(directory, which):
    if not os.path.exists(EMIT):
        raise NotRunnable(f"{EMIT} is not built: make check or make check-live does")
    path = f"{directory}/{which}.svg"
    with open(path, "wb") as file:
        result = run([EMIT, which], stdout=file)
    expect_equal(result.status, 0, result)
    return path


@test(beside=True)
def svg_of_a_process():
    """The boxes show the live memory that truth_basic reports, at each zoom."""
    with place() as directory:
        truth, profile, files = trace_script(None, "truth_basic", options=("-i", "1", "-f", "svg"),
                                             prefix=directory + "/out")
        expect_equal(list(files), ["svg"], "files")
        functions = truth["functions"]
        total = sum(f["live_bytes"] for f in functions.values())
        with Browser(directory) as browser:
            page = Page(browser, "file://" + files["svg"])
            expect_words(page.text("#title"),
                         rf"^truth_basic \(pid {profile['pid']}\): live heap: ")
            whole = page.box("all")
            near(whole["width"], browser.run("return innerWidth;") - 20, "width of all", 20)
            expect_equal(whole["bytes"], total, "bytes of all")
            for name, held in functions.items():
                share = held["live_bytes"] / total
                if share * whole["width"] < 1:
                    continue
                found = page.boxes(name)
                near(sum(box["width"] for box in found), share * whole["width"], f"width of {name}")
                expect_equal(sum(box["bytes"] for box in found), held["live_bytes"],
                             f"bytes of {name}")

            largest = max(functions, key=lambda name: functions[name]["live_bytes"])
            held = functions[largest]
            tip = page.point(largest)
            expect_words(tip, f"^{largest}$",
                         "^truth_basic$", f"^live: {held['live_bytes'] / 2**20:.1f} MiB in "
                         f"{held['live_objects']:,} objects$",
                         f"^{100 * held['live_bytes'] / total:.1f} % of all$")
            page.check()
            page.shot("process")

            page.click(largest)
            near(page.box(largest)["width"], whole["width"], f"{largest}, zoomed in")
            near(page.box("malloc")["width"], whole["width"], "malloc below it")
            near(page.box("main")["width"], whole["width"], "its caller")
            expect("above" in page.box("main")["classes"], "its caller is not dimmed")
            expect_equal(page.boxes("keep_malloc"), [], "what is beside it")
            page.check()
            browser.run("history.back();")
            browser.until("return !location.hash;", what="back")
            page.settle()
            near(page.box(largest)["width"], held["live_bytes"] / total * whole["width"],
                 "zoomed out")

            wanted = sum(f["live_bytes"]
                         for name, f in functions.items() if re.search("^keep_m", name))
            page.press("/", *"^keep_m|^malloc$")
            share = browser.run("return document.getElementById('matched').textContent;")
            expect_words(page.box("keep_malloc")["classes"], "hit")
            expect(all("hit" not in box["classes"] for box in page.boxes("main")), "main matches")
            page.press(*[BACKSPACE] * len("|^malloc$"))
            share = page.text("#matched")
            expect_words(share, rf"^{100 * wanted / total:.1f} % \(.*\) in \d+ frames?$")
            page.shot("search")
            page.press(*"(")
            expect_words(page.text("#matched"), "no regular expression")
            page.press(ESCAPE)
            expect_equal(page.text("#matched"), "", "no search is left")
            page.check()


@test(beside=True)
def svg_of_other_weights():
    """Widths, sums and tooltips are right in objects, and in freed bytes."""
    with place() as directory:
        truth, _, files = trace_script(None, "truth_basic", options=("-i", "1", "-f", "pprof"),
                                       prefix=directory + "/out")
        functions = truth["functions"]
        with Browser(directory) as browser:
            for weight, key, what in (
                    ("objects", "live_objects", "live: {:,} objects"),
                    ("freed", "freed_bytes", r"freed: [\d.]+ .?i?B in [\d,]+ objects?")):
                path = f"{directory}/{weight}.svg"
                expect_equal(memtrace("report", "-f", "svg", "--weight", weight, "--by", "process",
                                      "-o", path, files["gz"]).status, 0, "report")
                page = Page(browser, "file://" + path)
                whole = page.box("all")
                largest = max(functions, key=lambda name, k=key: functions[name][k])
                number, total = functions[largest][key], sum(f[key] for f in functions.values())
                expect_equal((whole["bytes"], sum(box["bytes"] for box in page.boxes(largest))),
                             (total, number), key)
                near(sum(box["width"] for box in page.boxes(largest)),
                     number / total * whole["width"], largest)
                expect_words(page.point(f"truth_basic ({files['gz'].split('.')[-3]})"),
                             f"^{what.format(total)}$")
                page.press("/", *f"^{largest}$")
                expect_words(page.text("#matched"), rf"^{100 * number / total:.1f} % \(" +
                             (f"{number:,} objects" if weight == "objects" else ".*B") + r"\) in ")
                page.check()


@test(beside=True)
def svg_by_keyboard_and_diff():
    """In a comparison each box has its colour, and the keyboard switches widths between the two
    profiles."""
    with place() as directory, Browser(directory) as browser:
        path = emit(directory, "diff")
        with served(directory, policy_for(path)) as url:
            page = Page(browser, url + "/diff.svg")
            whole = page.box("all")["width"]
            mib = whole / page.box("all")["bytes"] * 2**20
            near(page.box("journal")["width"], 26 * mib, "journal")
            near(page.box("session_new")["width"], 24 * mib, "sessions")
            expect_equal(page.boxes("load_index"), [], "what is gone")
            for name, hue in (("journal", "red"), ("session_new", "red"), ("render_page", "blue"),
                              ("load_config", "grey"), ("parse_headers", "grey")):
                r, g, b = map(int, re.findall(r"\d+", page.box(name)["fill"])[:3])
                got = "red" if r > b + 20 else "blue" if b > r + 20 else "grey"
                expect_equal(got, hue, f"colour of {name}, {r} {g} {b}")
            expect_words(page.point("session_new"),
                         r"^\+16\.0 MiB .*since 8\.0 MiB: more than sampling error$")
            expect_words(page.point("load_config"), r"^\+0 B .*since 6\.0 MiB$")
            expect_words(page.point("parse_headers"),
                         r"^\+128\.\d KiB \(95 %: -.* to \+.*\) since .*: within sampling error$")
            page.check()
            page.shot("diff")

            page.press("b")
            expect_words(page.text("#by"), "base")
            near(page.box("load_index")["width"] / page.box("all")["width"], 10 / 44.57,
                 "load_index", 0.01)
            expect_equal(page.boxes("journal"), [], "what is new")
            page.press("b")
            near(page.box("journal")["width"], 26 * mib, "journal, again")

            # each key goes down to the first child: start_thread, worker, then handle_request and
            # journal
            page.press(DOWN, DOWN, DOWN, DOWN)
            expect_words(browser.run(TIP), "^handle_request$")
            page.press(RIGHT, ENTER)
            near(page.box("journal")["width"], whole, "journal, zoomed in")
            expect_words(browser.run("return location.hash;"), r"^#zoom=\d+$")
            page.press(ESCAPE)
            near(page.box("worker")["width"], whole, "its callers that hold more")
            page.press("0")
            near(page.box("journal")["width"], 26 * mib, "all again")
            page.check()

            # opens this view's address in a narrower window; the policy allows this
            browser.ask("POST", "/window/rect", {"width": 1000, "height": 600})
            page = Page(browser, url + "/diff.svg#zoom=1&search=journal")
            near(page.box("all")["width"], browser.run("return innerWidth;") - 20,
                 "width of a small window", 20)
            expect_words(page.text("#matched"), r"^\d+\.\d % \(26\.0 MiB\) in 2 frames$")
            page.check()


@test(beside=True)
def svg_of_hostile_names():
    """Hostile names are shown, and have no effect."""
    with place() as directory, Browser(directory, dark=True) as browser:
        page = Page(browser, "file://" + emit(directory, "hostile"))
        expect_equal(browser.run("return typeof fail;"), "undefined", "fail")
        expect_equal(browser.run("return document.querySelectorAll('script').length;"), 1,
                     "scripts")
        for name in ("</text><script>fail()</script>", "]]></script><script>fail()</script>",
                     "\"'`${fail()}&#0;&lt;\\u0022???",
                     "</metadata><image href=\"x\" onerror=\"fail()\"/>"):
            expect_equal(page.point(name).split("\n")[0], name, "the tooltip's first line")
        labels = [label["text"] for label in browser.run(LABELS)]
        expect("</text><script>fail()</script>" in labels, labels)
        page.click("</text><script>fail()</script>")
        page.check()
        page.shot("hostile")


@test(beside=True)
def svg_labels():
    """Without its script, the picture has a fixed width and shortened names. In a window of this
    width the script shortens names in the same way. One more letter is allowed, because the font's
    letters may be a little narrower than assumed."""
    with place() as directory, Browser(directory, width=1200) as browser:
        path = emit(directory, "names")
        page = Page(browser, "file://" + path)
        static = {(float(e.get("x")[:-1]), e.get("y")): e.text
                  for e in ElementTree.parse(path).getroot().iter(SVG + "text") if e.get("dx")}
        shown = browser.run("""
            return Array.from(document.querySelectorAll("#labels text"), (text) =>
                [parseFloat(text.getAttribute("x")), text.getAttribute("y"), text.textContent]);""")
        expect(len(shown) >= 80 and sum(".." in text for _, _, text in shown) >= 50,
               len(shown), "labels")
        pairs = [(text, static.get((x, y))) for x, y, text in shown]
        differ = [(text, other) for text, other in pairs if text != other]
        expect(len(differ) <= len(shown) / 10, "labels in the browser and in the file:", differ)
        page.check()
        page.shot("names")


@test(beside=True, long=True)
def svg_of_many_stacks():
    """With 100,000 stacks each box is at its place, and still reacts."""
    with place() as directory, Browser(directory) as browser:
        path = emit(directory, "huge")
        expect(os.path.getsize(path) < 5e6, "bytes:", os.path.getsize(path))
        page = Page(browser, "file://" + path)
        page.shot("huge")
        whole = page.box("all")["width"]
        page.click("library::component_1::function<int>")
        near(page.box("library::component_1::function<int>")["width"], whole, "zoomed in")
        page.press("/", *"component_1")
        expect_words(page.text("#matched"), r"^100\.0 % ")
        expect_equal(browser.log(), [], "what the console says")
