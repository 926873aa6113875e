/* SPDX-License-Identifier: BSD-2-Clause */
/* For a process that is traced in windows: puts vectors that realloc has enlarged
 * (ledger/reallocs.h) into its profile. Private to user/session. */
#ifndef MEMTRACE_SESSION_REALLOC_TREND_H
#define MEMTRACE_SESSION_REALLOC_TREND_H

#include "profile/windowed.h"
#include "session/build.h"

/* What is known of the vectors of one site. */
struct realloc_growth {
	bool known;
	struct growth growth; /* bytes per second */
	/* The figures that windows show are multiplied by this factor. It is less than 1 where
	 * growth follows the wall clock, which windows do not slow. */
	double by_clock;
};

/* What is known of the vectors of all sites. The arrays have the order of the sites. */
struct realloc_trend {
	double scale; /* a byte that reallocs added in windows stands for this many bytes */
	double *held; /* for each site: the share of its vectors' growth that is still held */
	struct realloc_growth *of;
	struct growth_sum all; /* of all sites whose vectors grow */
};

/* Fills in *ret. anon: by how much the process's anonymous memory grows, bytes per second, without
 * the growth of the regions that the program maps by itself. Returns 0 (then the caller clears *ret
 * later) or -ENOMEM. */
int realloc_trend__new(const struct build *build, const struct process_sites *sites,
		       const struct windowed_run *run, const struct growth *anon,
		       struct realloc_trend *ret);
void realloc_trend__clear(struct realloc_trend *trend);

/* Adds to each site's live memory the bytes by which its vectors have grown and which are still
 * held. The addition counts as one object, though there may be more. 0 or -ENOMEM. */
int realloc_trend__add_live(const struct build *build, struct profile *profile,
			    const struct process_sites *sites, const struct realloc_trend *trend);

/* Adds to each site's growth the growth of its vectors. */
void realloc_trend__add_growth(struct profile *profile, const struct process_sites *sites,
			       const struct realloc_trend *trend);

#endif
