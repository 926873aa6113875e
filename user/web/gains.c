// SPDX-License-Identifier: BSD-2-Clause
#include "web/gains.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/hash.h"
#include "base/intern.h"
#include "base/vector.h"

static size_t longest_stack(const struct profile *profile, size_t least)
{
	for (size_t i = 0; i < profile->n_sites; i++)
		if (profile->sites[i].n_locations > least)
			least = profile->sites[i].n_locations;
	return least;
}

double (*gains__allocated(const struct profile *profile))[2]
{
	double(*allocated)[2] = calloc(profile->n_sites + 1, sizeof(*allocated));

	for (size_t i = 0; i < profile->n_sites && allocated; i++) {
		allocated[i][0] = profile->sites[i].alloc_objects;
		allocated[i][1] = profile->sites[i].alloc_bytes;
	}
	return allocated;
}

/* Finds the number of the site's stack. A new stack gets the next number. addrs has room for the
 * longest stack. */
static int number_of(struct intern *stacks, const struct profile *profile,
		     const struct profile_site *site, uint64_t *addrs, uint32_t *ret)
{
	for (uint32_t l = 0; l < site->n_locations; l++)
		addrs[l] = profile__location(profile, site, l)->addr;
	return intern__add(stacks, addrs, site->n_locations * sizeof(*addrs), ret);
}

/* For each site of `before`, finds the site of `now` that has the same stack, or SIZE_MAX. */
static int match(const struct profile *before, const struct profile *now, size_t *ret)
{
	_cleanup_free_ uint64_t *addrs =
		calloc(longest_stack(now, longest_stack(before, 0)) + 1, sizeof(*addrs));
	_cleanup_(intern__clear) struct intern stacks = {};
	int rc = addrs ? 0 : -ENOMEM;
	uint32_t number;

	for (size_t i = 0; i < now->n_sites && rc >= 0; i++)
		rc = number_of(&stacks, now, &now->sites[i], addrs, &number);
	/* all stacks of a profile differ, so a stack's number is the index of its site */
	if (rc >= 0 && stacks.n != now->n_sites)
		return -EINVAL;
	for (size_t i = 0; i < before->n_sites && rc >= 0; i++) {
		rc = number_of(&stacks, before, &before->sites[i], addrs, &number);
		ret[i] = number < now->n_sites ? number : SIZE_MAX;
	}
	return rc < 0 ? rc : 0;
}

int gains__between(const struct profile *before, const struct profile *now, struct gains *ret)
{
	struct gains gains = {gains__allocated(now), calloc(now->n_sites + 1, sizeof(*gains.live))};
	_cleanup_free_ size_t *places = calloc(before->n_sites + 1, sizeof(*places));
	int rc = gains.allocated && gains.live && places ? match(before, now, places) : -ENOMEM;

	if (rc) {
		gains__clear(&gains);
		return rc;
	}
	for (size_t i = 0; i < now->n_sites; i++) {
		gains.live[i][0] = now->sites[i].live.objects;
		gains.live[i][1] = now->sites[i].live.bytes;
	}
	for (size_t i = 0; i < before->n_sites; i++) {
		const struct profile_site *site = &before->sites[i];
		size_t at = places[i];

		if (at == SIZE_MAX)
			continue;
		gains.allocated[at][0] = fmax(gains.allocated[at][0] - site->alloc_objects, 0);
		gains.allocated[at][1] = fmax(gains.allocated[at][1] - site->alloc_bytes, 0);
		gains.live[at][0] -= site->live.objects;
		gains.live[at][1] -= site->live.bytes;
	}
	*ret = gains;
	return 0;
}

/* Returns a hash of the site's stack. addrs has room for the longest stack. */
static uint64_t hash_of(const struct profile *profile, const struct profile_site *site,
			uint64_t *addrs)
{
	for (uint32_t l = 0; l < site->n_locations; l++)
		addrs[l] = profile__location(profile, site, l)->addr;
	return hash__keyed(addrs, site->n_locations * sizeof(*addrs));
}

