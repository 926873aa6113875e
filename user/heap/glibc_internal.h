/* SPDX-License-Identifier: BSD-2-Clause */
/* Shared by the files that implement glibc.h. A chunk is a block with its header. The first word of
 * the header is the size of the preceding chunk, if the preceding chunk is free. The second word is
 * the chunk's own size, with three flags in the low bits. Behind these two words is the memory that
 * malloc() returns. The top is the last chunk of an arena: free memory from which malloc() cuts new
 * chunks. */
#ifndef MEMTRACE_HEAP_GLIBC_INTERNAL_H
#define MEMTRACE_HEAP_GLIBC_INTERNAL_H

#include "heap/glibc.h"

#define CHUNK_ALIGN	 16ULL
#define CHUNK_MIN	 32ULL
#define CHUNK_USER	 16ULL /* bytes from a chunk to the address that malloc() returns */
#define CHUNK_PREV_USED	 1ULL  /* the preceding chunk is in use, or in a cache */
#define CHUNK_MMAPPED	 2ULL
#define CHUNK_NON_MAIN	 4ULL
#define CHUNK_FLAGS	 7ULL
#define CHUNK_FENCE	 16ULL /* size of a fencepost at the end of a full heap */
#define TCACHE_BINS	 64    /* bins of one size each; glibc 2.42 has 12 more for larger blocks */
#define TCACHE_MAX_CHUNK 1040ULL
#define FAST_BINS	 10
#define N_BINS		 127

/* Offsets in struct malloc_state. glibc 2.43 has no fast bins any more. */
enum {
	ARENA_FAST = 16,
	ARENA_TOP = 96,
	ARENA_TOP_WITHOUT_FAST = 8,
};

/* Offsets from `top` on, the same in all versions. */
enum {
	TOP_BINS = 16,
	TOP_NEXT = 2064,
	TOP_SYSTEM_MEM = 2088,
	TOP_BYTES = 2104,
};

struct glibc_arena {
	uint64_t addr;
	uint64_t top_addr; /* address of its member `top` */
	bool is_main;
	uint64_t own_bytes; /* bytes of the arena: member system_mem of struct malloc_state */
	struct heap_arena *count;
};

/* Memory that holds chunks of an arena from `first` on. */
struct glibc_range {
	uint64_t start, end; /* page-aligned */
	uint64_t first;	     /* address of the first chunk; 0: unknown */
	uint32_t arena;	     /* the arena's index in glibc.arenas */
};

struct glibc_block {
	uint64_t addr; /* the address that malloc() returned */
	uint64_t size; /* size of the block's chunk, bytes */
};

struct glibc {
	struct image *image;
	struct blocks *blocks;
	struct heap_found *found;
	struct heap_quality *quality;
	struct glibc_arena *arenas;
	size_t n_arenas, arenas_room;
	uint64_t top_off; /* ARENA_TOP or ARENA_TOP_WITHOUT_FAST */
	struct glibc_range *ranges;
	size_t n_ranges, ranges_room;

	/* The members below are from struct malloc_par. `has_params` is false if that struct was
	 * not found. */
	bool has_params;
	uint64_t n_mmapped, mmapped_bytes, sbrk_base;

	/* The key, which is word 1 of each block in a thread cache; 0: unknown, or glibc before
	 * 2.34. The key alone does not prove that a block is in a cache. Up to glibc 2.42, a thread
	 * that ends leaves the key in the blocks that its cache gives back. malloc() clears the key
	 * only in blocks that it takes from a cache. */
	uint64_t key;
	/* blocks in use that have the size of a thread cache's own structure */
	struct glibc_block *caches;
	size_t n_caches, caches_room;
	bool caches_missing; /* there are more such blocks than `caches` has room for */
};

/* Sizes of the chunk with struct tcache_perthread_struct. */
#define TCACHE_CHUNK	 0x290ULL
#define TCACHE_CHUNK_242 0x300ULL /* glibc 2.42 */
#define TCACHE_CHUNK_243 0x310ULL /* glibc 2.43, which sometimes rounds the size up twice */

static inline bool glibc__may_be_cache(uint64_t size)
{
	return size == TCACHE_CHUNK || size == TCACHE_CHUNK_242 || size == TCACHE_CHUNK_243;
}

/* glibc_arenas.c: fills in arenas, ranges and params. 0 or -ENOMEM. */
int glibc__find_arenas(struct glibc *g);

/* glibc_walk.c: adds a span for the range, walks its chunks and counts them. 0 or -ENOMEM. */
int glibc__walk(struct glibc *g, const struct glibc_range *range);

/* glibc_caches.c: counts blocks in thread caches and fast bins as free. 0 or -ENOMEM. */
int glibc__free_cached(struct glibc *g);

/* glibc_mmapped.c: adds the blocks that have a mapping of their own. 0 or -ENOMEM. */
int glibc__find_mmapped(struct glibc *g);

static inline bool glibc__read_word(struct glibc *g, uint64_t addr, uint64_t *ret)
{
	return !image__read(g->image, addr, ret, sizeof(*ret));
}

static inline uint64_t glibc__word(const unsigned char *bytes)
{
	uint64_t word;

	__builtin_memcpy(&word, bytes, sizeof(word));
	return word;
}

#endif
