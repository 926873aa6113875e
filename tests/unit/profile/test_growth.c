// SPDX-License-Identifier: BSD-2-Clause
/* Compares with independent truth: printed tables of Student's distribution, and simulated programs
 * whose growth is known. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <cmocka.h>

#include "profile/growth.h"

#include "random.h"

#define RUNS 2000
#define N    8 /* segments */

static unsigned poisson(double mean)
{
	double limit = exp(-mean), product = random_unit();
	unsigned n = 0;

	while (product > limit) {
		product *= random_unit();
		n++;
	}
	return n;
}

static void quantiles_are_the_printed_ones(void **state)
{
	(void)state;
	assert_true(fabs(student_quantile(1, false) - tan(0.475 * M_PI)) < 1e-3);
	assert_true(fabs(student_quantile(1, true) - tan(0.45 * M_PI)) < 1e-3);
	assert_true(fabs(student_quantile(7, false) - 2.365) < 1e-3);
	assert_true(fabs(student_quantile(13, false) - 2.160) < 1e-3);
	assert_true(fabs(student_quantile(13, true) - 1.771) < 1e-3);
	assert_true(fabs(student_quantile(30, false) - 2.042) < 1e-3);
	assert_true(fabs(student_quantile(120, false) - 1.980) < 1e-3);
	assert_true(fabs(student_quantile(120, true) - 1.658) < 1e-3);
}

/* Blocks of a leak are born at random, and some of them are sampled. Counts how often the interval
 * contains the truth. */
static void intervals_of_a_leak_hold_the_truth(void **state)
{
	static const double means[] = {3, 12, 60}; /* blocks seen per segment */

	(void)state;
	for (int m = 0; m < 3; m++) {
		int held = 0, significant = 0;

		for (int run = 0; run < RUNS; run++) {
			struct growth_segment segments[N];
			struct growth growth;

			for (int i = 0; i < N; i++) {
				double seconds = 0.5 + random_unit();

				segments[i] = (struct growth_segment){
					seconds, 100 * poisson(means[m] * seconds)};
			}
			growth = growth__estimate(segments, N, 100, false);
			held += growth.low <= 100 * means[m] && growth.high >= 100 * means[m];
			significant += growth__is_significant(&growth);
		}
		assert_true(held > 0.92 * RUNS);
		assert_true(significant > (m ? 0.98 : 0.9) * RUNS);
	}
}

/* Two to three samples of a leak are expected. Even without a sample, the leak may exist. */
static void what_was_not_seen_may_grow(void **state)
{
	const double quantum = 512 << 10, expected = 2.5;
	unsigned held = 0;

	(void)state;
	for (int run = 0; run < RUNS; run++) {
		struct growth_segment segments[N];
		struct growth growth;

		for (int i = 0; i < N; i++)
			segments[i] = (struct growth_segment){1, poisson(expected / N) * quantum};
		growth = growth__estimate(segments, N, quantum, false);
		held += growth.low <= expected * quantum / N &&
			growth.high >= expected * quantum / N;
	}
	/* it would be 0.91 if growth.high allowed for only one sample more */
	assert_true(held > 0.93 * RUNS);
}

/* A population in balance. The life of each block is drawn from an exponential distribution. */
static void what_is_in_balance_does_not_grow(void **state)
{
	static const double lives[] = {0.05, 0.3, 1, 3}; /* in segments */

	(void)state;
	for (int l = 0; l < 4; l++) {
		int grows = 0;

		for (int run = 0; run < RUNS; run++) {
			struct growth_segment segments[N] = {};
			double change[N] = {};

			/* births began long before the first segment */
			for (double birth = -30 * lives[l]; birth < N;
			     birth -= log(random_unit()) / 50) {
				double death = birth - log(random_unit()) * lives[l];

				if (birth >= 0 && birth < N)
					change[(int)birth] += 64;
				if (death >= 0 && death < N)
					change[(int)death] -= 64;
			}
			for (int i = 0; i < N; i++)
				segments[i] = (struct growth_segment){1, change[i]};
			grows += growth__estimate(segments, N, 64, false).low > 0;
		}
		assert_true(grows < 0.04 * RUNS);
	}
}

/* A population that is seen from its first block on. It grows until it is full. */
static void what_fills_up_does_not_grow_for_ever(void **state)
{
	int grows = 0;

	(void)state;
	for (int run = 0; run < RUNS; run++) {
		struct growth_segment segments[N] = {};

		for (double birth = 0; birth < N; birth -= log(random_unit()) / 50) {
			double death = birth - log(random_unit()) * 1.5;

			segments[(int)birth].bytes += 64;
			if (death < N)
				segments[(int)death].bytes -= 64;
		}
		for (int i = 0; i < N; i++)
			segments[i].seconds = 1;
		grows += growth__estimate(segments, N, 64, false).low > 0;
	}
	assert_true(grows < 0.04 * RUNS);
}

/* Live blocks by age, as windows show them: the older the blocks, the fewer are left. The first
 * case is a cache that replaces its blocks within the run. The second is this cache and a leak. */
