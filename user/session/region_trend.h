/* SPDX-License-Identifier: BSD-2-Clause */
/* Snapshots of what every stack's regions hold, and how fast that grows. No call of mmap and its
 * like is missed, so these figures are exact, even where the heap is traced in windows. Private to
 * user/session. */
#ifndef MEMTRACE_SESSION_REGION_TREND_H
#define MEMTRACE_SESSION_REGION_TREND_H

#include "session/build.h"

/* Adds a snapshot of the target's book to region_series when one is due. at_ns: the book is settled
 * up to this time. 0 or -ENOMEM. */
int region_trend__note(struct target *target, uint64_t at_ns);

/* Adds the growth of every site of the book. site_of: the sites' numbers in the profile. 0 or
 * -ENOMEM. */
int region_trend__add_growth(const struct build *build, struct profile *profile,
			     const size_t *site_of);

#endif
