/* SPDX-License-Identifier: BSD-2-Clause */
/* Blocks that the program has lost, and the leaks that they form. A lost linked list is one leak,
 * and its first node is the leak's head. */
#ifndef MEMTRACE_HEAP_LOST_H
#define MEMTRACE_HEAP_LOST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "heap/reach.h"

struct lost_block {
	uint64_t addr;
	uint64_t asked : 1; /* the user asked for this block (why_scan.c) */
	uint64_t size : 63;
	uint64_t content; /* hash of its first LOST_HASHED bytes */
};

#define LOST_HASHED 1024

/* The hash of a block's content. Memory that is not resident counts as zeros. */
uint64_t lost__hash(struct image *image, const struct block *block);

/* Blocks that no scan could reach, ascending by address. */
struct lost {
	struct lost_block *list;
	size_t n;
	uint64_t beyond; /* lost blocks for which the list had no room */
};

/* Does the list contain a block that begins at addr? */
bool lost__has(const struct lost *lost, uint64_t addr);

/* A scan of a running process misses pointers that move during the scan. So a block counts as lost
 * only if it is in the list of each earlier scan, with the same address, size and content. Nobody
 * can write to a block to which no pointer is left. Some blocks are freed and allocated again all
 * the time. Without the comparison of the content, about one in a thousand of these blocks would be
 * called lost by chance.
 *
 * Lists the blocks that are unreachable in `reach` and are also in `before`, at most max. If
 * `before` is NULL, all unreachable blocks are listed. A block keeps the flag `asked` that it has
 * in `before`. 0 or -ENOMEM. The caller frees ret->list. */
int lost__list(const struct reach *reach, struct image *image, const struct lost *before,
	       size_t max, struct lost *ret);

/* A leak: a head, and the lost blocks to which pointers lead from the head. A block to which two
 * heads lead belongs to only one of them. */
struct leak {
	struct lost_block head;
	uint64_t blocks, bytes; /* number and bytes of the leak's blocks, with the head */
	bool cycle;		/* the head is in a cycle, whose blocks all lead to each other */
};

/* Groups the blocks of `lost` into leaks, ascending by the head's address. `numbers` has a number
 * for each of these blocks. `edges` has the pointers between them, by number. 0 or -ENOMEM. The
 * caller frees *ret_leaks. */
int lost__leaks(const struct numbers *numbers, const struct edges *edges, const struct lost *lost,
		struct leak **ret_leaks, size_t *ret_n);

/* Leaks whose heads have the same size. */
struct leak_group {
	uint64_t head_size;
	uint64_t leaks, cycles;
	uint64_t blocks, bytes; /* number and bytes of all blocks of these leaks, with the heads */
	uint64_t example;	/* address of one head */
};

/* Groups leaks, and sorts the groups by bytes, descending. Changes the order of leaks. 0 or
 * -ENOMEM. The caller frees *ret_groups. */
int leaks__group(struct leak *leaks, size_t n, struct leak_group **ret_groups, size_t *ret_n);

#endif