static struct gains_away *find_away(const struct gains_sent *s, uint64_t stack)
{
	for (size_t i = 0; i < s->n_away; i++)
		if (s->away[i].stack == stack)
			return &s->away[i];
	return NULL;
}

static void forget_away(struct gains_sent *s, struct gains_away *away)
{
	size_t at = (size_t)(away - s->away);

	memmove(away, away + 1, (--s->n_away - at) * sizeof(*away));
}

/* Remembers what was sent of a stack that is missing. 0 or -ENOMEM. */
static int remember_away(struct gains_sent *s, uint64_t stack, const double sent[2])
{
	struct gains_away *away = find_away(s, stack);

	if (!away) {
		if (s->n_away == GAINS_AWAY)
			forget_away(s, s->away);
		if (VECTOR_ADD_ROOM(s->away, s->n_away))
			return -ENOMEM;
		away = &s->away[s->n_away++];
		*away = (struct gains_away){.stack = stack};
	}
	for (int k = 0; k < 2; k++)
		away->sent[k] = fmax(away->sent[k], sent[k]);
	return 0;
}

/* Adds to sum, and sets unsent, for the stacks of `now` that were missing in `before`. is_new: by
 * site of `now`. */
static void take_back(const struct profile *now, const bool *is_new, uint64_t *addrs,
		      struct gains_sent *s, double (*sum)[2], double (*unsent)[2])
{
	for (size_t i = 0; i < now->n_sites && s->n_away; i++) {
		struct gains_away *away =
			is_new[i] ? find_away(s, hash_of(now, &now->sites[i], addrs)) : NULL;

		for (int k = 0; k < 2 && away; k++) {
			sum[i][k] = fmax(sum[i][k], away->sent[k]);
			unsent[i][k] = sum[i][k] - away->sent[k];
		}
		if (away)
			forget_away(s, away);
	}
}

int gains__unsent(const struct profile *before, const struct profile *now, struct gains_sent *sent,
		  double (**ret)[2])
{
	double(*unsent)[2] = gains__allocated(now), (*sum)[2] = gains__allocated(now);
	_cleanup_free_ size_t *places = calloc(before->n_sites + 1, sizeof(*places));
	_cleanup_free_ bool *is_new = malloc(now->n_sites + 1);
	_cleanup_free_ uint64_t *addrs =
		calloc(longest_stack(now, longest_stack(before, 0)) + 1, sizeof(*addrs));
	int rc = unsent && sum && places && is_new && addrs ? match(before, now, places) : -ENOMEM;

	if (!rc)
		memset(is_new, true, now->n_sites);
	for (size_t i = 0; i < before->n_sites && !rc; i++) {
		const struct profile_site *site = &before->sites[i];
		const double totals[2] = {site->alloc_objects, site->alloc_bytes},
			     *so_far = sent->of ? sent->of[i] : totals;
		size_t at = places[i];

		if (at == SIZE_MAX) {
			rc = remember_away(sent, hash_of(before, site, addrs), so_far);
			continue;
		}
		is_new[at] = false;
		for (int k = 0; k < 2; k++) {
			sum[at][k] = fmax(sum[at][k], so_far[k]);
			unsent[at][k] = sum[at][k] - so_far[k];
		}
	}
	if (!rc)
		take_back(now, is_new, addrs, sent, sum, unsent);
	free(sent->of);
	sent->of = rc ? NULL : sum;
	if (rc) {
		free(sum);
		free(unsent);
		return rc;
	}
	*ret = unsent;
	return 0;
}

void gains_sent__clear(struct gains_sent *s)
{
	free(s->of);
	free(s->away);
	*s = (struct gains_sent){};
}

void gains__clear(struct gains *g)
{
	free(g->allocated);
	free(g->live);
	*g = (struct gains){};
}