static void what_goes_on_dying_does_not_grow(void **state)
{
	static const double lives[] = {2, 5}; /* segments */
	int grows[2] = {};

	(void)state;
	for (int l = 0; l < 2; l++)
		for (int run = 0; run < RUNS; run++)
			for (int leak = 0; leak < 2; leak++) {
				struct growth_segment segments[N] = {};

				for (int i = 0; i < N; i++)
					segments[i].seconds = 1;
				for (double age = 0; age < N; age -= log(random_unit()) / 200)
					if (random_unit() < exp(-(age + N / 2.0) / lives[l]))
						segments[(int)age].bytes += 64;
				for (double age = 0; leak && age < N;
				     age -= log(random_unit()) / 200)
					segments[(int)age].bytes += 64;
				grows[leak] += growth__estimate(segments, N, 64, true).low > 0;
			}
	assert_true(grows[0] < 0.05 * 2 * RUNS);
	assert_true(grows[1] > 0.8 * 2 * RUNS);
}

static void exact_growth_is_exact(void **state)
{
	struct growth_segment segments[N], burst[N] = {};
	struct growth growth;

	(void)state;
	for (int i = 0; i < N; i++) {
		segments[i] = (struct growth_segment){0.5, 4096};
		burst[i].seconds = 0.5;
	}
	growth = growth__estimate(segments, N, 0, false);
	assert_true(growth.bytes_per_s == 8192 && growth.low == 8192 && growth.high == 8192);
	assert_true(growth__is_significant(&growth));
	growth = growth__estimate(burst, N, 0, false);
	assert_true(growth.bytes_per_s == 0 && !growth__is_significant(&growth));
	/* growth in only one segment is no trend */
	burst[0].bytes = 1e6;
	growth = growth__estimate(burst, N, 0, false);
	assert_false(growth__is_significant(&growth));
	growth = growth__estimate(segments, 2, 0, false);
	assert_true(growth.bytes_per_s == 8192 && isnan(growth.low) &&
		    !growth__is_significant(&growth));
	growth = growth__estimate(segments, 0, 0, false);
	assert_true(growth.bytes_per_s == 0 && isnan(growth.high));
}

/* If the growth of each of two stacks may be 0, their sum may be 0, too. But if each growth may be
 * 0 only by sampling error, the two stacks together may surely grow. */
static void doubt_adds_up(void **state)
{
	const struct growth sure = {4, 3, 5}, nothing = {4, 0, 4}, noisy = {4, -0.5, 8.5};
	struct growth_sum sum = {.total = {NAN, NAN, NAN}}, noise = {};

	(void)state;
	growth_sum__add(&sum, &nothing);
	growth_sum__add(&sum, &nothing);
	assert_true(sum.total.bytes_per_s == 8 && sum.total.low == 0);
	growth_sum__add(&sum, &sure);
	assert_true(sum.total.bytes_per_s == 12 && sum.total.low == 3);
	growth_sum__add(&noise, &noisy);
	growth_sum__add(&noise, &noisy);
	assert_true(noise.total.bytes_per_s == 8 && noise.total.low > 0);
}

/* The growth of 100 may be 0 because of facts about the process, and not by chance. The growths of
 * 90 and 40 are uncertain by chance: each by 100 in both directions. */
static void order_of_a_sum_does_not_matter(void **state)
{
	static const struct growth growths[] = {{100, 0, 100}, {90, -10, 190}, {40, -60, 140}};
	static const int orders[][3] = {{0, 1, 2}, {0, 2, 1}, {1, 0, 2},
					{1, 2, 0}, {2, 0, 1}, {2, 1, 0}};

	(void)state;
	for (size_t i = 0; i < sizeof(orders) / sizeof(*orders); i++) {
		struct growth_sum sum = {};

		for (size_t j = 0; j < 3; j++)
			growth_sum__add(&sum, &growths[orders[i][j]]);
		assert_true(fabs(sum.total.bytes_per_s - 230) < 1e-9);
		assert_true(fabs(sum.total.low - (130 - 100 * sqrt(2))) < 1e-9);
		assert_true(fabs(sum.total.high - (230 + 100 * sqrt(2))) < 1e-9);
	}
}

/* Sure growth comes first, the largest first. Then comes growth that may be 0, the nearest to sure
 * first. Growth with an unknown interval comes after both. */
static void what_is_sure_comes_first(void **state)
{
	static const struct growth in_order[] = {
		{100, 50, 150}, {10, 9, 11}, {20, -1, 41},    {2.7e6, -1e6, 74e6}, {30, NAN, NAN},
		{5, NAN, NAN},	{0, 0, 0},   {NAN, NAN, NAN}, {-1, -2, 0},
	};
	const size_t n = sizeof(in_order) / sizeof(*in_order);

	(void)state;
	for (size_t i = 0; i < n; i++)
		for (size_t j = 0; j < n; j++) {
			bool tie = i == j || (i >= 6 && i <= 7 && j >= 6 && j <= 7);
			int order = growth__compare(&in_order[i], &in_order[j]);

			assert_true(tie ? order == 0 : (order < 0) == (i < j));
		}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(quantiles_are_the_printed_ones),
		cmocka_unit_test(intervals_of_a_leak_hold_the_truth),
		cmocka_unit_test(what_was_not_seen_may_grow),
		cmocka_unit_test(what_is_in_balance_does_not_grow),
		cmocka_unit_test(what_fills_up_does_not_grow_for_ever),
		cmocka_unit_test(what_goes_on_dying_does_not_grow),
		cmocka_unit_test(exact_growth_is_exact),
		cmocka_unit_test(doubt_adds_up),
		cmocka_unit_test(order_of_a_sum_does_not_matter),
		cmocka_unit_test(what_is_sure_comes_first),
	};

	return cmocka_run_group_tests_name("growth", tests, NULL, NULL);
}
