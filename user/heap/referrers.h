/* SPDX-License-Identifier: BSD-2-Clause */
/* Which kind of block points to a block. Numbers and text look alike whoever made them. But the
 * text of a key is pointed to by another struct, or from another place in it, than the text of a
 * message. This is one round of Weisfeiler and Lehman's refinement of colours (B. Weisfeiler, A.
 * Lehman, "The reduction of a graph to canonical form", 1968): a block's colour becomes the pair of
 * its own and its neighbours' colours.
 *
 * A referrer's colour is its size and its pointers (look__pointers()), and the word in which the
 * pointer stands. Words behind the first LOOK_WORDS are one place, as they are elements of an
 * array. If several blocks point to one, the least colour counts: the same kinds of referrers give
 * the same colour, in whatever order they lie. Pointers in globals and on stacks do not count.
 *
 * To look up each pointer of a large heap would take longer than all else. So if more than
 * REFERRERS_EXACT blocks are wanted, colours are only worked out for those on every n-th page, by
 * its hash, and for those that the caller names. */
#ifndef MEMTRACE_HEAP_REFERRERS_H
#define MEMTRACE_HEAP_REFERRERS_H

#include <stddef.h>
#include <stdint.h>

#include "heap/blocks.h"
#include "heap/numbers.h"

struct image;

/* All zero: nothing is known. Free with referrers__clear(). */
struct referrers {
	struct numbers numbers;
	uint32_t *colours; /* by number, of the blocks on the pages; 0: no block points to it */
	uint32_t every;	   /* a power of two: the pages are one in so many */
};

/* What to look for, and how much that may cost. */
struct referrers_options {
	/* A bit for each usable size below REFERRERS_SIZES: colours of such blocks are wanted. */
	const uint64_t *sizes;
	/* Starts of blocks whose colours are wanted, whatever their page; 0: there is none. */
	const uint64_t *addrs;
	size_t n_addrs;
	uint32_t exact;	     /* wanted blocks; 0: REFERRERS_EXACT */
	uint32_t max_blocks; /* wanted; 0: REFERRERS_MAX_BLOCKS */
	uint64_t max_ns;     /* of the wall clock; 0: REFERRERS_MAX_NS */
};

#define REFERRERS_SIZES	     1024
#define REFERRERS_EXACT	     (1u << 20)
#define REFERRERS_MAX_BLOCKS (1u << 26)
#define REFERRERS_MAX_NS     (20ULL * 1000 * 1000 * 1000)

/* Reads all blocks in use, which must be finished and outlive ret. If a limit is met, nothing is
 * known. 0 or -ENOMEM. */
int referrers__find(struct image *image, const struct blocks *blocks,
		    const struct referrers_options *options, struct referrers *ret);
void referrers__clear(struct referrers *referrers);

/* How many blocks this one stands for: `every` if it begins on one of the pages, else 0. If nothing
 * is known, 1. */
uint32_t referrers__weight(const struct referrers *referrers, const struct block *block);

/* The colour of what points to a block in use that was wanted; 0: no block does, or nothing is
 * known. */
uint32_t referrers__of(const struct referrers *referrers, const struct block *block);

#endif
