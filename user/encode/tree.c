// SPDX-License-Identifier: BSD-2-Clause
/* Each frame has a number, in the order of names and modules. A stack is a row of numbers, the
 * root's first, and the rows are sorted. Rows that begin with the same frames are neighbours. Thus
 * a node of the tree is a range of rows, and each child is a range of rows whose next number is the
 * same. Nodes that are too small are never made, so there are never more nodes than are shown. */
#include "encode/tree.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/path.h"
#include "base/vector.h"

/* Frames that are not code. Each note is one occurrence (struct occurrence). The notes are added
 * first, so the enum's value is also the index of the occurrence. */
enum note { NOTE_NO_STACK, NOTE_TRUNCATED, NOTE_ALLOCATORS_OWN, NOTES };

static const char *const notes[NOTES] = {"[no stack]", "[truncated]", "[allocator's own]"};

/* A frame of a location, or a note. */
struct occurrence {
	struct tree_frame frame;
	uint32_t index; /* index of this occurrence in builder.numbers */
};

struct row {
	const uint32_t *frames; /* numbers, the root's first */
	uint32_t n;
	bool of_base;
	const struct estimate *live;
};

/* The state of tree__build(). */
struct builder {
	struct tree *tree;
	struct occurrence *occurrences;
	size_t n_occurrences;
	uint32_t *numbers;  /* for each occurrence: the number of its frame */
	uint32_t *first[2]; /* [profile][location]: the occurrence of its outermost frame */
	struct row *rows;
	size_t n_rows;
	uint32_t *row_frames;
	size_t room; /* nodes */
};

static void builder__clear(struct builder *b)
{
	free(b->occurrences);
	free(b->numbers);
	free(b->first[0]);
	free(b->first[1]);
	free(b->rows);
	free(b->row_frames);
}

void tree__clear(struct tree *tree)
{
	free(tree->nodes);
	free(tree->frames);
	free(tree->addresses);
	memset(tree, 0, sizeof(*tree));
}

/* --- frames --- */

/* A location that is not symbolized counts as one frame. */
static size_t location_frames(const struct profile_location *location)
{
	return location->n_frames ? location->n_frames : 1;
}

static bool starts_with(const char *text, const char *prefix)
{
	return !strncmp(text, prefix, strlen(prefix));
}

static enum frame_kind kind_of(const struct profile *profile, const char *path, const char *name)
{
	if (profile__is_allocator_frame(name))
		return FRAME_ALLOCATOR;
	if (starts_with(path, "[vdso") || starts_with(path, "[vsyscall"))
		return FRAME_KERNEL;
	if (!*path || *path == '[')
		return FRAME_ANONYMOUS;
	/* A profile that was read from a file may not name its program. */
	if (profile->exe && *profile->exe)
		return strcmp(path, profile->exe) ? FRAME_LIBRARY : FRAME_PROGRAM;
	return strstr(base_name(path), ".so") ? FRAME_LIBRARY : FRAME_PROGRAM;
}

static void add_occurrence(struct builder *b, struct tree_frame frame)
{
	b->occurrences[b->n_occurrences] = (struct occurrence){frame, (uint32_t)b->n_occurrences};
	b->n_occurrences++;
}

/* Adds the frames of a location, outermost first. */
static void add_location(struct builder *b, const struct profile *profile,
			 const struct profile_location *location, size_t *n_addresses)
{
	const char *path = location->mapping >= 0 ? profile->mappings[location->mapping].path : "";

	for (size_t i = location_frames(location); i--;) {
		const char *name = location->n_frames ? location->frames[i].name : "";

		if (!*name) {
			char *address = b->tree->addresses[(*n_addresses)++];

			snprintf(address, sizeof(*b->tree->addresses), "0x%" PRIx64,
				 location->addr - 1);
			name = address;
		}
		add_occurrence(b, (struct tree_frame){
					  .name = name,
					  .module = *path == '[' ? path : base_name(path),
					  .kind = location->note ? FRAME_NOTE
								 : kind_of(profile, path, name)});
	}
}

