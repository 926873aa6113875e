// SPDX-License-Identifier: BSD-2-Clause
#include "heap/census.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "heap/shapes.h"
#include "heap/slack.h"
#include "heap/types.h"

#define HALF (HEAP_PAGE / 2)

/* --- counting --- */

struct counting {
	struct image *image;
	struct census *census;
	struct types *types;
	struct shapes *shapes;	 /* NULL: no block is labelled */
	const struct span *span; /* the span that is counted */
	uint16_t *live;		 /* for each page of the span: how many of its bytes belong to
				  * blocks in use */
	size_t room;
};

/* A loop over the pages of [start, end). `page` is the number of the page. `part` is how many bytes
 * of the page lie in [start, end). */
#define EACH_PAGE(start, end, page, part)                                                          \
	for (uint64_t at_ = (start), page, part;                                                   \
	     at_ < (end) &&                                                                        \
	     (page = at_ / HEAP_PAGE,                                                              \
	     part = ((page + 1) * HEAP_PAGE < (end) ? (page + 1) * HEAP_PAGE : (end)) - at_,       \
	     true);                                                                                \
	     at_ += part)

static int enter_span(struct counting *c, const struct span *span)
{
	size_t pages = (size_t)((span->end - span->start) / HEAP_PAGE);

	if (pages > c->room) {
		free(c->live);
		c->room = 0;
		c->live = malloc(pages * sizeof(*c->live));
		if (!c->live)
			return -ENOMEM;
		c->room = pages;
	}
	memset(c->live, 0, pages * sizeof(*c->live));
	c->span = span;
	return 0;
}

static uint16_t *live_on(struct counting *c, uint64_t page)
{
	return &c->live[page - c->span->start / HEAP_PAGE];
}

/* Returns how many bytes of [start, end) are on resident pages. */
static uint64_t resident_bytes(struct image *image, uint64_t start, uint64_t end)
{
	uint64_t bytes = 0, run_start, run_end;

	for (; image__run(image, start, end, &run_start, &run_end); start = run_end)
		bytes += run_end - run_start;
	return bytes;
}

static int add_block(const struct block *block, void *ctx)
{
	struct counting *c = ctx;
	struct census_pages *pages = &c->census->pages[block->span->allocator];
	uint64_t end = block->start + block->size, whole;

	if (block->in_use) {
		EACH_PAGE(block->start, end, page, part)
		*live_on(c, page) += (uint16_t)part;
		return 0;
	}
	whole = (block->start + BLOCK_LINKS + HEAP_PAGE - 1) & ~(HEAP_PAGE - 1);
	end &= ~(HEAP_PAGE - 1);
	if (whole < end)
		pages->trimmable += resident_bytes(c->image, whole, end);
	return 0;
}

static void add_pages(struct counting *c)
{
	struct census_pages *pages = &c->census->pages[c->span->allocator];
	uint64_t start = c->span->start, run_start, run_end;

	pages->mapped += c->span->end - c->span->start;
	for (; image__run(c->image, start, c->span->end, &run_start, &run_end); start = run_end) {
		pages->pages += run_end - run_start;
		for (uint64_t page = run_start / HEAP_PAGE; page < run_end / HEAP_PAGE; page++) {
			uint64_t live = *live_on(c, page);

			pages->live += live;
			if (!live && c->span->kind != SPAN_OWN)
				pages->whole_free += HEAP_PAGE;
			else
				pages->between += HEAP_PAGE - live;
			if (live && live < HALF) {
				pages->sparse += HEAP_PAGE;
				pages->pinned += HEAP_PAGE - live;
			}
		}
		if (c->span->kind == SPAN_FREE)
			pages->trimmable += run_end - run_start;
	}
}

static bool is_resident(struct image *image, uint64_t page)
{
	uint64_t start, end;

	return image__run(image, page * HEAP_PAGE, (page + 1) * HEAP_PAGE, &start, &end);
}

/* Sets *ret to the block's share of the free bytes on its sparse pages. False: no page of the block
 * is sparse. */
