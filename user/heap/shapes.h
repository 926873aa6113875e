/* SPDX-License-Identifier: BSD-2-Clause */
/* Which blocks are alike. A block's shape is its fine look (look.h): its usable size and the kinds
 * of its first eight words. Blocks that one function allocates have few shapes. So known blocks
 * (those that a run has sampled) tell where other blocks of the same shape may come from. A rough
 * shape is the rough look: four words, less exact.
 *
 * Blocks of numbers or text look alike, whichever code made them. So the shape and the rough shape
 * of a plain block (SHAPE_PLAIN) include the colour of its referrer (referrers.h). */
#ifndef MEMTRACE_HEAP_SHAPES_H
#define MEMTRACE_HEAP_SHAPES_H

#include <stddef.h>
#include <stdint.h>

#include "heap/blocks.h"
#include "heap/types.h"
#include "profile/heap.h"

struct image;

/* A known block. It must begin at addr, and have as many usable bytes as malloc(size) gives: a few
 * more than size, or up to a quarter more. */
struct shape_label {
	uint64_t addr, size;
};

struct shapes; /* opaque */

/* Finds the shapes of labelled blocks. labels: ascending by address, distinct. Blocks must be
 * finished. 0 or -ENOMEM. */
int shapes__new(struct image *image, const struct blocks *blocks, const struct shape_label *labels,
		size_t n, struct shapes **ret);
void shapes__free(struct shapes *shapes); /* shapes may be NULL */

/* Counts a block in use if it has the shape or the rough shape of a labelled block. The rough shape
 * counts only if no labelled block has the same shape. In large heaps, a block smaller than 1 KiB
 * counts several times or not at all. This depends on its page (referrers__weight()). pinned: as in
 * struct census_shape. Blocks should come in ascending order. */
void shapes__count(struct shapes *shapes, const struct block *block, uint64_t pinned);

/* Moves the counts to the census, which then owns them. */
void shapes__give(struct shapes *shapes, struct census *ret);

#endif
