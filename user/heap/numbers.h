/* SPDX-License-Identifier: BSD-2-Clause */
/* Numbers for all or some blocks in use. The numbers begin with 0, and ascend by address. Slots of
 * blocks.h have gaps. Numbers have no gaps, so they can index an array. The tables need 1.5 bits
 * per slot. */
#ifndef MEMTRACE_HEAP_NUMBERS_H
#define MEMTRACE_HEAP_NUMBERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "heap/blocks.h"

#define NO_NUMBER UINT32_MAX

/* Free with numbers__clear(). */
struct numbers {
	const struct blocks *blocks; /* the caller owns these blocks */
	uint64_t *used;		     /* a bit per slot; set: the slot's block has a number */
	/* for each word of `used`: how many bits are set in the words before it */
	uint32_t *before;
	size_t n_words;
	uint32_t n; /* how many blocks have a number */
};

/* To number blocks, call numbers__open(); then numbers__take() for each block in use that gets a
 * number, in any order; then numbers__close(). `blocks` must be finished, and outlive the numbers.
 * 0; -ENOMEM; -EFBIG: 2^31 blocks or more. */
int numbers__open(struct numbers *numbers, const struct blocks *blocks);
void numbers__take(struct numbers *numbers, const struct block *block);
int numbers__close(struct numbers *numbers);
void numbers__clear(struct numbers *numbers);

/* The number of the block that holds addr; NO_NUMBER: no block with a number holds it. */
uint32_t numbers__find(const struct numbers *numbers, uint64_t addr);

/* Loads into the processor's cache what numbers__find() needs for addr. */
void numbers__prefetch(const struct numbers *numbers, uint64_t addr);

/* Finds the block with this number, which must be below numbers->n. False: the caller has passed a
 * number that no block has. */
bool numbers__block(const struct numbers *numbers, uint32_t number, struct block *ret);

#endif
