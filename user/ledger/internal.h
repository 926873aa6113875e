/* SPDX-License-Identifier: BSD-2-Clause */
/* Shared only by the files that implement survivors.h and old_windows.h. */
#ifndef MEMTRACE_LEDGER_INTERNAL_H
#define MEMTRACE_LEDGER_INTERNAL_H

#include "ledger/survivors.h"

/* The allocated bytes that a sampled block stands for. */
static inline double weight_bytes(const struct abi_live *live)
{
	return (double)(live->size ? live->size : 1) /
	       estimate__probability(live->size, live->interval);
}

/* Returns what the stack allocated in this window; NULL: nothing. */
struct windowed_born *survivors__born_in(struct survivors_stack *stack, uint32_t window);

/* Returns the weight of a block when it is counted together with blocks of other windows
 * (windowed_born__trust()). */
double survivors__weight(const struct survivors *survivors, const struct survivors_block *block);

/* Did realloc make the block in a window? reallocs.h counts such blocks, so here they are only
 * followed. window: the window of the block's birth. */
static inline bool survivors__is_regrown(const struct survivors *survivors,
					 const struct abi_live *live, uint32_t window)
{
	return live->birth == BIRTH_GROWN && !survivors->windows[window].continuous;
}

/* Returns the counts, by age, of the stack's blocks that were born in this window. NULL: out of
 * memory. */
struct survival_ages *survivors__ages_of(struct survivors *survivors, struct survivors_stack *stack,
					 uint32_t window);

/* Returns the stack's `witness`, which counts what windows show of its older blocks (survivors.h).
 * NULL: out of memory. */
struct survivors_witness *survivors__witness_of(struct survivors_stack *stack);

/* Stops following the blocks that are marked as let_go. Calls forget() for addresses at which no
 * followed block is left. 0, or -ENOMEM: all are still followed. */
int survivors__let_go_marked(struct survivors *survivors);

/* When did probes begin to be placed for window i? The clock's edges are a little later than the
 * window's own times. */
uint64_t old_windows__opened_ns(const struct survivors *survivors, const struct net_clock *clock,
				size_t i);

/* Merges neighbouring old stretches if there are too many: see old_windows.h. 0 or -ENOMEM: nothing
 * has changed. */
int old_stretches__merge(struct survivors *survivors, struct net_clock *clock);

/* Stops following half of the blocks. Reduces `looked` in proportion to the weight of the blocks
 * that are still followed. (`looked` also includes blocks that ended in the window of their birth
 * and were never followed.) 0 or -ENOMEM. */
int let_go__half(struct survivors *survivors);

/* Reads the contents of the blocks that were born in the last window, in the part of this window
 * that is not harvested yet. 0, -ENOMEM, or what the reader returns. */
int contents__read_new(struct survivors *survivors, survivors_reader reader, void *ctx);

#endif
