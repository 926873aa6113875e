// SPDX-License-Identifier: BSD-2-Clause
/* A picture that is complete without its script: boxes, labels and the head are elements of the
 * file, placed in per cent of the chart. For the script, <metadata> has one line of figures for
 * each box, in the order of the boxes. <metadata> also has each name once. Text from the target is
 * escaped for XML. The script is the same in every file (svg.js), so it contains no text from the
 * target. */
#include "encode/encode.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "encode/svg_head.h"
#include "encode/svg_parts.h"
#include "encode/text.h"
#include "encode/tree.h"

/* Pixels. The script repeats most of these numbers. */
#define WIDTH	    1200
#define MARGIN	    10
#define CHART	    (WIDTH - 2 * MARGIN)
#define FIRST_LINE  28
#define ROW	    18
#define PAD	    4
#define THIN	    2	 /* narrower boxes have no border */
#define LETTER	    7.23 /* width of a letter in the labels' monospaced font */
#define LEAST_LABEL 4	 /* columns; a narrower box has no label */
#define LEAST_BOTH  16	 /* columns: from this width on, a shortened name keeps both its ends */

/* Boxes narrower than MIN_PIXELS are folded. If more than MAX_NODES boxes would be left, wider ones
 * are folded, too, because 20,000 boxes take some 2 MB. */
#define MIN_PIXELS 0.25
#define MAX_NODES  20000
#define MAX_DEPTH  1024
#define MAX_NAME   400 /* columns */

struct svg {
	const struct profile *profile, *base;
	struct tree tree;
	double *left;	     /* left edge of each node, as a share of the whole width */
	uint32_t *name_line; /* for each frame: number of its line in "names" */
	double most_change;  /* the largest change of a node, bytes */
	struct sink *sink;
};

static void svg__clear(struct svg *svg)
{
	tree__clear(&svg->tree);
	free(svg->left);
	free(svg->name_line);
}

/* --- text --- */

/* Returns the text for a character in XML; NULL: the character is written unchanged. Controls and
 * characters that XML does not allow become '?'. */
static const char *escaped(uint32_t code)
{
	switch (code) {
	case '<':
		return "&lt;";
	case '>':
		return "&gt;";
	case '&':
		return "&amp;";
	case '"':
		return "&quot;";
	default:
		return is_control(code) || (code & 0xfffe) == 0xfffe ? "?" : NULL;
	}
}

static void put_text(struct sink *sink, const char *text)
{
	const char *run = text;

	while (*text) {
		uint32_t code;
		size_t len = utf8_next(text, &code);
		const char *instead = len ? escaped(code) : "?";

		if (instead) {
			sink__write(sink, run, (size_t)(text - run));
			sink__puts(sink, instead);
			run = text + (len ? len : 1);
		}
		text += len ? len : 1;
	}
	sink__puts(sink, run);
}

/* Returns the columns of a text. Each character from U+1100 on counts as two columns, because
 * characters of the Far East are that wide. */
static size_t wide_columns(const char *printable)
{
	size_t n = 0;
	uint32_t code;

	for (; *printable; printable += utf8_next(printable, &code))
		n += utf8_next(printable, &code) && code >= 0x1100 ? 2 : 1;
	return n;
}

/* Puts the name in at most max (>= LEAST_LABEL) columns. The leading parts of the name are cut
 * first. If that is not enough, the middle of the name is cut; if there is little room, the end is
 * cut instead. */
static int put_short(struct sink *sink, const char *name, size_t max)
{
	_cleanup_free_ char *printable = text_printable(name), *part = NULL, *cut = NULL;
	size_t columns;
	uint32_t code;
	char *end;

	if (!printable)
		return -ENOMEM;
	columns = wide_columns(printable);
	if (columns <= max) {
		put_text(sink, printable);
		return 0;
	}
	if (columns > text_columns(printable))
		max /= 2;
	part = text_unqualified(printable, max);
	if (!part)
		return -ENOMEM;
	if (text_columns(part) <= max) {
		put_text(sink, part);
	} else if (max >= LEAST_BOTH) {
		cut = text_shorten(part, max);
		if (!cut)
			return -ENOMEM;
		put_text(sink, cut);
	} else {
		for (end = part; max > 2; max--)
			end += utf8_next(end, &code);
		*end = '\0';
		put_text(sink, part);
		sink__puts(sink, "..");
	}
	return 0;
}

