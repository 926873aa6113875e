/* SPDX-License-Identifier: BSD-2-Clause */
/* Profiles made by hand, and profiles drawn at random from a made-up program. The drawing walks
 * through the program's bytes and samples them as estimate.h says that sampling works. It shares no
 * formula with the code under test. Include after cmocka.h. */
#ifndef MEMTRACE_TESTS_PROFILE_DRAWN_H
#define MEMTRACE_TESTS_PROFILE_DRAWN_H

#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "profile/profile.h"

#include "random.h"

static inline struct profile *new_profile(uint64_t interval)
{
	struct profile *profile = profile__new();

	assert_non_null(profile);
	profile->interval_bytes = interval;
	profile->pid = 4711;
	strcpy(profile->comm, "program");
	profile->mode = MODE_CONTINUOUS;
	profile->duration_s = 10;
	return profile;
}

static inline void set_name(struct profile *profile, size_t location, const char *name)
{
	struct profile_location *l = &profile->locations[location];

	if (l->n_frames)
		return;
	assert_int_equal(profile_location__set_name(l, name), 0);
	l->reason = UNRESOLVED_NAMED;
}

/* Adds the stack malloc < name < main, with `n` live blocks of `size` bytes. `at` is added to all
 * addresses of the stack. */
static inline size_t add_stack(struct profile *profile, const char *name, uint64_t at,
			       uint64_t size, int n)
{
	uint64_t addrs[3] = {0x7f0000001001 + at, 0x400001 + at, 0x500001 + at};
	const char *names[3] = {"malloc", name, "main"};
	size_t site, thread;

	for (const char *c = name; *c; c++)
		addrs[1] += (uint64_t)(unsigned char)*c << (8 * ((c - name) % 3) + 4);
	assert_int_equal(profile__add_site(profile, addrs, 3, false, &site), 0);
	assert_int_equal(profile__add_thread(profile, 1, NULL, &thread), 0);
	for (int i = 0; i < n; i++)
		assert_int_equal(profile__add_live(profile, site, thread, size), 0);
	for (size_t i = 0; i < 3; i++)
		set_name(profile, profile->sites[site].locations[i], names[i]);
	return site;
}

/* Completes the totals of each site and sorts the sites. If the test has not set a site's allocated
 * bytes, the site has allocated only its live bytes, and nothing was freed. */
static inline void end_profile(struct profile *profile)
{
	for (size_t i = 0; i < profile->n_sites; i++) {
		struct profile_site *site = &profile->sites[i];

		if (site->alloc_bytes < site->live.bytes) {
			site->alloc_bytes = site->live.bytes;
			site->alloc_objects = site->live.objects;
		}
		site->freed_bytes = site->alloc_bytes - site->live.bytes;
		site->freed_objects = site->alloc_objects - site->live.objects;
	}
	assert_int_equal(profile__sort(profile), 0);
}

/* Puts `blocks` blocks of `size` bytes one after the other. Draws points at exponential distances,
 * on average one per sampling interval. Adds each block that has a point. */
static inline void draw_blocks(struct profile *profile, size_t site, uint64_t size, double blocks)
{
	double end = blocks * (double)size, last = -1;
	double gap = (double)profile->interval_bytes;

	for (double at = -log(random_unit()) * gap; at < end; at -= log(random_unit()) * gap) {
		double block = floor(at / (double)size);

		if (block > last)
			assert_int_equal(profile__add_live(profile, site, 0, size), 0);
		last = block;
	}
}

#endif
