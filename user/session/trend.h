/* SPDX-License-Identifier: BSD-2-Clause */
/* What is built into a profile of its process's memory over time: what windows have brought, and the growth of
 * every site. Private to the room. */
#ifndef MEMTRACE_SESSION_TREND_H
#define MEMTRACE_SESSION_TREND_H

#include "session/build.h"

/* In the place of the kernel's live table: the blocks that are known from windows, each standing for
 * as many as the share of time is that windows took. (Those that changed under our eyes, in use or replaced, are not
 * among them; they are counted.) 0 or -ENOMEM. */
int trend__add_windowed(const struct build *build, struct profile *profile,
			const struct process_sites *sites);

/* Growth of every site. 0 or -ENOMEM. */
int trend__add_growth(const struct build *build, struct profile *profile,
		      const struct process_sites *sites);

#endif
