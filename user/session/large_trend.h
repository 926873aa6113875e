/* SPDX-License-Identifier: BSD-2-Clause */
/* For a process that is traced in windows: puts what is known of its large blocks (profile/large.h,
 * large_blocks.h) into its profile. Private to user/session. */
#ifndef MEMTRACE_SESSION_LARGE_TREND_H
#define MEMTRACE_SESSION_LARGE_TREND_H

#include "profile/windowed.h"
#include "session/build.h"

/* What the lists say of a target's stacks. */
struct large_trend {
	bool known;    /* else the other members mean nothing */
	double unseen; /* bytes of blocks that no window saw */
	double blocks; /* number of these blocks */
	double all;    /* upper limit of the bytes in large blocks of the run */
	double old;    /* bytes that are in both lists, and that no window saw */
	double grown;  /* bytes of live blocks that realloc made in a window */
	double rest;   /* the part of `unseen` that no stack explains */
	double error;  /* standard error of `rest`, bytes */
};

/* Corrects what windows say of each stack's live bytes and growth. results: by site. 0 or
 * -ENOMEM. */
int large_trend__correct(const struct build *build, const struct process_sites *sites,
			 struct windowed_result *results, struct large_trend *ret);

/* Returns the live bytes of all stacks with a large block that realloc made in a window. */
double large_trend__vectors(const struct build *build, const struct profile *profile,
			    const struct process_sites *sites);

/* Adds the stack LARGE_UNSEEN. vectors: live bytes of vectors with large blocks, as windows show
 * them. 0 or -ENOMEM. */
int large_trend__add(const struct build *build, struct profile *profile,
		     const struct large_trend *trend, double vectors);

/* Gives the stack LARGE_UNSEEN its name, after symbolization. 0 or -ENOMEM. */
int large_trend__name(struct profile *profile);

#endif
