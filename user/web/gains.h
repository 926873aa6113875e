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

/* Computes what the stacks gained from profile `before` to profile `now`. Nearly every stack of a
 * profile is also in all later profiles of the run, because these count all that the stack has
 * allocated. A stack of `before` that `now` lacks is left out. 0 (then free ret with
 * gains__clear()), or negative errno. */
int gains__between(const struct profile *before, const struct profile *now, struct gains *ret);

/* Returns what each site has allocated so far: objects and bytes. The caller frees it. NULL: no
 * memory. */
double (*gains__allocated(const struct profile *profile))[2];

#define GAINS_AWAY 1024 /* at most this many stacks that a profile lacks are remembered */

/* How much of the allocations of a process's stacks has been sent so far: objects and bytes. All
 * zero: all that the newest profile has. */
struct gains_sent {
	double (*of)[2]; /* by site of the newest profile; owned; NULL: all that it has */
	/* Stacks that the newest profile lacks. A stack may be missing in one profile and
	 * present in the next, because its frames could not be found for a moment. */
	struct gains_away {
		uint64_t stack; /* hash */
		double sent[2];
	} * away; /* oldest first; owned */
	size_t n_away;
};

/* Computes which part of the allocations of `now` to send to a receiver. The receiver adds up what
 * it gets. If the process is traced in windows, each profile scales all totals anew, so a total
 * goes up and down. If each rise were sent, the receiver's sum would be above every total. So each
 * total is compared with the amount that was sent so far, and only the excess is sent. Then the
 * receiver's sum is never above the highest total.
 *
 * sent: on entry, what was sent up to `before`; on return, what was sent up to `now`, including
 * what *ret has. After an error sent->of is NULL. *ret: by site of `now`; the caller frees it. 0 or
 * negative errno. */
int gains__unsent(const struct profile *before, const struct profile *now, struct gains_sent *sent,
		  double (**ret)[2]);

void gains_sent__clear(struct gains_sent *sent);

void gains__clear(struct gains *gains);

#endif