static bool holds_pages(struct counting *c, const struct block *block, uint64_t *ret)
{
	bool holds = false;

	*ret = 0;
	EACH_PAGE(block->start, block->start + block->size, page, part)
	{
		uint64_t live = *live_on(c, page);

		if (live >= HALF || !is_resident(c->image, page))
			continue;
		*ret += (HEAP_PAGE - live) * part / live;
		holds = true;
	}
	return holds;
}

static int add_holder(const struct block *block, void *ctx)
{
	struct counting *c = ctx;
	struct census_size *size =
		&c->census->sizes[block->span->allocator][heap__size_group(block->size)];
	uint64_t pinned;

	if (!block->in_use)
		return 0;
	size->holders += holds_pages(c, block, &pinned);
	size->pinned += pinned;
	if (c->shapes)
		shapes__count(c->shapes, block, pinned);
	return pinned ? types__pin(c->types, block, pinned) : 0;
}

static int count_spans(const struct scan_view *view, const struct census_options *options,
		       struct types *types, struct shapes *shapes, struct census *census)
{
	const struct slack slack = {view->image, options->ranges, options->n_ranges,
				    &census->slack};
	struct counting c = {
		.image = view->image, .census = census, .types = types, .shapes = shapes};
	int err = 0;

	for (size_t i = 0; i < blocks__n_spans(view->blocks) && !err; i++) {
		const struct span *span = blocks__span(view->blocks, i);
		uint64_t sparse = census->pages[span->allocator].sparse;

		err = enter_span(&c, span);
		if (err)
			break;
		span__each(span, add_block, &c);
		add_pages(&c);
		if (options->n_ranges)
			slack__add_span(&slack, span, c.live);
		if (shapes || census->pages[span->allocator].sparse > sparse)
			err = span__each(span, add_holder, &c);
	}
	free(c.live);
	return err;
}

static void count_regions(struct image *image, struct census *census)
{
	for (size_t i = 0; i < image__n_regions(image); i++) {
		struct image_region *region = image__region(image, i);

		image__look(image, region);
		census->memory[region->kind].mapped += region->end - region->start;
		census->memory[region->kind].resident += region->n_resident * HEAP_PAGE;
		census->memory[region->kind].swapped += region->n_swapped * HEAP_PAGE;
	}
}

static void add_count(struct heap_count *sum, const struct heap_count *count)
{
	sum->blocks += count->blocks;
	sum->bytes += count->bytes;
}

static void count_arenas(const struct heap_found *found, struct census *census)
{
	for (size_t i = 0; i < found->n_arenas; i++) {
		const struct heap_arena *arena = found->arenas[i];

		if (i >= CENSUS_MAX_ARENAS)
			break;
		census->arenas[i].allocator = arena->allocator;
		census->arenas[i].addr = arena->addr;
		for (int place = 0; place < HEAP_PLACES; place++)
			for (size_t k = 0; k < HEAP_SIZES; k++) {
				const struct heap_count *count = &arena->count[place][k];
				struct census_size *size = &census->sizes[arena->allocator][k];

				add_count(&census->arenas[i].places[place], count);
				if (place == PLACE_IN_USE || place == PLACE_LARGE)
					add_count(&size->in_use, count);
				else if (place == PLACE_THREAD_CACHE || place == PLACE_FAST_BIN)
					add_count(&size->cached, count);
				else
					add_count(&size->free, count);
				if (place == PLACE_THREAD_CACHE || place == PLACE_FAST_BIN)
					census->slack.cached += count->bytes;
			}
		census->n_arenas = i + 1;
	}
}

/* Makes the counts that need a pass over all blocks. */
static int count_blocks(const struct scan_view *view, const struct census_options *options,
			struct census *ret)
{
	struct shapes *shapes = NULL;
	struct types *types = NULL;
	int err = types__new(view->image, &types);

	if (!err && options->n_labels)
		err = shapes__new(view->image, view->blocks, options->labels, options->n_labels,
				  &shapes);
	if (!err)
		err = count_spans(view, options, types, shapes, ret);
	if (!err && shapes)
		shapes__give(shapes, ret);
	shapes__free(shapes);
	if (!err)
		err = types__count(types, view->blocks);
	if (!err)
		types__give(types, &ret->types, &ret->n_types, &ret->untold_types,
			    &ret->unchecked_types);
	types__free(types);
	return err;
}

