/* SPDX-License-Identifier: BSD-2-Clause */
/* How much memory the stacks of one run have gained from one profile to a later one. */
#ifndef MEMTRACE_WEB_GAINS_H
#define MEMTRACE_WEB_GAINS_H

#include "profile/profile.h"

/* For each site of the later profile: objects and bytes. Owned. */
struct gains {
	double (*allocated)[2]; /* never negative: if an estimate has gone down, the gain is 0 */
	double (*live)[2];	/* negative if live memory has shrunk */
};

/* Computes what the stacks gained from profile `before` to profile `now`. A stack stays in all
 * later profiles of its run, because they count what it has allocated. So `now` has all stacks of
 * `before`. 0 (then free ret with gains__clear()), or negative errno. */
int gains__between(const struct profile *before, const struct profile *now, struct gains *ret);

/* Returns what each site has allocated so far: objects and bytes. The caller frees it. NULL: no
 * memory. */
double (*gains__allocated(const struct profile *profile))[2];

/* Computes the allocations to send for `now` to a receiver that adds up all numbers that it gets.
 * In windows each profile scales all totals anew, so a stack's total goes up and down. If each rise
 * were sent, the receiver's sum would exceed every total. So only the amount by which a total
 * exceeds the amount sent before is sent: the sum never exceeds the highest total.
 *
 * *sent: for each site of `before`, the amounts sent before; NULL: the totals of `before`. The
 * function frees *sent and sets it anew: for each site of `now`, the amounts sent before plus those
 * in *ret. After an error *sent is NULL. *ret: by site of `now`; the caller frees it. 0 or negative
 * errno. */
int gains__unsent(const struct profile *before, const struct profile *now, double (**sent)[2],
		  double (**ret)[2]);

void gains__clear(struct gains *gains);

#endif
