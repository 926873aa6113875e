// SPDX-License-Identifier: BSD-2-Clause
/* Removes from the kernel's tables the records of processes that have ended. A machine starts more
 * processes than the tables have room for.
 *
 * Stacks have no owner. When addresses are laid out at random, each process has stacks of its own;
 * but a child shares the stacks of the parent that forked it. So a stack is removed when no site
 * and no call under way names it. At that very moment the kernel side may be about to name the
 * stack: it has found the stack in the table, and makes the site a little later. Therefore removed
 * stacks are kept in memtrace until the next drain. The drain puts those stacks back that are named
 * by then. */
#include "capture/internal.h"

#include <bpf/bpf.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"

static int compare_processes(const void *a, const void *b)
{
	const uint32_t *x = a, *y = b;

	return (*x > *y) - (*x < *y);
}

static int compare_keys(const void *a, const void *b)
{
	return stack_key__compare(a, b);
}

/* Numbers of processes, ascending. */
struct gone {
	const uint32_t *processes;
	size_t n;
};

static bool is_gone(const struct gone *gone, uint32_t process)
{
	return bsearch(&process, gone->processes, gone->n, sizeof(process), compare_processes);
}

static void drop(const struct bpf_map *map, const void *key)
{
	bpf_map_delete_elem(bpf_map__fd(map), key);
}

/* Drops threads and calls under way. The keys of these tables do not name the process, and another
 * process may have the tid by now. So an entry's present value is read, and the process in it is
 * checked. */
static void drop_of_threads(struct capture *c, const struct capture_drain *drain,
			    const struct gone *gone)
{
	const struct abi_inflight_key *calls = drain->inflight.keys;
	const uint32_t *tids = drain->threads.keys;
	struct abi_thread thread;
	struct abi_inflight call;

	for (size_t i = 0; i < drain->threads.n; i++)
		if (!bpf_map_lookup_elem(bpf_map__fd(c->skel->maps.threads), &tids[i], &thread) &&
		    is_gone(gone, thread.process))
			drop(c->skel->maps.threads, &tids[i]);
	for (size_t i = 0; i < drain->inflight.n; i++)
		if (!bpf_map_lookup_elem(bpf_map__fd(c->skel->maps.inflight), &calls[i], &call) &&
		    is_gone(gone, call.process))
			drop(c->skel->maps.inflight, &calls[i]);
}

/* Returns the keys of the stacks that sites and calls of other processes name, in ascending order.
 * Other processes are those that are not in `gone`. NULL: out of memory. */
static struct abi_stack_key *named_stacks(const struct capture_drain *drain,
					  const struct gone *gone, size_t *ret_n)
{
	const struct abi_site_key *sites = drain->sites.keys;
	const struct abi_inflight *calls = drain->inflight.values;
	struct abi_stack_key *keys;
	size_t n = 0;

	keys = calloc(drain->sites.n + drain->inflight.n + 1, sizeof(*keys));
	if (!keys)
		return NULL;
	for (size_t i = 0; i < drain->sites.n; i++)
		if (!is_gone(gone, sites[i].process))
			keys[n++] = sites[i].stack;
	for (size_t i = 0; i < drain->inflight.n; i++)
		if (!is_gone(gone, calls[i].process))
			keys[n++] = calls[i].stack;
	qsort(keys, n, sizeof(*keys), compare_keys);
	*ret_n = n;
	return keys;
}

static void retire_stacks(struct capture *c, const struct capture_drain *drain,
			  const struct gone *gone)
{
	_cleanup_free_ struct abi_stack_key *named = NULL, *keys = NULL;
	_cleanup_free_ struct abi_stack *kept = NULL;
	const struct abi_stack *stacks = drain->stacks.values;
	size_t n_named, n = 0;

	named = named_stacks(drain, gone, &n_named);
	if (!named || !drain->stacks.n)
		return;
	/* The drain's stacks are sorted, so the stacks to remove are found in sorted order, too. */
	keys = malloc(drain->stacks.n * sizeof(*keys));
	if (!keys)
		return;
	for (size_t i = 0; i < drain->stacks.n; i++) {
		const struct abi_stack_key *key = (struct abi_stack_key *)drain->stacks.keys + i;

		if (!bsearch(key, named, n_named, sizeof(*named), compare_keys))
			keys[n++] = *key;
	}
	kept = n ? malloc(n * sizeof(*kept)) : NULL;
	if (!kept)
		return;
	for (size_t i = 0, k = 0; k < n; i++) {
		const struct abi_stack_key *key = (struct abi_stack_key *)drain->stacks.keys + i;

		if (compare_keys(key, &keys[k]))
			continue;
		kept[k++] = stacks[i];
		drop(c->skel->maps.stacks, key);
	}
	capture_table__free(&c->retired);
	c->retired = (struct capture_table){.keys = keys, .values = kept, .n = n};
	keys = NULL;
	kept = NULL;
}

/* Removes pools and their blocks. Most runs have none. */
static void drop_pools(struct capture *c, const struct gone *gone)
{
	const struct bpf_map *maps[] = {c->skel->maps.pools, c->skel->maps.pooled};

	for (size_t i = 0; i < sizeof(maps) / sizeof(maps[0]) && c->skel->bss->n_pools; i++) {
		struct capture_table table = {};
		const struct abi_live_key *keys;

		if (capture__read_table(c, maps[i], &table))
			continue;
		keys = table.keys;
		for (size_t j = 0; j < table.n; j++)
			if (is_gone(gone, keys[j].process))
				drop(maps[i], &keys[j]);
		capture_table__free(&table);
	}
}

void capture__drop_records(struct capture *c, const struct capture_drain *drain,
			   uint32_t *processes, size_t n, bool stacks)
{
	const struct abi_live_key *live = drain->live.keys;
	const struct abi_site_key *sites = drain->sites.keys;
	const struct abi_transfer_key *transfers = drain->transfers.keys;
	struct gone gone = {processes, n};

	qsort(processes, n, sizeof(*processes), compare_processes);
	for (size_t i = 0; i < drain->live.n; i++)
		if (is_gone(&gone, live[i].process))
			capture__delete_live(c, &live[i]);
	for (size_t i = 0; i < drain->sites.n; i++)
		if (is_gone(&gone, sites[i].process))
			drop(c->skel->maps.sites, &sites[i]);
	for (size_t i = 0; i < drain->transfers.n; i++)
		if (is_gone(&gone, transfers[i].process))
			drop(c->skel->maps.transfers, &transfers[i]);
	drop_of_threads(c, drain, &gone);
	drop_pools(c, &gone);
	if (stacks)
		retire_stacks(c, drain, &gone);
}

static void put_back(struct capture *c, const struct abi_stack_key *key)
{
	const struct abi_stack_key *found =
		bsearch(key, c->retired.keys, c->retired.n, sizeof(*key), compare_keys);

	if (!found)
		return;
	bpf_map_update_elem(bpf_map__fd(c->skel->maps.stacks), key,
			    (struct abi_stack *)c->retired.values +
				    (found - (struct abi_stack_key *)c->retired.keys),
			    BPF_NOEXIST);
}

void capture__put_back(struct capture *c, const struct capture_drain *drain)
{
	const struct abi_site_key *sites = drain->sites.keys;
	const struct abi_inflight *calls = drain->inflight.values;

	if (!c->retired.n)
		return;
	for (size_t i = 0; i < drain->sites.n; i++)
		put_back(c, &sites[i].stack);
	for (size_t i = 0; i < drain->inflight.n; i++)
		put_back(c, &calls[i].stack);
	capture_table__free(&c->retired);
}
