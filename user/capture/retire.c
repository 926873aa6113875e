// SPDX-License-Identifier: BSD-2-Clause
/* Removes from the kernel's tables the records of processes that have ended, and other entries that
 * nobody needs any more. A machine starts more processes than the tables have room for.
 *
 * Stacks have no owner. If addresses are laid out at random, each process has stacks of its own.
 * But a child shares the stacks of the parent that forked it. So a stack is removed when no site
 * and no call under way names it. But the kernel side may have found the stack in the table just
 * now, and may make a site for it a little later. Therefore removed stacks are kept in memtrace
 * until the next drain. The drain puts back the stacks that a site or a call names by then. */
#include "capture/internal.h"

#include <bpf/bpf.h>
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"

static int compare_keys(const void *a, const void *b)
{
	return stack_key__compare(a, b);
}

/* The owner of each row of counters (maps.bpf.h). A process with records has owned a row. Only user
 * space takes the row away, when the process is dropped. So if the owners are read after the
 * records, a process without a row is gone. */
struct owners {
	struct capture_table rows;
	uint32_t mask;
};

static int read_owners(struct capture *c, struct owners *ret)
{
	*ret = (struct owners){.mask = c->skel->rodata->process_rows};
	return capture__read_table(c, c->skel->maps.row_owners, &ret->rows);
}

static void owners__free(struct owners *owners)
{
	capture_table__free(&owners->rows);
}

static bool is_gone(const struct owners *owners, uint32_t process)
{
	const uint32_t *ids = owners->rows.values;
	uint32_t row = process & owners->mask;

	return row >= owners->rows.n || ids[row] != process;
}

static void drop(const struct bpf_map *map, const void *key)
{
	bpf_map_delete_elem(bpf_map__fd(map), key);
}

/* The following two functions drop a thread's name or a call under way, but only if the entry still
 * has the process that was read with it. The keys of these tables do not name the process, and
 * another process may have the tid by now. */
static void drop_thread(struct capture *c, const uint32_t *tid, uint32_t process)
{
	struct abi_thread now;

	if (!bpf_map_lookup_elem(bpf_map__fd(c->skel->maps.threads), tid, &now) &&
	    now.process == process)
		drop(c->skel->maps.threads, tid);
}

static void drop_call(struct capture *c, const struct abi_inflight_key *key, uint32_t process)
{
	struct abi_inflight now;

	if (!bpf_map_lookup_elem(bpf_map__fd(c->skel->maps.inflight), key, &now) &&
	    now.process == process)
		drop(c->skel->maps.inflight, key);
}

static void drop_of_threads(struct capture *c, const struct capture_drain *drain,
			    const struct owners *owners)
{
	const struct abi_inflight_key *calls = drain->inflight.keys;
	const struct abi_inflight *call = drain->inflight.values;
	const struct abi_thread *threads = drain->threads.values;
	const uint32_t *tids = drain->threads.keys;

	for (size_t i = 0; i < drain->threads.n; i++)
		if (is_gone(owners, threads[i].process))
			drop_thread(c, &tids[i], threads[i].process);
	for (size_t i = 0; i < drain->inflight.n; i++)
		if (is_gone(owners, call[i].process))
			drop_call(c, &calls[i], call[i].process);
}

/* Returns the keys of all stacks that a site or a call names. Sites and calls of processes that are
 * gone do not count. The keys ascend. NULL: out of memory. */
static struct abi_stack_key *named_stacks(const struct capture_drain *drain,
					  const struct owners *owners, size_t *ret_n)
{
	const struct abi_site_key *sites = drain->sites.keys;
	const struct abi_inflight *calls = drain->inflight.values;
	struct abi_stack_key *keys;
	size_t n = 0;

	keys = calloc(drain->sites.n + drain->inflight.n + 1, sizeof(*keys));
	if (!keys)
		return NULL;
	for (size_t i = 0; i < drain->sites.n; i++)
		if (!is_gone(owners, sites[i].process))
			keys[n++] = sites[i].stack;
	for (size_t i = 0; i < drain->inflight.n; i++)
		if (!is_gone(owners, calls[i].process))
			keys[n++] = calls[i].stack;
	qsort(keys, n, sizeof(*keys), compare_keys);
	*ret_n = n;
	return keys;
}

