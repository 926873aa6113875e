# SPDX-License-Identifier: BSD-2-Clause
"""speedscope opens memtrace's files in a real browser, and shows for every function the total that
the target reports."""
import os
import re
import urllib.parse

from browser import Browser
from harness import ROOT, NotRunnable, expect_equal, place, test, trace_script
from test_svg import served

SPEEDSCOPE = os.path.join(ROOT, "build", "speedscope")  # scripts/fetch-speedscope
ANYTHING = "default-src * blob: data: 'unsafe-inline' 'unsafe-eval'"
# Rows of the sandwich view: a function's total with its callees, its own total, and its name.
ROWS = """
return Array.from(document.querySelectorAll("tr"),
                  (row) => Array.from(row.cells, (cell) => cell.textContent.trim()))
    .filter((cells) => cells.length === 3 && /\\d/.test(cells[0]));
"""


def shown(browser, url):
    """function -> the total that the page shows, without the percentage."""
    browser.go(url)
    browser.until("return document.body.innerText.includes('Sandwich');",
                  what="the profile in speedscope")
    browser.type("3")
    rows = browser.until(ROWS, what="the sandwich view")
    return {name: re.sub(r" \(.*\)$", "", total) for total, _, name in rows}


def in_bytes(n):
    """n as speedscope's ByteFormatter prints it."""
    for unit in ("B", "KB", "MB", "GB"):
        if n < 1024 or unit == "GB":
            return f"{n:.0f} B" if unit == "B" else f"{n:.2f} {unit}"
        n /= 1024


@test(beside=True, long=True)
def speedscope_shows_the_truth():
    """speedscope shows each function's total and the sum in both formats: pprof in bytes, collapsed
    stacks in plain numbers."""
    if not os.path.exists(SPEEDSCOPE + "/index.html"):
        raise NotRunnable("speedscope is not there: scripts/fetch-speedscope build/speedscope")
    with place() as directory:
        os.symlink(SPEEDSCOPE, directory + "/speedscope")
        truth, _, files = trace_script(None, "truth_basic", prefix=directory + "/out",
                                       options=("-i", "1", "-f", "pprof,collapsed"))
        held = {name: f["live_bytes"] for name, f in truth["functions"].items()}
        wanted = {"main": sum(held.values()), **{name: n for name, n in held.items() if n}}
        with Browser(directory, height=3000) as browser, served(directory, ANYTHING) as url:
            for extension, form in (("gz", in_bytes), ("collapsed", "{:,}".format)):
                path = urllib.parse.quote(f"{url}/{os.path.basename(files[extension])}", safe="")
                rows = shown(browser, f"{url}/speedscope/index.html?{extension}#profileURL={path}")
                for name, n in wanted.items():
                    expect_equal(rows.get(name), form(n), f"{extension}: {name}")
    return f"{len(wanted)} functions"
