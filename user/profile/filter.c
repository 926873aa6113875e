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
		free(site->locations);
		free(site->threads);
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

int profile__keep_thread(struct profile *profile, const char *name)
{
	for (size_t i = 0; i < profile->n_sites; i++) {
		struct profile_site *site = &profile->sites[i];
		struct estimate live = {};
		double share;
		size_t n = 0;

		for (size_t k = 0; k < site->n_threads; k++) {
			const struct profile_site_thread *held = &site->threads[k];

			if (strcmp(profile->threads[held->thread].name, name))
				continue;
			live.objects += held->objects;
			live.bytes += held->bytes;
			site->threads[n++] = *held;
		}
		site->n_threads = n;
		share = site->live.bytes > 0 ? fmin(live.bytes / site->live.bytes, 1) : 0;
		live.samples = (uint64_t)llround((double)site->live.samples * share);
		live.sampled_bytes = (uint64_t)((double)site->live.sampled_bytes * share);
		live.variance = site->live.variance * share;
		live.variance_max = n ? site->live.variance_max : 0;
		site->live = live;
		site->alloc_objects = live.objects;
		site->alloc_bytes = live.bytes;
		site->freed_objects = site->freed_bytes = 0;
	}
	profile->has_growth = profile->has_life = false;
	memset(profile->survival_age_s, 0, sizeof(profile->survival_age_s));
	return profile__keep_sites(profile, is_live, NULL);
}
