// SPDX-License-Identifier: BSD-2-Clause
#include "profile/threads.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"

void pools__clear(struct pools *pools)
{
	free(pools->list);
	memset(pools, 0, sizeof(*pools));
}

static bool is_digit(char c)
{
	return c >= '0' && c <= '9';
}

static bool is_letter(char c)
{
	return ((c | 0x20) >= 'a' && (c | 0x20) <= 'z') || (c & 0x80);
}

void pool__name(const char *name, char *to)
{
	const char *start = name;

	while (*name) {
		const char *end = name;

		while (is_digit(*end))
			end++;
		if (end == name) {
			*to++ = *name++;
		} else if (name > start && is_letter(name[-1]) && is_letter(*end)) {
			to = mempcpy(to, name, (size_t)(end - name));
			name = end;
		} else {
			*to++ = '#';
			name = end;
		}
	}
	*to = '\0';
}

static int by_tid(const void *tid, const void *thread)
{
	uint32_t a = *(const uint32_t *)tid, b = ((const struct profile_thread *)thread)->tid;

	return (a > b) - (a < b);
}

/* Returns the index of the thread; n_threads: the profile does not have it. */
static size_t find_thread(const struct profile *profile, uint32_t tid)
{
	const struct profile_thread *found =
		profile->n_threads ? bsearch(&tid, profile->threads, profile->n_threads,
					     sizeof(*found), by_tid)
				   : NULL;

	return found ? (size_t)(found - profile->threads) : profile->n_threads;
}

struct named {
	char name[POOL_NAME];
	uint32_t tid;
	size_t thread;
};

static int by_name(const void *a, const void *b)
{
	const struct named *x = a, *y = b;
	int order = strcmp(x->name, y->name);

	return order ? order : (x->tid > y->tid) - (x->tid < y->tid);
}

/* Makes a pool for each name; pool_of[thread] becomes the number of the thread's pool. */
static int name_pools(const struct profile *profile, struct pools *pools, size_t *pool_of)
{
	_cleanup_free_ struct named *named = calloc(profile->n_threads + 1, sizeof(*named));

	if (!named)
		return -ENOMEM;
	for (size_t i = 0; i < profile->n_threads; i++) {
		const struct profile_thread *thread = &profile->threads[i];

		named[i].tid = thread->tid;
		named[i].thread = i;
		pool__name(thread->name, named[i].name);
	}
	if (profile->n_threads)
		qsort(named, profile->n_threads, sizeof(*named), by_name);
	for (size_t i = 0; i < profile->n_threads; i++) {
		if (!i || strcmp(named[i].name, named[i - 1].name)) {
			struct pool *pool = &pools->list[pools->n++];

			memcpy(pool->name, named[i].name, sizeof(pool->name));
			pool->tid = named[i].tid;
		}
		pools->list[pools->n - 1].n_threads++;
		pool_of[named[i].thread] = pools->n - 1;
	}
	return 0;
}

/* Estimates a thread's part of a stack. Only the thread's own samples tell how large this part is.
 * This adds variance. */
static struct estimate live_of(const struct profile_site *site,
			       const struct profile_site_thread *held)
{
	struct estimate ret = estimate__part(&site->live, held->objects, held->bytes);
	double part = site->live.bytes > 0 ? held->bytes / site->live.bytes : 0;

	if (site->live.samples && part < 1)
		ret.variance += part * (1 - part) / (double)site->live.samples * site->live.bytes *
				site->live.bytes;
	return ret;
}

static void sum(const struct profile *profile, struct pools *pools, const size_t *pool_of)
{
	for (size_t i = 0; i < profile->n_sites; i++)
		for (size_t k = 0; k < profile->sites[i].n_threads; k++) {
			const struct profile_site_thread *held = &profile->sites[i].threads[k];

			struct estimate live = live_of(&profile->sites[i], held);

			pools->list[pool_of[held->thread]].owned += held->bytes;
			estimate__merge(&pools->list[pool_of[held->thread]].live, &live);
		}
	for (size_t i = 0; i < profile->n_transfers; i++) {
		const struct profile_transfer *t = &profile->transfers[i];
		size_t owner = find_thread(profile, t->owner),
		       freer = find_thread(profile, t->freer);
		struct pool *of = owner < profile->n_threads ? &pools->list[pool_of[owner]] : NULL;

		if (of && !t->freer)
			of->allocated += t->bytes;
		else if (of && t->owner == t->freer)
			of->freed_self += t->bytes;
		else if (of)
			of->freed_by_others += t->bytes;
		if (freer < profile->n_threads && t->owner != t->freer)
			pools->list[pool_of[freer]].freed_of_others += t->bytes;
	}
}

static size_t paired(const struct profile *profile, const size_t *pool_of, uint32_t tid)
{
	size_t thread = find_thread(profile, tid);

	return thread < profile->n_threads && pool_of[thread] < POOLS_PAIRED ? pool_of[thread]
									     : POOLS_PAIRED;
}

static void pair(const struct profile *profile, struct pools *pools, const size_t *pool_of)
{
	for (size_t i = 0; i < profile->n_transfers; i++) {
		const struct profile_transfer *t = &profile->transfers[i];

		if (t->freer)
			pools->freed[paired(profile, pool_of, t->owner)]
				    [paired(profile, pool_of, t->freer)] += t->bytes;
	}
}

struct place {
	const struct pool *pool;
	size_t was;
};

static int by_owned(const void *a, const void *b)
{
	const struct pool *x = ((const struct place *)a)->pool,
			  *y = ((const struct place *)b)->pool;

	if (x->owned != y->owned)
		return x->owned > y->owned ? -1 : 1;
	if (x->allocated != y->allocated)
		return x->allocated > y->allocated ? -1 : 1;
	return (x->tid > y->tid) - (x->tid < y->tid);
}

static int order_pools(const struct profile *profile, struct pools *pools, size_t *pool_of)
{
	_cleanup_free_ struct place *places = calloc(pools->n + 1, sizeof(*places));
	_cleanup_free_ size_t *now = calloc(pools->n + 1, sizeof(*now));
	struct pool *list = calloc(pools->n + 1, sizeof(*list));

	if (!places || !now || !list) {
		free(list);
		return -ENOMEM;
	}
	for (size_t i = 0; i < pools->n; i++)
		places[i] = (struct place){&pools->list[i], i};
	if (pools->n)
		qsort(places, pools->n, sizeof(*places), by_owned);
	for (size_t i = 0; i < pools->n; i++) {
		list[i] = *places[i].pool;
		now[places[i].was] = i;
	}
	for (size_t i = 0; i < profile->n_threads; i++)
		pool_of[i] = now[pool_of[i]];
	free(pools->list);
	pools->list = list;
	return 0;
}

int pools__make(const struct profile *profile, struct pools *ret)
{
	_cleanup_free_ size_t *pool_of = calloc(profile->n_threads + 1, sizeof(*pool_of));
	int rc;

	*ret = (struct pools){.list = calloc(profile->n_threads + 1, sizeof(*ret->list))};
	if (!pool_of || !ret->list)
		return -ENOMEM;
	rc = name_pools(profile, ret, pool_of);
	if (rc)
		return rc;
	sum(profile, ret, pool_of);
	rc = order_pools(profile, ret, pool_of);
	if (!rc)
		pair(profile, ret, pool_of);
	return rc;
}
