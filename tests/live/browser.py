# SPDX-License-Identifier: BSD-2-Clause
"""A real browser without a screen: Chromium, driven through chromedriver (the W3C's WebDriver
protocol)."""
import base64
import contextlib
import json
import os
import re
import shutil
import signal
import time
import urllib.error
import urllib.request

from harness import Failure, PATIENCE_S, end, expect, read_line, start

BACKSPACE, ENTER, ESCAPE, RIGHT, DOWN = map(chr, (0xe003, 0xe007, 0xe00c, 0xe014, 0xe015))


def need(name):
    """Returns the program's path. Without a browser the test fails, because nothing else can check
    a page."""
    path = shutil.which(name)
    expect(path, f"{name} is not installed: scripts/install-deps installs it")
    return path


def descendants(pid):
    found = []
    with contextlib.suppress(OSError):
        for task in os.listdir(f"/proc/{pid}/task"):
            with open(f"/proc/{pid}/task/{task}/children", encoding="ascii") as file:
                for child in map(int, file.read().split()):
                    found += [child, *descendants(child)]
    return found


class Browser:
    """directory: for the browser's files. dark: the browser says that its user prefers dark
    pages."""

    def __init__(self, directory, width=1280, height=900, dark=False):
        self.pids = []
        self.url = None
        need("chromium")  # the driver starts it
        # The driver's warnings go to a file: nobody reads them, and a full pipe would stop the
        # driver.
        with open(f"{directory}/chromedriver.log", "w", encoding="utf-8") as log:
            self.driver = start([need("chromedriver"), "--port=0"], stderr=log,
                                env={**os.environ, "HOME": directory, "TMPDIR": directory})
        try:
            self.open(directory, width, height, dark)
        except BaseException:
            self.close()
            raise

    def open(self, directory, width, height, dark):
        port = None
        while not port:
            port = re.search(r"started successfully on port (\d+)",
                             read_line(self.driver, self.driver.stdout))
        self.url = f"http://127.0.0.1:{port[1]}/session"
        options = {"binary": need("chromium"), "args": [
            "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
            "--no-first-run",
            "--disable-background-networking", f"--user-data-dir={directory}/chromium",
            f"--window-size={width},{height}", *(["--force-dark-mode"] if dark else [])]}
        session = self.ask("POST", "", {"capabilities": {"alwaysMatch": {
            "browserName": "chrome", "goog:chromeOptions": options,
            "goog:loggingPrefs": {"browser": "ALL"}}}})
        self.url += "/" + session["sessionId"]
        self.pids = descendants(self.driver.pid)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        with contextlib.suppress(Exception):
            self.ask("DELETE", "", timeout=10)
        left = {*self.pids, *descendants(self.driver.pid)}
        end(self.driver)
        for pid in left:
            with contextlib.suppress(OSError):
                # Kills a browser process that did not end. By now the pid may belong to another
                # process, so the name is checked.
                with open(f"/proc/{pid}/comm", encoding="utf-8") as file:
                    if file.read().startswith("chrom"):
                        os.kill(pid, signal.SIGKILL)

    def ask(self, method, path, data=None, timeout=PATIENCE_S):
        body = None if data is None else json.dumps(data).encode()
        request = urllib.request.Request(self.url + path, body,
                                         {"Content-Type": "application/json"}, method=method)
        try:
            with urllib.request.urlopen(request, timeout=timeout) as answer:
                return json.load(answer)["value"]
        except urllib.error.HTTPError as e:
            raise Failure(f"chromedriver: {json.load(e)['value']['message'][:500]}") from None

    def go(self, url):
        self.ask("POST", "/url", {"url": url})

    def run(self, script, *args):
        """In the page, runs a function whose body is `script`; returns the function's result."""
        return self.ask("POST", "/execute/sync", {"script": script, "args": args})

    def actions(self, *sources):
        self.ask("POST", "/actions", {"actions": list(sources)})

    def move(self, x, y, click=False):
        """Moves the pointer to a point of the window."""
        steps = [{"type": "pointerMove", "duration": 0, "x": round(x), "y": round(y)}]
        if click:
            steps += [{"type": "pointerDown", "button": 0}, {"type": "pointerUp", "button": 0}]
        self.actions({"type": "pointer", "id": "mouse", "parameters": {"pointerType": "mouse"},
                      "actions": steps})

    def type(self, keys):
        steps = [{"type": kind, "value": key} for key in keys for kind in ("keyDown", "keyUp")]
        self.actions({"type": "key", "id": "keyboard", "actions": steps})

    def until(self, script, *args, what):
        """Waits until a function with this body returns a true value."""
        deadline = time.monotonic() + PATIENCE_S
        while not (value := self.run(script, *args)):
            expect(time.monotonic() < deadline, f"{what}: not after {PATIENCE_S} s")
            time.sleep(0.02)
        return value

    def screenshot(self, path):
        with open(path, "wb") as file:
            file.write(base64.b64decode(self.ask("GET", "/screenshot")))

    def log(self):
        """What pages have written to the console since the last call, errors included."""
        return [entry["message"] for entry in self.ask("POST", "/se/log", {"type": "browser"})]
