// SPDX-License-Identifier: BSD-2-Clause
/* Tables that are sorted by another weight than live bytes. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <cmocka.h>

#include "tests/unit/encode/fixture.h"

/* A command that has freed nearly all its memory at its end. At its peak, two of its three stacks
 * held memory. */
static struct profile *freed_at_the_end(uint64_t interval)
{
	static const struct {
		double alloc_objects, alloc_bytes, peak_objects, peak_bytes;
	} did[] = {{300, 30 << 20, 30, 3 << 20}, {10, 1 << 20, 10, 1 << 20}, {1, 5120, 0, 0}};
	struct profile *profile = new_profile(interval);

	STACK(profile, 1, 1, 0, "malloc", "build", "main");
	STACK(profile, 1, 1, 0, "malloc", "parse", "main");
	STACK(profile, 1, 5120, 1, "malloc", "last", "main");
	profile->life.heights_known = profile->peak.known = true;
	profile->peak.s = 1.25;
	profile->ended = true;
	for (size_t i = 0; i < profile->n_sites; i++) {
		const char *name = profile_location__function(
			profile__location(profile, &profile->sites[i], 1));
		size_t which = !strcmp(name, "build") ? 0 : !strcmp(name, "parse") ? 1 : 2;

		profile->sites[i].alloc_objects = did[which].alloc_objects;
		profile->sites[i].alloc_bytes = did[which].alloc_bytes;
		profile->sites[i].freed_objects = which < 2 ? did[which].alloc_objects : 0;
		profile->sites[i].freed_bytes = which < 2 ? did[which].alloc_bytes : 0;
		profile->sites[i].peak_objects = did[which].peak_objects;
		profile->sites[i].peak_bytes = did[which].peak_bytes;
	}
	return profile;
}

static void a_table_of_the_highest_moment(void **state)
{
	struct profile *profile = freed_at_the_end(1);
	char *text = table_of(profile, (struct table_options){.weight = WEIGHT_PEAK});

	(void)state;
	assert_has(text, "live heap at its end: 5.0 KiB in 1 object, exact\n");
	assert_has(text, "at its highest, 1.2 s after the start: 4.0 MiB in 40 objects, exact\n"
			 "\n"
			 "AT PEAK  OBJECTS  SHARE  AT END  WHERE (leaf first)\n"
			 "3.0 MiB       30  75.0%     0 B  build < main\n"
			 "1.0 MiB       10  25.0%     0 B  parse < main\n");
	assert_null(strstr(text, "last"));
	free(text);
	text = table_of(profile, (struct table_options){.weight = WEIGHT_PEAK, .top = 1});
	assert_has(text, "1.0 MiB       10  25.0%     0 B  (1 more stack)\n");
	free(text);
	profile__free(profile);
}

/* With several threads the peak is not exact to the byte, because other CPUs allocate at the same
 * time. */
static void several_threads_are_no_exact_moment(void **state)
{
	struct profile *profile = freed_at_the_end(1);
	size_t thread;
	char *text;

	(void)state;
	assert_int_equal(profile__add_thread(profile, 2, "other", &thread), 0);
	text = table_of(profile, (struct table_options){.weight = WEIGHT_PEAK});
	assert_has(text,
		   "in 40 objects, exact but for what other threads did at that very moment\n");
	free(text);
	profile__free(profile);
}

static void estimates_have_intervals(void **state)
{
	struct profile *profile = freed_at_the_end(524288);
	char *text = table_of(profile, (struct table_options){.weight = WEIGHT_PEAK});

	(void)state;
	assert_has(text, "at its highest, 1.2 s after the start: 4.0 MiB (95 %: ");
	assert_has(text, " in 40 objects, estimated\n");
	assert_has(text, "95 % INTERVAL");
	free(text);
	profile__free(profile);
}

/* Calls were missed, so each amount is a lower bound. A missed free makes the peak too large, but
 * it does not change the allocated bytes. */
static void missed_calls_are_told(void **state)
{
	struct profile *profile = freed_at_the_end(524288);
	char *text;

	(void)state;
	assert_int_equal(profile__add_lost(profile, "result_unknown", 1), 0);
	text = table_of(profile, (struct table_options){.weight = WEIGHT_PEAK});
	assert_has(text, " after the start: AT LEAST 4.0 MiB in 40 objects\n");
	assert_null(strstr(text, "95 %"));
	free(text);
	profile->withdrawals = 1;
	text = table_of(profile, (struct table_options){.weight = WEIGHT_PEAK});
	assert_has(text, " after the start: ABOUT 4.0 MiB in 40 objects\n");
	free(text);
	text = table_of(profile, (struct table_options){.weight = WEIGHT_ALLOCATED});
	assert_has(text, "allocated during the run: AT LEAST 31.0 MiB in 311 objects\n");
	assert_null(strstr(text, "95 %"));
	free(text);
	text = table_of(profile, (struct table_options){.churn = true});
	assert_has(text, "churn: AT LEAST 3.1 MiB/s in ");
	assert_null(strstr(text, "95 %"));
	free(text);
	profile__free(profile);
}

