/* SPDX-License-Identifier: GPL-2.0-only */
/* A filter for frees. It tells which addresses surely belong to no tracked block. Most frees are of
 * blocks that were not sampled. Looking up each freed address in the table of live blocks would
 * take two calls and, in a large table, a cache miss.
 *
 * The table's keys are hashed. For each value of the hash there is a counter, which is never below
 * the number of entries with that hash. If the counter is zero, the table has no key with that
 * hash, and no look-up is needed. If it is above zero, the table may have the key, so the key is
 * looked up.
 *
 * A counter that is too high costs a look-up; one that is too low hides a free. So a counter is
 * never below the number of entries, whatever CPUs and user space do at the same time:
 * - It is raised before an entry is inserted, and lowered when the insertion fails.
 * - After a deletion, only whoever has deleted the entry lowers the counter. If several CPUs, or
 *   user space, try to delete one entry, only one of them succeeds.
 * - Each change is one atomic addition. A counter of 32 bits cannot overflow, because tables have
 *   fewer entries.
 * If two CPUs insert the same key at once, the counter stays one too high. From then on this costs
 * look-ups, but hides no free.
 *
 * A free always sees the raised counter. Whoever frees a block has got its address from the thread
 * that allocated it. So the allocation's return, at which the counter was raised, came before the
 * free. And all CPUs see an atomic addition as soon as it is done. */
#ifndef MEMTRACE_BPF_FILTER_BPF_H
#define MEMTRACE_BPF_FILTER_BPF_H

#include "abi.h"
#include "compat.bpf.h"

/* Raises the key's counter, before an entry with this key is inserted. */
static __always_inline void filter_add(__u32 *filter, const struct abi_live_key *key)
{
	__sync_fetch_and_add(&filter[abi_filter_slot(key)], 1);
}

/* Lowers the key's counter, after an entry with this key was deleted, or could not be inserted. */
static __always_inline void filter_remove(__u32 *filter, const struct abi_live_key *key)
{
	__sync_fetch_and_add(&filter[abi_filter_slot(key)], -1);
}

/* Returns false if the table has no entry with this key, true if it may have one. */
static __always_inline bool filter_may_hold(const __u32 *filter, const struct abi_live_key *key)
{
	return *(const volatile __u32 *)&filter[abi_filter_slot(key)] != 0;
}

#endif
