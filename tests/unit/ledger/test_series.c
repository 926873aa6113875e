// SPDX-License-Identifier: BSD-2-Clause
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "ledger/series.h"

#define S 1000000000ULL

/* Adds a table of n sites. Site i holds i times `bytes`. */
static void add(struct series *series, uint64_t now, size_t n, uint64_t bytes)
{
	static struct abi_site_key keys[100];
	static struct abi_site sites[100];
	const struct capture_table table = {.keys = keys, .values = sites, .n = n};

	for (size_t i = 0; i < n; i++) {
		keys[i] = (struct abi_site_key){.stack = {.lo = 1000 - i, .hi = i}, .process = 7};
		sites[i] =
			(struct abi_site){.alloc_bytes = 2 * i * bytes, .freed_bytes = i * bytes};
	}
	assert_int_equal(series__add(series, now, &table), 0);
}

static double bytes_at(const struct series_snapshot *snapshot, size_t i)
{
	struct abi_site_key key = {.stack = {.lo = 1000 - i, .hi = i}, .process = 7};

	return series__bytes(snapshot, &key);
}

static void what_was_held_is_found(void **state)
{
	struct series series = {};

	(void)state;
	add(&series, S, 50, 10);
	add(&series, 2 * S, 60, 20);
	assert_int_equal(series.n, 2);
	assert_true(bytes_at(&series.snapshots[0], 49) == 490);
	assert_true(bytes_at(&series.snapshots[0], 55) == 0); /* this site did not exist yet */
	assert_true(bytes_at(&series.snapshots[1], 55) == 1100);
	series__free(&series);
}

static void long_runs_are_thinned_out(void **state)
{
	struct series series = {};
	uint64_t now;

	(void)state;
	for (now = S; now < 1000 * S; now += S / 10)
		if (series__is_due(&series, now))
			add(&series, now, 3, 1);
	assert_true(series.n <= SERIES_MAX && series.n >= SERIES_MAX / 2);
	/* the snapshots reach to the end and are evenly spread */
	assert_true(series.snapshots[series.n - 1].time_ns > 900 * S);
	for (size_t i = 1; i < series.n; i++) {
		uint64_t step = series.snapshots[i].time_ns - series.snapshots[i - 1].time_ns;

		assert_true(step > 15 * S && step < 80 * S);
	}
	series__free(&series);
}

static void boundaries_are_in_the_last_two_thirds(void **state)
{
	const struct series_snapshot *bounds[SERIES_SEGMENTS];
	struct series series = {};
	size_t n;

	(void)state;
	for (uint64_t now = S; now <= 30 * S; now += S)
		add(&series, now, 3, 1);
	n = series__boundaries(&series, 0, 30 * S, bounds);
	assert_int_equal(n, SERIES_SEGMENTS);
	assert_true(bounds[0]->time_ns == 10 * S);
	for (size_t i = 1; i < n; i++)
		assert_true(bounds[i]->time_ns > bounds[i - 1]->time_ns + S);
	assert_true(bounds[n - 1]->time_ns < 30 * S - S);
	/* a run with few snapshots */
	assert_int_equal(series__boundaries(&series, 0, S / 2, bounds), 0);
	assert_int_equal(series__boundaries(&series, 0, 3 * S, bounds), 2);
	series__free(&series);
	assert_int_equal(series__boundaries(&series, 0, 30 * S, bounds), 0);
}

/* A size that grows at a constant rate surely grows. A size that rises and falls may not grow. */
static void sizes_have_a_trend(void **state)
{
	const uint64_t second = 1000000000;
	struct sizes sizes = {};
	struct growth growth;

	(void)state;
	for (uint64_t i = 0; i <= 30; i++)
		sizes__add(&sizes, (1 + i) * second, (100 << 20) + i * 50000);
	growth = sizes__trend(&sizes, 7 * second, 31 * second);
	assert_true(fabs(growth.bytes_per_s - 50000) < 1);
	assert_true(growth.low > 45000 && growth.high < 55000);
	growth = sizes__trend(&sizes, 28 * second, 31 * second);
	assert_true(fabs(growth.bytes_per_s - 50000) < 1 && isnan(growth.low));
	sizes = (struct sizes){};
	for (uint64_t i = 0; i <= 30; i++)
		sizes__add(&sizes, (1 + i) * second,
			   (100 << 20) + (i % 8 < 4 ? i * 10000 : 400000));
	growth = sizes__trend(&sizes, 7 * second, 31 * second);
	assert_true(growth.low < 0 && growth.high > 0);
	/* two sizes give a line, but do not show its error */
	sizes = (struct sizes){};
	sizes__add(&sizes, 1 * second, 100 << 20);
	sizes__add(&sizes, 31 * second, 101 << 20);
	growth = sizes__trend(&sizes, 7 * second, 31 * second);
	assert_true(growth.bytes_per_s > 0 && isnan(growth.low) && isnan(growth.high));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_was_held_is_found),
		cmocka_unit_test(long_runs_are_thinned_out),
		cmocka_unit_test(boundaries_are_in_the_last_two_thirds),
		cmocka_unit_test(sizes_have_a_trend),
	};

	return cmocka_run_group_tests_name("series", tests, NULL, NULL);
}