/* --- colours --- */

/* Colours depend only on a frame's name and module, so a frame has the same colour in every
 * picture. */
static uint32_t hash(const char *text)
{
	uint32_t h = 2166136261; /* FNV-1a */

	for (; *text; text++)
		h = (h ^ (unsigned char)*text) * 16777619;
	return h ^ h >> 15;
}

/* hue is in degrees, saturation and lightness are 0..1. Writes "#rrggbb" to `to`. */
static void hsl(double hue, double saturation, double lightness, char to[8])
{
	double a = saturation * fmin(lightness, 1 - lightness);
	unsigned rgb[3];

	for (int i = 0; i < 3; i++) {
		double k = fmod((i == 0 ? 0 : i == 1 ? 8 : 4) + hue / 30, 12);

		rgb[i] = (unsigned)lround(255 *
					  (lightness - a * fmax(-1, fmin(fmin(k - 3, 9 - k), 1))));
	}
	snprintf(to, 8, "#%02x%02x%02x", rgb[0] & 0xff, rgb[1] & 0xff, rgb[2] & 0xff);
}

/* All colours are light enough for dark letters, and dark enough to be seen on a white page. No
 * kind of frame is pink, because matches of a search are pink (svg.css). */
static const struct {
	double hue, hues;	      /* first hue, and range in degrees */
	bool by_module;		      /* true: the hue depends on the module; false: on the name */
	double saturation, lightness; /* lightness: the name adds up to 8 % */
	const char *name;
} kinds[FRAME_KINDS] = {
	[FRAME_PROGRAM] = {24, 24, false, 0.90, 0.62, "program"},
	[FRAME_LIBRARY] = {150, 90, true, 0.42, 0.66, "libraries"},
	[FRAME_ALLOCATOR] = {220, 1, false, 0.10, 0.74, "allocator"},
	[FRAME_KERNEL] = {270, 10, false, 0.50, 0.78, "kernel"},
	[FRAME_ANONYMOUS] = {66, 20, false, 0.50, 0.62, "no file (JIT)"},
	[FRAME_NOTE] = {50, 1, false, 0.10, 0.84, "note"},
};

static void frame_color(const struct tree_frame *frame, char to[8])
{
	uint32_t name = hash(frame->name),
		 which = kinds[frame->kind].by_module ? hash(frame->module) : name;

	hsl(kinds[frame->kind].hue + which % 1000 / 1000.0 * kinds[frame->kind].hues,
	    kinds[frame->kind].saturation,
	    kinds[frame->kind].lightness + name / 1000 % 1000 / 1000.0 * 0.08, to);
}

#define PLAIN "#d5d8dd" /* the root, and changes within sampling error */

/* Red: has grown; blue: has shrunk; larger changes are darker. With the square root, changes that
 * are small beside the largest change stay visible. */
static void change_color(double bytes, double most, char to[8])
{
	double share = most > 0 ? sqrt(fmin(fabs(bytes) / most, 1)) : 0;

	if (bytes > 0)
		hsl(6, 0.90, 0.90 - 0.28 * share, to);
	else
		hsl(214, 0.85, 0.90 - 0.26 * share, to);
}

static void node_color(const struct svg *svg, size_t i, char to[8])
{
	const struct tree_node *node = &svg->tree.nodes[i];

	strcpy(to, i && node->n_folded ? "#e6e8eb" : PLAIN);
	if (svg->base) {
		struct tree_change change = tree_node__change(&svg->tree, node);

		if (tree_change__exceeds_error(&change))
			change_color(change.bytes, svg->most_change, to);
	} else if (i && !node->n_folded) {
		frame_color(&svg->tree.frames[node->frame], to);
	}
}

/* Puts what the colours mean. All words are in one text element, so their widths need not be
 * computed. */
