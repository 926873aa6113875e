/* SPDX-License-Identifier: BSD-2-Clause */
/* Numbers for the blocks in use, or some of them, from 0 on, ascending by address. Slots of
 * blocks.h have gaps; numbers have none, so arrays can be indexed by them. Takes 1.5 bits per
 * slot. */
#ifndef MEMTRACE_HEAP_NUMBERS_H
#define MEMTRACE_HEAP_NUMBERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "heap/blocks.h"

#define NO_NUMBER UINT32_MAX

/* Free with numbers__clear(). */
struct numbers {
	const struct blocks *blocks; /* the caller's */
	uint64_t *used;		     /* a bit per slot: a block with a number */
	uint32_t *before;	     /* how many are set before each word */
	size_t n_words;
	uint32_t n; /* blocks with a number */
};

/* In steps: numbers__open(); numbers__take() for each block in use that gets a number, in any
 * order; numbers__close(). blocks must be finished, and outlive the numbers. 0; -ENOMEM; -EFBIG:
 * more than 2^31 blocks. */
int numbers__open(struct numbers *numbers, const struct blocks *blocks);
void numbers__take(struct numbers *numbers, const struct block *block);
int numbers__close(struct numbers *numbers);
void numbers__clear(struct numbers *numbers);

/* The number of the block that holds addr; NO_NUMBER: none that has a number. */
uint32_t numbers__find(const struct numbers *numbers, uint64_t addr);

/* numbers__find() of this address will be called soon, and should not wait for memory then. */
void numbers__prefetch(const struct numbers *numbers, uint64_t addr);

/* The block of a number below n. False: there is none, which is a mistake of the caller. */
bool numbers__block(const struct numbers *numbers, uint32_t number, struct block *ret);

#endif
