/* SPDX-License-Identifier: BSD-2-Clause */
/* What survivors.c and contents.c share, and nobody else sees. */
#ifndef MEMTRACE_LEDGER_INTERNAL_H
#define MEMTRACE_LEDGER_INTERNAL_H

#include "ledger/survivors.h"

/* What a block stands for. */
static inline double weight_bytes(const struct abi_live *live)
{
	return (double)(live->size ? live->size : 1) /
	       estimate__probability(live->size, live->interval);
}

/* As it counts among blocks of other windows (windowed_born__trust()). */
double survivors__weight(const struct survivors *survivors, const struct survivors_block *block);

/* What realloc has made in a window is told of by reallocs (reallocs.h), and followed for these. */
static inline bool is_theirs(const struct survivors *s, const struct abi_live *live,
			     uint32_t window)
{
	return live->birth == BIRTH_GROWN && !s->windows[window].continuous;
}

/* What is counted of the stack's blocks of that window, by age; NULL: out of memory. */
struct survival_ages *survivors__ages_of(struct survivors *survivors, struct survivors_stack *stack,
					 uint32_t window);

/* Reads the contents of blocks of the last window, which are new. 0 or what the reader answers. */
int contents__read_new(struct survivors *survivors, survivors_reader reader, void *ctx);

#endif