static void put_key(const struct svg *svg, int y)
{
	static const struct {
		double change;
		const char *name;
	} changes[] = {{1, "grown by more than sampling error"},
		       {-1, "shrunk by more than sampling error"},
		       {0, "within sampling error"}};
	char color[8] = PLAIN;
	bool has[FRAME_KINDS] = {};

	sink__printf(svg->sink, "<text class=\"key\" x=\"%d\" y=\"%d\">", MARGIN, y);
	if (svg->tree.unsure)
		sink__printf(
			svg->sink,
			"<tspan fill=\"%s\">\u25a0</tspan> how surely it has changed is not known",
			color);
	for (size_t i = 0;
	     svg->base && !svg->tree.unsure && i < sizeof(changes) / sizeof(changes[0]); i++) {
		strcpy(color, PLAIN);
		if (changes[i].change != 0)
			change_color(changes[i].change, 1, color);
		sink__printf(svg->sink, "<tspan dx=\"%d\" fill=\"%s\">\u25a0</tspan> %s",
			     i ? 14 : 0, color, changes[i].name);
	}
	for (size_t i = 1; i < svg->tree.n; i++)
		if (!svg->tree.nodes[i].n_folded)
			has[svg->tree.frames[svg->tree.nodes[i].frame].kind] = true;
	for (int i = 0, n = 0; !svg->base && i < FRAME_KINDS; i++) {
		int squares = kinds[i].by_module ? 3 : 1;

		for (int k = 0; has[i] && k < squares; k++) {
			hsl(kinds[i].hue + kinds[i].hues * (k + 0.5) / squares, kinds[i].saturation,
			    kinds[i].lightness + 0.04, color);
			sink__printf(svg->sink, "<tspan dx=\"%d\" fill=\"%s\">\u25a0</tspan>%s%s",
				     !k && n++ ? 14 : 0, color, k + 1 < squares ? "" : " ",
				     k + 1 < squares ? "" : kinds[i].name);
		}
	}
	sink__puts(svg->sink, "</text>\n");
}

/* --- the chart --- */

static double share(const struct svg *svg, const struct tree_node *node)
{
	double all = svg->tree.nodes[0].live.bytes;

	return all > 0 ? node->live.bytes / all : 0;
}

static int place_nodes(struct svg *svg)
{
	const struct tree *tree = &svg->tree;

	svg->left = calloc(tree->n, sizeof(*svg->left));
	if (!svg->left)
		return -ENOMEM;
	for (size_t i = 0; i < tree->n; i++) {
		const struct tree_node *node = &tree->nodes[i];
		double left = svg->left[i];

		for (uint32_t k = 0; k < node->n_children; k++) {
			svg->left[node->first_child + k] = left;
			left += share(svg, &tree->nodes[node->first_child + k]);
		}
		if (svg->base)
			svg->most_change =
				fmax(svg->most_change, fabs(node->live.bytes - node->base.bytes));
	}
	return 0;
}

static void put_boxes(const struct svg *svg)
{
	const struct tree *tree = &svg->tree;
	char color[8];
	double width;

	sink__puts(svg->sink, "<g id=\"rows\">\n");
	for (size_t i = 0; i < tree->n; i++) {
		const struct tree_node *node = &tree->nodes[i];

		if (!i || node->depth != node[-1].depth)
			sink__printf(svg->sink, "%s<g transform=\"translate(0 %" PRIu32 ")\">\n",
				     i ? "</g>\n" : "", node->depth * ROW);
		node_color(svg, i, color);
		width = i ? share(svg, node) : 1;
		sink__printf(svg->sink,
			     "<rect x=\"%.4f%%\" width=\"%.4f%%\" height=\"%d\" fill=\"%s\"%s/>\n",
			     100 * svg->left[i], 100 * width, ROW - 1, color,
			     width * CHART < THIN ? " class=\"thin\"" : "");
	}
	sink__puts(svg->sink, "</g>\n</g>\n");
}