static int compare_frames(const struct tree_frame *x, const struct tree_frame *y)
{
	int order = strcmp(x->name, y->name);

	return order ? order : strcmp(x->module, y->module);
}

static int by_frame(const void *a, const void *b)
{
	const struct occurrence *x = a, *y = b;
	int order = compare_frames(&x->frame, &y->frame);

	/* Equal frames get the kind of the first one. With a fixed order, the same frame is first
	 * each time. */
	return order ? order : (x->index > y->index) - (x->index < y->index);
}

/* Gives equal frames one number. */
static int number_frames(struct builder *b, const struct profile *const profiles[2])
{
	struct tree *tree = b->tree;
	size_t n = NOTES, n_addresses = 0;

	for (int p = 0; p < 2 && profiles[p]; p++)
		for (size_t i = 0; i < profiles[p]->n_locations; i++)
			n += location_frames(&profiles[p]->locations[i]);
	b->occurrences = calloc(n, sizeof(*b->occurrences));
	b->numbers = calloc(n, sizeof(*b->numbers));
	tree->frames = calloc(n, sizeof(*tree->frames));
	tree->addresses = calloc(n, sizeof(*tree->addresses));
	if (!b->occurrences || !b->numbers || !tree->frames || !tree->addresses)
		return -ENOMEM;
	for (int i = 0; i < NOTES; i++)
		add_occurrence(b, (struct tree_frame){notes[i], "", FRAME_NOTE});
	for (int p = 0; p < 2 && profiles[p]; p++) {
		b->first[p] = calloc(profiles[p]->n_locations + 1, sizeof(**b->first));
		if (!b->first[p])
			return -ENOMEM;
		for (size_t i = 0; i < profiles[p]->n_locations; i++) {
			b->first[p][i] = (uint32_t)b->n_occurrences;
			add_location(b, profiles[p], &profiles[p]->locations[i], &n_addresses);
		}
	}
	qsort(b->occurrences, n, sizeof(*b->occurrences), by_frame);
	for (size_t i = 0; i < n; i++) {
		const struct occurrence *o = &b->occurrences[i];

		if (!i || compare_frames(&o[-1].frame, &o->frame))
			tree->frames[tree->n_frames++] = o->frame;
		b->numbers[o->index] = (uint32_t)tree->n_frames - 1;
	}
	return 0;
}

/* --- rows --- */

static bool has_live(const struct profile_site *site)
{
	return site->live.objects > 0 || site->live.bytes > 0;
}

static size_t site_frames(const struct profile *profile, const struct profile_site *site)
{
	size_t n = site->n_locations ? 0 : 1;

	for (uint32_t i = 0; i < site->n_locations; i++)
		n += location_frames(profile__location(profile, site, i));
	return n + site->truncated + site->allocators_own;
}

/* Writes the numbers of a site's frames, the root's first. Returns the place after the last
 * number. */
static uint32_t *put_row(const struct builder *b, int p, const struct profile *profile,
			 const struct profile_site *site, uint32_t *to)
{
	uint32_t i = site->n_locations;

	/* the note of a view (profile/view.h) comes before the notes about the stack */
	if (i && profile__location(profile, site, i - 1)->note)
		*to++ = b->numbers[b->first[p][site->locations[--i]]];
	if (site->allocators_own)
		*to++ = b->numbers[NOTE_ALLOCATORS_OWN];
	if (!site->n_locations)
		*to++ = b->numbers[NOTE_NO_STACK];
	else if (site->truncated)
		*to++ = b->numbers[NOTE_TRUNCATED];
	while (i--) {
		size_t n = location_frames(profile__location(profile, site, i));

		memcpy(to, b->numbers + b->first[p][site->locations[i]], n * sizeof(*to));
		to += n;
	}
	return to;
}

static int compare_rows(const struct row *x, const struct row *y)
{
	for (uint32_t i = 0; i < x->n && i < y->n; i++)
		if (x->frames[i] != y->frames[i])
			return x->frames[i] < y->frames[i] ? -1 : 1;
	return (x->n > y->n) - (x->n < y->n);
}

