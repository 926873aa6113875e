/* SPDX-License-Identifier: BSD-2-Clause */
/* The kernel's tables as they were read, sorted by key. The entries of one process stand together,
 * so they are found without a search of the whole table. */
#ifndef MEMTRACE_CAPTURE_SNAPSHOT_H
#define MEMTRACE_CAPTURE_SNAPSHOT_H

#include "capture/capture.h"

/* Sort a table that capture__read_*() has read: struct abi_stack_key -> abi_stack, abi_site_key ->
 * abi_site, or abi_live_key -> abi_live. If there are several blocks at one address, one of them is
 * kept. 0 or -ENOMEM. */
int snapshot__sort_stacks(struct capture_table *stacks);
int snapshot__sort_sites(struct capture_table *sites);
int snapshot__sort_live(struct capture_table *live);

/* Sorts these three tables of a drain, once for all processes. 0 or -ENOMEM. */
int snapshot__sort_drain(struct capture_drain *drain);

/* The part of a sorted table that belongs to one process. Both arrays point into the table. The
 * keys ascend: those of sites by stack, those of blocks by address. */
struct snapshot_sites {
	const struct abi_site_key *keys;
	const struct abi_site *sites;
	size_t n;
};

struct snapshot_live {
	const struct abi_live_key *keys;
	const struct abi_live *blocks;
	size_t n;
};

/* Find the entries of one process in a sorted table. */
struct snapshot_sites snapshot__sites_of(const struct capture_table *sites, uint32_t process);
struct snapshot_live snapshot__live_of(const struct capture_table *live, uint32_t process);

/* Finds a stack in a sorted table; NULL: it is not there. */
const struct abi_stack *snapshot__find_stack(const struct capture_table *stacks,
					     const struct abi_stack_key *key);

#endif
