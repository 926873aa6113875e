// SPDX-License-Identifier: BSD-2-Clause
#include "heap/blocks.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/bits.h"
#include "base/search.h"
#include "base/vector.h"
#include "sandbox/gentle.h"

#define PAGE	   4096ULL
#define PAGE_SLOTS (PAGE / BLOCK_GRANULE)
#define NONE	   UINT32_MAX
/* bytes of a glibc block's header, without the word that the preceding block may use */
#define HEADER	    8
#define STEP_BLOCKS 256		 /* blocks to visit between two calls of gentle__step() */
#define MAX_SPAN    (1ULL << 35) /* most bytes of a SPAN_WALKED: slots have 32-bit numbers */
#define LAND_GAP    (64 * PAGE)	 /* bytes; spans share one table if no gap is larger than this */

/* Spans that lie close to each other, and a table with the span of each page. */
struct land {
	uint64_t start, end;
	uint32_t *span; /* for each page: 1 + index of the page's span; 0: none */
};

struct blocks {
	struct span *spans;
	size_t n_spans, room;
	size_t n_slots;
	struct land *lands;
	size_t n_lands;
	size_t bytes;
};

int blocks__new(struct blocks **ret)
{
	*ret = calloc(1, sizeof(**ret));
	return *ret ? 0 : -ENOMEM;
}

static void clear_span(struct span *span)
{
	free(span->starts);
	free(span->in_use);
	free(span->page_start);
}

void blocks__free(struct blocks *blocks)
{
	if (!blocks)
		return;
	for (size_t i = 0; i < blocks->n_spans; i++)
		clear_span(&blocks->spans[i]);
	for (size_t i = 0; i < blocks->n_lands; i++)
		free(blocks->lands[i].span);
	free(blocks->spans);
	free(blocks->lands);
	free(blocks);
}

static bool is_sound(const struct span *span)
{
	uint64_t len = span->end - span->start;

	if (span->end <= span->start || span->start % PAGE || span->end % PAGE)
		return false;
	if (span->kind == SPAN_WALKED)
		return len <= MAX_SPAN;
	if (span->kind == SPAN_FREE || span->kind == SPAN_OWN)
		return true;
	return span->block_size && span->n_slots && span->first >= span->start &&
	       span->first < span->end &&
	       span->n_slots <= (span->end - span->first) / span->block_size;
}

int blocks__add(struct blocks *blocks, const struct span *model, struct span **ret_span)
{
	struct span span = *model;

	span.starts = span.in_use = NULL;
	span.page_start = NULL;
	if (span.kind == SPAN_WALKED)
		span.n_slots = (size_t)((span.end - span.start) / BLOCK_GRANULE);
	else if (span.kind != SPAN_SLAB)
		span.n_slots = span.kind == SPAN_SINGLE;
	if (!is_sound(&span))
		return -EINVAL;
	if (blocks->n_spans >= UINT32_MAX - 1 ||
	    VECTOR_RESERVE(blocks->spans, blocks->room, blocks->n_spans + 1))
		return -ENOMEM;
	if (span.kind == SPAN_WALKED || span.kind == SPAN_SLAB)
		span.in_use = calloc(bits__words(span.n_slots), sizeof(*span.in_use));
	if (span.kind == SPAN_WALKED)
		span.starts = calloc(bits__words(span.n_slots), sizeof(*span.starts));
	if (((span.kind == SPAN_WALKED || span.kind == SPAN_SLAB) && !span.in_use) ||
	    (span.kind == SPAN_WALKED && !span.starts)) {
		clear_span(&span);
		return -ENOMEM;
	}
	blocks->spans[blocks->n_spans] = span;
	*ret_span = &blocks->spans[blocks->n_spans++];
	return 0;
}

void span__add_block(struct span *span, uint64_t addr, bool in_use)
{
	size_t slot = (size_t)((addr - span->start) / BLOCK_GRANULE);

	if (slot >= span->n_slots)
		return;
	bits__set(span->starts, slot);
	if (in_use)
		bits__set(span->in_use, slot);
}

void span__add_void(struct span *span, uint64_t addr)
{
	size_t slot = (size_t)((addr - span->start) / BLOCK_GRANULE);

	if (slot >= span->n_slots)
		return;
	bits__set(span->starts, slot);
	if (slot + 1 < span->n_slots)
		bits__set(span->in_use, slot + 1);
}

