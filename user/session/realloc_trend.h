/* SPDX-License-Identifier: BSD-2-Clause */
/* Vectors that realloc has grown, of a process in windows (ledger/reallocs.h), into its profile.
 * Private to the room. */
#ifndef MEMTRACE_SESSION_REALLOC_TREND_H
#define MEMTRACE_SESSION_REALLOC_TREND_H

#include "profile/windowed.h"
#include "session/build.h"

/* What is known of the vectors of one site. */
struct realloc_growth {
	bool known;
	struct growth growth; /* bytes per second */
	double by_clock; /* of what windows show so much is there: less than 1 where the wall clock
			  * drives it, which they do not slow */
};

/* Of all; rows are those of the sites. */
struct realloc_trend {
	double scale; /* what reallocs have added in windows stands for so many times as much */
	double *held; /* the share of what a site's have grown by that is held */
	struct realloc_growth *of;
	struct growth all; /* of those that grow */
};

/* anon: by how much the process's anonymous memory grows, bytes per second. 0 or -ENOMEM; to be
 * cleared when 0. */
int realloc_trend__new(const struct build *build, const struct process_sites *sites,
		       const struct windowed_run *run, const struct growth *anon,
		       struct realloc_trend *ret);
void realloc_trend__clear(struct realloc_trend *trend);

/* Adds to each site's live memory what its vectors have grown by, as far as that is still held. It
 * counts as one object at least. 0 or -ENOMEM. */
int realloc_trend__add_live(const struct build *build, struct profile *profile,
			    const struct process_sites *sites, const struct realloc_trend *trend);

/* Their growth, into each site's. */
void realloc_trend__add_growth(struct profile *profile, const struct process_sites *sites,
			       const struct realloc_trend *trend);

#endif
