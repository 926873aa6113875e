/* SPDX-License-Identifier: BSD-2-Clause */
/* By how much the stacks of one run have gained from one profile to a later one. */
#ifndef MEMTRACE_WEB_GAINS_H
#define MEMTRACE_WEB_GAINS_H

#include "profile/profile.h"

/* By site of the later profile: objects and bytes. Owned. */
struct gains {
	double (*allocated)[2]; /* never negative: if an estimate has gone down, the gain is 0 */
	double (*live)[2];	/* negative if live memory has shrunk */
};

/* Computes what the stacks gained from profile `before` to profile `now`. A stack stays in all
 * later profiles of its run, because they count what it has allocated. So `now` has all stacks of
 * `before`. 0 (then free ret with gains__clear()), or negative errno. */
int gains__between(const struct profile *before, const struct profile *now, struct gains *ret);

void gains__clear(struct gains *gains);

#endif
