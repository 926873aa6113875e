/* SPDX-License-Identifier: BSD-2-Clause */
/* How much memory a process held when its snapshots were taken: as a whole, by stack and by thread
 * pool. These figures show how the process grew recently, and when that growth began. A profile's
 * own growth covers the whole run, so it shows slow leaks. But if a process was quiet for a week,
 * and a leak begins now, the growth over the whole run hardly changes for days. This code reads no
 * clock and no files. */
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

/* What a process held at one time. */
struct moment {
	uint64_t taken_ns; /* by the wall clock */
	struct held *held; /* ascending by id; owned */
	size_t n;
	bool complete; /* true: an id that is missing in `held` had 0 bytes; false: its bytes are
		        * not known */
};

/* Sorts moment->held by id. */
void moment__sort(struct moment *moment);

/* Returns how many bytes `id` held; NaN: not known. */
double moment__bytes(const struct moment *moment, uint64_t id);

/* Estimates the growth of `id` with the method of profile/growth.h. A moment counts if the bytes of
 * `id` are known at this moment and at all later ones. Two neighbouring moments make a segment.
 * moments: the oldest first. quantum: as for growth__estimate(). All NaN: too few moments.
 *
 * If a leak began in the middle of these moments, the segments differ. So the growth is not certain
 * until the leak fills most segments. Therefore growth is also judged over only the last
 * HISTORY_SHORT and only the last HISTORY_SHORTEST moments. The span with the highest lower end
 * counts if this end is above 0. Growth is judged again and again. So only about one judgement in
 * HISTORY_ONE_IN should find, in any of the spans, a lower end that is too high. For this, the
 * interval has to be wider than a 95 % interval. Student's distribution tells by how much.
 * *ret_seconds (may be NULL): the length of the span. */
#define HISTORY_SHORT	 12
#define HISTORY_SHORTEST 8
#define HISTORY_ONE_IN	 2000
struct growth history__growth(const struct moment *const *moments, size_t n, uint64_t id,
			      double quantum, double *ret_seconds);

/* When growth began. */
struct onset {
	uint64_t ns, low_ns, high_ns; /* by the wall clock: the time and its 95 % interval */
	/* growth may have begun before the first moment; low_ns is then the time of that moment */
	bool earlier;
};

/* Fits by least squares a line that is level up to a time and rises from then on. Between each two
 * moments, HISTORY_STEPS points in time are tried. The interval consists of the points for which
 * the sum of squares is at most 1 + F / (n - 3) times the least sum. Here n is the number of
 * moments, and F the 0.95 quantile of F(1, n - 3). This is the usual confidence region of nonlinear
 * regression (Seber and Wild, Nonlinear Regression, section 5.3). false: too few moments, or the
 * line does not rise. */
#define HISTORY_STEPS 8
bool history__onset(const struct moment *const *moments, size_t n, uint64_t id, struct onset *ret);

#endif
