/* SPDX-License-Identifier: BSD-2-Clause */
/* The blocks of a heap, as the structures of its allocators tell. An allocator's reader (glibc.h,
 * jemalloc.h) adds spans of memory. blocks__finish() sorts them; from then on blocks can be found
 * by address.
 *
 * Every block has a slot, a number below blocks__n_slots(): bitmaps of others, one bit per slot,
 * mark blocks. Not every slot is a block's. */
#ifndef MEMTRACE_HEAP_BLOCKS_H
#define MEMTRACE_HEAP_BLOCKS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "profile/heap.h"

#define BLOCK_GRANULE 16 /* bytes: blocks of a SPAN_WALKED begin at multiples of it */

enum span_kind {
	SPAN_WALKED, /* blocks of any size one after the other: a slot for every 16 bytes */
	SPAN_SLAB,   /* blocks of one size: a slot for each */
	SPAN_SINGLE, /* one block in use: one slot */
	SPAN_FREE,   /* free memory that an allocator keeps: no block, no slot */
};

struct span {
	uint64_t start, end; /* of its pages: multiples of 4096 */
	enum span_kind kind;
	enum heap_allocator allocator;
	uint32_t arena;	     /* index in the arenas of struct heap_found */
	uint64_t first;	     /* SLAB, SINGLE: address of the first block */
	uint64_t block_size; /* SLAB, SINGLE: usable bytes of a block */
	size_t n_slots;
	size_t first_slot; /* set by blocks__finish() */

	/* Bitmaps with a bit per slot, owned by struct blocks. WALKED: starts marks where blocks
	 * begin (as malloc() returns them) and where memory without blocks begins; such memory is
	 * marked by in_use at the slot behind its start, while in_use is clear at its start. A
	 * block reaches to 8 bytes before the next start (glibc keeps the next block's size
	 * there). SINGLE: NULL. */
	uint64_t *starts, *in_use;
	/* WALKED: for each page, the slot of the last start at or before its first byte;
	 * UINT32_MAX: none. Set by blocks__finish(). */
	uint32_t *page_start;
};

struct block {
	uint64_t start; /* what malloc() returned */
	uint64_t size;	/* usable bytes */
	bool in_use;	/* a block in a thread's cache is not */
	size_t slot;
	const struct span *span; /* allocator and arena */
};

struct blocks; /* opaque */

int blocks__new(struct blocks **ret); /* 0 or -ENOMEM */
void blocks__free(struct blocks *blocks);

/* Adds a span, with empty bitmaps, and returns it for the caller to fill in until
 * blocks__finish(). span: kind, allocator, arena, start, end, and for SLAB first, block_size,
 * n_slots; for SINGLE first and block_size. *ret_span is valid until the next call. 0; -EINVAL: it
 * does not fit into its pages; -ENOMEM. */
int blocks__add(struct blocks *blocks, const struct span *span, struct span **ret_span);

/* SPAN_WALKED: a block begins at addr; memory without blocks begins at addr. In ascending order,
 * and at least 32 bytes apart. */
void span__add_block(struct span *span, uint64_t addr, bool in_use);
void span__add_void(struct span *span, uint64_t addr);
/* The block at addr is free after all. True: there is a block of this usable size, followed by
 * another start, that was in use until now. */
bool span__set_free(struct span *span, uint64_t addr, uint64_t size);

/* Sorts. Spans that overlap one before them are dropped; ret_dropped counts them by allocator. 0;
 * -ENOMEM. */
int blocks__finish(struct blocks *blocks, size_t ret_dropped[HEAP_ALLOCATORS]);

size_t blocks__n_slots(const struct blocks *blocks);
size_t blocks__n_spans(const struct blocks *blocks);
const struct span *blocks__span(const struct blocks *blocks, size_t i);
/* The span that holds addr, before and after blocks__finish(); NULL: none. Before, it is a linear
 * search. */
struct span *blocks__find_span(const struct blocks *blocks, uint64_t addr);

/* The block that holds addr, be it in use or free. An address behind the usable bytes of a block
 * belongs to none. */
bool blocks__find(const struct blocks *blocks, uint64_t addr, struct block *ret);

/* The slot of the block, or of the memory without blocks, that holds addr. A part of what
 * blocks__find() finds, in a fraction of the time. False: none. */
bool blocks__slot(const struct blocks *blocks, uint64_t addr, size_t *ret_slot);

/* Brings what blocks__slot() needs for addr into the processor's cache. Returns a number near that
 * slot; SIZE_MAX: addr is in no block. */
size_t blocks__prefetch(const struct blocks *blocks, uint64_t addr);

/* The start of the block that holds addr, which may also lie a little behind that block's usable
 * bytes. Quicker than blocks__find(). False: no block begins before it in its span. */
bool blocks__find_start(const struct blocks *blocks, uint64_t addr, uint64_t *ret);

/* Calls fn for every block in ascending order, until it returns something other than 0, which is
 * returned. */
int blocks__each(const struct blocks *blocks, int (*fn)(const struct block *block, void *ctx),
		 void *ctx);
int span__each(const struct span *span, int (*fn)(const struct block *block, void *ctx), void *ctx);

/* Blocks in use, and their usable bytes. */
uint64_t blocks__in_use(const struct blocks *blocks, uint64_t *ret_bytes);

/* Memory that the tables take. */
size_t blocks__bytes(const struct blocks *blocks);

#endif
