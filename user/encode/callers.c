// SPDX-License-Identifier: BSD-2-Clause
/* The tree of callers. Stacks are sequences of names, the leaf first, and are sorted as such.
 * Stacks that begin with the same frames are neighbours. So every node of the tree is a range of
 * stacks. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/intern.h"
#include "encode/fold.h"
#include "encode/table.h"
#include "encode/text.h"
#include "encode/where.h"

#define DEFAULT_WIDTH	  100
#define DEFAULT_SHARE_PCT 1
#define MAX_DEPTH	  40 /* at most this many levels of branches */
#define MIN_ROOM	  40
#define INDENT		  2

/* The shown frames of one stack, leaf first, and the bytes that the stack holds. */
struct tree_stack {
	const uint32_t *frames; /* the number of each frame's name */
	uint32_t n;
	double bytes;
};

struct tree {
	struct sink *sink;
	struct intern names;
	uint32_t *frames;
	struct tree_stack *stacks;
	size_t n;
	double total, least; /* nodes with fewer bytes than least are not shown */
	size_t width;
	int live_width; /* columns */
};

struct node {
	size_t from, to; /* range of stacks; `to` is exclusive */
	double bytes;
};

static void tree__clear(struct tree *tree)
{
	intern__clear(&tree->names);
	free(tree->frames);
	free(tree->stacks);
}

static int by_frames(const void *a, const void *b)
{
	const struct tree_stack *x = a, *y = b;

	for (uint32_t i = 0; i < x->n && i < y->n; i++)
		if (x->frames[i] != y->frames[i])
			return x->frames[i] < y->frames[i] ? -1 : 1;
	return (x->n > y->n) - (x->n < y->n);
}

/* Descending by bytes. Nodes with equal bytes stay in the order of by_frames(). */
static int by_bytes(const void *a, const void *b)
{
	const struct node *x = a, *y = b;

	if (x->bytes != y->bytes)
		return x->bytes > y->bytes ? -1 : 1;
	return (x->from > y->from) - (x->from < y->from);
}

/* Gives each distinct name a number. numbers[] receives the number of each frame's name. */
static int number_names(struct tree *tree, const struct profile *profile,
			const struct frame_slots *slots, uint32_t *numbers)
{
	for (size_t i = 0; i < profile->n_locations; i++) {
		const struct profile_location *location = &profile->locations[i];

		for (size_t k = 0; k < location->n_frames || !k; k++) {
			char addr[24];
			const char *name = location->n_frames ? location->frames[k].name : "";

			if (!*name) {
				snprintf(addr, sizeof(addr), "0x%" PRIx64, location->addr - 1);
				name = addr;
			}
			if (intern__add(&tree->names, name, strlen(name),
					&numbers[slots->first[i] + k]) < 0)
				return -ENOMEM;
		}
	}
	return 0;
}

/* Fills the stacks with the same frames that the table shows. A stack begins with its first own
 * frame. The name of this frame includes the function that it called. The allocator's frames are
 * left out. */
static int tree__fill(struct tree *tree, const struct profile *profile, bool show_runtime)
{
	_cleanup_(frame_slots__clear) struct frame_slots slots = {};
	_cleanup_free_ uint32_t *numbers = NULL;
	size_t n_frames = 0, used = 0;

	if (frame_slots__init(&slots, profile))
		return -ENOMEM;
	for (size_t i = 0; i < profile->n_sites; i++)
		for (uint32_t k = 0; k < profile->sites[i].n_locations; k++) {
			uint32_t location = profile->sites[i].locations[k];

			n_frames += slots.first[location + 1] - slots.first[location];
		}
	n_frames += profile->n_sites; /* a stack without frames takes one entry, too */
	numbers = calloc(slots.first[profile->n_locations] + 1, sizeof(*numbers));
	tree->frames = calloc(n_frames + 1, sizeof(*tree->frames));
	tree->stacks = calloc(profile->n_sites + 1, sizeof(*tree->stacks));
	if (!numbers || !tree->frames || !tree->stacks ||
	    number_names(tree, profile, &slots, numbers))
		return -ENOMEM;
	for (size_t i = 0; i < profile->n_sites; i++) {
		const struct profile_site *site = &profile->sites[i];
		struct frame_walk walk = {.profile = profile, .site = site, .slots = &slots};
		struct tree_stack *stack = &tree->stacks[tree->n];

		_cleanup_free_ char *beginning = NULL;

		if (!(site->live.bytes > 0))
			continue;
		beginning = where_beginning(&walk, show_runtime);
		if (!beginning || intern__add(&tree->names, beginning, strlen(beginning),
					      &tree->frames[used]) < 0)
			return -ENOMEM;
		stack->frames = tree->frames + used++;
		stack->bytes = site->live.bytes;
		stack->n = 1;
		while (frame_walk__next(&walk)) {
			if (slots.owners[walk.slot] == FRAME_OF_ALLOCATOR)
				continue;
			tree->frames[used++] = numbers[walk.slot];
			stack->n++;
		}
		tree->n++;
	}
	qsort(tree->stacks, tree->n, sizeof(*tree->stacks), by_frames);
	return 0;
}

