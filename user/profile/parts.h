/* SPDX-License-Identifier: BSD-2-Clause */
/* The parts of the model of windows. Each part can be left out, to measure its effect on the
 * figures of live programs. `record --debug-parts` writes the figures of the same windows with
 * one part left out at a time, and tests/truth judges these figures (docs/windows.md). All other
 * output uses all parts. */
#ifndef MEMTRACE_PROFILE_PARTS_H
#define MEMTRACE_PROFILE_PARTS_H

#include <stdbool.h>

/* enumerator, name */
#define WINDOWED_PARTS(X)                                                                          \
	X(PART_WORK, "work")	     /* net time by bytes read and written (ledger/net_clock.h) */ \
	X(PART_WAITS, "waits")	     /* net time by waits (ledger/net_clock.h) */                  \
	X(PART_LEFT, "left")	     /* some net time is always left (ledger/net_clock.h) */       \
	X(PART_ROUGH, "rough")	     /* one mean net time per call (CLOCK in windowed.h) */        \
	X(PART_STRATA, "strata")     /* one rate for each stratum (BIRTHS in windowed.h) */        \
	X(PART_CONTENTS, "contents") /* contents as evidence (survival.h) */                       \
	X(PART_MISSED, "missed")     /* ages at which contents mislead (survival.h) */             \
	X(PART_RENEWAL, "renewal")   /* a later free is a successor's (survival.h) */              \
	X(PART_PRIOR, "prior")	     /* a prior where few frees were seen (survival.c) */          \
	X(PART_ANON, "anon")	     /* the clock's factor (balance.h) */                          \
	X(PART_DOUBTS, "doubts")     /* DOUBTS in balance.h */                                     \
	X(PART_WALL_ENDS, "wall_ends")	       /* ENDS BY THE WALL CLOCK in balance.h */           \
	X(PART_WALL_GROWTH, "wall_growth")     /* WALL CLOCK in balance.h */                       \
	X(PART_SURE, "sure")		       /* WHAT SURELY GROWS in balance.h */                \
	X(PART_LIMITS, "limits")	       /* LIMITS in balance.h, of live bytes */            \
	X(PART_GROWTH_LIMITS, "growth_limits") /* LIMITS in balance.h, of growth */                \
	X(PART_LARGE, "large")		       /* LARGE BLOCKS in large.h */

enum windowed_part {
#define X(part, name) part,
	WINDOWED_PARTS(X)
#undef X
		WINDOWED_N_PARTS
};

/* Is `part` used? `without` has a bit, 1 << number, for each part that is left out. */
static inline bool windowed_has(unsigned without, enum windowed_part part)
{
	return !(without >> part & 1);
}

static inline const char *windowed_part__name(enum windowed_part part)
{
	static const char *const names[] = {
#define X(part, name) name,
		WINDOWED_PARTS(X)
#undef X
	};

	return names[part];
}

#endif