static void a_table_of_what_was_allocated(void **state)
{
	struct profile *profile = freed_at_the_end(1);
	char *text = table_of(profile, (struct table_options){.weight = WEIGHT_ALLOCATED});

	(void)state;
	assert_has(text, "allocated during the run: 31.0 MiB in 311 objects, exact\n"
			 "\n"
			 "ALLOCATED  OBJECTS  SHARE   AT END  WHERE (leaf first)\n"
			 " 30.0 MiB      300  96.8%      0 B  build < main\n"
			 "  1.0 MiB       10   3.2%      0 B  parse < main\n"
			 "  5.0 KiB        1   0.0%  5.0 KiB  last < main\n");
	free(text);
	text = table_of(profile, (struct table_options){.weight = WEIGHT_FREED});
	assert_has(text,
		   "freed of what was allocated during the run: 31.0 MiB in 310 objects, exact\n");
	assert_null(strstr(text, "last"));
	free(text);
	profile__free(profile);
}

static void weights_that_are_no_bytes(void **state)
{
	struct profile *profile = freed_at_the_end(1);
	char *text = table_of(profile, (struct table_options){.weight = WEIGHT_OBJECTS});

	(void)state;
	assert_has(text, "\n\nOBJECTS   SHARE   AT END  WHERE (leaf first)\n"
			 "      1  100.0%  5.0 KiB  last < main\n");
	free(text);
	profile->growth.stacks_known = true;
	profile->ended = false;
	for (size_t i = 0; i < profile->n_sites; i++)
		profile->sites[i].growth =
			(struct growth){i ? -100 : 2048, i ? -200 : 1024, i ? 0 : 3072};
	text = table_of(profile, (struct table_options){.weight = WEIGHT_GROWTH});
	assert_has(text, "GROWTH/s  95 % INTERVAL  OBJECTS   SHARE");
	assert_has(text, "\n 2.0 KiB  1.0 - 3.0 KiB  ");
	free(text);
	profile__free(profile);
}

/* Churn of the same command: figures per second, over its run of ten seconds. */
static void a_table_of_churn(void **state)
{
	struct profile *profile = freed_at_the_end(1);
	char *text;

	(void)state;
	profile->life.ages_known = profile->life.living_known = true;
	for (size_t i = 0; i < profile->n_sites; i++) {
		double *ended = profile->sites[i].life.ended;

		if (profile->sites[i].alloc_objects == 300) {
			ended[1] = 149; /* 100us */
			ended[2] = 151;
		} else if (profile->sites[i].alloc_objects == 10) {
			ended[9] = 10;
		}
	}
	text = table_of(profile, (struct table_options){.churn = true, .width = 120});
	assert_has(
		text,
		"churn: 3.1 MiB/s in 31 objects/s, 100 % of the bytes freed again; half of the "
		"freed objects lived < 1ms\n"
		"\n"
		"  BYTES/s  OBJECTS/s       EACH  FREED  HALF LIVED     LIVE  WHERE (leaf first)\n"
		"  3.0 MiB         30  102.4 KiB   100%       < 1ms      0 B  build < main\n"
		"102.4 KiB          1  102.4 KiB   100%     > 1000s      0 B  parse < main\n"
		"    512 B        0.1    5.0 KiB     0%              5.0 KiB  last < main\n");
	free(text);
	profile->life.ages_known = false; /* as in a file of another tool */
	text = table_of(profile, (struct table_options){.churn = true, .top = 1});
	assert_has(text, "; how long it lived is not known here");
	assert_null(strstr(text, "HALF LIVED"));
	assert_has(text, "(2 more stacks)\n");
	free(text);
	profile__free(profile);
}

static int json_of_all(const struct profile *profile, struct sink *sink)
{
	return encode_json_with(profile, &(struct json_options){.all_stacks = true}, sink);
}

/* In windows, allocated bytes are an estimate. Here, a stack's own error is a fifth of its bytes,
 * and so is the error that all stacks share. */
static void churn_of_windows_has_intervals(void **state)
{
	struct profile *profile = freed_at_the_end(524288);
	char *text;

	(void)state;
	profile->mode = MODE_WINDOWED;
	profile->windows.n = 5;
	text = table_of(profile, (struct table_options){.churn = true, .width = 120});
	assert_null(strstr(text, "INTERVAL")); /* an older file does not tell the error */
	free(text);
	for (size_t i = 0; i < profile->n_sites; i++) {
		double error = profile->sites[i].alloc_bytes / 5;

		profile->sites[i].alloc_variance = error * error;
		profile->sites[i].alloc_common = error;
	}
	text = table_of(profile, (struct table_options){.churn = true, .width = 120});
	/* a gamma distribution with mean 3 and deviation 3 sqrt(2) / 5: 1.58 to 4.87 */
	assert_has(text, "  3.0 MiB     1.6 - 4.9 MiB         30");
	assert_has(text, "churn: 3.1 MiB/s (95 %: 1.6 - ");
	free(text);
	text = table_of(profile, (struct table_options){.weight = WEIGHT_ALLOCATED});
	assert_has(text, "30.0 MiB  15.7 - 48.8 MiB      300");
	free(text);
	text = encoded(json_of_all, profile);
	/* the quantiles of a gamma distribution of shape 12.5, by bisection of its series */
	assert_has(text, "\"alloc_bytes\":31457280,\"alloc_bytes_low\":16508428,"
			 "\"alloc_bytes_high\":51145094");
	free(text);
	profile__free(profile);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_table_of_the_highest_moment),
		cmocka_unit_test(several_threads_are_no_exact_moment),
		cmocka_unit_test(estimates_have_intervals),
		cmocka_unit_test(missed_calls_are_told),
		cmocka_unit_test(a_table_of_what_was_allocated),
		cmocka_unit_test(weights_that_are_no_bytes),
		cmocka_unit_test(a_table_of_churn),
		cmocka_unit_test(churn_of_windows_has_intervals),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
