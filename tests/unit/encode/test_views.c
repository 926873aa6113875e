// SPDX-License-Identifier: BSD-2-Clause
/* The output of --threads and --lifetimes for a process that was traced in windows. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <cmocka.h>

#include "tests/unit/encode/fixture.h"

#define MIB 1048576.0

static int threads(const struct profile *profile, struct sink *sink)
{
	return encode_threads(profile, &table_options, sink);
}

static int lifetimes(const struct profile *profile, struct sink *sink)
{
	return encode_lifetimes(profile, &table_options, sink);
}

static void add_part(struct profile *profile, size_t site, size_t thread, double bytes)
{
	const struct estimate part = {.samples = 50, .objects = bytes / 64, .bytes = bytes};

	assert_int_equal(profile__add_live_estimate(profile, site, thread, &part), 0);
}

/* One stack has exactly 8 MiB of live memory. How much of it each thread owns is estimated: three
 * quarters of the 100 samples belong to two workers. */
static struct profile *two_pools(void)
{
	struct profile *profile = profile__new();
	size_t site, worker, other, main;

	assert_non_null(profile);
	profile->mode = MODE_WINDOWED;
	profile->interval_bytes = 65536;
	profile->duration_s = 10;
	assert_int_equal(profile__add_thread(profile, 10, "main", &main), 0);
	assert_int_equal(profile__add_thread(profile, 11, "worker-1", &worker), 0);
	assert_int_equal(profile__add_thread(profile, 12, "worker-2", &other), 0);
	assert_int_equal(profile__add_site(profile, (const uint64_t[]){0x1000}, 1, false, &site),
			 0);
	add_part(profile, site, main, 2 * MIB);
	add_part(profile, site, worker, 3 * MIB);
	add_part(profile, site, other, 3 * MIB);
	profile->sites[site].live.samples = 100;
	assert_int_equal(profile__sort(profile), 0);
	return profile;
}

/* The error of a share of 1/4 in 100 samples is sqrt(1/4 * 3/4 / 100) = 4.3 %. Of 8 MiB, this is
 * 0.35 MiB. */
static void whose_memory_is_live(void **state)
{
	struct profile *profile = two_pools();
	char *text = encoded(threads, profile), *row;
	double low, high;

	(void)state;
	assert_non_null(strstr(text, "and not who frees it\nTHREAD "));
	row = strstr(text, "\nworker-# ");
	assert_non_null(row);
	assert_non_null(strstr(row, " 2      6.0 MiB "));
	row = strstr(text, "\nmain (10) ");
	assert_non_null(row);
	assert_int_equal(sscanf(row, "\nmain (10) 1 2.0 MiB %lf - %lf MiB", &low, &high), 2);
	assert_true(fabs(low - (2 - 2 * 0.35)) < 0.15);
	assert_true(fabs(high - (2 + 2 * 0.35)) < 0.2);
	free(text);
	profile->mode = MODE_CONTINUOUS; /* such a run can know which thread frees a block */
	text = encoded(threads, profile);
	assert_non_null(strstr(text, "threads: not known for this run"));
	free(text);
	profile__free(profile);
}

static void half_of_them_live_longer(void **state)
{
	static const struct {
		struct half_life of;
		const char *words;
	} cases[] = {
		{{0.44, 0.21, 2.3},
		 " half of them live longer than 440 ms (95 %: 210 ms - 2.3 s)\n"},
		{{12e-6, 0, INFINITY},
		 " half of them live longer than 12 us (95 %: 0.0 us or more)\n"},
		{{INFINITY, 31, INFINITY}, " half of them live longer than 31 s, at least\n"},
	};
	struct profile *profile = two_pools();
	char *text = encoded(lifetimes, profile);

	(void)state;
	assert_non_null(strstr(text, "not known for this run"));
	free(text);
	profile->life.ages_known = profile->life.living_known = true;
	text = encoded(lifetimes, profile);
	assert_non_null(strstr(text, "estimated from windows"));
	assert_null(strstr(text, "half of them"));
	free(text);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		char *at, *from;

		profile->sites[0].life.half_life = cases[i].of;
		text = encoded(lifetimes, profile);
		from = strstr(text, " half of them");
		assert_non_null(from);
		at = from;
		while (at > text && at[-1] == ' ')
			at--;
		assert_true(at > text && at[-1] == '\n');
		assert_memory_equal(from, cases[i].words, strlen(cases[i].words));
		free(text);
	}
	profile__free(profile);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(whose_memory_is_live),
		cmocka_unit_test(half_of_them_live_longer),
	};

	return cmocka_run_group_tests_name("views", tests, NULL, NULL);
}
