/* SPDX-License-Identifier: BSD-2-Clause */
/* Bounds what is kept of windows, so that a process can be watched for months.
 *
 * Every window adds a record of itself, and one for each stack that allocated in it. When there are
 * OLD_WINDOWS_MAX windows (without stretches), some of the older half are dropped, with all that
 * was born in them: one in 2, 4, 8 ... is kept, evenly over the run. What is left is again a sample
 * of the run's time (BIRTHS in profile/windowed.h): a stratum then has as many windows as before,
 * but lasts longer. Each window that is kept knows for how many it stands
 * (survivors_window.stands). Strata need not know it, but sums over the whole run do.
 *
 * STRETCHES of continuous tracing stand for themselves only, so none can be dropped: what was born
 * in one is known, and still lives in part. They are merged. When OLD_WINDOWS_MAX stretches follow
 * another one, with no window between them that is kept, neighbours of the older half are merged by
 * 2, 4, 8 ... Each is swapped with the gap behind it (net_clock__swap()), so that it comes to end
 * where the next one begins. Then both are one stretch, and both gaps are one gap. Births add up,
 * and so does the time that was traced. What the last one held is what all of them have left. Only
 * ages change: a block of the first stretch seems to be younger by what the gap lasted. This is a
 * few thousandths of the run at most, because the older half has a thousand stretches or more.
 *
 * What was seen of the lives of blocks is one sum for all windows (struct survival_ages). It is
 * kept as it is. */
#ifndef MEMTRACE_LEDGER_OLD_WINDOWS_H
#define MEMTRACE_LEDGER_OLD_WINDOWS_H

#include "ledger/net_clock.h"
#include "ledger/reallocs.h"
#include "ledger/survivors.h"

#define OLD_WINDOWS_MAX 4096

/* Drops old windows if there are too many, and their edges from the clock. Merges old stretches.
 * Call it after survivors__harvest(). 0 or -ENOMEM: nothing of it was done, or only the
 * first of the two. */
int old_windows__drop(struct survivors *survivors, struct net_clock *clock,
		      struct reallocs *reallocs);

#endif