static void retire_stacks(struct capture *c, const struct capture_drain *drain,
			  const struct owners *owners)
{
	_cleanup_free_ struct abi_stack_key *named = NULL, *keys = NULL;
	_cleanup_free_ struct abi_stack *kept = NULL;
	const struct abi_stack *stacks = drain->stacks.values;
	size_t n_named, n = 0;

	named = named_stacks(drain, owners, &n_named);
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
static void drop_pools(struct capture *c)
{
	const struct bpf_map *maps[] = {c->skel->maps.pools, c->skel->maps.pooled};

	for (size_t i = 0; i < sizeof(maps) / sizeof(maps[0]) && c->skel->bss->n_pools; i++) {
		_cleanup_(capture_table__free) struct capture_table table = {};
		_cleanup_(owners__free) struct owners owners = {};
		const struct abi_live_key *keys;

		if (capture__read_table(c, maps[i], &table) || read_owners(c, &owners))
			continue;
		keys = table.keys;
		for (size_t j = 0; j < table.n; j++)
			if (is_gone(&owners, keys[j].process))
				drop(maps[i], &keys[j]);
	}
}

void capture__drop_records(struct capture *c, const struct capture_drain *drain, bool stacks)
{
	const struct abi_live_key *live = drain->live.keys;
	const struct abi_site_key *sites = drain->sites.keys;
	const struct abi_transfer_key *transfers = drain->transfers.keys;
	_cleanup_(owners__free) struct owners owners = {};

	if (read_owners(c, &owners))
		return;
	for (size_t i = 0; i < drain->live.n; i++)
		if (is_gone(&owners, live[i].process))
			capture__delete_live(c, &live[i]);
	for (size_t i = 0; i < drain->sites.n; i++)
		if (is_gone(&owners, sites[i].process))
			drop(c->skel->maps.sites, &sites[i]);
	for (size_t i = 0; i < drain->transfers.n; i++)
		if (is_gone(&owners, transfers[i].process))
			drop(c->skel->maps.transfers, &transfers[i]);
	drop_of_threads(c, drain, &owners);
	drop_pools(c);
	if (stacks)
		retire_stacks(c, drain, &owners);
}

/* --- while processes live --- */

static bool thread_ended(uint32_t tid)
{
	return kill((pid_t)tid, 0) && errno == ESRCH;
}

/* May a probe on an allocator be in place in the process? */
static bool has_probes(const struct capture *c, pid_t pid)
{
	for (size_t i = 0; i < c->n_links; i++)
		if (c->links[i].on == ON_ALLOCATORS && (!c->links[i].pid || c->links[i].pid == pid))
			return true;
	for (size_t i = 0; i < c->n_closings; i++)
		if (!c->closings[i].pid || c->closings[i].pid == pid)
			return true;
	return false;
}

/* Drops calls whose return memtrace will not see, because the process's probes are out, or because
 * the thread or process has ended. (With the kinds multi and perf, probes on returns are back in
 * the next window. But few calls last so long.) */
static void sweep_calls(struct capture *c, capture_lives_fn *lives, void *ctx)
{
	_cleanup_(capture_table__free) struct capture_table calls = {};
	_cleanup_(owners__free) struct owners owners = {};
	const struct abi_inflight_key *keys;
	const struct abi_inflight *call;
	pid_t pid;

	if (capture__read_table(c, c->skel->maps.inflight, &calls) || !calls.n ||
	    read_owners(c, &owners))
		return;
	capture__pausing(c, -1);
	keys = calls.keys;
	call = calls.values;
	for (size_t i = 0; i < calls.n; i++)
		if (is_gone(&owners, call[i].process) ||
		    (lives(ctx, call[i].process, &pid) &&
		     (!has_probes(c, pid) || thread_ended(keys[i].tid))))
			drop_call(c, &keys[i], call[i].process);
}

/* When half of the room for names of threads is taken, drops the names of threads that have
 * ended. */
static void sweep_threads(struct capture *c, capture_lives_fn *lives, void *ctx)
{
	_cleanup_(capture_table__free) struct capture_table threads = {};
	const struct abi_thread *thread;
	const uint32_t *tids;
	pid_t pid;

	if (capture__read_table(c, c->skel->maps.threads, &threads) ||
	    threads.n <= bpf_map__max_entries(c->skel->maps.threads) / 2)
		return;
	tids = threads.keys;
	thread = threads.values;
	for (size_t i = 0; i < threads.n; i++)
		if (thread_ended(tids[i]) && lives(ctx, thread[i].process, &pid))
			drop_thread(c, &tids[i], thread[i].process);
}

void capture__sweep(struct capture *c, capture_lives_fn *lives, void *ctx)
{
	sweep_calls(c, lives, ctx);
	sweep_threads(c, lives, ctx);
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
