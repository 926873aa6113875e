/* SPDX-License-Identifier: BSD-2-Clause */
/* Could it be chance? Tail probabilities of what is compared, and which of many claims may be made
 * at a level that holds for all of them together. */
#ifndef MEMTRACE_PROFILE_CHANCE_H
#define MEMTRACE_PROFILE_CHANCE_H

#include <stdbool.h>
#include <stddef.h>

/* Two counts of events that come at random (Poisson), of which `share` (0..1) belong to the second
 * when nothing differs: how likely is a second count of `to` or more, given from + to of both
 * together? That is a binomial tail (Przyborowski and Wilenski, Biometrika 31, 1940), of which
 * half of the probability of `to` itself is left out (mid-p): the whole of it, for counts are
 * discrete, keeps the level by half of it and finds less (Hwang and Yang, Statistica Sinica 11,
 * 2001). Counts need not be whole: the incomplete beta function goes between. */
double chance__of_counts(double from, double to, double share);

/* Upper tail of Student's distribution with df > 0 degrees of freedom, at t of either sign; of the
 * normal one. */
double chance__of_student(double t, double df);
double chance__of_normal(double z);

/* One of many claims that are tested at once. */
struct claim {
	double p;	/* probability of what was seen, or of more, where the claim is false */
	double least;	/* the smallest p that its counts could have come to; 0: any */
	double traffic; /* > 0: how many samples it was made from. The level is shared in inverse
			 * proportion */
	bool holds;	/* out */
};

/* Decides which claims hold: the probability that any false one of them is made is at most level,
 * whatever the others are.
 *
 * By Holm's step-down procedure with weights (Holm, Scandinavian Journal of Statistics 6, 1979):
 * the claims are taken by p / weight, and hold as long as p <= level * weight / weights of those
 * that are left.
 *
 * - Claims that could not hold whatever their outcome (least above their share of the level) take
 *   no part: it costs nothing to leave them out (Tarone, Biometrics 46, 1990). A profile has
 *   dozens of stacks with two samples each.
 * - Weights are 1 / traffic. A stack through which hundreds of samples came and went between two
 *   looks, and whose next difference will be as large, leaves most of the level to the one through
 *   which ten came and none went. Of the many ways to share the level this one finds the slow leak
 *   among churn, and takes from churn, where a sixth of the level is half a standard deviation,
 *   little.
 *
 * Both look at how much was seen, not at how it fell: given the sum of two counts, p is what it
 * is, so that neither spoils the level. *ret_weights (may be NULL) is the sum of the weights of
 * those that took part. 0 or -ENOMEM. */
int claims__decide(struct claim *claims, size_t n, double level, double *ret_weights);

#endif