/* Returns how many resident bytes of IMAGE_BRK and IMAGE_ANON are in spans. Spans that an allocator
 * has mapped right behind a file are IMAGE_BSS, so they are subtracted. */
static uint64_t known_anon(const struct scan_view *view, const struct census *census)
{
	uint64_t known = 0;

	for (int i = 0; i < HEAP_ALLOCATORS; i++)
		known += census->pages[i].pages;
	for (size_t i = 0; i < blocks__n_spans(view->blocks); i++) {
		const struct span *span = blocks__span(view->blocks, i);
		const struct image_region *region = image__find(view->image, span->start);

		if (region && region->kind == IMAGE_BSS)
			known -= resident_bytes(view->image, span->start, span->end);
	}
	return known;
}

int census__count(const struct scan_view *view, const struct census_options *options,
		  struct census *ret)
{
	const struct heap_found *found = view->found;
	uint64_t known;
	int err;

	*ret = (struct census){};
	ret->arenas = calloc(found->n_arenas + 1, sizeof(*ret->arenas));
	if (!ret->arenas)
		return -ENOMEM;
	count_regions(view->image, ret);
	err = count_blocks(view, options, ret);
	if (err) {
		census__clear(ret);
		return err;
	}
	count_arenas(found, ret);
	memcpy(ret->quality, found->quality, sizeof(ret->quality));
	known = known_anon(view, ret);
	ret->unknown_anon = ret->memory[IMAGE_BRK].resident + ret->memory[IMAGE_ANON].resident;
	ret->unknown_anon -= known < ret->unknown_anon ? known : ret->unknown_anon;
	ret->stopped = image__stopped(view->image);
	ret->bytes_read = image__bytes_read(view->image);
	ret->table_bytes = blocks__bytes(view->blocks);
	ret->cpu_ns = clock__now_ns(CLOCK_PROCESS_CPUTIME_ID);
	return 0;
}

/* --- between the processes --- */

static bool put(FILE *out, const void *from, size_t size, uint64_t n)
{
	return !n || fwrite(from, size, (size_t)n, out) == n;
}

static enum child_exit send(const struct scan_view *view, FILE *out, void *ctx)
{
	struct census c;

	if (census__count(view, ctx, &c) || !put(out, &c, sizeof(c), 1) ||
	    !put(out, c.arenas, sizeof(*c.arenas), c.n_arenas) ||
	    !put(out, c.types, sizeof(*c.types), c.n_types) ||
	    !put(out, c.shapes, sizeof(*c.shapes), c.n_shapes) ||
	    !put(out, c.rough, sizeof(*c.rough), c.n_rough) ||
	    !put(out, c.shape_of, sizeof(*c.shape_of), c.n_labels))
		return CHILD_FAILED;
	return CHILD_DONE;
}

/* Reads a list of n elements. The caller owns *ret, also after an error. */
static int receive_list(struct stream *stream, uint64_t n, size_t size, void **ret)
{
	*ret = calloc((size_t)n + 1, size);
	return *ret ? stream__read_all(stream, *ret, (size_t)n * size) : -ENOMEM;
}

/* Are all indexes within their lists, does each name end with NUL, and are the parts of `slack` no
 * larger than the whole? */
static bool is_sound(const struct census *c)
{
	if (!heap_slack__adds_up(&c->slack))
		return false;
	for (size_t i = 0; i < c->n_arenas; i++)
		if (c->arenas[i].allocator >= HEAP_ALLOCATORS)
			return false;
	for (size_t i = 0; i < c->n_types; i++)
		if (!memchr(c->types[i].name, '\0', CENSUS_TYPE_NAME) ||
		    c->types[i].allocator >= HEAP_ALLOCATORS ||
		    c->types[i].size_group >= HEAP_SIZES)
			return false;
	for (size_t i = 0; i < c->n_shapes; i++)
		if (c->shapes[i].rough >= c->n_rough || c->shapes[i].shape_class >= SHAPE_CLASSES)
			return false;
	for (size_t i = 0; i < c->n_rough; i++)
		if (c->rough[i].shape_class >= SHAPE_CLASSES)
			return false;
	for (size_t i = 0; i < c->n_labels; i++)
		if (c->shape_of[i] >= c->n_shapes && c->shape_of[i] != CENSUS_NO_SHAPE)
			return false;
	return true;
}

