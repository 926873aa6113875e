/* SPDX-License-Identifier: BSD-2-Clause */
/* LARGE BLOCKS. In windows a block stands for many. Windows that take a twentieth of the time see
 * one birth in twenty, so each birth that they see counts twenty times. This is right on average,
 * but not for a few large blocks. A hash table of 128 MB that is made once is either not seen at
 * all, or is estimated as 2.5 GB. But allocators keep large blocks apart from other blocks. So
 * large blocks can be counted from outside (heap/large.h), exactly and at little cost. Let
 *
 *	seen_s	bytes of the live large blocks whose allocation by stack s a window saw
 *	U	bytes of all other large blocks that live and were allocated during the run
 *	L_s	the estimate of all live large blocks of stack s, from windows
 *
 * What a stack has beyond seen_s is part of U. So each stack gets L_s - seen_s, if this is above 0.
 * If all stacks together would get more than U, each amount is multiplied by the same k:
 *
 *	k = min(1, U / sum over s of max(L_s - seen_s, 0)),
 *	live_s = seen_s + k max(L_s - seen_s, 0).
 *
 * The remainder of U is in blocks that no stack explains. It is shown as a stack of its own, with
 * the one frame LARGE_UNSEEN. */
#ifndef MEMTRACE_PROFILE_LARGE_H
#define MEMTRACE_PROFILE_LARGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "profile/profile.h"

/* In bytes. A block above this size is large. Windows know the size that the program asked for. The
 * lists of large blocks know the usable size. The limit must select the same blocks by both sizes.
 * Otherwise a block could be counted twice. jemalloc has a size class that ends at its limit, and
 * an extent for each larger block. glibc may put a block of up to 32 MiB among smaller ones, after
 * such a block was freed (M_MMAP_THRESHOLD in mallopt(3)). glibc also rounds sizes up to pages. So
 * its limit is a size above 32 MiB that hardly any program asks for. */
#define LARGE_JEMALLOC (1ULL << 20)
#define LARGE_GLIBC    ((32ULL << 20) + (64ULL << 10))
#define LARGE_UNSEEN   "[large blocks that no window saw]"

struct large_block {
	uint64_t addr, size; /* what malloc returned; usable bytes */
};

/* Ascending by address. All zero: none. */
struct large_blocks {
	struct large_block *at; /* owned */
	size_t n;
	bool glibc, jemalloc; /* whose heaps were found */
};

/* Returns the size above which the list has all blocks. */
static inline uint64_t large_blocks__above(const struct large_blocks *blocks)
{
	return blocks->glibc ? LARGE_GLIBC : LARGE_JEMALLOC;
}

/* Is this the location of the stack LARGE_UNSEEN? */
bool large_blocks__are_unseen(const struct profile_location *location);

void large_blocks__clear(struct large_blocks *blocks);

/* Returns the block that begins at addr; NULL: there is none. */
const struct large_block *large_blocks__find(const struct large_blocks *blocks, uint64_t addr);

/* The large blocks of one stack, in bytes. */
struct large_stack {
	double estimate; /* L_s */
	double seen;	 /* seen_s */
	double live;	 /* result: live_s */
};

/* Sets `live` of each stack. unseen: U. Returns the part of U that no stack explains. */
double large__share(struct large_stack *stacks, size_t n, double unseen);

#endif
