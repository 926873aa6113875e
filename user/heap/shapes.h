/* SPDX-License-Identifier: BSD-2-Clause */
/* What blocks look like. A block's shape is its usable size and the kinds of its first eight words:
 * which are pointers, and where to; which are zero, small or text. Pointers to a file's memory (a
 * vtable, a type object, a function, a constant) and pointers into the block itself count with
 * their exact target. Blocks that one function makes have few shapes, so blocks that are known (the
 * sampled ones of a run) tell something of others that look alike.
 *
 * A rough shape is the size and the kinds of the first four words, where pointers that may be NULL,
 * and data of any kind, are each one kind. */
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

/* Counts a block in use if a labelled block looks like it. pinned: as in struct census_shape.
 * Blocks are to come in ascending order. */
void shapes__count(struct shapes *shapes, const struct block *block, uint64_t pinned);

/* Moves what was counted to the census, which owns it then. */
void shapes__give(struct shapes *shapes, struct census *ret);

#endif
