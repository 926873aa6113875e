/* SPDX-License-Identifier: BSD-2-Clause */
/* An amount of work that may be done at once, and is renewed as time passes (a token bucket). It
 * limits what hostile files can cost, also in a run that lasts for months. */
#ifndef MEMTRACE_BASE_ALLOWANCE_H
#define MEMTRACE_BASE_ALLOWANCE_H

#include <stdint.h>

struct allowance {
	double left;	 /* the caller subtracts what it has used; may be below 0 */
	double most;	 /* `left` at the beginning, and its largest value */
	double per_s;	 /* what a second adds */
	uint64_t now_ns; /* when `left` was computed; 0: it has not been renewed yet */
};

/* Initial value. */
#define ALLOWANCE(most, per_s)                                                                     \
	{                                                                                          \
		most, most, per_s, 0                                                               \
	}

/* Adds per_s for each second since the last call. now_ns: the time of any clock, but of the same
 * clock in all calls. Returns what is left. */
static inline double allowance__renew(struct allowance *a, uint64_t now_ns)
{
	if (a->now_ns)
		a->left += a->per_s * (double)(now_ns - a->now_ns) / 1e9;
	if (a->left > a->most)
		a->left = a->most;
	a->now_ns = now_ns;
	return a->left;
}

#endif
