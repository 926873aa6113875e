# SPDX-License-Identifier: BSD-2-Clause
"""usage: python3 tests/golden/read_svg.py FILE.svg

Reads a flame graph with a parser of XML and checks what every flame graph must fulfil (below).
Prints the lines of its head, and then its boxes, each followed by its children:

    DEPTH*"  " NAME [MODULE] BYTES OBJECTS FIGURES... @X+WIDTH (per cent of the chart)"""
import re
import sys
import xml.etree.ElementTree as ElementTree

SVG = "{http://www.w3.org/2000/svg}"
SLACK = 0.0002  # the error of rounding to four digits


def by_id(root, name):
    found = [e for e in root.iter() if e.get("id") == name]
    assert len(found) == 1, f"{len(found)} elements are called {name}"
    return found[0]


def check_harmless(root):
    """The graph loads nothing from elsewhere, and has no code but its one script."""
    assert {e.tag for e in root.iter()} <= {SVG + t for t in (
        "svg", "title", "style", "rect", "text", "tspan", "g", "metadata", "script")}
    assert sum(e.tag == SVG + "script" for e in root.iter()) == 1
    assert sum(e.tag == SVG + "style" for e in root.iter()) == 1
    for e in root.iter():
        for name, value in e.attrib.items():
            assert (not name.lower().startswith("on") and "href" not in name and
                    name not in ("src", "style")), name
            assert "url(" not in value, value
    assert not re.search(r"url\(|@import|https?:", root.find(SVG + "style").text)


def read(path):
    """The lines of the head, and the boxes: name, module, figures, x, width, parent, depth."""
    root = ElementTree.parse(path).getroot()
    check_harmless(root)
    head = ["".join(e.itertext()) for e in root.findall(SVG + "text")]
    names = [line.split("\t") for line in by_id(root, "names").text.split("\n") if line]
    figures = [[int(n) for n in line.split(" ")]
               for line in by_id(root, "boxes").text.split("\n") if line]
    rows = [list(row) for row in by_id(root, "rows")]
    rects = [rect for row in rows for rect in row]
    depths = [depth for depth, row in enumerate(rows) for _ in row]
    assert len(rects) == len(figures), "a line for each box"
    boxes = []
    for i, (rect, (parent, frame, *rest)) in enumerate(zip(rects, figures)):
        name, module = (names[frame] if i and frame >= 0
                        else (f"({-frame} smaller)" if i else "all", ""))
        boxes.append(dict(name=name, module=module, figures=rest, parent=parent, depth=depths[i],
                          x=float(rect.get("x").rstrip("%")),
                          width=float(rect.get("width").rstrip("%")), fill=rect.get("fill")))
    check_boxes(boxes)
    return head, boxes


def check_boxes(boxes):
    """Children are under their parent, beside each other, and together hold no more than the
    parent."""
    assert boxes[0]["parent"] == 0 and boxes[0]["depth"] == 0 and boxes[0]["width"] == 100
    left = [box["x"] for box in boxes]
    held = [0] * len(boxes)
    for i, box in enumerate(boxes[1:], 1):
        parent = boxes[box["parent"]]
        assert box["parent"] < i and box["depth"] == parent["depth"] + 1
        assert abs(box["x"] - left[box["parent"]]) < SLACK * 100, box
        assert re.fullmatch("#[0-9a-f]{6}", box["fill"]), box["fill"]
        left[box["parent"]] = box["x"] + box["width"]
        held[box["parent"]] += box["figures"][0]
        assert left[box["parent"]] <= parent["x"] + parent["width"] + SLACK * 100, box
        share = 100 * box["figures"][0] / boxes[0]["figures"][0] if boxes[0]["figures"][0] else 0
        assert (abs(share - box["width"]) <
                SLACK + 100 / max(boxes[0]["figures"][0], 1)), (share, box)
    children = [0] * len(boxes)
    for box in boxes[1:]:
        children[box["parent"]] += 1
    for i, box in enumerate(boxes):  # each is rounded
        assert held[i] <= box["figures"][0] + children[i] + 1, box


def show(boxes, i=0):
    stack = [0]
    children = [[] for _ in boxes]
    for i, box in enumerate(boxes[1:], 1):
        children[box["parent"]].append(i)
    while stack:
        i = stack.pop()
        box = boxes[i]
        print("  " * box["depth"] + box["name"], *([f"[{box['module']}]"] if box["module"] else []),
              *box["figures"], f"@{box['x']:.2f}+{box['width']:.2f}")
        stack += reversed(children[i])


if __name__ == "__main__":
    lines, found = read(sys.argv[1])
    sys.stdout.reconfigure(encoding="utf-8")
    print(*lines, sep="\n")
    show(found)
