// SPDX-License-Identifier: BSD-2-Clause
/* Walks the chunks of a heap from header to header, while the process continues to allocate.
 *
 * Memory is read in windows. If a header makes no sense, it may have changed while it was read, so
 * the window is read again. If the header makes no sense in any try, only the chunks before it
 * count. The walk then continues at the next chain: eight headers that agree.
 *
 * A chunk of 64 KiB or more counts only after prove() has checked it against memory that is read
 * again. Without this check, a stale header among some block's bytes could lead the walk past most
 * of an arena. */
#include "heap/glibc_internal.h"

#include <errno.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "base/vector.h"

#define WINDOW (128u << 10)
#define BIG    (64u << 10)
#define TRIES  4
#define CHAIN  8
/* if a chain begins within this number of bytes from a big chunk's start, the chunk is doubtful */
#define INSIDE	   1024
#define MAX_CACHES (1 << 20) /* at most this many candidates for thread caches are noted */

struct chunk {
	uint64_t addr, size;
	enum heap_place place;
};

struct walk {
	struct glibc *g;
	struct glibc_arena *arena;
	struct span *span;
	uint64_t end;
	uint64_t done_to; /* where the last known chunk ends */

	unsigned char *bytes; /* the content of the window [from, to) */
	uint64_t from, to;
	struct chunk *chunks; /* chunks in the window that were not counted yet */
	size_t n;
	bool doubtful; /* one of the chunks may be wrong */
};

enum outcome {
	WALK_ON,     /* a chunk begins at `at` */
	WALK_TOP,    /* the last chunk was the top, which ends at `at` */
	WALK_GROWN,  /* the chunk at `at` reaches the end that the maps gave: the heap has grown */
	WALK_FENCE,  /* a fencepost is at `at`: the heap ends, or memory of other code follows */
	WALK_ABSENT, /* the header at `at` is not resident */
	WALK_BAD,    /* the header at `at` makes no sense */
};

/* --- headers --- */

static uint64_t size_of(uint64_t head)
{
	return head & ~CHUNK_FLAGS;
}

static bool is_head(const struct walk *walk, uint64_t addr, uint64_t head)
{
	uint64_t size = size_of(head);
	uint64_t never = walk->arena->is_main ? CHUNK_MMAPPED | CHUNK_NON_MAIN : CHUNK_MMAPPED;

	return size >= CHUNK_MIN && size % CHUNK_ALIGN == 0 && size <= walk->end - addr &&
	       !(head & never);
}

/* Outside of the main arena, chunks in use have CHUNK_NON_MAIN (also those in thread caches and
 * fast bins). Free chunks do not. */
static bool may_be_in_use(const struct walk *walk, uint64_t head)
{
	return walk->arena->is_main || head & CHUNK_NON_MAIN;
}

static bool is_top(const struct walk *walk, uint64_t addr)
{
	uint64_t top;

	return glibc__read_word(walk->g, walk->arena->top_addr, &top) && top == addr;
}

/* Reads the two words of the header at addr: from the window, or from the process if the window
 * does not have them. */
static bool read_header(const struct walk *walk, uint64_t addr, uint64_t header[2])
{
	if (addr >= walk->from && addr + 16 <= walk->to) {
		header[0] = glibc__word(walk->bytes + (addr - walk->from));
		header[1] = glibc__word(walk->bytes + (addr - walk->from) + 8);
		return true;
	}
	return !image__peek(walk->g->image, addr, header, 16);
}

/* Does a chain begin at addr? A chain is CHAIN chunks whose headers agree. Before a fencepost or
 * the top, fewer chunks are enough. */
static bool is_chain(const struct walk *walk, uint64_t addr)
{
	uint64_t header[2], size = 0;

	for (int i = 0; i < CHAIN; i++, addr += size) {
		if (addr + 16 > walk->end || !read_header(walk, addr, header))
			return false;
		if (i && !(header[1] & CHUNK_PREV_USED) && header[0] != size)
			return false;
		if (i && size_of(header[1]) == CHUNK_FENCE)
			return true;
		if (!is_head(walk, addr, header[1]) || addr + size_of(header[1]) >= walk->end)
			return is_top(walk, addr);
		size = size_of(header[1]);
	}
	return true;
}

