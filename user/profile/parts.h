/* SPDX-License-Identifier: BSD-2-Clause */
/* The parts of the model of windows, each of which can be left out, to find on live programs if it
 * pays: `record --debug-parts` writes what the same windows say without each of them, and
 * tests/truth judges it (docs/windows.md). What is printed always has all of them. */
#ifndef MEMTRACE_PROFILE_PARTS_H
#define MEMTRACE_PROFILE_PARTS_H

#include <stdbool.h>

/* enumerator, name */
#define WINDOWED_PARTS(X)                                                                          \
	X(PART_WORK, "work")	     /* net time by bytes read and written (ledger/net_clock.h) */ \
	X(PART_LEFT, "left")	     /* something is left beside the cost (the same) */            \
	X(PART_ROUGH, "rough")	     /* one net time per call (CLOCK in windowed.h) */             \
	X(PART_STRATA, "strata")     /* windows near to each other (BIRTHS there) */               \
	X(PART_CONTENTS, "contents") /* contents as evidence (survival.h) */                       \
	X(PART_MISSED, "missed")     /* ages whose contents mislead (the same) */                  \
	X(PART_RENEWAL, "renewal")   /* a later free is a successor's (the same) */                \
	X(PART_PRIOR, "prior")	     /* few frees of one age (survival.c) */                       \
	X(PART_ANON, "anon")	     /* the clock's factor (balance.h) */                          \
	X(PART_WALL_ENDS, "wall_ends")	       /* ENDS BY THE WALL CLOCK there */                  \
	X(PART_WALL_GROWTH, "wall_growth")     /* WALL CLOCK there */                              \
	X(PART_SURE, "sure")		       /* WHAT SURELY GROWS there */                       \
	X(PART_LIMITS, "limits")	       /* LIMITS there, of live bytes */                   \
	X(PART_GROWTH_LIMITS, "growth_limits") /* and of growth */

enum windowed_part {
#define X(part, name) part,
	WINDOWED_PARTS(X)
#undef X
		WINDOWED_N_PARTS
};

/* without: of what is left out the bits 1 << part. */
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
