/* SPDX-License-Identifier: BSD-2-Clause */
/* What a process held at the times of its snapshots, as a whole, by stack and by thread pool: how
 * it grew of late, and when that began. A profile's own growth is over the whole run, which finds
 * slow leaks. But in a process that was quiet for a week, a leak that begins now changes that
 * growth too little for days. No clock, no files. */
#ifndef MEMTRACE_WEB_HISTORY_H
#define MEMTRACE_WEB_HISTORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "profile/growth.h"

#define HISTORY_ALL 0 /* the id of the whole process */

struct held {
	uint64_t id;
	double bytes;
};

/* At one time. */
struct moment {
	uint64_t taken_ns; /* by the wall clock */
	struct held *held; /* ascending by id; owned */
	size_t n;
	bool complete; /* what is not here held nothing; false: it is not known */
};

/* Sorts what is held. */
void moment__sort(struct moment *moment);

/* What it held; NaN: not known. */
double moment__bytes(const struct moment *moment, uint64_t id);

/* Its growth from the first moment on since which all is known, by profile/growth.h, each two
 * moments being a segment. moments: the oldest first. quantum: as for growth__estimate(). The
 * interval reaches HISTORY_SURER times as far as one of 95 %: this is looked at again and again,
 * and is to be wrong about once in 2,000 looks (with 20 moments, t(0.9995; 18) / t(0.975; 18)).
 * All NaN: too few moments. */
#define HISTORY_SURER 1.9
struct growth history__growth(const struct moment *const *moments, size_t n, uint64_t id,
			      double quantum);

/* When it began to grow. */
struct onset {
	uint64_t ns, low_ns, high_ns; /* the wall clock, and its 95 % interval */
	/* perhaps before the first moment: then low_ns is that moment's */
	bool earlier;
};

/* Fits a line that is level up to a time and rises from then on, by least squares; the time is one
 * of HISTORY_STEPS between each two moments. The interval: times for which the sum of squares is at
 * most 1 + F / (n - 3) times the least one, F the 0.95 quantile of F(1, n - 3), n moments (the
 * usual confidence region of nonlinear regression: Seber and Wild, Nonlinear Regression, section
 * 5.3). false: too few moments, or it does not rise. */
#define HISTORY_STEPS 8
bool history__onset(const struct moment *const *moments, size_t n, uint64_t id, struct onset *ret);

#endif
