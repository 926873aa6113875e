/* SPDX-License-Identifier: BSD-2-Clause */
/* What is built into a profile of its process's memory over time: what windows have brought, and
 * the growth of every site. Private to the room. */
#ifndef MEMTRACE_SESSION_TREND_H
#define MEMTRACE_SESSION_TREND_H

#include "session/build.h"

#define NS 1e-9 /* seconds */

/* What a sampled block stands for, bytes. */
double trend__weight(const struct abi_live *block);

/* What windows tell of a process and its stacks (windowed_trend.c), in the place of the kernel's
 * live table: live bytes and what was allocated by the model of profile/windowed.h, and growth,
 * which is read as below where continuous tracing missed little. 0 or -ENOMEM. */
int trend__add_windowed(const struct build *build, struct profile *profile,
			const struct process_sites *sites);

/* Growth of every site. 0 or -ENOMEM. */
int trend__add_growth(const struct build *build, struct profile *profile,
		      const struct process_sites *sites);

#endif
