/* SPDX-License-Identifier: BSD-2-Clause */
/* Which kind of block points to a block. Blocks of numbers or text look alike, whichever code made
 * them. But the blocks that point to them may differ. For example, one struct points to the text of
 * a key, and another struct to the text of a message. The search for such referrers is one round of
 * Weisfeiler and Lehman's refinement of colours (B. Weisfeiler, A. Lehman, "The reduction of a
 * graph to canonical form", 1968): a block's colour becomes the pair of its own colour and its
 * neighbours' colours.
 *
 * A referrer's colour is made of its size, its pointers (look__pointers()), and the index of the
 * word that holds the pointer. All words behind the first LOOK_WORDS have one common index, because
 * they are often elements of an array. If several blocks point to one block, the smallest colour
 * counts. So the same kinds of referrers give the same colour, whatever the order of their
 * addresses. Pointers in globals and on stacks do not count.
 *
 * In a large heap, the look-up of every pointer would take longer than all other work. So if more
 * than REFERRERS_EXACT blocks are wanted, only some get a colour: those that begin on chosen pages,
 * and those that the caller names. One in `every` pages is chosen, by the page's hash. */
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
	uint32_t *colours; /* the colour of each block's referrer, by the block's number; 0: no
			    * block points to this block */
	uint32_t every;	   /* a power of two: one in this many pages is chosen */
};

/* Which colours are wanted, and how much time and memory they may take. */
struct referrers_options {
	/* A bit per usable size below REFERRERS_SIZES; set: colours of blocks of this size are
	 * wanted. */
	const uint64_t *sizes;
	/* Start addresses of blocks that get a colour even if their page is not chosen. Their size
	 * must be a wanted one. An element that is 0 is ignored. */
	const uint64_t *addrs;
	size_t n_addrs;
	/* if at most this many blocks are wanted, all get a colour; 0: REFERRERS_EXACT */
	uint32_t exact;
	uint32_t max_blocks; /* limit for the number of wanted blocks; 0: REFERRERS_MAX_BLOCKS */
	uint64_t max_ns;     /* limit for the time; 0: REFERRERS_MAX_NS */
};

#define REFERRERS_SIZES	     1024
#define REFERRERS_EXACT	     (1u << 20)
#define REFERRERS_MAX_BLOCKS (1u << 26)
#define REFERRERS_MAX_NS     (20ULL * 1000 * 1000 * 1000)

/* Finds the colours. Reads all blocks in use. `blocks` must be finished, and outlive ret. 0, also
 * if a limit is exceeded: then nothing is known. -ENOMEM. */
int referrers__find(struct image *image, const struct blocks *blocks,
		    const struct referrers_options *options, struct referrers *ret);
void referrers__clear(struct referrers *referrers);

/* Returns how many blocks this block stands for: `every` if it begins on a chosen page, else 0.
 * Returns 1 if nothing is known. */
uint32_t referrers__weight(const struct referrers *referrers, const struct block *block);

/* The colour of the referrer of a wanted block in use; 0: no block points to it, or nothing is
 * known. */
uint32_t referrers__of(const struct referrers *referrers, const struct block *block);

#endif
