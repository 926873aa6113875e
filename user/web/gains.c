// SPDX-License-Identifier: BSD-2-Clause
#include "web/gains.h"

#include <errno.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "base/intern.h"

static size_t longest_stack(const struct profile *profile, size_t least)
{
	for (size_t i = 0; i < profile->n_sites; i++)
		if (profile->sites[i].n_locations > least)
			least = profile->sites[i].n_locations;
	return least;
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

int gains__between(const struct profile *before, const struct profile *now, struct gains *ret)
{
	struct gains gains = {calloc(now->n_sites + 1, sizeof(*gains.allocated)),
			      calloc(now->n_sites + 1, sizeof(*gains.live))};
	_cleanup_free_ uint64_t *addrs =
		calloc(longest_stack(now, longest_stack(before, 0)) + 1, sizeof(*addrs));
	_cleanup_(intern__clear) struct intern stacks = {};
	int rc = gains.allocated && gains.live && addrs ? 0 : -ENOMEM;
	uint32_t number;

	for (size_t i = 0; i < now->n_sites && rc >= 0; i++) {
		const struct profile_site *site = &now->sites[i];

		rc = number_of(&stacks, now, site, addrs, &number);
		if (rc < 0)
			break;
		gains.allocated[i][0] = site->alloc_objects;
		gains.allocated[i][1] = site->alloc_bytes;
		gains.live[i][0] = site->live.objects;
		gains.live[i][1] = site->live.bytes;
	}
	/* stacks of a profile differ, so their numbers are indices of sites */
	if (rc >= 0 && stacks.n != now->n_sites)
		rc = -EINVAL;
	for (size_t i = 0; i < before->n_sites && rc >= 0; i++) {
		const struct profile_site *site = &before->sites[i];

		rc = number_of(&stacks, before, site, addrs, &number);
		if (rc < 0 || number >= now->n_sites)
			continue;
		gains.allocated[number][0] -= site->alloc_objects;
		gains.allocated[number][1] -= site->alloc_bytes;
		gains.live[number][0] -= site->live.objects;
		gains.live[number][1] -= site->live.bytes;
	}
	if (rc < 0) {
		gains__clear(&gains);
		return rc;
	}
	for (size_t i = 0; i < now->n_sites; i++)
		for (int k = 0; k < 2; k++)
			if (!(gains.allocated[i][k] > 0))
				gains.allocated[i][k] = 0;
	*ret = gains;
	return 0;
}

void gains__clear(struct gains *g)
{
	free(g->allocated);
	free(g->live);
	*g = (struct gains){};
}
