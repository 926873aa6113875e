/* SPDX-License-Identifier: BSD-2-Clause */
/* The blocks of a heap, read from the structures of its allocators. An allocator's reader (glibc.h,
 * jemalloc.h) adds spans of memory. blocks__finish() sorts them; from then on blocks can be found
 * by address.
 *
 * Every block has a slot: a number below blocks__n_slots(). Other files mark blocks in bitmaps with
 * one bit per slot. Some slots belong to no block. */
#ifndef MEMTRACE_HEAP_BLOCKS_H
#define MEMTRACE_HEAP_BLOCKS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "profile/heap.h"

#define BLOCK_GRANULE 16 /* bytes: each block of a SPAN_WALKED begins at a multiple of this */
/* bytes of links at the start of a free block of glibc: malloc_trim() keeps them */
#define BLOCK_LINKS 32

enum span_kind {
	SPAN_WALKED, /* blocks of any size one after the other: a slot for every 16 bytes */
	SPAN_SLAB,   /* blocks of one size: a slot for each block */
	SPAN_SINGLE, /* one block in use: one slot */
	SPAN_FREE,   /* free memory that an allocator keeps: no block, no slot */
	SPAN_OWN,    /* memory that an allocator uses for itself: no block, no slot */
};

struct span {
	uint64_t start, end; /* addresses that are multiples of 4096 */
	enum span_kind kind;
	enum heap_allocator allocator;
	uint32_t arena;	     /* index in `arenas` of struct heap_found */
	uint64_t first;	     /* SLAB, SINGLE: address of the first block */
	uint64_t block_size; /* SLAB, SINGLE: usable bytes of a block */
	size_t n_slots;
	size_t first_slot; /* set by blocks__finish() */

	/* Bitmaps with a bit per slot, owned by struct blocks. WALKED: a bit of `starts` is set
	 * where a block begins (at the address that malloc() returned), or where memory without
	 * blocks begins. For such memory, `in_use` is clear at the first slot and set at the
	 * second. A block ends 8 bytes before the next start, because glibc stores the next block's
	 * size there. SLAB: `starts` is NULL. SINGLE, FREE, OWN: both are NULL. */
	uint64_t *starts, *in_use;
	/* WALKED: for each page, the slot of the last start at or before the page's first byte;
	 * UINT32_MAX: none. Set by blocks__finish(). */
	uint32_t *page_start;
};

struct block {
	uint64_t start; /* what malloc() returned */
	uint64_t size;	/* usable bytes */
	bool in_use;	/* false also for a block that is in a thread cache of glibc */
	size_t slot;
	const struct span *span; /* the block's span, which tells the allocator and the arena */
};

struct blocks; /* opaque */

int blocks__new(struct blocks **ret); /* 0 or -ENOMEM */
void blocks__free(struct blocks *blocks);

/* Adds a span with empty bitmaps. The caller marks the span's blocks through *ret_span, which is
 * valid until the next call of this function. `span` must have kind, allocator, arena, start and
 * end; for SLAB also first, block_size and n_slots; for SINGLE also first and block_size. 0;
 * -EINVAL: the addresses or sizes are impossible, or a span of the kind WALKED is larger than 32
 * GiB; -ENOMEM. */
int blocks__add(struct blocks *blocks, const struct span *span, struct span **ret_span);

/* Record what begins at addr in a SPAN_WALKED: a block, or memory without blocks (void). The
 * addresses of all calls must ascend, and be at least 32 bytes apart. */
void span__add_block(struct span *span, uint64_t addr, bool in_use);
void span__add_void(struct span *span, uint64_t addr);
/* In a SPAN_WALKED, marks the block in use at addr as free. Changes nothing and returns false in
 * two cases: no block of this usable size is in use at addr, or the block is the last one of the
 * span. */
bool span__set_free(struct span *span, uint64_t addr, uint64_t size);

/* Marks a block in use of a SPAN_SLAB or SPAN_SINGLE as free; a SPAN_SINGLE becomes a SPAN_FREE. */
void span__free_fixed(struct span *span, uint64_t addr);
/* Turns a SPAN_SINGLE into a SPAN_OWN. Call it if the span's block does not belong to the
 * program. */
void span__own(struct span *span);

/* Sorts the spans. Drops each span that overlaps the one before it; ret_dropped counts the dropped
 * spans by allocator. 0 or -ENOMEM. */
int blocks__finish(struct blocks *blocks, size_t ret_dropped[HEAP_ALLOCATORS]);

/* Call these three functions after blocks__finish(). They return the number of slots, the number of
 * spans, and the span with index i in the order of addresses. */
size_t blocks__n_slots(const struct blocks *blocks);
size_t blocks__n_spans(const struct blocks *blocks);
const struct span *blocks__span(const struct blocks *blocks, size_t i);
/* The span that holds addr; NULL: none. Before blocks__finish() this is a linear search. */
struct span *blocks__find_span(const struct blocks *blocks, uint64_t addr);

/* Finds the block, in use or free, that holds addr. An address between the usable bytes of one
 * block and the next block belongs to no block. */
bool blocks__find(const struct blocks *blocks, uint64_t addr, struct block *ret);

/* Finds the slot of the block, or of the memory without blocks, that holds addr. Much faster than
 * blocks__find(). False: addr is in neither. */
bool blocks__slot(const struct blocks *blocks, uint64_t addr, size_t *ret_slot);

/* Loads into the processor's cache what blocks__slot() needs for addr. Returns a slot near the slot
 * of addr's block; SIZE_MAX: addr is in no SPAN_WALKED. */
size_t blocks__prefetch(const struct blocks *blocks, uint64_t addr);

/* Finds the last block, or memory without blocks, that begins at or before addr in addr's span.
 * *ret: where it begins. Faster than blocks__find(), because it does not check if addr lies behind
 * the block's usable bytes. False: nothing begins there. */
bool blocks__find_start(const struct blocks *blocks, uint64_t addr, uint64_t *ret);

/* Calls fn for every block in ascending order, until fn returns a value other than 0. Returns that
 * value, or 0. */
int blocks__each(const struct blocks *blocks, int (*fn)(const struct block *block, void *ctx),
		 void *ctx);
int span__each(const struct span *span, int (*fn)(const struct block *block, void *ctx), void *ctx);

/* The number of blocks in use. *ret_bytes: their usable bytes. */
uint64_t blocks__in_use(const struct blocks *blocks, uint64_t *ret_bytes);

/* Returns how many bytes of memory the tables of `blocks` need. */
size_t blocks__bytes(const struct blocks *blocks);

#endif
