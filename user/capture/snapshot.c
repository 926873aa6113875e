// SPDX-License-Identifier: BSD-2-Clause
#include "capture/snapshot.h"

#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/search.h"

static int compare_stacks(const void *a, const void *b)
{
	return stack_key__compare(a, b);
}

static int compare_sites(const void *a, const void *b)
{
	const struct abi_site_key *x = a, *y = b;

	if (x->process != y->process)
		return x->process < y->process ? -1 : 1;
	return stack_key__compare(&x->stack, &y->stack);
}

static int compare_live(const void *a, const void *b)
{
	const struct abi_live_key *x = a, *y = b;

	if (x->process != y->process)
		return x->process < y->process ? -1 : 1;
	return (x->addr > y->addr) - (x->addr < y->addr);
}

/* Sorts a table by its keys, moving the values along. */
static int sort_table(struct capture_table *t, size_t key_size, size_t value_size,
		      int (*compare)(const void *, const void *))
{
	size_t size = key_size + sizeof(size_t);
	_cleanup_free_ char *index = NULL;
	char *keys, *values;

	if (!t->n)
		return 0;
	index = malloc(t->n * size);
	keys = malloc(t->n * key_size);
	values = malloc(t->n * value_size);
	if (!index || !keys || !values) {
		free(keys);
		free(values);
		return -ENOMEM;
	}
	for (size_t i = 0; i < t->n; i++) {
		memcpy(index + i * size, (char *)t->keys + i * key_size, key_size);
		memcpy(index + i * size + key_size, &i, sizeof(i));
	}
	qsort(index, t->n, size, compare);
	for (size_t i = 0; i < t->n; i++) {
		size_t from;

		memcpy(&from, index + i * size + key_size, sizeof(from));
		memcpy(keys + i * key_size, index + i * size, key_size);
		memcpy(values + i * value_size, (char *)t->values + from * value_size, value_size);
	}
	free(t->keys);
	free(t->values);
	t->keys = keys;
	t->values = values;
	return 0;
}

int snapshot__sort_stacks(struct capture_table *stacks)
{
	return sort_table(stacks, sizeof(struct abi_stack_key), sizeof(struct abi_stack),
			  compare_stacks);
}

int snapshot__sort_sites(struct capture_table *sites)
{
	return sort_table(sites, sizeof(struct abi_site_key), sizeof(struct abi_site),
			  compare_sites);
}

/* Keeps one of several entries with the same key. While the tables are read, a thread may begin to
 * reallocate a block. Then the block may be in two tables: the table of live blocks and the table
 * of calls. */
static void drop_twins(struct capture_table *live)
{
	struct abi_live_key *keys = live->keys;
	struct abi_live *blocks = live->values;
	size_t n = 0;

	for (size_t i = 0; i < live->n; i++) {
		if (n && !compare_live(&keys[i], &keys[n - 1]))
			continue;
		keys[n] = keys[i];
		blocks[n++] = blocks[i];
	}
	live->n = n;
}

int snapshot__sort_live(struct capture_table *live)
{
	int rc = sort_table(live, sizeof(struct abi_live_key), sizeof(struct abi_live),
			    compare_live);

	if (!rc)
		drop_twins(live);
	return rc;
}

int snapshot__sort_drain(struct capture_drain *drain)
{
	int rc = snapshot__sort_stacks(&drain->stacks);

	if (!rc)
		rc = snapshot__sort_sites(&drain->sites);
	if (!rc)
		rc = snapshot__sort_live(&drain->live);
	return rc;
}

static uint32_t process_of(const struct capture_table *t, size_t at)
{
	uint32_t process;

	memcpy(&process, (const char *)t->keys + at, sizeof(process));
	return process;
}

/* Returns the index of a sorted table's first key whose process is not below `process`.
 * `process_at`: offset of the process's number in a key. */
static size_t first_of(const struct capture_table *t, size_t key_size, size_t process_at,
		       uint32_t process)
{
	return SEARCH_FIRST(i, t->n, process_of(t, i * key_size + process_at) >= process);
}

struct snapshot_sites snapshot__sites_of(const struct capture_table *sites, uint32_t process)
{
	const size_t size = sizeof(struct abi_site_key),
		     at = offsetof(struct abi_site_key, process);
	size_t first = first_of(sites, size, at, process);

	return (struct snapshot_sites){
		.keys = (const struct abi_site_key *)sites->keys + first,
		.sites = (const struct abi_site *)sites->values + first,
		.n = first_of(sites, size, at, process + 1) - first,
	};
}

struct snapshot_live snapshot__live_of(const struct capture_table *live, uint32_t process)
{
	const size_t size = sizeof(struct abi_live_key),
		     at = offsetof(struct abi_live_key, process);
	size_t first = first_of(live, size, at, process);

	return (struct snapshot_live){
		.keys = (const struct abi_live_key *)live->keys + first,
		.blocks = (const struct abi_live *)live->values + first,
		.n = first_of(live, size, at, process + 1) - first,
	};
}

const struct abi_stack *snapshot__find_stack(const struct capture_table *stacks,
					     const struct abi_stack_key *key)
{
	const struct abi_stack_key *keys = stacks->keys;
	const struct abi_stack_key *found =
		stacks->n ? bsearch(key, keys, stacks->n, sizeof(*keys), compare_stacks) : NULL;

	return found ? (const struct abi_stack *)stacks->values + (found - keys) : NULL;
}