bool span__set_free(struct span *span, uint64_t addr, uint64_t size)
{
	size_t slot = (size_t)((addr - span->start) / BLOCK_GRANULE);
	size_t n = (size_t)((size + HEADER) / BLOCK_GRANULE);

	if (addr < span->start || slot >= span->n_slots || addr % BLOCK_GRANULE ||
	    !bits__test(span->starts, slot) || !bits__test(span->in_use, slot) ||
	    n >= span->n_slots - slot || !bits__test(span->starts, slot + n) ||
	    bits__next(span->starts, slot + 1, slot + n, true) != slot + n)
		return false;
	bits__clear(span->in_use, slot);
	return true;
}

void span__free_fixed(struct span *span, uint64_t addr)
{
	size_t slot = (size_t)((addr - span->first) / span->block_size);

	if (slot >= span->n_slots)
		return;
	if (span->kind == SPAN_SLAB) {
		bits__clear(span->in_use, slot);
	} else if (span->kind == SPAN_SINGLE) {
		span->kind = SPAN_FREE;
		span->n_slots = 0;
	}
}

void span__own(struct span *span)
{
	span->kind = SPAN_OWN;
	span->n_slots = 0;
}

/* --- finishing --- */

static int by_start(const void *a, const void *b)
{
	const struct span *x = a, *y = b;

	return (x->start > y->start) - (x->start < y->start);
}

static void drop_overlapping(struct blocks *blocks, size_t dropped[HEAP_ALLOCATORS])
{
	size_t kept = 0;

	for (size_t i = 0; i < blocks->n_spans; i++) {
		struct span *span = &blocks->spans[i];

		if (kept && span->start < blocks->spans[kept - 1].end) {
			clear_span(span);
			dropped[span->allocator]++;
		} else {
			blocks->spans[kept++] = *span;
		}
	}
	blocks->n_spans = kept;
}

static int index_span(struct blocks *blocks, struct span *span)
{
	size_t pages = (size_t)((span->end - span->start) / PAGE);
	uint32_t last = NONE;

	blocks->bytes += sizeof(*span);
	if (span->in_use)
		blocks->bytes += bits__words(span->n_slots) * sizeof(*span->in_use);
	if (span->kind != SPAN_WALKED)
		return 0;
	blocks->bytes +=
		bits__words(span->n_slots) * sizeof(*span->starts) + pages * sizeof(uint32_t);
	span->page_start = malloc(pages * sizeof(*span->page_start));
	if (!span->page_start)
		return -ENOMEM;
	for (size_t page = 0; page < pages; page++) {
		const uint64_t *bits = span->starts + page * PAGE_SLOTS / 64;

		if (bits[0] & 1)
			last = (uint32_t)(page * PAGE_SLOTS);
		span->page_start[page] = last;
		for (size_t w = PAGE_SLOTS / 64; w-- > 0;)
			if (bits[w]) {
				last = (uint32_t)(page * PAGE_SLOTS + w * 64 + 63 -
						  (size_t)__builtin_clzll(bits[w]));
				break;
			}
	}
	return 0;
}

static int add_land(struct blocks *blocks, size_t from, size_t to)
{
	const struct span *spans = blocks->spans;
	struct land land = {.start = spans[from].start, .end = spans[to - 1].end};
	size_t pages = (size_t)((land.end - land.start) / PAGE);

	if (VECTOR_ADD_ROOM(blocks->lands, blocks->n_lands))
		return -ENOMEM;
	land.span = calloc(pages, sizeof(*land.span));
	if (!land.span)
		return -ENOMEM;
	for (size_t i = from; i < to; i++)
		for (uint64_t at = spans[i].start; at < spans[i].end; at += PAGE)
			land.span[(at - land.start) / PAGE] = (uint32_t)i + 1;
	blocks->bytes += sizeof(land) + pages * sizeof(*land.span);
	blocks->lands[blocks->n_lands++] = land;
	return 0;
}

int blocks__finish(struct blocks *blocks, size_t ret_dropped[HEAP_ALLOCATORS])
{
	size_t from = 0;
	int err;

	if (blocks->n_spans)
		qsort(blocks->spans, blocks->n_spans, sizeof(*blocks->spans), by_start);
	memset(ret_dropped, 0, HEAP_ALLOCATORS * sizeof(*ret_dropped));
	drop_overlapping(blocks, ret_dropped);
	for (size_t i = 0; i < blocks->n_spans; i++) {
		struct span *span = &blocks->spans[i];

		span->first_slot = blocks->n_slots;
		blocks->n_slots += span->n_slots;
		err = index_span(blocks, span);
		if (!err && (i + 1 == blocks->n_spans ||
			     blocks->spans[i + 1].start - span->end > LAND_GAP)) {
			err = add_land(blocks, from, i + 1);
			from = i + 1;
		}
		if (err)
			return err;
	}
	return 0;
}

