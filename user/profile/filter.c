// SPDX-License-Identifier: BSD-2-Clause
#include "profile/filter.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "profile/build.h"

int profile__keep_sites(struct profile *profile,
			bool (*keep)(void *ctx, const struct profile *profile,
				     const struct profile_site *site),
			void *ctx)
{
	size_t n = 0;
	int rc;

	for (size_t i = 0; i < profile->n_sites; i++) {
		struct profile_site *site = &profile->sites[i];

		if (keep(ctx, profile, site)) {
			profile->sites[n++] = *site;
			continue;
		}
		profile_site__clear(site);
	}
	profile->n_sites = n;
	rc = profile__drop_unused_locations(profile);
	return rc ? rc : profile__sort(profile);
}

static bool is_live(void *ctx, const struct profile *profile, const struct profile_site *site)
{
	(void)ctx;
	(void)profile;
	return site->live.objects > 0 || site->live.bytes > 0;
}

/* Removes all figures except the figures of live memory. Call this when each stack is reduced to a
 * part of its memory: of such a part, only the live memory is known. */
static void only_live(struct profile *profile)
{
	for (size_t i = 0; i < profile->n_sites; i++) {
		struct profile_site *site = &profile->sites[i];

		site->alloc_objects = site->live.objects;
		site->alloc_bytes = site->live.bytes;
		site->freed_objects = site->freed_bytes = 0;
		site->alloc_variance = site->alloc_common = 0;
		site_why__free(site->why); /* its counts are of all blocks of the stack */
		site->why = NULL;
	}
	profile->no_allocated = true;
	profile->growth.stacks_known = false;
	profile->peak = (struct profile_peak){};
	profile->life = (struct profile_life){};
	memset(profile->survival_age_s, 0, sizeof(profile->survival_age_s));
}

int profile__keep_threads(struct profile *profile, const bool *keep)
{
	for (size_t i = 0; i < profile->n_sites; i++) {
		struct profile_site *site = &profile->sites[i];
		double objects = 0, bytes = 0;
		size_t n = 0;

		for (size_t k = 0; k < site->n_threads; k++) {
			const struct profile_site_thread *held = &site->threads[k];

			if (!keep[held->thread])
				continue;
			objects += held->objects;
			bytes += held->bytes;
			site->threads[n++] = *held;
		}
		site->n_threads = n;
		site->live = estimate__part(&site->live, objects, bytes);
	}
	only_live(profile);
	return profile__keep_sites(profile, is_live, NULL);
}

int profile__find_age(const struct profile *profile, double age_s)
{
	int found = -1;
	bool any = false;

	for (int i = 0; i < PROFILE_SURVIVAL_AGES; i++)
		if (profile->survival_age_s[i] > 0 &&
		    fabs(age_s / profile->survival_age_s[i] - 1) <= 0.1)
			found = i;
	for (size_t i = 0; i < profile->n_sites && found >= 0; i++)
		any = any || isfinite(profile->sites[i].older[found]);
	return any ? found : -1;
}

int profile__keep_age(struct profile *profile, int age, bool younger, double *ret_unknown)
{
	*ret_unknown = 0;
	for (size_t i = 0; i < profile->n_sites; i++) {
		struct profile_site *site = &profile->sites[i];
		double share = younger ? 1 - site->older[age] : site->older[age];

		if (!isfinite(share)) {
			*ret_unknown += site->live.bytes;
			share = 0;
		}
		site->live = estimate__part(&site->live, share * site->live.objects,
					    share * site->live.bytes);
		site->n_threads = 0;
	}
	profile->n_threads = 0;
	only_live(profile);
	return profile__keep_sites(profile, is_live, NULL);
}
