/* SPDX-License-Identifier: BSD-2-Clause */
/* Finds the blocks of all allocators that memtrace can read. */
#ifndef MEMTRACE_HEAP_FIND_H
#define MEMTRACE_HEAP_FIND_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "heap/blocks.h"

struct image;

/* Where an allocator keeps memory. */
enum heap_place {
	PLACE_IN_USE,
	PLACE_LARGE,	    /* in use; in a mapping (glibc) or an extent (jemalloc) of its own */
	PLACE_THREAD_CACHE, /* free */
	PLACE_FAST_BIN,	    /* free */
	PLACE_BIN,	    /* free; jemalloc: in slabs */
	PLACE_TOP, /* free: what an arena has not given out yet (glibc); extents (jemalloc) */
	HEAP_PLACES
};

/* Sizes are grouped: by 16 bytes up to 1 KiB, then four groups for each power of two. */
#define HEAP_SIZES (65 + 4 * 38)
size_t heap__size_group(uint64_t bytes);
/* The largest size of a group. */
uint64_t heap__group_max(size_t group);

struct heap_count {
	uint64_t blocks, bytes; /* usable bytes */
};

struct heap_arena {
	enum heap_allocator allocator;
	uint64_t addr;
	struct heap_count count[HEAP_PLACES][HEAP_SIZES];
};

/* How far the blocks of an allocator can be trusted. */
struct heap_quality {
	uint64_t resyncs;	/* places where headers made no sense, three times */
	uint64_t unknown_bytes; /* skipped there */
	uint64_t absent_bytes;	/* skipped, because a header lies on a page that is not resident */
	uint64_t doubtful;	/* blocks of 64 KiB and more that nothing proves */
	uint64_t own_bytes;	/* how much memory the allocator's own count says it has */
	uint64_t found_bytes;	/* how much was walked */
	uint64_t own_large, found_large; /* the same of PLACE_LARGE; own 0: unknown */
	uint64_t broken_slabs;	/* whose own count of free blocks differs from their bitmap */
	uint64_t dropped_spans; /* that overlap others */
};

struct heap_found {
	struct heap_arena **arenas;
	size_t n_arenas;
	struct heap_quality quality[HEAP_ALLOCATORS];
	int stopped; /* why the search ended early: -ETIMEDOUT, -EFBIG; 0: it did not */
};

/* Fills blocks, and finishes it. 0, also where no allocator is found; -ENOMEM. The caller releases
 * ret with heap_found__clear(), also after an error. */
int heap__find_blocks(struct image *image, struct blocks *blocks, struct heap_found *ret);
void heap_found__clear(struct heap_found *found);

/* For the readers of allocators: a new arena. NULL: no memory. */
struct heap_arena *heap_found__add_arena(struct heap_found *found, enum heap_allocator allocator,
					 uint64_t addr);
void heap_arena__count(struct heap_arena *arena, enum heap_place place, uint64_t bytes);

#endif
