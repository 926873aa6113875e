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
#define BLOCK_LINKS   32 /* bytes of links in a free block of glibc: malloc_trim() keeps them */

enum span_kind {
	SPAN_WALKED, /* blocks of any size one after the other: a slot for every 16 bytes */
	SPAN_SLAB,   /* blocks of one size: a slot for each block */
	SPAN_SINGLE, /* one block in use: one slot */
	SPAN_FREE,   /* free memory that an allocator keeps: no block, no slot */
	SPAN_OWN,    /* memory that an allocator uses for itself: no block, no slot */
};

struct span {
	uint64_t start, end; /* addresses: multiples of 4096 */
	enum span_kind kind;
	enum heap_allocator allocator;
	uint32_t arena;	     /* index in the arenas of struct heap_found */
	uint64_t first;	     /* SLAB, SINGLE: address of the first block */
	uint64_t block_size; /* SLAB, SINGLE: usable bytes of a block */
	size_t n_slots;
	size_t first_slot; /* set by blocks__finish() */

	/* Bitmaps with a bit per slot, owned by struct blocks. WALKED: a bit of `starts` is set
	 * where a block begins (as malloc() returns it), or where memory without blocks begins.
	 * Such memory has in_use clear at its first slot and set at its second. A block ends 8
	 * bytes before the next start, because glibc stores the next block's size there. SLAB:
	 * starts is NULL. SINGLE, FREE: both are NULL. */
	uint64_t *starts, *in_use;
	/* WALKED: for each page, the slot of the last start at or before its first byte;
	 * UINT32_MAX: none. Set by blocks__finish(). */
	uint32_t *page_start;
};

struct block {
	uint64_t start; /* what malloc() returned */
	uint64_t size;	/* usable bytes */
	bool in_use;	/* false also for a block in a thread cache of glibc */
	size_t slot;
	const struct span *span; /* allocator and arena */
};

struct blocks; /* opaque */

int blocks__new(struct blocks **ret); /* 0 or -ENOMEM */
void blocks__free(struct blocks *blocks);

/* Adds a span with empty bitmaps. The caller marks its blocks through *ret_span, which is valid
 * until the next call of this function. `span` must have kind, allocator, arena, start and end; for
 * SLAB also first, block_size and n_slots; for SINGLE also first and block_size. 0; -EINVAL: the
 * addresses or sizes are not possible, or a WALKED span is larger than 32 GiB; -ENOMEM. */
int blocks__add(struct blocks *blocks, const struct span *span, struct span **ret_span);

/* Both are for a SPAN_WALKED: a block, or memory without blocks, begins at addr. Addresses must
 * ascend, and be at least 32 bytes apart. */
void span__add_block(struct span *span, uint64_t addr, bool in_use);
void span__add_void(struct span *span, uint64_t addr);
/* Marks a block in use as free. False, and nothing is changed: no block in use of this usable size
 * is at addr, or no other start follows it. */
bool span__set_free(struct span *span, uint64_t addr, uint64_t size);

/* Marks a block in use of a SPAN_SLAB or SPAN_SINGLE as free; a SPAN_SINGLE becomes a SPAN_FREE. */
void span__free_fixed(struct span *span, uint64_t addr);
/* The block of a SPAN_SINGLE is none of the program's: the span becomes a SPAN_OWN. */
void span__own(struct span *span);

/* Sorts the spans. Drops each span that overlaps the one before it; ret_dropped counts the dropped
 * spans by allocator. 0 or -ENOMEM. */
int blocks__finish(struct blocks *blocks, size_t ret_dropped[HEAP_ALLOCATORS]);

/* After blocks__finish(): the numbers of slots and of spans, and span i < n_spans, by address. */
size_t blocks__n_slots(const struct blocks *blocks);
size_t blocks__n_spans(const struct blocks *blocks);
const struct span *blocks__span(const struct blocks *blocks, size_t i);
/* The span that holds addr; NULL: none. Before blocks__finish() this is a linear search. */
struct span *blocks__find_span(const struct blocks *blocks, uint64_t addr);

/* The block that holds addr, in use or free. An address behind the usable bytes of a block belongs
 * to no block. */
bool blocks__find(const struct blocks *blocks, uint64_t addr, struct block *ret);

/* The slot of the block, or of the memory without blocks, that holds addr. Much faster than
 * blocks__find(). False: addr is in neither. */
bool blocks__slot(const struct blocks *blocks, uint64_t addr, size_t *ret_slot);

/* Loads the data that blocks__slot() needs for addr into the processor's cache. Returns a slot near
 * that of addr's block; SIZE_MAX: addr is in no SPAN_WALKED. */
size_t blocks__prefetch(const struct blocks *blocks, uint64_t addr);

/* The start of the last block, or memory without blocks, that begins at or before addr in addr's
 * span. Faster than blocks__find(): addr may lie behind the block's usable bytes. False: there is
 * none. */
bool blocks__find_start(const struct blocks *blocks, uint64_t addr, uint64_t *ret);

/* Calls fn for every block in ascending order, until fn returns a value other than 0. Returns that
 * value, or 0. */
int blocks__each(const struct blocks *blocks, int (*fn)(const struct block *block, void *ctx),
		 void *ctx);
int span__each(const struct span *span, int (*fn)(const struct block *block, void *ctx), void *ctx);

/* The number of blocks in use. *ret_bytes: their usable bytes. */
uint64_t blocks__in_use(const struct blocks *blocks, uint64_t *ret_bytes);

/* Bytes of memory that the tables need. */
size_t blocks__bytes(const struct blocks *blocks);

#endif
