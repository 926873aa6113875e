// SPDX-License-Identifier: BSD-2-Clause
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "profile/filter.h"

/* Three stacks: f and g, which main calls, and h, which has no caller. Two threads have one name,
 * and a third thread has another name. */
static struct profile *three(void)
{
	static const uint64_t stacks[3][3] = {
		{0x10, 0x20, 0x90}, {0x10, 0x30, 0x90}, {0x10, 0x40, 0}};
	struct profile *p = profile__new();
	size_t site, threads[3];

	assert_non_null(p);
	p->interval_bytes = 1;
	p->growth.stacks_known = true;
	p->survival_age_s[0] = 1;
	for (uint32_t i = 0; i < 3; i++)
		assert_int_equal(
			profile__add_thread(p, 7 + i, i == 1 ? "other" : "same", &threads[i]), 0);
	for (size_t i = 0; i < 3; i++) {
		assert_int_equal(profile__add_site(p, stacks[i], 3, false, &site), 0);
		for (size_t k = 0; k <= i; k++) /* i + 1 blocks, each of another thread */
			assert_int_equal(profile__add_live(p, site, threads[k], 100), 0);
		p->sites[site].alloc_bytes = 1000;
		p->sites[site].alloc_objects = 10;
		p->sites[site].freed_bytes = 900 - 100.0 * (double)i;
		p->sites[site].live.variance = 3000;
		p->sites[site].live.variance_max = 70;
	}
	assert_int_equal(profile__sort(p), 0);
	return p;
}

static bool calls_main(void *ctx, const struct profile *profile, const struct profile_site *site)
{
	++*(int *)ctx;
	for (uint32_t i = 0; i < site->n_locations; i++)
		if (profile__location(profile, site, i)->addr == 0x90)
			return true;
	return false;
}

static void sites_and_their_locations_go(void **state)
{
	struct profile *p = three();
	int asked = 0;

	(void)state;
	assert_int_equal(profile__keep_sites(p, calls_main, &asked), 0);
	assert_int_equal(asked, 3);
	assert_int_equal(p->n_sites, 2);
	assert_int_equal(p->n_locations, 4); /* 0x40 is removed */
	for (size_t i = 0; i < p->n_locations; i++)
		assert_true(p->locations[i].addr != 0x40);
	assert_true(profile__location(p, &p->sites[0], 1)->addr == 0x30); /* 200 bytes */
	assert_true(profile__location(p, &p->sites[1], 1)->addr == 0x20);
	assert_true(profile__live(p).bytes == 300);
	profile__free(p);
}

static bool never(void *ctx, const struct profile *profile, const struct profile_site *site)
{
	(void)ctx;
	(void)profile;
	(void)site;
	return false;
}

static void nothing_may_be_left(void **state)
{
	struct profile *p = three();

	(void)state;
	assert_int_equal(profile__keep_sites(p, never, NULL), 0);
	assert_int_equal(p->n_sites, 0);
	assert_int_equal(p->n_locations, 0);
	profile__free(p);
}

/* The first filter keeps the two threads that have one name. Of the 100, 200 and 300 bytes of the
 * sites, these threads hold 100, 100 and 200. */
static void a_threads_part_is_left(void **state)
{
	struct profile *p = three();

	(void)state;
	assert_int_equal(profile__keep_threads(p, (const bool[]){true, false, true}), 0);
	assert_int_equal(p->n_sites, 3);
	assert_true(profile__live(p).bytes == 400 && profile__live(p).objects == 4);
	assert_true(profile__location(p, &p->sites[0], 1)->addr == 0x40);
	assert_int_equal(p->sites[0].n_threads, 2);
	assert_int_equal(p->sites[0].live.samples, 2);
	assert_int_equal(p->sites[0].live.sampled_bytes, 200);
	assert_true(p->sites[0].live.variance == 2000 && p->sites[0].live.variance_max == 70);
	assert_true(p->sites[0].alloc_bytes == 200 && p->sites[0].freed_bytes == 0);
	assert_false(p->growth.stacks_known);
	assert_true(p->no_allocated);
	assert_true(p->survival_age_s[0] == 0);
	profile__free(p);
	p = three();
	assert_int_equal(profile__keep_threads(p, (const bool[]){false, true, false}), 0);
	assert_int_equal(p->n_sites, 2); /* the thread has no bytes of the first site */
	assert_true(profile__live(p).bytes == 200);
	profile__free(p);
}

/* The three sites hold 100, 200 and 300 bytes. A quarter of the 100 bytes and all of the 300 bytes
 * are older than 20 s. For the 200 bytes this is not known. */
static struct profile *aged(void)
{
	struct profile *p = three();

	for (int i = 0; i < PROFILE_SURVIVAL_AGES; i++) {
		p->survival_age_s[i] = 10 << i;
		for (size_t k = 0; k < 3; k++)
			p->sites[k].older[i] = NAN;
	}
	p->sites[0].older[1] = 1;
	p->sites[2].older[1] = 0.25;
	return p;
}

static void an_age_is_left(void **state)
{
	struct profile *p = aged();
	double unknown;

	(void)state;
	assert_int_equal(profile__find_age(p, 20.5), 1);
	assert_int_equal(profile__find_age(p, 18.5), 1);
	assert_int_equal(profile__find_age(p, 25), -1);
	assert_int_equal(profile__find_age(p, 40), -1); /* an age that no stack has */
	assert_int_equal(profile__keep_age(p, 1, false, &unknown), 0);
	assert_true(unknown == 200);
	assert_int_equal(p->n_sites, 2);
	assert_true(p->sites[0].live.bytes == 300 && p->sites[0].live.variance == 3000);
	assert_true(p->sites[1].live.bytes == 25 && p->sites[1].live.objects == 0.25 &&
		    p->sites[1].live.variance == 750);
	assert_true(p->sites[1].alloc_bytes == 25 && p->no_allocated && !p->growth.stacks_known &&
		    !p->n_threads);
	assert_int_equal(profile__find_age(p, 20), -1); /* this age was already used as a filter */
	profile__free(p);

	p = aged();
	assert_int_equal(profile__keep_age(p, 1, true, &unknown), 0);
	assert_true(unknown == 200);
	assert_int_equal(p->n_sites, 1);
	assert_true(p->sites[0].live.bytes == 75);
	profile__free(p);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(sites_and_their_locations_go),
		cmocka_unit_test(nothing_may_be_left),
		cmocka_unit_test(a_threads_part_is_left),
		cmocka_unit_test(an_age_is_left),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
