// SPDX-License-Identifier: BSD-2-Clause
/* Ends the building of a profile. Everything is sorted. So equal input gives equal output, whatever
 * the order of elements in the kernel's hash tables. Each step allocates its memory before it moves
 * anything, so a profile stays whole when memory runs out. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "profile/build.h"
#include "profile/profile.h"

/* The sort key of an element, and its present index. */
struct order {
	uint64_t key;
	uint32_t index;
};

static int by_key(const void *a, const void *b)
{
	const struct order *x = a, *y = b;

	if (x->key != y->key)
		return x->key < y->key ? -1 : 1;
	return (x->index > y->index) - (x->index < y->index);
}

/* Sorts the n elements of an array by the keys in orders[], which also has each element's index.
 * Returns an array that tells where each element went: its new index, by its old one. NULL: out of
 * memory. */
static uint32_t *reorder(void *array, size_t n, size_t size, struct order *orders)
{
	_cleanup_free_ uint32_t *moved_to = calloc(n ? n : 1, sizeof(*moved_to));
	_cleanup_free_ char *old = malloc(n ? n * size : 1);

	if (!moved_to || !old)
		return NULL;
	qsort(orders, n, sizeof(*orders), by_key);
	if (n)
		memcpy(old, array, n * size);
	for (size_t i = 0; i < n; i++) {
		memcpy((char *)array + i * size, old + orders[i].index * size, size);
		moved_to[orders[i].index] = (uint32_t)i;
	}
	return_ptr(moved_to);
}

static int sort_locations(struct profile *profile)
{
	size_t n = profile->n_locations;
	_cleanup_free_ struct order *orders = calloc(n ? n : 1, sizeof(*orders));
	_cleanup_free_ uint32_t *moved_to = NULL;

	if (!orders)
		return -ENOMEM;
	for (size_t i = 0; i < n; i++)
		orders[i] = (struct order){profile->locations[i].addr, (uint32_t)i};
	moved_to = reorder(profile->locations, n, sizeof(*profile->locations), orders);
	if (!moved_to)
		return -ENOMEM;
	for (size_t i = 0; i < profile->n_sites; i++) {
		struct profile_site *site = &profile->sites[i];

		for (uint32_t k = 0; k < site->n_locations; k++)
			site->locations[k] = moved_to[site->locations[k]];
	}
	return 0;
}

static int sort_threads(struct profile *profile)
{
	size_t n = profile->n_threads;
	_cleanup_free_ struct order *orders = calloc(n ? n : 1, sizeof(*orders));
	_cleanup_free_ uint32_t *moved_to = NULL;

	if (!orders)
		return -ENOMEM;
	for (size_t i = 0; i < n; i++)
		orders[i] = (struct order){profile->threads[i].tid, (uint32_t)i};
	moved_to = reorder(profile->threads, n, sizeof(*profile->threads), orders);
	if (!moved_to)
		return -ENOMEM;
	for (size_t i = 0; i < profile->n_sites; i++) {
		struct profile_site *site = &profile->sites[i];

		for (size_t k = 0; k < site->n_threads; k++)
			site->threads[k].thread = moved_to[site->threads[k].thread];
	}
	return 0;
}

static int by_thread(const void *a, const void *b)
{
	const struct profile_site_thread *x = a, *y = b;

	return (x->thread > y->thread) - (x->thread < y->thread);
}

