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
 * Two things are not dropped. Continuous stretches stand for themselves only; they are rarer,
 * because each begins after some seconds of rest. What was seen of the lives of blocks is one sum
 * for all windows (struct survival_ages). */
#ifndef MEMTRACE_LEDGER_OLD_WINDOWS_H
#define MEMTRACE_LEDGER_OLD_WINDOWS_H

#include "ledger/net_clock.h"
#include "ledger/reallocs.h"
#include "ledger/survivors.h"

#define OLD_WINDOWS_MAX 4096

/* Drops old windows if there are too many, and their edges from the clock. Call it after
 * survivors__harvest(). 0 or -ENOMEM: all windows are still there. */
int old_windows__drop(struct survivors *survivors, struct net_clock *clock,
		      struct reallocs *reallocs);

#endif