static int by_frames(const void *a, const void *b)
{
	return compare_rows(a, b);
}

static int make_rows(struct builder *b, const struct profile *const profiles[2], uint32_t max_depth)
{
	size_t n_frames = 0, n_sites = 0;
	uint32_t *to;

	for (int p = 0; p < 2 && profiles[p]; p++) {
		n_sites += profiles[p]->n_sites;
		for (size_t i = 0; i < profiles[p]->n_sites; i++)
			if (has_live(&profiles[p]->sites[i]))
				n_frames += site_frames(profiles[p], &profiles[p]->sites[i]);
	}
	b->rows = calloc(n_sites + 1, sizeof(*b->rows));
	b->row_frames = to = calloc(n_frames + 1, sizeof(*b->row_frames));
	if (!b->rows || !to)
		return -ENOMEM;
	for (int p = 0; p < 2 && profiles[p]; p++) {
		for (size_t i = 0; i < profiles[p]->n_sites; i++) {
			const struct profile_site *site = &profiles[p]->sites[i];
			struct row *row = &b->rows[b->n_rows];

			if (!has_live(site))
				continue;
			*row = (struct row){.frames = to, .of_base = p, .live = &site->live};
			to = put_row(b, p, profiles[p], site, to);
			row->n = (uint32_t)(to - row->frames);
			if (max_depth && row->n > max_depth)
				row->n = max_depth;
			b->n_rows++;
		}
	}
	qsort(b->rows, b->n_rows, sizeof(*b->rows), by_frames);
	return 0;
}

/* Counts the stacks that only the older profile has, and their bytes. */
static void count_gone(const struct builder *b)
{
	size_t end;

	for (size_t i = 0; i < b->n_rows; i = end) {
		double bytes = 0;
		bool live = false;

		for (end = i; end < b->n_rows && !compare_rows(&b->rows[i], &b->rows[end]); end++) {
			live = live || !b->rows[end].of_base;
			bytes += b->rows[end].live->bytes;
		}
		if (!live) {
			b->tree->gone_stacks++;
			b->tree->gone_bytes += bytes;
		}
	}
}

/* --- nodes --- */

static int add_node(struct builder *b, const struct tree_node *node)
{
	struct tree *tree = b->tree;

	if (VECTOR_RESERVE(tree->nodes, b->room, tree->n + 1))
		return -ENOMEM;
	tree->nodes[tree->n++] = *node;
	if (node->depth > tree->depth)
		tree->depth = node->depth;
	return 0;
}

static int by_size(const void *a, const void *b)
{
	const struct tree_node *x = a, *y = b;

	if (x->live.bytes != y->live.bytes)
		return x->live.bytes > y->live.bytes ? -1 : 1;
	if (x->base.bytes != y->base.bytes)
		return x->base.bytes > y->base.bytes ? -1 : 1;
	return (x->frame > y->frame) - (x->frame < y->frame);
}

/* Adds the children of a node. */
static int add_children(struct builder *b, uint32_t parent)
{
	struct tree *tree = b->tree;
	const struct tree_node *root = &tree->nodes[0];
	double min_live = tree->min_share * root->live.bytes;
	double min_base = tree->min_share * root->base.bytes;
	uint32_t depth = tree->nodes[parent].depth, end = tree->nodes[parent].end, next;
	struct tree_node folded = {.parent = parent, .depth = depth + 1};
	size_t first = tree->n;
	int rc = 0;

	for (uint32_t i = tree->nodes[parent].begin; i < end && !rc; i = next) {
		struct tree_node node = {.parent = parent, .depth = depth + 1, .begin = i};

		next = i + 1;
		if (b->rows[i].n <= depth) /* the stack ends here */
			continue;
		node.frame = b->rows[i].frames[depth];
		for (next = i; next < end && b->rows[next].frames[depth] == node.frame; next++)
			estimate__merge(b->rows[next].of_base ? &node.base : &node.live,
					b->rows[next].live);
		node.end = next;
		if ((node.live.bytes > 0 && node.live.bytes >= min_live) ||
		    (node.base.bytes > 0 && node.base.bytes >= min_base)) {
			rc = add_node(b, &node);
		} else {
			folded.n_folded++;
			estimate__merge(&folded.live, &node.live);
			estimate__merge(&folded.base, &node.base);
		}
	}
	qsort(tree->nodes + first, tree->n - first, sizeof(*tree->nodes), by_size);
	if (!rc && (folded.live.bytes > 0 || folded.base.bytes > 0))
		rc = add_node(b, &folded);
	if (rc)
		return rc;
	tree->nodes[parent].first_child = (uint32_t)first;
	tree->nodes[parent].n_children = (uint32_t)(tree->n - first);
	return 0;
}

