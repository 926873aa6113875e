/* SPDX-License-Identifier: BSD-2-Clause */
/* Finds the blocks of all allocators that memtrace can read. */
#ifndef MEMTRACE_HEAP_FIND_H
#define MEMTRACE_HEAP_FIND_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "heap/blocks.h"
#include "heap/roots.h"

struct image;
struct jemalloc_classes;
struct maps;

struct heap_arena {
	enum heap_allocator allocator;
	uint64_t addr; /* address of the arena's structure; for jemalloc, the arena's number */
	/* size of the allocator's own structure at `addr`; 0: not known. The structure is outside
	 * of spans, and holds no roots */
	uint64_t own_bytes;
	struct heap_count count[HEAP_PLACES][HEAP_SIZES];
};

struct heap_found {
	struct heap_arena **arenas;
	size_t n_arenas;
	struct heap_quality quality[HEAP_ALLOCATORS];
	/* Ranges of memory outside of spans, in which allocators keep records of their blocks.
	 * These ranges hold no roots. They are ascending and disjoint. */
	struct root_range *records;
	size_t n_records;
	const struct jemalloc_classes *classes; /* static; NULL: there is no jemalloc */
	int stopped; /* the result of image__stopped() after the search */
};

/* Fills `blocks`, and calls blocks__finish(). alone: finds only blocks that have a mapping or an
 * extent of their own (SPAN_SINGLE), and free extents. This takes far less time, because no chunk
 * and no slab is read. 0, also if no allocator is found; -ENOMEM. The caller releases ret with
 * heap_found__clear(), also after an error. */
int heap__find_blocks(struct image *image, struct blocks *blocks, bool alone,
		      struct heap_found *ret);
void heap_found__clear(struct heap_found *found);

/* Returns the name of an allocator that memtrace cannot read and whose library is mapped; NULL:
 * there is none. */
const char *heap__unread_allocator(const struct maps *maps);

/* For the readers of allocators: adds an arena. addr: as in struct heap_arena. NULL: out of
 * memory. */
struct heap_arena *heap_found__add_arena(struct heap_found *found, enum heap_allocator allocator,
					 uint64_t addr);
void heap_arena__count(struct heap_arena *arena, enum heap_place place, uint64_t bytes);

#endif
