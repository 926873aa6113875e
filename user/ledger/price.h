/* SPDX-License-Identifier: BSD-2-Clause */
/* What a process feels of its probes, as a multiple of what was calibrated on another one.
 *
 * When a window opens, the probes on functions that allocate are in place some 10 ms before those on functions that
 * free: a call costs about half as much. In either part, with n calls that allocate, calibrated cost c and CPU time u,
 *
 *	u = t n + f c:
 *
 * the process itself needs t for each call, and feels f times the calibrated cost. The same process works in
 * both, so that
 *
 *	f = (u2 / n2 - u1 / n1) / (c2 / n2 - c1 / n1),
 *
 * of sums over windows; 1 is of parts with half of the probes, 2 with all. Its error is that of a jackknife over
 * groups of windows. What differs between calls that allocate and calls that free, beyond calibration, adds PRICE_UNEVEN.
 * Before anything is measured f is what is known of other processes, give or take PRICE_PRIOR (docs/overhead.md); both
 * are weighted by their inverse variances. */
#ifndef MEMTRACE_LEDGER_PRICE_H
#define MEMTRACE_LEDGER_PRICE_H

#include <stddef.h>

#define PRICE_GROUPS 16
#define PRICE_PRIOR  0.15
#define PRICE_UNEVEN 0.05

/* Totals of a process at a moment. */
struct price_totals {
	double cpu_ns, cost_ns; /* cost as calibrated */
	double allocs;		/* calls that allocated */
};

struct price {
	struct price_totals half[PRICE_GROUPS], whole[PRICE_GROUPS]; /* sums over windows */
	size_t n;      /* windows with both */
	double prior;  /* f before anything is measured */
	double factor; /* f */
	double error;  /* its standard error */
};

void price__init(struct price *price, double prior);

/* The part of a window with half of the probes, then that with all: from one moment to the other. */
void price__note_half(struct price *price, const struct price_totals *from, const struct price_totals *to);
void price__note_whole(struct price *price, const struct price_totals *from, const struct price_totals *to);

#endif
