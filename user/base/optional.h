/* SPDX-License-Identifier: BSD-2-Clause */
/* A number that may be unknown. It is a struct, so that code cannot use an unknown number like a
 * known one. All zero: not known. */
#ifndef MEMTRACE_BASE_OPTIONAL_H
#define MEMTRACE_BASE_OPTIONAL_H

#include <math.h>
#include <stdbool.h>

struct optional {
	bool known;
	double value;
};

/* Makes a number from the result of arithmetic: NaN and infinities count as not known. */
static inline struct optional optional__of(double value)
{
	return isfinite(value) ? (struct optional){true, value} : (struct optional){};
}

/* Returns the number, or NaN if it is not known: for arithmetic and encoders that expect this. */
static inline double optional__or_nan(struct optional number)
{
	return number.known ? number.value : NAN;
}

/* Is the number known to be above the limit? */
static inline bool optional__is_above(struct optional number, double limit)
{
	return number.known && number.value > limit;
}

#endif