/* The first chain at addr or behind it; the end of the range if there is none. */
static uint64_t next_chain(struct walk *walk, uint64_t addr)
{
	struct image *image = walk->g->image;
	uint64_t start, end;

	image__forget(image);
	addr = (addr + CHUNK_ALIGN - 1) & ~(CHUNK_ALIGN - 1);
	while (addr < walk->end && image__run(image, addr, walk->end, &start, &end)) {
		for (; start < end && !image__spent(image); start = walk->to) {
			walk->from = start;
			walk->to = end - start < WINDOW ? end : start + WINDOW;
			if (image__read(image, start, walk->bytes, (size_t)(walk->to - start)))
				continue;
			for (uint64_t at = start; at + 16 <= walk->to; at += CHUNK_ALIGN)
				if (is_head(walk, at,
					    glibc__word(walk->bytes + (at - start) + 8)) &&
				    is_chain(walk, at))
					return at;
		}
		addr = end;
	}
	return walk->end;
}

/* Checks the big chunk at addr against memory that is read again. *ret_in_use: is the chunk in
 * use? */
static enum outcome prove(struct walk *walk, uint64_t addr, uint64_t head, bool *ret_in_use)
{
	struct image *image = walk->g->image;
	uint64_t chunk[4], next[2], link, after = addr + size_of(head);

	image__forget(image);
	walk->from = walk->to = 0; /* from here on, everything is read from the process */
	if (image__peek(image, addr, chunk, sizeof(chunk)) || (chunk[1] ^ head) & ~CHUNK_PREV_USED)
		return WALK_BAD;
	if (image__peek(image, after, next, sizeof(next)))
		return WALK_ABSENT;
	if (!is_head(walk, after, next[1]) && size_of(next[1]) != CHUNK_FENCE &&
	    !is_top(walk, after))
		return WALK_BAD;
	*ret_in_use = next[1] & CHUNK_PREV_USED;
	if (!*ret_in_use)
		return next[0] == size_of(head) &&
				       glibc__read_word(walk->g, chunk[2] + 24, &link) &&
				       link == addr &&
				       glibc__read_word(walk->g, chunk[3] + 16, &link) &&
				       link == addr
			       ? WALK_ON
			       : WALK_BAD;
	if (!may_be_in_use(walk, head) ||
	    (size_of(next[1]) != CHUNK_FENCE && !is_chain(walk, after)))
		return WALK_BAD;
	for (uint64_t at = addr + CHUNK_MIN; at < addr + INSIDE; at += CHUNK_ALIGN)
		if (is_chain(walk, at)) {
			walk->doubtful = true;
			break;
		}
	return WALK_ON;
}

/* --- one window --- */

static void note(struct walk *walk, uint64_t addr, uint64_t size, enum heap_place place)
{
	walk->chunks[walk->n++] = (struct chunk){addr, size, place};
}

static enum outcome load(struct walk *walk, uint64_t addr)
{
	struct image *image = walk->g->image;
	uint64_t end = walk->end - addr < WINDOW ? walk->end : addr + WINDOW;
	uint64_t run_start, run_end;

	walk->n = 0;
	walk->doubtful = false;
	walk->from = walk->to = 0;
	if (addr + 16 > walk->end || !image__run(image, addr, end, &run_start, &run_end) ||
	    run_start != addr || run_end < addr + 16)
		return WALK_ABSENT;
	if (image__read(image, addr, walk->bytes, (size_t)(run_end - addr)))
		return WALK_BAD;
	walk->from = addr;
	walk->to = run_end;
	return WALK_ON;
}

