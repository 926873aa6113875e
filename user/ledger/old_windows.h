/* SPDX-License-Identifier: BSD-2-Clause */
/* Limits the memory for records of windows, so that a process can be traced for months.
 *
 * Every window adds a record of itself, and one for each stack that allocated in it. When there are
 * OLD_WINDOWS_MAX windows (without stretches), some of the older half are dropped, with the births
 * in them. Of the older windows, one in 2, 4, 8 ... is kept. The kept windows are still a sample of
 * the run's time (BIRTHS in profile/windowed.h): a stratum then has as many windows as before, but
 * lasts longer. Each kept window has the number of windows that it stands for
 * (survivors_window.stands). Sums over the whole run need this number; strata do not.
 *
 * STRETCHES of continuous tracing stand for themselves only. No stretch can be dropped, because
 * some of the blocks that were born in it still live. So stretches are merged. Count the stretches
 * that directly follow another stretch, with no kept window between the two. When there are
 * OLD_WINDOWS_MAX of these, neighbours of the older half are merged by 2, 4, 8 ... Each stretch is
 * swapped with the gap behind it (net_clock__swap()), so that it ends where the next stretch
 * begins. Then the two stretches have become one stretch, and the two gaps one gap. Births are
 * added up, and so is the traced time. The bytes held at the end of the last stretch are the bytes
 * held at the end of the merged one. Only ages change: a block of the first stretch seems to be
 * younger by the length of the gap. This is a few thousandths of the run at most, because the older
 * half has a thousand stretches or more.
 *
 * The evidence of how long blocks live is one sum for all windows (struct survival_ages). This sum
 * stays as it is. */
#ifndef MEMTRACE_LEDGER_OLD_WINDOWS_H
#define MEMTRACE_LEDGER_OLD_WINDOWS_H

#include "ledger/net_clock.h"
#include "ledger/reallocs.h"
#include "ledger/survivors.h"

#define OLD_WINDOWS_MAX 4096

/* If there are too many windows, drops old windows, and removes their edges from the clock. Merges
 * old stretches. Call it after survivors__harvest(). 0 or -ENOMEM: neither was done, or windows
 * were dropped but stretches were not merged. */
int old_windows__drop(struct survivors *survivors, struct net_clock *clock,
		      struct reallocs *reallocs);

#endif
