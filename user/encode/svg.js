// SPDX-License-Identifier: BSD-2-Clause
// The script of the flame graph of encode/svg.c. It is the same in every file, so that a site that shows such files
// can allow the script by its hash. The data of a file, such as names from the target, are text in <metadata>. They
// are never run, and go into text nodes only.
"use strict";
(() => {
	const NS = "http://www.w3.org/2000/svg", XHTML = "http://www.w3.org/1999/xhtml";
	const ROW = 18, PAD = 4, MARGIN = 10, LEAST_WIDTH = 760, THIN = 2;
	const LEAST_LABEL = 4, LEAST_BOTH = 16; // columns
	const svg = document.currentScript.ownerSVGElement;
	const find = (id) => svg.querySelector("#" + id);
	const chart = find("chart"), labels = find("labels"), facts = chart.dataset;
	const rects = find("rows").querySelectorAll("rect");

	// --- the data of each box: level by level, the root first ---

	const lines = (id) => find(id).textContent.split("\n").filter((line) => line);
	const names = lines("names").map((line) => line.split("\t")); // by frame: name, module
	const boxes = lines("boxes").map((line) => line.split(" ").map(Number));
	const isDiff = "base" in facts;
	const behind = isDiff ? 7 : 4;
	const parent = boxes.map((box) => box[0]);
	const live = boxes.map((box) => box[2]);
	const base = isDiff ? boxes.map((box) => box[4]) : null;
	const depth = [];
	boxes.forEach((_, i) => depth.push(i ? depth[parent[i]] + 1 : 0));

	const isFolded = (i) => boxes[i][1] < 0; // a negative number says how many frames are folded
	const nameOf = (i) => !i ? "all" : isFolded(i) ? `(${-boxes[i][1]} smaller)` : names[boxes[i][1]][0];
	const moduleOf = (i) => !i || isFolded(i) ? "" : names[boxes[i][1]][1];

	// --- what is shown ---

	let size = live;	// the amounts that widths show
	let zoomed = 0;		// the box that has the whole width
	let selected = -1;	// the box selected by the keyboard
	let query = "", hits = null; // the searched text; which boxes match it
	let width = 0;		// width of the chart, px
	const left = new Float64Array(boxes.length), wide = new Float64Array(boxes.length); // shares of width

	// --- texts ---

	function bytes(n) { // as format_bytes() of encode/encode.h
		const units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
		let unit = 0;
		for (; unit < 6 && Math.abs(n) >= (unit ? 1023.95 : 1023.5); unit++)
			n /= 1024;
		return [n, units[unit], unit];
	}

	function format(n) {
		if ("counts" in facts)
			return `${commas(n)} ${facts.unit}${n === 1 ? "" : "s"}`;
		const [value, unit, decimals] = bytes(n);
		return `${value.toFixed(decimals ? 1 : 0)} ${unit}${facts.per || ""}`;
	}

	const signed = (n) => (n < 0 ? "-" : "+") + format(Math.abs(n));
	const commas = (n) => String(n).replace(/\B(?=(\d{3})+$)/g, ",");
	const percent = (part, whole) => {
		const share = whole > 0 ? 100 * part / whole : 0;
		return `${share.toFixed(share && share < 0.1 ? 3 : 1)} %`;
	};

	function interval(low, high, sign) { // both ends in the unit of the larger
		const [, unit, steps] = bytes(Math.max(Math.abs(low), Math.abs(high)));
		const end = (n) => (sign && n >= 0 ? "+" : "") + (n / 1024 ** steps).toFixed(steps ? 1 : 0);
		return `95 %: ${end(low)} ${sign ? "to" : "-"} ${end(high)} ${unit}`;
	}

	// Columns of the labels' font; characters of the far East take two.
	const columns = (text) => {
		let n = 0;
		for (const c of text)
			n += c.codePointAt(0) < 0x1100 ? 1 : 2;
		return n;
	};

	function withoutArguments(name) {
		let out = "", nested = 0;
		for (const c of name) {
			if (c === "<")
				out += nested++ ? "" : "<..>";
			else if (c === ">" && nested)
				nested--;
			else if (!nested)
				out += c;
		}
		return out;
	}

	// As put_short() of encode/svg.c: the leading parts of the name are cut first; then its end where room is
	// small, or else its middle.
	function shorten(name, max) {
		if (columns(name) <= max)
			return name;
		if (columns(name) > Array.from(name).length)
			max >>= 1;
		let operator = name.indexOf("operator");
		let letters = Array.from(operator < 0 ? withoutArguments(name) : name);
		while (letters.length > max) {
			const next = letters.findIndex((c, i) => c === ":" && letters[i + 1] === ":");
			if (next < 0 || operator >= 0 && next > operator)
				break;
			letters = letters.slice(next + 2);
			operator -= next + 2;
		}
		if (letters.length <= max)
			return letters.join("");
		const tail = max >= LEAST_BOTH ? max - 2 - ((max - 2) >> 1) : 0;
		return letters.slice(0, max - 2 - tail).join("") + ".." + (tail ? letters.slice(-tail).join("") : "");
	}

	// --- drawing ---

	function element(tag, attributes, text) {
		const e = document.createElementNS(NS, tag);
		for (const key in attributes)
			e.setAttribute(key, attributes[key]);
		if (text !== undefined)
			e.textContent = text;
		return e;
	}

	const letter = (() => { // width of a letter in the labels' font, px
		const probe = element("text", {}, "m".repeat(50));
		labels.append(probe);
		const length = probe.getComputedTextLength() / 50;
		probe.remove();
		return length > 0 ? length : 7.23;
	})();

	const isAbove = (i) => { // is the zoomed box below box i, or the same box?
		let j = zoomed;
		while (j > i)
			j = parent[j];
		return j === i;
	};
	const isShown = (i) => wide[i] * width >= 0.1;

	function place() {
		const used = new Float64Array(boxes.length), whole = size[zoomed];
		rects.forEach((rect, i) => {
			const p = parent[i];
			const above = isAbove(i);
			if (above) {
				left[i] = 0;
				wide[i] = 1;
			} else if (p !== zoomed && isAbove(p) || !wide[p]) {
				wide[i] = 0;
			} else {
				left[i] = left[p] + used[p];
				wide[i] = whole > 0 ? size[i] / whole : 0;
				used[p] += wide[i];
			}
			rect.classList.toggle("above", above && i !== zoomed);
			rect.classList.toggle("thin", wide[i] * width < THIN);
			if (!isShown(i)) {
				rect.setAttribute("display", "none");
				return;
			}
			rect.removeAttribute("display");
			rect.setAttribute("x", `${(100 * left[i]).toFixed(4)}%`);
			rect.setAttribute("width", `${(100 * wide[i]).toFixed(4)}%`);
		});
	}

	function label() {
		const list = document.createDocumentFragment();
		wide.forEach((share, i) => {
			const max = Math.floor((share * width - 2 * PAD) / letter);
			const dim = hits ? !hits[i] : i !== zoomed && isAbove(i);
			if (max >= LEAST_LABEL)
				list.append(element("text", {x: `${(100 * left[i]).toFixed(4)}%`, dx: PAD,
					y: depth[i] * ROW + 13, class: dim ? "dim" : ""}, shorten(nameOf(i), max)));
		});
		labels.replaceChildren(list);
	}

	function fit() { // fits the picture into the window
		width = Math.max(svg.getBoundingClientRect().width, LEAST_WIDTH) - 2 * MARGIN;
		chart.setAttribute("width", width);
		controls.setAttribute("x", width + MARGIN - controls.width.baseVal.value);
	}

	// --- one frame's figures ---

	const tip = element("g", {id: "tip", display: "none"});

	function describe(i) {
		const [, frame, now, objects] = boxes[i], [low, high] = boxes[i].slice(behind);
		const out = [];
		for (let rest = nameOf(i); rest; rest = rest.slice(90))
			out.push(["name", rest.slice(0, 90)]);
		if (isFolded(i))
			out.push(["", `frame${frame < -1 ? "s" : ""} with less than ${facts.least} % of all each`]);
		if (moduleOf(i))
			out.push(["", moduleOf(i)]);
		out.push(["", `${facts.what}: ${format(now)}${high > low ? ` (${interval(low, high)})` : ""}` +
			(objects ? ` in ${commas(objects)} ${facts.unit}${objects === 1 ? "" : "s"}` : "")]);
		if (isDiff) {
			const [from, to] = [boxes[i][5], boxes[i][6]], change = now - base[i];
			const exceeds = from > 0 || to < 0;
			out.push([exceeds ? change > 0 ? "grew" : "shrank" : "", `${signed(change)}` +
				`${to > from ? ` (${interval(from, to, true)})` : ""} since ${format(base[i])}` +
				(!change ? "" : "unsure" in facts ? ": how surely is not known" :
					`: ${exceeds ? "more than" : "within"} sampling error`)]);
		}
		out.push(["", `${percent(size[i], size[0])} of all` +
			(zoomed && !isAbove(i) ? `, ${percent(size[i], size[zoomed])} of ${nameOf(zoomed)}` : "")]);
		return out;
	}

	// Puts the tip beside the point (px, in svg), where there is room.
	function show(i, x, y) {
		const text = element("text", {}), back = element("rect", {rx: 4});
		describe(i).forEach(([style, line], k) =>
			text.append(element("tspan", {class: style, x: 9, y: 19 + 17 * k}, line)));
		tip.replaceChildren(back, text);
		tip.removeAttribute("display");
		const box = text.getBBox(), w = box.width + 18, h = box.height + 14;
		back.setAttribute("width", w);
		back.setAttribute("height", h);
		const view = svg.getBoundingClientRect(), bottom = Math.min(innerHeight - view.top, view.height);
		x = Math.max(Math.min(x + 14, view.width - w - 4), 4);
		y = y + 16 + h > bottom ? Math.max(y - h - 10, 4) : y + 16;
		tip.setAttribute("transform", `translate(${x} ${y})`);
	}

	function hide() {
		tip.setAttribute("display", "none");
	}

	function select(i) {
		if (selected >= 0)
			rects[selected].classList.remove("on");
		selected = i;
		if (i < 0)
			return hide();
		rects[i].classList.add("on");
		rects[i].scrollIntoView({block: "nearest"});
		const at = rects[i].getBoundingClientRect(), view = svg.getBoundingClientRect();
		show(i, at.left - view.left, at.top - view.top + 4);
	}

	// --- the address has the zoomed box and the search, so that the browser's own back and forward work, and a
	// link shows the same picture ---

	function address(i, text) {
		const parts = new URLSearchParams();
		if (i)
			parts.set("zoom", i);
		if (text)
			parts.set("search", text);
		return "#" + parts;
	}

	function zoom(i) {
		if (i !== zoomed && !isFolded(i))
			location.hash = address(i, query); // then calls read()
	}

	function zoomOut() { // zooms to the next box above that holds more
		let i = parent[zoomed];
		while (i && size[i] === size[zoomed])
			i = parent[i];
		zoom(i);
	}

	function read() {
		const parts = new URLSearchParams(location.hash.slice(1)), to = Number(parts.get("zoom"));
		zoomed = Number.isInteger(to) && to > 0 && to < boxes.length && !isFolded(to) ? to : 0;
		input.value = parts.get("search") || "";
		out.disabled = reset.disabled = !zoomed;
		select(-1);
		place();
		search(input.value);
	}

	// --- search ---

	function search(text) {
		let pattern = null;
		query = text;
		try {
			pattern = text ? new RegExp(text) : null;
			input.classList.remove("wrong");
			matched.textContent = "";
		} catch {
			input.classList.add("wrong");
			matched.textContent = "no regular expression";
		}
		hits = pattern && boxes.map((_, i) => i > 0 && !isFolded(i) && pattern.test(nameOf(i)));
		chart.classList.toggle("searching", Boolean(hits));
		rects.forEach((rect, i) => rect.classList.toggle("hit", Boolean(hits && hits[i])));
		if (hits)
			matched.textContent = count();
		label();
	}

	// The share of the shown memory in matching frames and in the frames that they call. A match below another
	// match is not counted again.
	function count() {
		const inside = [];
		let sum = 0, n = 0;
		boxes.forEach((_, i) => {
			const below = i > zoomed && inside[parent[i]];
			const shown = i === zoomed || !isAbove(i) && wide[i] > 0;
			inside[i] = shown && (below || hits[i]);
			if (shown && hits[i]) {
				n++;
				sum += below ? 0 : size[i];
			}
		});
		return `${percent(sum, size[zoomed])} (${format(sum)}) in ${commas(n)} frame${n === 1 ? "" : "s"}`;
	}

	function type(text) {
		search(text);
		try {
			history.replaceState(null, "", address(zoomed, text));
		} catch { // the page does not allow a change of the address
		}
	}

	// --- controls ---

	function html(tag, attributes, text) {
		const e = document.createElementNS(XHTML, tag);
		for (const key in attributes)
			e.setAttribute(key, attributes[key]);
		e.textContent = text || "";
		return e;
	}

	const controls = element("foreignObject", {y: facts.controls, width: 620, height: 28});
	const panel = html("div", {id: "controls"}), matched = html("span", {id: "matched", "aria-live": "polite"});
	const input = html("input", {id: "search", type: "search", placeholder: "search: regular expression  ( / )",
		"aria-label": "search", spellcheck: "false"});
	const out = html("button", {id: "out", title: "Esc"}, "zoom out");
	const reset = html("button", {id: "reset", title: "0"}, "reset");
	const by = html("button", {id: "by", title: "b"}, "widths: new");

	function switchWidths() {
		size = size === live ? base : live;
		by.textContent = size === live ? "widths: new" : "widths: base";
		hide();
		place();
		search(query);
	}

	// The next box beside box i, on either side; it may have another parent.
	function beside(i, step) {
		for (let j = i + step; j > 0 && j < boxes.length && depth[j] === depth[i]; j += step)
			if (isShown(j))
				return j;
		return i;
	}

	function below(i) {
		for (let j = i + 1; j < boxes.length; j++)
			if (parent[j] === i && isShown(j))
				return j;
		return i;
	}

	function key(event) {
		if (event.ctrlKey || event.metaKey || event.altKey)
			return;
		if (event.target === input) {
			if (event.key === "Escape") {
				input.value = "";
				type("");
			}
			if (event.key === "Escape" || event.key === "Enter")
				input.blur();
			return;
		}
		const from = selected < 0 ? zoomed : selected;
		const keys = {
			"/": () => input.focus(),
			"Escape": () => selected >= 0 ? select(-1) : query ? type(input.value = "") : zoomOut(),
			"Backspace": zoomOut,
			"0": () => zoom(0),
			"b": () => isDiff && switchWidths(),
			"ArrowUp": () => select(selected < 0 ? from : parent[from]),
			"ArrowDown": () => select(selected < 0 ? from : below(from)),
			"ArrowLeft": () => select(beside(from, -1)),
			"ArrowRight": () => select(beside(from, 1)),
		};
		if (selected >= 0 && event.target.localName !== "button")
			keys.Enter = () => zoom(selected);
		if (!(event.key in keys))
			return;
		keys[event.key]();
		event.preventDefault();
	}

	rects.forEach((rect, i) => {
		rect.box = i;
	});
	const rows = find("rows");
	rows.addEventListener("click", (event) => "box" in event.target && zoom(event.target.box));
	rows.addEventListener("pointermove", (event) => {
		const view = svg.getBoundingClientRect();
		if ("box" in event.target)
			show(event.target.box, event.clientX - view.left, event.clientY - view.top);
	});
	rows.addEventListener("pointerleave", hide);
	out.addEventListener("click", zoomOut);
	reset.addEventListener("click", () => zoom(0));
	by.addEventListener("click", switchWidths);
	input.addEventListener("input", () => type(input.value));
	document.addEventListener("keydown", key);
	addEventListener("hashchange", read);
	addEventListener("resize", () => {
		hide();
		fit();
		place();
		label();
	});

	panel.append(matched, input, ...(isDiff ? [by] : []), out, reset);
	controls.append(panel);
	svg.append(controls, tip);
	svg.classList.add("live");
	// Without the script the picture scales. With it, it fills the window, and its letters keep their size.
	svg.removeAttribute("viewBox");
	svg.setAttribute("width", "100%");
	fit();
	read();
})();
