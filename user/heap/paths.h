/* SPDX-License-Identifier: BSD-2-Clause */
/* Who holds a block: the path of pointers from a root to it, as reach.h has found it. */
#ifndef MEMTRACE_HEAP_PATHS_H
#define MEMTRACE_HEAP_PATHS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "heap/reach.h"

struct image;

#define PATH_STEPS    16 /* a longer path loses its middle */
#define PATH_NO_OFF   UINT64_MAX
#define PATH_MAX_HOPS 10000000 /* blocks from a root to a block: the nodes of a long list */

/* A block on the way, or several of one size one after the other: a list. */
struct path_step {
	uint64_t addr; /* of the first block */
	uint64_t size;
	uint64_t blocks;
	/* where in the last of these blocks the pointer to the next step lies, bytes from its
	 * start; PATH_NO_OFF: not there any more, or this is the last step */
	uint64_t off;
	/* the first word of the block, and of all blocks of a chain that were looked at (the first
	 * and the last one): perhaps the address of a class's vtable; 0: none */
	uint64_t word;
};

/* From a root down to the block itself, which is the last step. */
struct path {
	struct root_word root;
	struct path_step steps[PATH_STEPS];
	uint32_t n_steps;
	bool cut; /* steps in the middle are missing */
};

/* The path to a reachable block. Needs reach's parents. Where pointers lie is read once more.
 * *hops (of PATH_MAX_HOPS for several calls together) is reduced by the length of the
 * path. 0; -E2BIG: *hops is used up. */
int reach__path(const struct reach *reach, struct image *image, uint32_t number, uint64_t *hops,
		struct path *ret);

#endif