static int put_labels(const struct svg *svg)
{
	const struct tree *tree = &svg->tree;
	int rc = 0;

	sink__puts(svg->sink, "<g id=\"labels\">\n");
	for (size_t i = 0; i < tree->n && !rc; i++) {
		const struct tree_node *node = &tree->nodes[i];
		double max = floor(((i ? share(svg, node) : 1) * CHART - 2 * PAD) / LETTER);
		char folded[32];

		if (!(max >= LEAST_LABEL))
			continue;
		sink__printf(svg->sink, "<text x=\"%.4f%%\" dx=\"%d\" y=\"%" PRIu32 "\">",
			     100 * svg->left[i], PAD, node->depth * ROW + 13);
		snprintf(folded, sizeof(folded), "(%" PRIu32 " smaller)", node->n_folded);
		rc = put_short(svg->sink,
			       !i		? "all"
			       : node->n_folded ? folded
						: tree->frames[node->frame].name,
			       (size_t)max);
		sink__puts(svg->sink, "</text>\n");
	}
	sink__puts(svg->sink, "</g>\n");
	return rc;
}

/* Puts "NAME\tMODULE" of each frame that is shown. */
static int put_names(struct svg *svg)
{
	const struct tree *tree = &svg->tree;
	uint32_t n = 0;
	int rc = 0;

	svg->name_line = malloc((tree->n_frames + 1) * sizeof(*svg->name_line));
	if (!svg->name_line)
		return -ENOMEM;
	memset(svg->name_line, 0xff, (tree->n_frames + 1) * sizeof(*svg->name_line));
	sink__puts(svg->sink, "<metadata id=\"names\">\n");
	for (size_t i = 1; i < tree->n && !rc; i++) {
		uint32_t frame = tree->nodes[i].frame;

		if (tree->nodes[i].n_folded || svg->name_line[frame] != UINT32_MAX)
			continue;
		svg->name_line[frame] = n++;
		rc = put_short(svg->sink, tree->frames[frame].name, MAX_NAME);
		sink__puts(svg->sink, "\t");
		if (!rc)
			rc = put_short(svg->sink, tree->frames[frame].module, MAX_NAME);
		sink__puts(svg->sink, "\n");
	}
	sink__puts(svg->sink, "</metadata>\n");
	return rc;
}

/* Puts "PARENT FRAME BYTES OBJECTS" of each box. FRAME is the number of the line that has the box's
 * name. A negative FRAME says how many nodes are folded into the box. With a base, "BYTES LOW HIGH"
 * follows: the base's bytes and the interval of the change ("0 0": not known). If BYTES are an
 * estimate, "LOW HIGH" of their interval comes last. */
static void put_figures(const struct svg *svg)
{
	const struct tree *tree = &svg->tree;
	bool lower = profile__is_lower_bound(svg->profile);
	struct interval interval = {};

	sink__puts(svg->sink, "<metadata id=\"boxes\">\n");
	for (size_t i = 0; i < tree->n; i++) {
		const struct tree_node *node = &tree->nodes[i];

		sink__printf(svg->sink, "%" PRIu32 " %" PRId64 " %" PRIu64 " %" PRIu64,
			     node->parent,
			     !i		      ? 0
			     : node->n_folded ? -(int64_t)node->n_folded
					      : (int64_t)svg->name_line[node->frame],
			     to_integer(node->live.bytes), to_integer(node->live.objects));
		if (svg->base) {
			struct tree_change change = tree_node__change(tree, node);

			sink__printf(svg->sink, " %" PRIu64 " %.0f %.0f",
				     to_integer(node->base.bytes),
				     tree->unsure ? 0 : change.interval.low,
				     tree->unsure ? 0 : change.interval.high);
		}
		if (!lower) {
			interval = estimate__interval(&node->live);
			if (interval.high > interval.low)
				sink__printf(svg->sink, " %" PRIu64 " %" PRIu64,
					     to_integer(interval.low), to_integer(interval.high));
		}
		sink__puts(svg->sink, "\n");
	}
	sink__puts(svg->sink, "</metadata>\n");
}

/* --- the file --- */

