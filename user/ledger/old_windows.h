/* SPDX-License-Identifier: BSD-2-Clause */
/* Bounds what is kept of windows, so that a process can be watched for months.
 *
 * Every window adds a record of itself, and one for each stack that allocated in it. When there are
 * OLD_WINDOWS_MAX windows, some of the older half are dropped, with all that was born in them. What
 * is left is again a sample of the run's time (BIRTHS in profile/windowed.h): a stratum then has as
 * many windows as before, but lasts longer. Older windows are dropped evenly over the run. With
 * every 2nd, 4th, 8th ... run of WINDOWED_GROUPS consecutive windows kept, all groups of the
 * jackknife stay equally large.
 *
 * Not dropped: continuous stretches, which stand for themselves only (they are rare, because each
 * begins after seconds of rest), and what was seen of the lives of blocks (struct
 * survival_ages). */
#ifndef MEMTRACE_LEDGER_OLD_WINDOWS_H
#define MEMTRACE_LEDGER_OLD_WINDOWS_H

#include "ledger/net_clock.h"
#include "ledger/reallocs.h"
#include "ledger/survivors.h"

#define OLD_WINDOWS_MAX 4096

/* Drops old windows if there are too many. Call it after survivors__harvest(). Edges of windows
 * that are dropped become plain points of the clock. 0 or -ENOMEM: nothing was dropped. */
int old_windows__drop(struct survivors *survivors, struct net_clock *clock,
		      struct reallocs *reallocs);

#endif
