/* SPDX-License-Identifier: BSD-2-Clause */
/* Estimates totals from samples, with the errors of the totals.
 *
 * Sampling is a Poisson process over the bytes allocated, one point every R bytes on average. An
 * allocation of z bytes is sampled when at least one point falls into it:
 *
 *	p(z) = 1 - exp(-z / R)				(z = 0 is sampled as if it were 1 byte)
 *
 * Each sample therefore stands for 1/p objects and z/p bytes (Horvitz-Thompson). Totals are
 * unbiased for every mix of sizes. The variance of the byte total is estimated without bias by
 *
 *	V = sum over samples of z^2 (1 - p) / p^2.
 *
 * R = 1 is the exact mode: every allocation is recorded, p = 1, V = 0.
 *
 * Intervals: a total of few samples has a skewed distribution. For such a total, an interval of
 * +-1.96 sqrt(V) holds the true value too rarely. So the gamma interval of Fay and Feuer for
 * weighted sums of Poisson counts is used (Statistics in Medicine 16, 1997: confidence intervals
 * for directly standardized rates). Let Y be the total and V its variance. Let w2 be the largest
 * term of V. One more sample of that kind would add w2 to V. Then
 *
 *	low  = V / (2Y)         * chi2(0.025; 2Y^2 / V)
 *	high = (V + w2) / (2(Y + w)) * chi2(0.975; 2(Y + w)^2 / (V + w2)),	w = sqrt(w2)
 *
 * At V = 0 both ends are Y. low is never below the bytes really seen in samples. */
#ifndef MEMTRACE_PROFILE_ESTIMATE_H
#define MEMTRACE_PROFILE_ESTIMATE_H

#include <stdint.h>

struct estimate {
	uint64_t samples;	/* number of sampled allocations behind the estimate */
	uint64_t sampled_bytes; /* sum of their sizes: a hard lower bound of bytes */
	double objects;		/* sum of 1/p */
	double bytes;		/* sum of z/p */
	double variance;	/* of bytes: sum of z^2 (1-p)/p^2, bytes^2 */
	double variance_max;	/* the largest term of that sum, bytes^2 */
	double squares; /* sum of (z/p)^2, bytes^2: the variance of bytes, sampling included, if
			 * blocks come and go at random (profile/diff.h). See estimate__squares() */
	double common;	/* standard error that comes from the run's clock, in bytes. All estimates
			 * of the run share it. So if estimates are added, their values of `common`
			 * are added, not the squares. For an interval, the square of `common` is
			 * added to `variance`. */
	/* upper limit of bytes, from facts about the process; 0: no such limit is known. All parts
	 * of a process's memory together do not exceed the largest `most` of a part */
	double most;
	double least; /* lower limit of bytes, from other facts; 0: none is known */
};

struct interval {
	double low, high; /* 95 %, bytes */
};

/* Probability that an allocation of size bytes is sampled at mean interval R = interval (>= 1). */
double estimate__probability(uint64_t size, uint64_t interval);

/* Adds one sampled allocation. */
void estimate__add(struct estimate *estimate, uint64_t size, uint64_t interval);

/* Adds one sampled allocation that was seen with probability p, 0 < p <= 1, for any reason. */
void estimate__add_seen(struct estimate *estimate, uint64_t size, double p);

/* Adds the estimate of another part of the same process's memory. The new `most` is the larger of
 * both. If one of the two estimates has bytes but no limit, the new `most` is 0. */
void estimate__merge(struct estimate *estimate, const struct estimate *other);

/* Adds the estimate of another process. The limits `most` are added, too. If one of the two
 * estimates has bytes but no limit, the new `most` is 0. */
void estimate__merge_process(struct estimate *estimate, const struct estimate *other);

/* Returns the part of an estimate that has `objects` objects and `bytes` bytes. The part's share of
 * the variance is its share of the bytes. */
struct estimate estimate__part(const struct estimate *estimate, double objects, double bytes);

/* Returns the estimate's `squares`. If this sum is not known (a file does not have it), the result
 * is the larger of two lower limits. One is bytes^2 / samples, which is right if all samples weigh
 * the same. The other is the variance, which is nearly right if all blocks are small. */
double estimate__squares(const struct estimate *estimate);

/* At mean interval `from`, a sample of a block stands for `weight` bytes. Returns for how many
 * bytes it stands at mean interval `to`. If `weight` is the mean over blocks of different sizes
 * (squares / bytes), the result is nearly right. */
double estimate__weight_at(double weight, uint64_t from, uint64_t to);

/* Returns an estimate of `bytes` bytes. Its samples are not known, only their mean interval R =
 * `interval`. So the variance is set to its upper limit. A block of z bytes adds z^2 (1 - p) / p^2
 * to the variance (above). That is at most R z / p, because z (1 - p) / p is at most R. Interval 1:
 * exact. */
struct estimate estimate__of_bytes(double bytes, uint64_t interval);

/* The 95 % interval of the estimate, bytes. If the estimate is 0 or exact, both ends are equal to
 * the estimate. */
struct interval estimate__interval(const struct estimate *estimate);

/* If no byte of an amount was sampled, this is the upper end of the amount's 95 % interval, in
 * bytes: the high end of the formula above at Y = V = 0 and w = R, where R = `interval`. If there
 * were more bytes, the probability of sampling at least one of them would be above 97.5 %. Interval
 * 0 or 1: 0. */
double estimate__unseen(uint64_t interval);

/* Quantile q (0..1) of the chi-squared distribution with df > 0 degrees of freedom. */
double chi2_quantile(double q, double df);

#endif