static void put_numbers(const struct tree *tree, double bytes, size_t indent)
{
	char text[16];

	sink__printf(tree->sink, "%*s  %5.1f%%  %*s", tree->live_width, format_bytes(bytes, text),
		     100 * bytes / tree->total, (int)indent, "");
}

/* Puts a frame on a line of which *used columns are taken. If the frame does not fit, it begins a
 * new line. */
static int put_frame(const struct tree *tree, uint32_t number, size_t indent, bool first,
		     size_t *used)
{
	size_t before = (size_t)tree->live_width + 10 + indent, len, room;
	const char *bytes = intern__get(&tree->names, number, &len);
	_cleanup_free_ char *copy = strndup(bytes, len), *printable = NULL, *name = NULL,
			    *shown = NULL;

	printable = copy ? text_printable(copy) : NULL;
	name = printable ? fold_name(printable) : NULL;
	room = tree->width > before + MIN_ROOM ? tree->width - before : MIN_ROOM;
	shown = name ? text_shorten(name, room - 3) : NULL;
	if (!shown)
		return -ENOMEM;
	if (!first && *used + 3 + text_columns(shown) > room) {
		sink__printf(tree->sink, "\n%*s", (int)before + INDENT, "");
		*used = INDENT;
	} else if (!first) {
		sink__puts(tree->sink, " ");
		++*used;
	}
	if (!first || indent) {
		sink__puts(tree->sink, "< ");
		*used += 2;
	}
	*used += text_columns(shown);
	return sink__puts(tree->sink, shown);
}

static int put_children(const struct tree *tree, const struct node *node, uint32_t depth,
			unsigned level);

/* Puts a node and the nodes below it. The first depth + 1 frames of its stacks are the same. */
static int put_node(const struct tree *tree, const struct node *node, uint32_t depth,
		    unsigned level)
{
	const struct tree_stack *first = &tree->stacks[node->from],
				*last = &tree->stacks[node->to - 1];
	size_t indent = (size_t)level * INDENT, used = 0;
	int rc;

	put_numbers(tree, node->bytes, indent);
	rc = put_frame(tree, first->frames[depth], indent, true, &used);
	/* as long as all stacks of the node have the same caller, this caller is put on the same
	 * line */
	for (depth++; !rc && depth < first->n && first->frames[depth] == last->frames[depth];
	     depth++)
		rc = put_frame(tree, first->frames[depth], indent, false, &used);
	sink__puts(tree->sink, "\n");
	return rc ? rc : put_children(tree, node, depth, level + 1);
}

/* Puts the node's callers at `depth`, largest first. The smallest callers share one line. */
static int put_children(const struct tree *tree, const struct node *node, uint32_t depth,
			unsigned level)
{
	_cleanup_free_ struct node *children = calloc(node->to - node->from, sizeof(*children));
	size_t n = 0, n_small = 0;
	double small = 0;
	int rc = 0;

	if (!children)
		return -ENOMEM;
	for (size_t i = node->from; i < node->to; i++) {
		const struct tree_stack *stack = &tree->stacks[i], *before = stack - 1;

		/* the stack has no further caller: the line above counts its memory */
		if (stack->n <= depth)
			continue;
		if (!n || before->n <= depth || before->frames[depth] != stack->frames[depth])
			children[n++] = (struct node){.from = i};
		children[n - 1].to = i + 1;
		children[n - 1].bytes += stack->bytes;
	}
	if (n)
		qsort(children, n, sizeof(*children), by_bytes);
	for (size_t i = 0; i < n && !rc; i++) {
		if (children[i].bytes >= tree->least && level < MAX_DEPTH) {
			rc = put_node(tree, &children[i], depth, level);
		} else {
			small += children[i].bytes;
			n_small++;
		}
	}
	if (n_small && !rc) {
		put_numbers(tree, small, (size_t)level * INDENT);
		sink__printf(tree->sink, "(%zu more%s)\n", n_small, level ? " callers" : "");
	}
	return rc ? rc : tree->sink->error;
}

int put_tree(const struct profile *profile, const struct table_options *options,
	     const struct estimate *live, struct sink *sink)
{
	_cleanup_(tree__clear) struct tree tree = {
		.sink = sink,
		.total = live->bytes > 0 ? live->bytes : 1,
		.width = options->width ? options->width : DEFAULT_WIDTH,
		.live_width = 10,
	};
	struct node root = {};
	int rc = tree__fill(&tree, profile, options->show_runtime);

	tree.least = live->bytes / 100 *
		     (options->min_share_pct > 0 ? options->min_share_pct : DEFAULT_SHARE_PCT);
	root.to = tree.n;
	if (rc || !tree.n)
		return rc;
	sink__printf(sink, "%s\n%*s   SHARE  HELD BY < CALLED BY%s\n", options->color ? BOLD : "",
		     tree.live_width, "LIVE", options->color ? RESET : "");
	return put_children(&tree, &root, 0, 0);
}
