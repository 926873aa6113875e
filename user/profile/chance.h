/* SPDX-License-Identifier: BSD-2-Clause */
/* Could a difference be chance? This file computes tail probabilities of the compared figures. If
 * many claims are tested together, it decides which of them may be made, so that one level of
 * significance holds for all. */
#ifndef MEMTRACE_PROFILE_CHANCE_H
#define MEMTRACE_PROFILE_CHANCE_H

#include <stdbool.h>
#include <stddef.h>

/* Two counts have the sum `from` + `to`. How likely is it that the second count is `to` or more?
 * Both count events that come at random (Poisson). When nothing differs, `share` (0..1) of all
 * events belong to the second count. The probability is a binomial tail (Przyborowski and Wilenski,
 * Biometrika 31, 1940). Half of the probability of exactly `to` is left out (mid-p). Counts are
 * discrete, so a test with the full probability would make false claims only half as often as its
 * level allows. Such a test would also find less (Hwang and Yang, Statistica Sinica 11, 2001).
 * Counts need not be whole: the incomplete beta function interpolates. */
double chance__of_counts(double from, double to, double share);

/* Upper tails of two distributions: of Student's with df > 0 degrees of freedom, and of the normal
 * distribution. t may have either sign. */
double chance__of_student(double t, double df);
double chance__of_normal(double z);

/* One of many claims that are tested at once. */
struct claim {
	double p;	/* probability of what was seen, or of more, if the claim is false */
	double least;	/* the smallest p that is possible for these counts; 0: any is possible */
	double traffic; /* > 0: number of samples behind the claim. Each claim's share of the level
			 * is in inverse proportion to this number */
	bool holds;	/* out */
};

/* Decides which claims hold. With a probability of at most `level`, one or more false claims are
 * said to hold. This limit is right whichever claims are true.
 *
 * The method is Holm's step-down procedure with weights (Holm, Scandinavian Journal of Statistics
 * 6, 1979): the claims are taken in the order of p / weight. They hold as long as p <= level *
 * weight / (sum of the weights of the claims that are left).
 *
 * - If a claim's `least` is above its share of the level, the claim cannot hold, so it takes no
 *   part. To leave such claims out costs nothing (Tarone, Biometrics 46, 1990). A profile has
 *   dozens of them: stacks with two samples each.
 * - Weights are 1 / traffic. Suppose that in one stack hundreds of samples come and go between two
 *   profiles. In another stack ten samples come and none goes: a slow leak. By these weights the
 *   first stack leaves most of the level to the second. So the slow leak is found among stacks that
 *   churn. A churning stack loses little: with a sixth of the level, its difference need only be
 *   half a standard deviation larger for its claim to hold.
 *
 * Both rules depend on the sum of the two counts, not on how the sum is divided. If the sum of two
 * counts is given, p still has its usual distribution. So both rules keep the level. *ret_weights
 * (may be NULL) is the sum of the weights of the claims that took part. 0 or -ENOMEM. */
int claims__decide(struct claim *claims, size_t n, double level, double *ret_weights);

#endif