static int put_head(const struct svg *svg, char *head)
{
	_cleanup_free_ char *name = text_profile_name(svg->profile);
	char *rest = head, *line;
	int y = FIRST_LINE;

	if (!name)
		return -ENOMEM;
	sink__puts(svg->sink, "<title>");
	put_text(svg->sink, name);
	sink__puts(svg->sink, ": memtrace</title>\n");
	sink__printf(svg->sink, "<style><![CDATA[\n%s]]></style>\n", svg_style);
	sink__puts(svg->sink, "<rect id=\"background\" width=\"100%\" height=\"100%\"/>\n");
	while ((line = strsep(&rest, "\n")) && rest) {
		bool lost = strstr(line, "lost: ") || strstr(line, "INCOMPLETE") ||
			    strstr(line, "CONTRADICTION: ");

		sink__printf(svg->sink, "<text %s x=\"%d\" y=\"%d\">",
			     line == head ? "id=\"title\""
			     : lost	  ? "class=\"line lost\""
					  : "class=\"line\"",
			     MARGIN, y);
		put_text(svg->sink, line);
		sink__puts(svg->sink, "</text>\n");
		y += ROW;
	}
	return 0;
}

static int put_document(struct svg *svg, char *head)
{
	const struct tree *tree = &svg->tree;
	int key = FIRST_LINE + 6, rows = ((int)tree->depth + 1) * ROW, top, height, rc;

	for (const char *p = head; *p; p++)
		key += *p == '\n' ? ROW : 0;
	top = key + 16;
	height = top + rows + 28;

	sink__printf(
		svg->sink,
		"<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
		"<svg xmlns=\"http://www.w3.org/2000/svg\" id=\"flame\" width=\"%d\" height=\"%d\" "
		"viewBox=\"0 0 %d %d\">\n",
		WIDTH, height, WIDTH, height);
	rc = put_head(svg, head);
	if (rc)
		return rc;
	put_key(svg, key);
	sink__printf(
		svg->sink,
		"<svg id=\"chart\" x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\" data-what=\"%s\" "
		"data-unit=\"%s\" "
		"data-least=\"%.3g\" data-controls=\"%d\"%s%s%s>\n",
		MARGIN, top, CHART, rows, svg_what(svg->profile), svg_unit(svg->profile),
		100 * tree->min_share, key - 19, svg->base ? " data-base=\"\"" : "",
		tree->unsure ? " data-unsure=\"\"" : "",
		svg->profile->weight == WEIGHT_OBJECTS	? " data-counts=\"\""
		: svg->profile->weight == WEIGHT_GROWTH ? " data-per=\"/s\""
							: "");
	put_boxes(svg);
	rc = put_labels(svg);
	sink__puts(svg->sink, "</svg>\n");
	sink__printf(svg->sink,
		     "<text id=\"foot\" x=\"%d\" y=\"%d\">Width: %s%s %s%s; callers above. "
		     "Click: zoom; Esc: out; 0: all; /: search; arrows and Enter: by "
		     "keyboard%s</text>\n",
		     MARGIN, top + rows + 18,
		     svg->profile->weight == WEIGHT_OBJECTS ? svg_unit(svg->profile) : "byte",
		     svg->profile->weight == WEIGHT_GROWTH ? "s per second of" : "s",
		     svg_what(svg->profile), svg->base ? " in the new profile" : "",
		     svg->base ? "; b: widths by the base" : "");
	if (!rc)
		rc = put_names(svg);
	if (rc)
		return rc;
	put_figures(svg);
	sink__printf(svg->sink, "<script><![CDATA[\n%s]]></script>\n</svg>\n", svg_script);
	return svg->sink->error;
}

int encode_svg(const struct profile *profile, const struct svg_options *options, struct sink *sink)
{
	static const struct tree_options folding = {
		.min_share = MIN_PIXELS / CHART, .max_nodes = MAX_NODES, .max_depth = MAX_DEPTH};
	_cleanup_(svg__clear) struct svg svg = {.profile = profile, .sink = sink};
	_cleanup_free_ char *head = NULL;
	int rc;

	if (options)
		svg.base = options->base;
	rc = tree__build(profile, svg.base, &folding, &svg.tree);
	if (!rc)
		rc = place_nodes(&svg);
	if (!rc)
		rc = svg_head(profile, svg.base, &svg.tree, &head);
	return rc ? rc : put_document(&svg, head);
}
