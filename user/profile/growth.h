/* SPDX-License-Identifier: BSD-2-Clause */
/* How fast the memory of one stack grows, and how sure that is.
 *
 * The run is cut into segments. For each segment, the growth of the stack's memory is known. (What
 * this growth means differs by mode: see the callers.) A leak adds about the same amount in every
 * segment. A population in steady state (a cache, connections) adds in some segments what it loses
 * in others. So the spread between the segments shows all that makes a figure uncertain: the
 * sampling, the windows, and the program's own ups and downs.
 *
 * With y_j bytes in t_j seconds, the rate is the ratio estimator of survey sampling (Cochran,
 * Sampling Techniques, 3rd ed., section 6.3)
 *
 *	r = sum y_j / sum t_j
 *
 * with the variance of the jackknife (same book, section 6.17), which with T = sum t_j comes to
 *
 *	V(r) = (n - 1) / n sum ((y_j - r t_j) / (1 - t_j / T))^2 / T^2:
 *
 * a segment that is longer than the others moves r towards its own rate, so its deviation from r
 * counts for more. The interval is r +- t(0.975; n - 1) sqrt(V). Where little was seen, samples may
 * show no spread at all. So the half width of the interval has a lower limit: the amount by which
 * one more block of the largest size seen would move r. If no segment saw a block come or go, the
 * limit is the amount by which 3.7 such blocks would move r. The reason is that even if 3.7 blocks
 * are expected, there is a chance of 2.5 % that none comes (Poisson).
 *
 * Some memory fills up and then stays (a cache that warms up, a population with a long life). Such
 * memory also grows for a while, but by less and less. A line is fitted to the rates of the
 * segments. The rates are said to fall if the slope is below zero with 95 % confidence, one-sided.
 * Where blocks are known to go on dying, any slope below zero is enough. If the rates fall, the
 * lower end of the interval is at most the rate that the line gives for the segment after the last.
 * Let y1, y2, y3 be the rates in the three thirds of the segments. Blocks that go on dying at a
 * constant rate have y_i = L + C q^i. Then q = (y2 - y3) / (y1 - y2). This q is kept within limits,
 * because noise can make it anything. By Aitken's extrapolation, the rate of the blocks that stay
 * is L = y3 - (y1 - y3) q^2 / (1 - q^2). For dying blocks the lower end of the interval has two
 * limits: L, and the rate that the line gives. The half width of the interval of r is subtracted
 * from both. */
#ifndef MEMTRACE_PROFILE_GROWTH_H
#define MEMTRACE_PROFILE_GROWTH_H

#include <stdbool.h>
#include <stddef.h>

struct growth_segment {
	double seconds; /* > 0 */
	double bytes;	/* growth of the memory in this segment */
};

struct growth {
	double bytes_per_s;
	double low, high; /* 95 %; NaN when there are fewer than GROWTH_MIN_SEGMENTS */
};

#define GROWTH_MIN_SEGMENTS 3

/* Estimates growth from n segments. The caller orders the segments so that a population that fills
 * up would grow less and less from one segment to the next. quantum: by how many bytes a segment
 * changes when one block more or less is seen; 0: all is exact. dying: the stack's blocks go on
 * dying, however old they are. */
struct growth growth__estimate(const struct growth_segment *segments, size_t n, double quantum,
			       bool dying);

/* The growth of several stacks together. They can be added in any order. Their errors are
 * independent, unless a lower end is exactly 0. Such a 0 does not come from chance: by facts about
 * the process, it is possible that the stack does not grow at all (profile/balance.h). Then perhaps
 * no stack with such a lower end grows. So the distances to lower ends of 0 are added. Of all other
 * distances, the squares are added. Begin with {}, or with a total that says "none": the first
 * addition replaces it. */
struct growth_sum {
	struct growth total;
	double chance, facts; /* the two parts of the distance to the total's lower end */
	size_t n;	      /* additions */
};

void growth_sum__add(struct growth_sum *sum, const struct growth *growth);

#define NORMAL_QUANTILE 1.9599640 /* quantile 0.975 of the normal distribution */

/* Does it grow or shrink by more than chance explains? */
bool growth__is_significant(const struct growth *growth);

/* Orders stacks by growth, for qsort(): the result is below 0 if `a` comes first. First come stacks
 * that surely grow, by growth. Then come stacks that may grow, by growth divided by the distance
 * between growth and the interval's low end. (If this quotient were above 1, growth would be sure.
 * Estimates from few samples are often the largest. Ordered by growth alone, they would come before
 * stacks whose growth is nearly sure.) Last come stacks that do not grow, or whose growth or low
 * end is not known (NaN). */
int growth__compare(const struct growth *a, const struct growth *b);

/* Quantile 0.975 of Student's distribution with df >= 1 degrees of freedom; 0.95 with one_sided. */
double student_quantile(size_t df, bool one_sided);

#endif