/* --- finding --- */

size_t blocks__n_slots(const struct blocks *blocks)
{
	return blocks->n_slots;
}

size_t blocks__n_spans(const struct blocks *blocks)
{
	return blocks->n_spans;
}

const struct span *blocks__span(const struct blocks *blocks, size_t i)
{
	return &blocks->spans[i];
}

size_t blocks__bytes(const struct blocks *blocks)
{
	return blocks->bytes;
}

struct span *blocks__find_span(const struct blocks *blocks, uint64_t addr)
{
	size_t i;
	uint32_t number;

	if (!blocks->n_lands) {
		for (i = 0; i < blocks->n_spans; i++)
			if (addr >= blocks->spans[i].start && addr < blocks->spans[i].end)
				return &blocks->spans[i];
		return NULL;
	}
	i = SEARCH_FIRST(k, blocks->n_lands, blocks->lands[k].end > addr);
	if (i == blocks->n_lands || blocks->lands[i].start > addr)
		return NULL;
	number = blocks->lands[i].span[(addr - blocks->lands[i].start) / PAGE];
	return number ? &blocks->spans[number - 1] : NULL;
}

/* Returns the first slot with a set bit in `starts` behind `slot`. If the result is on another
 * page, finds the page by bisection. Bisection works because `page_start` never decreases from page
 * to page. */
static size_t start_after(const struct span *span, size_t slot)
{
	size_t pages = span->n_slots / PAGE_SLOTS;
	size_t near = (slot / PAGE_SLOTS + 1) * PAGE_SLOTS;
	size_t next = bits__next(span->starts, slot + 1, near, true), page;

	if (next < near)
		return next;
	page = slot / PAGE_SLOTS + 1;
	page += SEARCH_FIRST(k, pages - page, span->page_start[page + k] > slot);
	if (page == pages)
		return bits__next(span->starts,
				  (pages - 1) * PAGE_SLOTS > slot ? (pages - 1) * PAGE_SLOTS
								  : slot + 1,
				  span->n_slots, true);
	/* The slot that is searched for is on the page before `page`, or is the first slot of
	 * `page`. */
	return bits__next(span->starts,
			  (page - 1) * PAGE_SLOTS > slot ? (page - 1) * PAGE_SLOTS : slot + 1,
			  span->n_slots, true);
}

/* Returns the last slot with a set bit in `starts`, up to and including `slot`; SIZE_MAX: none. */
static size_t start_before(const struct span *span, size_t slot)
{
	size_t page = slot / PAGE_SLOTS, word = slot / 64;
	uint64_t bits = span->starts[word] << (63 - slot % 64);

	if (bits)
		return slot - (size_t)__builtin_clzll(bits);
	while (word-- > page * PAGE_SLOTS / 64)
		if (span->starts[word])
			return word * 64 + 63 - (size_t)__builtin_clzll(span->starts[word]);
	return span->page_start[page] == NONE ? SIZE_MAX : span->page_start[page];
}

/* Fills in the block that begins at the slot `slot` of a SPAN_WALKED and ends before the slot
 * `next`. False: memory without blocks begins at the slot. */
static bool walked_block(const struct span *span, size_t slot, size_t next, struct block *ret)
{
	uint64_t end = span->start + next * BLOCK_GRANULE;
	uint64_t start = span->start + slot * BLOCK_GRANULE;
	bool in_use = bits__test(span->in_use, slot);

	/* the last slot has no room for the header and content of a free block */
	if (!in_use && (slot + 1 == span->n_slots || (bits__test(span->in_use, slot + 1) &&
						      !bits__test(span->starts, slot + 1))))
		return false;
	*ret = (struct block){.start = start,
			      .size = next < span->n_slots ? end - start - HEADER : end - start,
			      .in_use = in_use,
			      .slot = span->first_slot + slot,
			      .span = span};
	return true;
}

static void fixed_block(const struct span *span, size_t slot, struct block *ret)
{
	*ret = (struct block){.start = span->first + slot * span->block_size,
			      .size = span->block_size,
			      .in_use = !span->in_use || bits__test(span->in_use, slot),
			      .slot = span->first_slot + slot,
			      .span = span};
}