/* Ends the window at the chunk at addr. If this chunk is the top, the outcome is WALK_TOP, and no
 * chunk follows. Otherwise the outcome is `otherwise`. The heap may have changed since the maps
 * were read, so the top may end anywhere. */
static enum outcome end_at(struct walk *walk, uint64_t *at, uint64_t addr, uint64_t size,
			   enum outcome otherwise)
{
	if (!is_top(walk, addr))
		return otherwise;
	if (size > walk->end - addr)
		size = walk->end - addr;
	note(walk, addr, size, PLACE_TOP);
	*at = addr + size;
	return WALK_TOP;
}

/* Has the heap grown past the end that the maps gave for it? */
static bool has_grown(const struct walk *walk)
{
	uint64_t top;

	return glibc__read_word(walk->g, walk->arena->top_addr, &top) && top >= walk->end &&
	       top - walk->end < BIG * (uint64_t)BIG;
}

/* Handles the chunk at addr, which has less than BIG bytes and some pages that are not resident.
 * The chunk is, or was, a buffer that was hardly written to. The next header tells whether the
 * chunk is in use. If the next header is not resident, the chunk counts as in use. */
static enum outcome pass_hole(struct walk *walk, uint64_t *at, uint64_t addr, uint64_t size)
{
	uint64_t next[2];
	bool in_use;

	if (image__read(walk->g->image, addr + size, next, sizeof(next))) {
		note(walk, addr, size, PLACE_IN_USE);
		*at = addr + size;
		return WALK_ABSENT;
	}
	in_use = next[1] & CHUNK_PREV_USED;
	if (size_of(next[1]) < CHUNK_FENCE || (!in_use && next[0] != size))
		return WALK_BAD;
	note(walk, addr, size, in_use ? PLACE_IN_USE : PLACE_BIN);
	*at = addr + size;
	return WALK_ON; /* the next window begins behind the chunk */
}

/* Reads the chunks of a window that begins with the chunk at *at. */
static enum outcome walk_window(struct walk *walk, uint64_t *at)
{
	enum outcome outcome = load(walk, *at);
	uint64_t from = walk->from, to = walk->to, addr = *at;

	while (outcome == WALK_ON) {
		const unsigned char *here = walk->bytes + (addr - from);
		uint64_t head = glibc__word(here + 8), size = size_of(head), after = addr + size;
		uint64_t next;
		bool in_use = true;

		*at = addr;
		if (size == CHUNK_FENCE)
			return WALK_FENCE;
		if (!is_head(walk, addr, head) || after >= walk->end)
			return end_at(walk, at, addr, size,
				      size >= CHUNK_MIN && after >= walk->end && has_grown(walk)
					      ? WALK_GROWN
					      : WALK_BAD);
		if (size >= BIG) {
			outcome = prove(walk, addr, head, &in_use);
			if (outcome == WALK_BAD)
				return end_at(walk, at, addr, size, WALK_BAD);
			note(walk, addr, size, in_use ? PLACE_IN_USE : PLACE_BIN);
			*at = after;
			return outcome; /* the next window begins behind the chunk */
		}
		if (after + 16 > to) {
			if (walk->n)
				return WALK_ON; /* the chunk is the first one of the next window */
			outcome = end_at(walk, at, addr, size, WALK_ABSENT);
			if (outcome == WALK_ABSENT)
				outcome = pass_hole(walk, at, addr, size);
			return outcome;
		}
		next = glibc__word(walk->bytes + (after - from) + 8);
		in_use = next & CHUNK_PREV_USED;
		if (size_of(next) < CHUNK_FENCE ||
		    (in_use ? !may_be_in_use(walk, head)
			    : glibc__word(walk->bytes + (after - from)) != size))
			return end_at(walk, at, addr, size, WALK_BAD);
		note(walk, addr, size, in_use ? PLACE_IN_USE : PLACE_BIN);
		addr = after;
	}
	return outcome;
}

/* --- the whole range --- */