/* Makes all nodes. -E2BIG: there are more than max (0: no limit). */
static int make_nodes(struct builder *b, const struct tree_node *root, size_t max)
{
	int rc;

	b->tree->n = 0;
	b->tree->depth = 0;
	rc = add_node(b, root);
	for (uint32_t i = 0; i < b->tree->n && !rc; i++) {
		rc = add_children(b, i);
		if (!rc && max && b->tree->n > max)
			rc = -E2BIG;
	}
	return rc;
}

/* Returns the upper end of the interval of live bytes for a stack without samples. If more bytes
 * were live, one of them would have been sampled with a probability of 97.5 %. A small block's
 * sample stands for the interval in a continuous run, and may stand for more in windows. */
static double unseen_bytes(const struct profile *profile, const struct estimate *live)
{
	double one = profile->interval_bytes > 1 ? (double)profile->interval_bytes : 0;

	return -log(0.025) * fmax(one, sqrt(live->variance_max));
}

int tree__build(const struct profile *profile, const struct profile *base,
		const struct tree_options *options, struct tree *ret_tree)
{
	const struct profile *const profiles[2] = {profile, base};
	_cleanup_(builder__clear) struct builder b = {};
	struct tree_node root = {.live = profile__live(profile)};
	struct tree tree = {.min_share = options->min_share};
	int rc;

	b.tree = &tree;
	rc = number_frames(&b, profiles);
	if (!rc)
		rc = make_rows(&b, profiles, options->max_depth);
	if (!rc) {
		if (base) {
			root.base = profile__live(base);
			tree.unseen_base = unseen_bytes(base, &root.base);
			tree.unsure = !profile->interval_bytes || !base->interval_bytes ||
				      profile__is_windowed(profile) || profile__is_windowed(base);
		}
		tree.unseen_live = unseen_bytes(profile, &root.live);
		root.end = (uint32_t)b.n_rows;
		count_gone(&b);
		/* A min_share above 1 folds all children into one node, because no child holds more
		 * than all bytes. So min_share need not rise further. */
		while ((rc = make_nodes(&b, &root, options->max_nodes)) == -E2BIG &&
		       tree.min_share <= 1)
			tree.min_share = fmax(1.25 * tree.min_share, 1e-6);
	}
	if (rc) {
		tree__clear(&tree);
		return rc;
	}
	*ret_tree = tree;
	return 0;
}

/* --- change --- */

static struct interval interval_of(const struct estimate *estimate, double unseen)
{
	if (estimate->bytes > 0)
		return estimate__interval(estimate);
	return (struct interval){0, unseen};
}

struct tree_change tree_node__change(const struct tree *tree, const struct tree_node *node)
{
	struct interval live = interval_of(&node->live, tree->unseen_live);
	struct interval base = interval_of(&node->base, tree->unseen_base);
	double change = node->live.bytes - node->base.bytes;
	double down = hypot(node->live.bytes - live.low, base.high - node->base.bytes);
	double up = hypot(live.high - node->live.bytes, node->base.bytes - base.low);

	/* the error of the change is not known */
	if (tree->unsure)
		return (struct tree_change){change, {NAN, NAN}};
	return (struct tree_change){change, {change - down, change + up}};
}

bool tree_change__exceeds_error(const struct tree_change *change)
{
	return change->interval.low > 0 || change->interval.high < 0;
}