bool blocks__find(const struct blocks *blocks, uint64_t addr, struct block *ret)
{
	const struct span *span = blocks__find_span(blocks, addr);
	struct block block;
	size_t slot;

	if (!span || !span->n_slots)
		return false;
	if (span->kind == SPAN_WALKED) {
		slot = start_before(span, (size_t)((addr - span->start) / BLOCK_GRANULE));
		if (slot == SIZE_MAX || !walked_block(span, slot, start_after(span, slot), &block))
			return false;
	} else {
		slot = (size_t)((addr - span->first) / span->block_size);
		if (addr < span->first || slot >= span->n_slots)
			return false;
		fixed_block(span, slot, &block);
	}
	if (addr - block.start >= block.size)
		return false;
	*ret = block;
	return true;
}

bool blocks__slot(const struct blocks *blocks, uint64_t addr, size_t *ret_slot)
{
	const struct span *span = blocks__find_span(blocks, addr);
	size_t slot, start;

	if (!span || !span->n_slots)
		return false;
	if (span->kind != SPAN_WALKED) {
		slot = (size_t)((addr - span->first) / span->block_size);
		*ret_slot = span->first_slot + slot;
		return addr >= span->first && slot < span->n_slots;
	}
	slot = (size_t)((addr - span->start) / BLOCK_GRANULE);
	/* Only 8 bytes lie between a block's usable bytes and the next block: they hold the size of
	 * the next block. */
	if (addr % BLOCK_GRANULE >= HEADER && slot + 1 < span->n_slots &&
	    bits__test(span->starts, slot + 1))
		return false;
	start = start_before(span, slot);
	*ret_slot = span->first_slot + start;
	return start != SIZE_MAX;
}

size_t blocks__prefetch(const struct blocks *blocks, uint64_t addr)
{
	const struct span *span = blocks__find_span(blocks, addr);
	size_t slot;

	if (!span || span->kind != SPAN_WALKED)
		return SIZE_MAX;
	slot = (size_t)((addr - span->start) / BLOCK_GRANULE);
	__builtin_prefetch(&span->starts[slot / 64]);
	return span->first_slot + slot;
}

bool blocks__find_start(const struct blocks *blocks, uint64_t addr, uint64_t *ret)
{
	const struct span *span = blocks__find_span(blocks, addr);
	size_t slot;

	if (!span || !span->n_slots)
		return false;
	if (span->kind != SPAN_WALKED) {
		if (addr < span->first)
			return false;
		*ret = span->first + (addr - span->first) / span->block_size * span->block_size;
		return true;
	}
	slot = start_before(span, (size_t)((addr - span->start) / BLOCK_GRANULE));
	if (slot == SIZE_MAX)
		return false;
	*ret = span->start + slot * BLOCK_GRANULE;
	return true;
}

int span__each(const struct span *span, int (*fn)(const struct block *block, void *ctx), void *ctx)
{
	struct block block;
	size_t next, n = 0;
	int rc = 0;

	if (span->kind != SPAN_WALKED) {
		for (size_t slot = 0; slot < span->n_slots && !rc; slot++) {
			fixed_block(span, slot, &block);
			rc = fn(&block, ctx);
			if (slot % STEP_BLOCKS == 0)
				gentle__step();
		}
		return rc;
	}
	for (size_t slot = bits__next(span->starts, 0, span->n_slots, true);
	     slot < span->n_slots && !rc; slot = next) {
		if (++n % STEP_BLOCKS == 0)
			gentle__step();
		next = bits__next(span->starts, slot + 1, span->n_slots, true);
		if (walked_block(span, slot, next, &block))
			rc = fn(&block, ctx);
	}
	return rc;
}

int blocks__each(const struct blocks *blocks, int (*fn)(const struct block *block, void *ctx),
		 void *ctx)
{
	int rc = 0;

	for (size_t i = 0; i < blocks->n_spans && !rc; i++)
		rc = span__each(&blocks->spans[i], fn, ctx);
	return rc;
}

static int add_in_use(const struct block *block, void *ctx)
{
	uint64_t *sums = ctx;

	if (block->in_use) {
		sums[0]++;
		sums[1] += block->size;
	}
	return 0;
}

uint64_t blocks__in_use(const struct blocks *blocks, uint64_t *ret_bytes)
{
	uint64_t sums[2] = {0, 0};

	blocks__each(blocks, add_in_use, sums);
	*ret_bytes = sums[1];
	return sums[0];
}
