/* SPDX-License-Identifier: BSD-2-Clause */
/* Who holds a block: the path of pointers from a root to the block, as found by reach.h. */
#ifndef MEMTRACE_HEAP_PATHS_H
#define MEMTRACE_HEAP_PATHS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "heap/reach.h"

struct image;

#define PATH_STEPS    16 /* at most this many steps; the middle of a longer path is left out */
#define PATH_NO_OFF   UINT64_MAX
#define PATH_MAX_HOPS 10000000 /* at most this many blocks; longer paths are mostly long lists */

/* A block on the path, or several consecutive blocks of one size, such as the nodes of a list. */
struct path_step {
	uint64_t addr; /* address of the first block */
	uint64_t size;
	uint64_t blocks;
	/* where in the last of these blocks the pointer to the next step is. PATH_NO_OFF: no
	 * pointer was found, or this is the last step */
	uint64_t off;
	/* the word with which both the first and the last of these blocks begin. It may be the
	 * address of a class's vtable. 0: the two blocks begin with different words, or were not
	 * read */
	uint64_t word;
};

/* The path from a root down to the block itself, which is the last step. */
struct path {
	struct root_word root;
	struct path_step steps[PATH_STEPS];
	uint32_t n_steps;
	bool cut; /* steps in the middle are missing */
};

/* Finds the path to a reachable block. `reach` must have parents. Reads the blocks again to find
 * where the pointers lie. *hops: how many blocks the path may have at most. The call subtracts the
 * path's length from *hops, so several calls can share PATH_MAX_HOPS. 0; -E2BIG: the path is too
 * long; -EINVAL: the block is not reachable. */
int reach__path(const struct reach *reach, struct image *image, uint32_t number, uint64_t *hops,
		struct path *ret);

#endif