static int add_cache(struct glibc *g, const struct chunk *chunk)
{
	if (!glibc__may_be_cache(chunk->size))
		return 0;
	if (g->n_caches >= MAX_CACHES) {
		g->caches_missing = true;
		return 0;
	}
	if (VECTOR_RESERVE(g->caches, g->caches_room, g->n_caches + 1))
		return -ENOMEM;
	g->caches[g->n_caches++] = (struct glibc_block){chunk->addr + CHUNK_USER, chunk->size};
	return 0;
}

static int commit(struct walk *walk)
{
	struct glibc *g = walk->g;

	for (size_t i = 0; i < walk->n; i++) {
		const struct chunk *chunk = &walk->chunks[i];
		bool in_use = chunk->place == PLACE_IN_USE;

		span__add_block(walk->span, chunk->addr + CHUNK_USER, in_use);
		heap_arena__count(walk->arena->count, chunk->place, chunk->size - 8);
		walk->done_to = chunk->addr + chunk->size;
		if (in_use && add_cache(g, chunk))
			return -ENOMEM;
	}
	if (walk->n && walk->doubtful)
		g->quality->doubtful++;
	return 0;
}

/* Marks memory from addr on as memory without known blocks. */
static void leave_out(struct walk *walk, uint64_t addr)
{
	span__add_void(walk->span, addr + CHUNK_USER);
}

/* Walks from addr to the top, or to the end of the range. 0 or -ENOMEM. */
static int walk_range(struct walk *walk, uint64_t addr)
{
	struct heap_quality *quality = walk->g->quality;

	while (addr < walk->end && !image__spent(walk->g->image)) {
		enum outcome outcome = WALK_BAD;
		uint64_t at = addr, next;
		int err;

		for (int i = 0; i < TRIES && (outcome == WALK_BAD || walk->doubtful); i++) {
			at = addr;
			outcome = walk_window(walk, &at);
		}
		err = commit(walk);
		if (err)
			return err;
		addr = at;
		if (outcome == WALK_ON)
			continue;
		if (addr < walk->end)
			leave_out(walk, addr);
		if (outcome == WALK_TOP || outcome == WALK_GROWN)
			return 0;
		/* The main arena continues behind memory that other code got from sbrk(). */
		if (outcome == WALK_FENCE && !walk->arena->is_main) {
			walk->done_to = walk->end;
			return 0;
		}
		next = next_chain(walk, addr + CHUNK_ALIGN);
		if (outcome == WALK_ABSENT)
			quality->absent_bytes += next - addr;
		else
			quality->unknown_bytes += next - addr;
		quality->resyncs += outcome == WALK_BAD;
		addr = next;
	}
	return 0;
}

DEFINE_CLEANUP(unsigned char *, cleanup_bytes, free)

int glibc__walk(struct glibc *g, const struct glibc_range *range)
{
	const struct span model = {.kind = SPAN_WALKED,
				   .allocator = HEAP_GLIBC,
				   .arena = range->arena,
				   .start = range->start,
				   .end = range->end};
	_cleanup_(cleanup_bytes) unsigned char *bytes = malloc(WINDOW);
	_cleanup_free_ struct chunk *chunks = malloc((WINDOW / CHUNK_MIN + 2) * sizeof(*chunks));
	struct walk walk = {.g = g,
			    .arena = &g->arenas[range->arena],
			    .end = range->end,
			    .bytes = bytes,
			    .chunks = chunks};
	uint64_t first = range->first;
	int err;

	if (!bytes || !chunks)
		return -ENOMEM;
	err = blocks__add(g->blocks, &model, &walk.span);
	if (err == -EINVAL) { /* the range is too large for a span */
		g->quality->unknown_bytes += range->end - range->start;
		return 0;
	}
	if (err)
		return err;
	if (!first)
		first = next_chain(&walk, range->start);
	err = walk_range(&walk, first);
	if (walk.done_to > first)
		g->quality->found_bytes +=
			walk.done_to - (walk.arena->is_main ? first : range->start);
	return err;
}