static int receive_lists(struct stream *stream, struct census *c)
{
	const struct {
		uint64_t n;
		size_t size;
		void **to;
	} lists[] = {
		{c->n_arenas, sizeof(*c->arenas), (void **)&c->arenas},
		{c->n_types, sizeof(*c->types), (void **)&c->types},
		{c->n_shapes, sizeof(*c->shapes), (void **)&c->shapes},
		{c->n_rough, sizeof(*c->rough), (void **)&c->rough},
		{c->n_labels, sizeof(*c->shape_of), (void **)&c->shape_of},
	};
	int err = 0, got;
	char more;

	for (size_t i = 0; i < sizeof(lists) / sizeof(*lists) && !err; i++)
		err = receive_list(stream, lists[i].n, lists[i].size, lists[i].to);
	if (!err && !is_sound(c))
		err = -EPROTO;
	if (err)
		return err;
	got = stream__read(stream, &more, 1); /* the child must not write more */
	return got > 0 ? -EPROTO : got;
}

static int receive(struct stream *stream, size_t n_labels, struct census *ret)
{
	struct census census;
	int err = stream__read_all(stream, &census, sizeof(census));

	if (err)
		return err;
	census.arenas = NULL;
	census.types = NULL;
	census.shapes = census.rough = NULL;
	census.shape_of = NULL;
	err = census.n_arenas > CENSUS_MAX_ARENAS || census.n_types > TYPES_MAX ||
			      census.n_labels != n_labels || census.n_shapes > n_labels ||
			      census.n_rough > n_labels
		      ? -EPROTO
		      : receive_lists(stream, &census);
	if (err)
		census__clear(&census);
	else
		*ret = census;
	return err;
}

/* Ends the scan. rc: the result of reading the scan's stream. Returns 0, or negative errno with the
 * reason in err. */
static int end_scan(pid_t pid, struct scan *scan, int rc, struct error *err)
{
	int end = scan__end(scan);

	if (!rc || end == -EPERM)
		rc = end;
	if (!rc)
		return 0;
	if (rc == -EPERM)
		return error__set(err, rc,
				  "no sandbox is available for reading process %d: seccomp is "
				  "missing",
				  (int)pid);
	if (rc == -ETIMEDOUT)
		return error__set(err, rc, "the memory of process %d could not be read in time",
				  (int)pid);
	return error__set(err, rc, "the scan of process %d failed: %s", (int)pid,
			  rc == -ECHILD ? "its child was killed, or had no memory left"
					: strerror(-rc));
}

int census__take(pid_t pid, const struct maps *maps, const struct census_options *options,
		 struct census *ret, struct error *err)
{
	const struct scan_task task = {
		.fn = send,
		.ctx = (void *)options,
		.patience_s = options->patience_s,
		.pace = options->pace,
	};
	struct census census = {};
	struct scan *scan;
	int rc = scan__start(pid, maps, &task, &scan, err);

	if (rc)
		return rc;
	rc = receive(scan__stream(scan), options->n_labels, &census);
	rc = end_scan(pid, scan, rc, err);
	if (rc)
		census__clear(&census);
	else
		*ret = census;
	return rc;
}

static int send_block(const struct block *block, void *ctx)
{
	const uint64_t pair[2] = {block->start, block->size};

	return block->in_use && fwrite(pair, sizeof(pair), 1, ctx) != 1;
}

static enum child_exit send_blocks(const struct scan_view *view, FILE *out, void *ctx)
{
	(void)ctx;
	return blocks__each(view->blocks, send_block, out) ? CHILD_FAILED : CHILD_DONE;
}

int census__list(pid_t pid, const struct maps *maps, struct sink *sink, struct error *err)
{
	const struct scan_task task = {.fn = send_blocks};
	struct scan *scan;
	uint64_t pair[2];
	int rc = scan__start(pid, maps, &task, &scan, err), got;

	if (rc)
		return rc;
	while ((got = stream__read(scan__stream(scan), pair, sizeof(pair))) > 0)
		sink__printf(sink, "%" PRIx64 " %" PRIu64 "\n", pair[0], pair[1]);
	rc = end_scan(pid, scan, got, err);
	return rc ? rc : sink->error;
}
