// SPDX-License-Identifier: BSD-2-Clause
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "profile/build.h"
#include "profile/profile.h"

/* Frames that were read, not guessed: the probed function and the return address on its stack. */
#define FRAMES_READ 2

static bool plausible(const struct profile *profile, const struct profile_location *location,
		      bool interpreted)
{
	if (location->addr >> 63) /* no process has code there */
		return interpreted;
	return location->mapping >= 0 && profile->mappings[location->mapping].perms[2] == 'x';
}

static int by_stack(const void *a, const void *b)
{
	const struct profile_site *x = a, *y = b;

	for (uint32_t i = 0; i < x->n_locations && i < y->n_locations; i++) {
		if (x->locations[i] != y->locations[i])
			return x->locations[i] < y->locations[i] ? -1 : 1;
	}
	return (x->n_locations > y->n_locations) - (x->n_locations < y->n_locations);
}

/* Adds site b to the site at index `to`, and empties b. Thousands of sites may merge into one. So
 * the shares of b's threads are added through the build state, which takes constant time for each
 * share. */
static int merge_site(struct profile *profile, size_t to, struct profile_site *b)
{
	struct profile_site *a = &profile->sites[to];

	for (size_t i = 0; i < b->n_threads; i++) {
		int err = profile_build__share(profile->build, to, b->threads[i].thread,
					       b->threads[i].objects, b->threads[i].bytes);

		if (err)
			return err;
	}
	for (size_t i = 0; i < b->n_blocks; i++)
		if (profile__add_block(profile, to, b->blocks[i].addr, b->blocks[i].size))
			return -ENOMEM;
	for (int i = 0; i < PROFILE_SURVIVAL_AGES && b->live.bytes > 0; i++) {
		double share = b->live.bytes / (a->live.bytes + b->live.bytes);

		a->older[i] = b->older[i] * share + (share < 1 ? a->older[i] * (1 - share) : 0);
	}
	/* survival: for each age, the live share of the bytes that were allocated longer ago than
	 * the age. These shares are known for both sites, or for neither. */
	for (int i = 0; i < PROFILE_SURVIVAL_AGES && b->alloc_bytes > 0; i++) {
		double share = b->alloc_bytes / (a->alloc_bytes + b->alloc_bytes);

		a->survival[i] =
			b->survival[i] * share + (share < 1 ? a->survival[i] * (1 - share) : 0);
	}
	estimate__merge(&a->live, &b->live);
	a->growth.bytes_per_s += b->growth.bytes_per_s;
	a->growth.low += b->growth.low; /* the sum of both intervals is wider than it need be */
	a->growth.high += b->growth.high;
	a->alloc_objects += b->alloc_objects;
	a->alloc_bytes += b->alloc_bytes;
	a->alloc_variance += b->alloc_variance;
	a->alloc_common += b->alloc_common;
	a->freed_objects += b->freed_objects;
	a->freed_bytes += b->freed_bytes;
	a->peak_objects += b->peak_objects;
	a->peak_bytes += b->peak_bytes;
	site_life__merge(&a->life, &b->life);
	resident_bytes__add(&a->resident, &b->resident);
	a->replaces |= b->replaces;
	a->truncated |= b->truncated;
	a->complete &= b->complete;
	profile_site__clear(b);
	return 0;
}

static int merge_equal(struct profile *profile)
{
	size_t n = 0;

	if (!profile->n_sites)
		return 0;
	if (!profile__build(profile))
		return -ENOMEM;
	qsort(profile->sites, profile->n_sites, sizeof(*profile->sites), by_stack);
	for (size_t i = 1; i < profile->n_sites; i++) {
		struct profile_site *site = &profile->sites[i];

		if (!by_stack(&profile->sites[n], site)) {
			int err = merge_site(profile, n, site);

			if (err)
				return err;
		} else if (++n != i) {
			profile->sites[n] = *site;
			*site = (struct profile_site){};
		}
	}
	profile->n_sites = n + 1;
	return 0;
}

int profile__drop_unused_locations(struct profile *profile)
{
	size_t n = 0, n_old = profile->n_locations;
	_cleanup_free_ uint32_t *moved_to = calloc(n_old ? n_old : 1, sizeof(*moved_to));

	if (!moved_to)
		return -ENOMEM;
	for (size_t i = 0; i < profile->n_sites; i++) {
		const struct profile_site *site = &profile->sites[i];

		for (uint32_t k = 0; k < site->n_locations; k++)
			moved_to[site->locations[k]] = 1;
	}
	for (size_t i = 0; i < n_old; i++) {
		if (!moved_to[i]) {
			profile_location__set_frames(&profile->locations[i], NULL, 0);
			continue;
		}
		moved_to[i] = (uint32_t)n;
		profile->locations[n++] = profile->locations[i];
	}
	profile->n_locations = n;
	for (size_t i = 0; i < profile->n_sites; i++) {
		const struct profile_site *site = &profile->sites[i];

		for (uint32_t k = 0; k < site->n_locations; k++)
			site->locations[k] = moved_to[site->locations[k]];
	}
	return 0;
}

int profile__cut_implausible(struct profile *profile, bool interpreted, size_t *ret_cut)
{
	size_t cut = 0;
	int err;

	for (size_t i = 0; i < profile->n_sites; i++) {
		struct profile_site *site = &profile->sites[i];

		for (uint32_t k = FRAMES_READ; k < site->n_locations && !site->complete; k++) {
			if (!plausible(profile, profile__location(profile, site, k), interpreted)) {
				site->n_locations = k;
				cut++;
				break;
			}
		}
	}
	if (cut) {
		/* Without this call, frames that were cut off would be looked up and counted as
		 * unresolved. */
		err = profile__drop_unused_locations(profile);
		if (!err)
			err = merge_equal(profile);
		if (!err)
			err = profile__sort(profile);
		if (err)
			return err;
	}
	if (ret_cut)
		*ret_cut = cut;
	return 0;
}
