/* SPDX-License-Identifier: BSD-2-Clause */
/* Which blocks are alike. A block's shape is its fine look (look.h): its usable size and the kinds
 * of its first eight words. Blocks that one function makes have few shapes, so blocks that are
 * known (the sampled ones of a run) tell something of others that look alike. A rough shape is the
 * rough look: four words, less exact.
 *
 * Numbers and text look alike whoever made them. So to the shape, and to the rough shape, of a
 * plain block (SHAPE_PLAIN) belongs the colour of what points to it (referrers.h). */
#ifndef MEMTRACE_HEAP_SHAPES_H
#define MEMTRACE_HEAP_SHAPES_H

#include <stddef.h>
#include <stdint.h>

#include "heap/blocks.h"
#include "heap/types.h"
#include "profile/heap.h"

struct image;

/* A block that is known. A block is meant if it begins at addr and has as many usable bytes as
 * malloc(size) gives, which may be a few more than size, or a quarter more. */
struct shape_label {
	uint64_t addr, size;
};

struct shapes; /* opaque */

/* Finds the shapes of labelled blocks. labels: ascending by address, distinct. Blocks must be
 * finished. 0 or -ENOMEM. */
int shapes__new(struct image *image, const struct blocks *blocks, const struct shape_label *labels,
		size_t n, struct shapes **ret);
void shapes__free(struct shapes *shapes); /* NULL: nothing */

/* Counts a block in use if a labelled block looks like it. In large heaps, blocks below 1 KiB count
 * several times or not at all, by their page: referrers__weight(). pinned: as in struct
 * census_shape. Blocks are to come in ascending order. */
void shapes__count(struct shapes *shapes, const struct block *block, uint64_t pinned);

/* Moves what was counted to the census, which owns it then. */
void shapes__give(struct shapes *shapes, struct census *ret);

#endif
