/* SPDX-License-Identifier: BSD-2-Clause */
/* Could a difference be chance? This file has the tail probabilities of the compared figures. It
 * also decides which of many claims may be made, if one level of significance is to hold for all
 * of them together. */
#ifndef MEMTRACE_PROFILE_CHANCE_H
#define MEMTRACE_PROFILE_CHANCE_H

#include <stdbool.h>
#include <stddef.h>

/* Two counts have the sum `from` + `to`. How likely is it that the second count is `to` or more?
 * Both count events that come at random (Poisson). When nothing differs, `share` (0..1) of all
 * events belong to the second count. The probability is a binomial tail (Przyborowski and Wilenski,
 * Biometrika 31, 1940). Half of the probability of `to` itself is left out (mid-p). Counts are
 * discrete, so a test with the full probability would make false claims only half as often as its
 * level allows. It would also find less (Hwang and Yang, Statistica Sinica 11, 2001). Counts need
 * not be whole: the incomplete beta function interpolates. */
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

/* Decides which claims hold. The probability that any false claim is said to hold is at most
 * `level`, whichever claims are true.
 *
 * By Holm's step-down procedure with weights (Holm, Scandinavian Journal of Statistics 6, 1979):
 * the claims are taken in the order of p / weight. They hold as long as p <= level * weight / (sum
 * of the weights of the claims that are left).
 *
 * - A claim takes no part if it could not hold in any case, because its `least` is above its share
 *   of the level. To leave such claims out costs nothing (Tarone, Biometrics 46, 1990), and a
 *   profile has dozens of them: stacks with two samples each.
 * - Weights are 1 / traffic. In one stack hundreds of samples come and go between two profiles, and
 *   its next difference will be as large. In another stack ten samples come and none goes. By these
 *   weights the first stack leaves most of the level to the second. Of the many ways to share the
 *   level, this one finds the slow leak among churn. A churning stack loses little by this: for its
 *   claim to hold at a sixth of the level, its difference need only be larger by half a standard
 *   deviation.
 *
 * Both rules depend on the sum of the two counts, not on how the sum is divided. Given the sum of
 * two counts, p has its usual distribution, so neither rule spoils the level. *ret_weights (may be
 * NULL) is the sum of the weights of the claims that took part. 0 or -ENOMEM. */
int claims__decide(struct claim *claims, size_t n, double level, double *ret_weights);

#endif
