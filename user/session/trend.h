/* SPDX-License-Identifier: BSD-2-Clause */
/* Adds two things to a profile: what windows show of its process, and how fast every site grows.
 * Private to user/session. */
#ifndef MEMTRACE_SESSION_TREND_H
#define MEMTRACE_SESSION_TREND_H

#include "session/build.h"

#define NS 1e-9 /* seconds */

/* Returns the time of the last exec or, if there was no exec since tracing began, the time when
 * tracing began. The time before an exec, and memory that was allocated in that time, do not count
 * for growth. */
uint64_t trend__begin_ns(const struct build *build);

/* Returns how many bytes a sampled block stands for. */
double trend__weight(const struct abi_live *block);

/* Adds what windows show of a process and its stacks (windowed_trend.c). These figures are used in
 * place of the kernel's live table. Live and allocated bytes, and growth, come from the model of
 * profile/windowed.h. But if nearly all of the run was traced continuously, trend__add_growth()
 * finds the growth. 0 or -ENOMEM. */
int trend__add_windowed(const struct build *build, struct profile *profile,
			const struct process_sites *sites);

/* Adds the growth of every site. 0 or -ENOMEM. */
int trend__add_growth(const struct build *build, struct profile *profile,
		      const struct process_sites *sites);

#endif
