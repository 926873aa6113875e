/* SPDX-License-Identifier: BSD-2-Clause */
/* How fast the memory of one stack grows, and how sure that is.
 *
 * The run is cut into segments, of each of which is known by how much the stack's memory has grown
 * in it (what this means differs by mode: see the callers). A leak adds about as much in every one;
 * a population in balance - a cache, connections - adds in some what it loses in others. So the
 * spread of the segments among each other carries everything that makes a figure uncertain: the
 * sampling, the windows, and the program's own ups and downs.
 *
 * With y_j bytes in t_j seconds, the rate is the ratio estimator of survey sampling (Cochran,
 * Sampling Techniques, 3rd ed., section 6.3)
 *
 *	r = sum y_j / sum t_j
 *
 * with the variance of the jackknife (the same, section 6.17), which with T = sum t_j comes to
 *
 *	V(r) = (n - 1) / n sum ((y_j - r t_j) / (1 - t_j / T))^2 / T^2:
 *
 * a segment that is longer than the others draws r to itself, and its miss is taken for more. The
 * interval is r +- t(0.975; n - 1) sqrt(V). What is sampled can leave no spread at all where little
 * was seen: the interval reaches at least as far as one more block of the largest size seen would
 * make it, and where none was seen as far as 3.7 of them would: so many may be expected and none
 * come (Poisson).
 *
 * Memory that fills up and then stays (a cache that warms up, a population with a long life) grows
 * as well, for a while, and by less and less. When the rates of the segments fall - by a line
 * fitted to them whose slope is below zero with 95 % confidence, one-sided, or at all where blocks
 * are known to go on dying - the lower end of the interval is no more than what the line says of
 * the segment after the last. Blocks that go on dying at a constant rate leave L + C q^i in the
 * i-th third of the segments, and what stays of them is L = y3 - (y1 - y3) q^2 / (1 - q^2)
 * (Aitken's extrapolation), with q = (y2 - y3) / (y1 - y2) as far as it is within what noise leaves
 * likely. The lower end is no more than that either, less the error as above. */
#ifndef MEMTRACE_PROFILE_GROWTH_H
#define MEMTRACE_PROFILE_GROWTH_H

#include <stdbool.h>
#include <stddef.h>

struct growth_segment {
	double seconds; /* > 0 */
	double bytes;	/* by which the memory has grown */
};

struct growth {
	double bytes_per_s;
	double low, high; /* 95 %; NaN when there are fewer than GROWTH_MIN_SEGMENTS */
};

#define GROWTH_MIN_SEGMENTS 3

/* From n segments, in the order in which a population that fills up would show less and less
 * growth. quantum: by how many bytes one block more or less that is seen changes them; 0: all is
 * exact. dying: its blocks go on dying, however old they are. */
struct growth growth__estimate(const struct growth_segment *segments, size_t n, double quantum,
			       bool dying);

/* Adds that of another stack: their errors are independent. But a lower end of exactly 0 is no
 * chance: the process's own facts say that it may all be nothing (profile/balance.h), and what may
 * be nothing of one and of the other may be nothing of both. */
void growth__merge(struct growth *growth, const struct growth *other);

#define NORMAL_QUANTILE 1.9599640 /* the normal distribution's, 0.975 */

/* Does it grow, or shrink, more than chance explains? */
bool growth__is_significant(const struct growth *growth);

/* Orders stacks by growth, for qsort(): below 0 when a comes first. What surely grows comes first,
 * by its growth; then what may grow, by how little is wanting for it to be sure: by its growth over
 * the way down to its interval's low end, which of 1 and more would be sure. (An estimate of few
 * samples that may be anything is often the largest: by growth alone it would come before all that
 * is nearly sure.) Then what does not grow, and what nothing is known of (NaN) as if it did not. */
int growth__compare(const struct growth *a, const struct growth *b);

/* Quantile 0.975 of Student's distribution with df >= 1 degrees of freedom; 0.95 with one_sided. */
double student_quantile(size_t df, bool one_sided);

#endif