/* Moves the collected shares into their sites and drops the build state. */
static int fold_shares(struct profile *profile)
{
	struct profile_build *build = profile->build;
	_cleanup_free_ size_t *more = NULL;

	if (!build)
		return 0;
	more = calloc(profile->n_sites ? profile->n_sites : 1, sizeof(*more));
	if (!more)
		return -ENOMEM;
	for (size_t i = 0; i < build->n_shares; i++)
		more[build->shares[i].site]++;
	for (size_t i = 0; i < profile->n_sites; i++) {
		struct profile_site *site = &profile->sites[i];
		struct profile_site_thread *threads;

		if (!more[i])
			continue;
		threads = reallocarray(site->threads, site->n_threads + more[i], sizeof(*threads));
		if (!threads)
			return -ENOMEM;
		site->threads = threads;
	}
	for (size_t i = 0; i < build->n_shares; i++) {
		const struct build_share *share = &build->shares[i];
		struct profile_site *site = &profile->sites[share->site];

		site->threads[site->n_threads++] = (struct profile_site_thread){
			.thread = share->thread, .objects = share->objects, .bytes = share->bytes};
	}
	profile_build__free(build);
	profile->build = NULL;
	return 0;
}

/* Sorts the threads of every site. If a thread got more memory after an earlier sort, it has two
 * entries, and these become one. */
static void sort_site_threads(struct profile *profile)
{
	for (size_t i = 0; i < profile->n_sites; i++) {
		struct profile_site *site = &profile->sites[i];
		size_t n = 0;

		if (!site->n_threads)
			continue;
		qsort(site->threads, site->n_threads, sizeof(*site->threads), by_thread);
		for (size_t k = 1; k < site->n_threads; k++) {
			if (site->threads[k].thread == site->threads[n].thread) {
				site->threads[n].objects += site->threads[k].objects;
				site->threads[n].bytes += site->threads[k].bytes;
			} else {
				site->threads[++n] = site->threads[k];
			}
		}
		site->n_threads = n + 1;
	}
}

static int by_start(const void *a, const void *b)
{
	const struct profile_mapping *x = a, *y = b;

	if (x->start != y->start)
		return x->start < y->start ? -1 : 1;
	return (x->end > y->end) - (x->end < y->end);
}

/* Finds the mapping of each location. Both lists ascend, so one pass over each is enough. */
static void find_mappings(struct profile *profile)
{
	size_t m = 0;

	for (size_t i = 0; i < profile->n_locations; i++) {
		struct profile_location *location = &profile->locations[i];
		uint64_t addr = location->addr - 1;

		while (m < profile->n_mappings && profile->mappings[m].end <= addr)
			m++;
		location->mapping = -1;
		if (m < profile->n_mappings && profile->mappings[m].start <= addr)
			location->mapping = (int32_t)m;
	}
}

/* Locations are sorted already, so their indices compare like their addresses. */
static int by_live(const void *a, const void *b)
{
	const struct profile_site *x = a, *y = b;

	if (x->live.bytes != y->live.bytes)
		return x->live.bytes > y->live.bytes ? -1 : 1;
	if (x->alloc_bytes != y->alloc_bytes)
		return x->alloc_bytes > y->alloc_bytes ? -1 : 1;
	for (uint32_t i = 0; i < x->n_locations && i < y->n_locations; i++) {
		if (x->locations[i] != y->locations[i])
			return x->locations[i] < y->locations[i] ? -1 : 1;
	}
	return (x->n_locations > y->n_locations) - (x->n_locations < y->n_locations);
}

static int by_pair(const void *a, const void *b)
{
	const struct profile_transfer *x = a, *y = b;

	if (x->owner != y->owner)
		return x->owner < y->owner ? -1 : 1;
	return (x->freer > y->freer) - (x->freer < y->freer);
}

int profile__sort(struct profile *profile)
{
	int err = fold_shares(profile);

	if (!err)
		err = sort_locations(profile);
	if (!err)
		err = sort_threads(profile);
	if (err)
		return err;
	sort_site_threads(profile);
	if (profile->n_transfers)
		qsort(profile->transfers, profile->n_transfers, sizeof(*profile->transfers),
		      by_pair);
	if (profile->n_mappings)
		qsort(profile->mappings, profile->n_mappings, sizeof(*profile->mappings), by_start);
	find_mappings(profile);
	if (profile->n_sites)
		qsort(profile->sites, profile->n_sites, sizeof(*profile->sites), by_live);
	return 0;
}
