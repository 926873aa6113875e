/* SPDX-License-Identifier: BSD-2-Clause */
/* Blocks that are lost for good, and what leaks: a lost list is one leak, led by its head. */
#ifndef MEMTRACE_HEAP_LOST_H
#define MEMTRACE_HEAP_LOST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "heap/reach.h"

struct lost_block {
	uint64_t addr;
	uint64_t asked : 1; /* somebody asked for it (why_scan.c) */
	uint64_t size : 63;
	uint64_t content; /* hash of its first LOST_HASHED bytes */
};

#define LOST_HASHED 1024

/* The hash of a block's content. What is not there any more counts as zeros. */
uint64_t lost__hash(struct image *image, const struct block *block);

/* Blocks that no scan could reach, ascending by address. */
struct lost {
	struct lost_block *list;
	size_t n;
	uint64_t beyond; /* not in the list, because it was full */
};

/* A scan of a running process misses pointers that move during the scan. So a block counts only if
 * it is in the list of each earlier scan, with the same address, size and content. Nobody can write
 * to a block to which no pointer is left. If content were not compared, some blocks that are freed
 * and given out again all the time would be called lost by chance, about one in a thousand.
 *
 * Lists the unreachable blocks of reach that are also in before (NULL: all of them), at most max. 0
 * or -ENOMEM. The caller frees ret->list. */
int lost__list(const struct reach *reach, struct image *image, const struct lost *before,
	       size_t max, struct lost *ret);

/* Lost blocks that are one leak: a head, and all blocks that only it leads to. A block to which two
 * heads lead belongs to the first of them. */
struct leak {
	struct lost_block head;
	uint64_t blocks, bytes; /* with the head */
	bool cycle;		/* the head is one of a circle: each of them leads to all others */
};

/* The leaks that lost makes up, ascending by the head's address. Each block of lost has a number.
 * edges has the pointers from all of these blocks to each other, by number. 0 or -ENOMEM. The
 * caller frees *ret_leaks. */
int lost__leaks(const struct numbers *numbers, const struct edges *edges, const struct lost *lost,
		struct leak **ret_leaks, size_t *ret_n);

/* Leaks whose heads have the same size. */
struct leak_group {
	uint64_t head_size;
	uint64_t leaks, cycles;
	uint64_t blocks, bytes; /* with the heads */
	uint64_t example;	/* address of one head */
};

/* Groups leaks, and sorts the groups by bytes, descending. Changes the order of leaks. 0 or
 * -ENOMEM. The caller frees *ret_groups. */
int leaks__group(struct leak *leaks, size_t n, struct leak_group **ret_groups, size_t *ret_n);

#endif
