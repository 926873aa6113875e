/* SPDX-License-Identifier: BSD-2-Clause */
/* Vectors that realloc has grown, of a process in windows (ledger/reallocs.h), into its profile. Private to the room. */
#ifndef MEMTRACE_SESSION_REALLOC_TREND_H
#define MEMTRACE_SESSION_REALLOC_TREND_H

#include "profile/windowed.h"
#include "session/build.h"

/* By how much what reallocs have added in windows is to be multiplied for all of the time that these stand for. */
double realloc_trend__scale(const struct windowed_run *run);

/* What they have added is live as far as it is held, in at least one vector. 0 or -ENOMEM. */
int realloc_trend__add_live(const struct build *build, struct profile *profile,
			    const struct process_sites *sites, double scale);

/* Their growth, by slices of the middle half of the run: into each site's. anon: by how much the process's anonymous memory grows,
 * per second. 0 or -ENOMEM. */
int realloc_trend__add_growth(const struct build *build, struct profile *profile,
			      const struct process_sites *sites, const struct windowed_run *run,
			      const struct growth *anon, double scale);

#endif
