/* SPDX-License-Identifier: BSD-2-Clause */
/* What every stack's regions hold, again and again, and how fast that grows. No call of mmap and
 * its like is missed, so this is known exactly, whatever windows the heap is seen in. Private to
 * the room. */
#ifndef MEMTRACE_SESSION_REGION_TREND_H
#define MEMTRACE_SESSION_REGION_TREND_H

#include "session/build.h"

/* Takes a snapshot of the target's book into its series when one is due. at_ns: the book is settled
 * up to then. 0 or -ENOMEM. */
int region_trend__note(struct target *target, uint64_t at_ns);

/* Growth of every site of the book. site_of: their numbers in the profile. 0 or -ENOMEM. */
int region_trend__add_growth(const struct build *build, struct profile *profile,
			     const size_t *site_of);

#endif
