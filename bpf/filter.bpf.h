/* SPDX-License-Identifier: GPL-2.0-only */
/* Which addresses no tracked block has: most frees are of blocks that were not sampled, and looking
 * each up in the table of live blocks is two calls and, in a large table, a cache miss.
 *
 * A counter for each value of a hash of the table's keys says how many entries have it, or more.
 * Zero: no entry has that key, and nothing needs to be looked up. Above zero: an entry may have
 * it, and the table is asked.
 *
 * Too high a counter costs a look-up, too low a one hides a free. So a counter is never below the
 * number of entries, whatever CPUs and user space do at the same time:
 * - It is raised before an entry is inserted, and lowered when that fails.
 * - It is lowered only by who has deleted an entry. The map's deletion succeeds for one of those
 *   who try.
 * - Each is one atomic addition; a counter of 32 bits holds more than a table has entries.
 * Two CPUs that insert the same key at once leave one too many: a look-up more from then on.
 *
 * Who frees a block has its address from who allocated it. That call's return, at which the counter
 * was raised, comes before, and the atomic addition is seen by all CPUs when it is done. */
#ifndef MEMTRACE_BPF_FILTER_BPF_H
#define MEMTRACE_BPF_FILTER_BPF_H

#include "abi.h"
#include "compat.bpf.h"

/* An entry with that key is about to be inserted. */
static __always_inline void filter_add(__u32 *filter, const struct abi_live_key *key)
{
	__sync_fetch_and_add(&filter[abi_filter_slot(key)], 1);
}

/* One has been deleted, or was not inserted. */
static __always_inline void filter_remove(__u32 *filter, const struct abi_live_key *key)
{
	__sync_fetch_and_add(&filter[abi_filter_slot(key)], -1);
}

/* false: no entry has that key. */
static __always_inline bool filter_may_hold(const __u32 *filter, const struct abi_live_key *key)
{
	return *(const volatile __u32 *)&filter[abi_filter_slot(key)] != 0;
}

#endif
