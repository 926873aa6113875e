// SPDX-License-Identifier: BSD-2-Clause
/* Compares with independent truth: printed tables of chi-squared, closed forms, and simulation with
 * a generator that shares nothing with the code under test. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "profile/estimate.h"

#include "random.h"

#define R 4096

static void assert_close(double value, double expected, double relative)
{
	if (!(fabs(value - expected) <= relative * fabs(expected)))
		fail_msg("%.12g is not %.12g within %g", value, expected, relative);
}

static void chi2_agrees_with_printed_tables(void **state)
{
	static const struct {
		double df, low, high; /* q = 0.025, 0.975 */
	} table[] = {
		{1, 0.000982069, 5.023886}, {2, 0.0506356, 7.377759},
		{3, 0.2157953, 9.348404},   {4, 0.4844186, 11.143287},
		{5, 0.8312116, 12.832502},  {10, 3.246973, 20.483177},
		{20, 9.590777, 34.169607},  {30, 16.790772, 46.979242},
		{50, 32.357364, 71.420195}, {100, 74.221927, 129.561197},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
		assert_close(chi2_quantile(0.025, table[i].df), table[i].low, 6e-7);
		assert_close(chi2_quantile(0.975, table[i].df), table[i].high, 1e-7);
	}
	/* Two degrees of freedom make an exponential distribution. */
	assert_close(chi2_quantile(0.3, 2), -2 * log(0.7), 1e-12);
	assert_close(chi2_quantile(1e-9, 2), -2 * log1p(-1e-9), 1e-12);
}

/* For even df the upper tail is a Poisson sum. */
static double chi2_cdf_even(double x, int df)
{
	long double term, sum = 0;

	for (int k = 0; k < df / 2; k++) {
		term = -x / 2 + k * logl((long double)x / 2) - lgammal(k + 1.0L);
		sum += expl(term);
	}
	return (double)(1 - sum);
}

static void chi2_inverts_the_poisson_sum(void **state)
{
	static const int dfs[] = {2, 6, 40, 300, 1000, 1998, 2000, 2002, 6000};
	static const double qs[] = {0.001, 0.025, 0.5, 0.975, 0.999};

	(void)state;
	for (size_t i = 0; i < sizeof(dfs) / sizeof(dfs[0]); i++) {
		for (size_t k = 0; k < sizeof(qs) / sizeof(qs[0]); k++)
			assert_close(chi2_cdf_even(chi2_quantile(qs[k], dfs[i]), dfs[i]), qs[k],
				     1e-7);
	}
}

/* df = 1/2: with t = u^4, P(1/4, x) = 4 / Gamma(1/4) times the integral of exp(-u^4) up to x^(1/4).
 */
static void chi2_of_half_a_degree(void **state)
{
	static const double qs[] = {0.025, 0.3, 0.5, 0.9, 0.975};

	(void)state;
	for (size_t k = 0; k < sizeof(qs) / sizeof(qs[0]); k++) {
		double end = pow(chi2_quantile(qs[k], 0.5) / 2, 0.25), sum = 0;
		int n = 2000; /* Simpson's rule */

		for (int i = 0; i <= n; i++)
			sum += exp(-pow(end * i / n, 4)) * (i == 0 || i == n ? 1 : i % 2 ? 4 : 2);
		assert_close(4 * sum * end / n / 3 / 3.6256099082219083, qs[k], 1e-9);
	}
}

static void chi2_of_very_many_degrees(void **state)
{
	(void)state;
	for (double df = 1e5; df < 1e13; df *= 10) {
		/* the approximation of Wilson and Hilferty, whose error is about df^-3/2 */
		double a = 2 / (9 * df), z = 1.959963984540054;

		assert_close(chi2_quantile(0.975, df), df * pow(1 - a + z * sqrt(a), 3), 1e-8);
		assert_close(chi2_quantile(0.025, df), df * pow(1 - a - z * sqrt(a), 3), 1e-8);
	}
}

static void chi2_grows_and_stays_finite(void **state)
{
	double last_low = 0, last_high = 0;

	(void)state;
	for (double df = 0.5; df < 1e12; df *= 1.01) {
		double low = chi2_quantile(0.025, df), high = chi2_quantile(0.975, df);

		assert_true(isfinite(low) && isfinite(high));
		assert_true(low > last_low && high > last_high && low < df && high > df);
		last_low = low;
		last_high = high;
	}
	assert_true(isnan(chi2_quantile(0.5, 0)));
	assert_true(isnan(chi2_quantile(0.5, -1)));
	assert_true(isnan(chi2_quantile(NAN, 3)));
	assert_true(chi2_quantile(0, 3) == 0);
	assert_true(isinf(chi2_quantile(1, 3)));
}

static void probability(void **state)
{
	(void)state;
	assert_close(estimate__probability(R, R), 0.6321205588285577, 1e-15);
	assert_close(estimate__probability(1, 1ull << 40), 0x1p-40, 1e-12);
	assert_close(estimate__probability(0, 1000), estimate__probability(1, 1000), 0);
	assert_true(estimate__probability(UINT64_MAX, R) == 1);
	assert_true(estimate__probability(1, 1) == 1);
	assert_true(estimate__probability(5, 0) == 1);
}

static void exact_mode_has_no_error(void **state)
{
	struct estimate e = {};
	struct interval interval;

	(void)state;
	estimate__add(&e, 10, 1);
	estimate__add(&e, 0, 1);
	estimate__add(&e, 90, 1);
	interval = estimate__interval(&e);
	assert_true(e.objects == 3 && e.bytes == 100 && e.variance == 0 && e.samples == 3);
	assert_true(interval.low == 100 && interval.high == 100);
}

/* k samples of one small size are a Poisson count, whose exact intervals (Garwood) are in printed
 * tables. */
static void small_counts_give_garwoods_intervals(void **state)
{
	static const struct {
		int k;
		double low, high;
	} table[] = {{1, 0.0253178, 5.571643}, {3, 0.6186721, 8.767273}, {10, 4.795389, 18.39036}};

	(void)state;
	for (size_t i = 0; i < 3; i++) {
		struct estimate e = {};
		struct interval interval;

		for (int k = 0; k < table[i].k; k++)
			estimate__add(&e, 1, 1ull << 30);
		interval = estimate__interval(&e);
		assert_close(interval.low, table[i].low * 0x1p30, 1e-6);
		assert_close(interval.high, table[i].high * 0x1p30, 1e-6);
	}
}

static void interval_survives_the_ends_of_the_range(void **state)
{
	static const uint64_t sizes[] = {
		0,	 1,	   R,	       40 * R,	   300 * R,	  700 * R,
		744 * R, 1000 * R, 1ull << 40, 1ull << 62, UINT64_MAX / 4};

	(void)state;
	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		for (int n = 1; n < 4; n++) {
			struct estimate e = {};
			struct interval interval;

			for (int k = 0; k < n; k++)
				estimate__add(&e, sizes[i], R);
			interval = estimate__interval(&e);
			assert_true(isfinite(interval.low) && isfinite(interval.high));
			assert_true(interval.low <= e.bytes && e.bytes <= interval.high);
			assert_true(interval.low >= (double)e.sampled_bytes * (1 - 1e-15));
		}
	}
	/* the variance is negligible, compared with the square of the total */
	struct estimate e = {
		.samples = 1, .bytes = 1e18, .variance = 5e-324, .variance_max = 5e-324};
	struct interval interval = estimate__interval(&e);

	assert_true(interval.low == 1e18 && interval.high == 1e18);
	interval = estimate__interval(&(struct estimate){});
	assert_true(interval.low == 0 && interval.high == 0);
}

/* Simulates the sampler. For each process, the sampler draws a distance from an exponential
 * distribution, and counts it down by the allocated bytes. */
static void estimates_are_unbiased(void **state)
{
	static const uint64_t sizes[] = {8, 100, 3000, R, 3 * R};
	double bytes = 0, objects = 0, square = 0, variance = 0, true_bytes = 0, n_objects = 0;
	const int runs = 400, allocations = 2000;

	(void)state;
	random_state = 1;
	for (int i = 0; i < allocations; i++) {
		true_bytes += (double)sizes[i % 5];
		n_objects++;
	}
	for (int run = 0; run < runs; run++) {
		double distance = -log(random_unit()) * R;
		struct estimate e = {};

		for (int i = 0; i < allocations; i++) {
			uint64_t size = sizes[i % 5];

			distance -= (double)size;
			if (distance > 0)
				continue;
			estimate__add(&e, size, R);
			distance = -log(random_unit()) * R; /* the distance has no memory */
		}
		bytes += e.bytes / runs;
		objects += e.objects / runs;
		variance += e.variance / runs;
		square += (e.bytes - true_bytes) * (e.bytes - true_bytes) / runs;
	}
	/* four standard errors of the mean of the runs */
	assert_close(bytes, true_bytes, 4 * sqrt(variance / runs) / true_bytes);
	/* the 8-byte objects dominate the error: 400 of them at 1/p = 512 each */
	assert_close(objects, n_objects, 4 * sqrt(400.0 * 512 / runs) / n_objects);
	/* the standard error of a sample variance of 400 runs is 1 / sqrt(200) = 7 % */
	assert_close(variance, square, 0.25);
}

/* How often the interval contains the truth, in 2000 draws of n objects of size_a and m of size_b.
 * A draw without a sample counts as a miss. With given_one, such a draw is repeated, because a
 * stack without samples does not appear in a profile. */
static double coverage(int n, uint64_t size_a, int m, uint64_t size_b, int given_one)
{
	double truth = (double)n * (double)size_a + (double)m * (double)size_b;
	double p_a = 1 - exp(-(double)size_a / R), p_b = 1 - exp(-(double)size_b / R);
	int held = 0, draws = 2000;

	random_state = (uint64_t)n * 1000003 + size_a * 17 + (uint64_t)m;
	for (int i = 0; i < draws; i++) {
		struct estimate e = {};
		struct interval interval;

		do {
			for (int k = 0; k < n; k++) {
				if (random_unit() < p_a)
					estimate__add(&e, size_a, R);
			}
			for (int k = 0; k < m; k++) {
				if (random_unit() < p_b)
					estimate__add(&e, size_b, R);
			}
		} while (given_one && !e.samples);
		interval = estimate__interval(&e);
		held += interval.low <= truth && truth <= interval.high;
	}
	return (double)held / draws;
}

static void intervals_hold_the_truth(void **state)
{
	static const struct {
		int n;
		uint64_t size_a;
		int m;
		uint64_t size_b;
		int given_one;
	} cases[] = {
		/* 0.1, 0.5, 1, 2 expected samples; draws without a sample are repeated */
		{13, 32, 0, 0, 1},
		{64, 32, 0, 0, 1},
		{128, 32, 0, 0, 1},
		{256, 32, 0, 0, 1},
		/* 4, 10, 50, 300 expected samples */
		{512, 32, 0, 0, 0},
		{1280, 32, 0, 0, 0},
		{400, 512, 0, 0, 0},
		{2400, 512, 0, 0, 0},
		/* blocks as large as the sampling interval or larger, which are seldom missed */
		{8, R, 0, 0, 0},
		{100, R, 0, 0, 0},
		{2, 3 * R, 0, 0, 0},
		{10, 3 * R, 0, 0, 0},
		{40, 5 * R, 0, 0, 0},
		/* mixed */
		{500, 64, 3, 2 * R, 0},
		{2000, 16, 1, 8 * R, 0},
		{1000, 128, 20, R, 0},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		double held = coverage(cases[i].n, cases[i].size_a, cases[i].m, cases[i].size_b,
				       cases[i].given_one);

		if (held < 0.93)
			fail_msg("case %zu: the interval holds the truth in %.1f %% of draws", i,
				 100 * held);
	}
}

static void merge_is_addition(void **state)
{
	struct estimate a = {}, b = {}, both = {};

	(void)state;
	estimate__add(&a, 10, R);
	estimate__add(&b, 5000, R);
	estimate__add(&both, 10, R);
	estimate__add(&both, 5000, R);
	estimate__merge(&a, &b);
	assert_true(a.samples == 2 && a.sampled_bytes == 5010);
	assert_close(a.bytes, both.bytes, 1e-15);
	assert_close(a.objects, both.objects, 1e-15);
	assert_close(a.variance, both.variance, 1e-15);
	assert_close(a.variance_max, both.variance_max, 0);
}

/* The limit of a process's memory holds for the sum of its parts, so the largest of the parts'
 * limits becomes the limit of the sum. If a part with memory has no limit, the sum has none. The
 * limits of several processes are added up. */
static void limits_are_of_a_process(void **state)
{
	const struct estimate one = {.bytes = 100, .variance = 1000, .most = 120},
			      other = {.bytes = 40, .variance = 4000, .most = 150},
			      free = {.bytes = 60, .variance = 3000}, none = {};
	struct estimate sum = none;

	(void)state;
	estimate__merge(&sum, &one);
	assert_true(sum.most == 120);
	estimate__merge(&sum, &other);
	assert_true(sum.most == 150);
	estimate__merge(&sum, &none);
	assert_true(sum.most == 150);
	estimate__merge(&sum, &free);
	assert_true(sum.most == 0);
	/* 200 bytes with the variance 8000: the upper end is near 200 + 1.96 * 89.4 = 375 */
	assert_true(estimate__interval(&sum).high > 360);
	estimate__merge(&sum, &one);
	assert_true(sum.most == 0);
	sum = none;
	estimate__merge_process(&sum, &one);
	estimate__merge_process(&sum, &other);
	assert_true(sum.most == 270);
	estimate__merge_process(&sum, &none);
	assert_true(sum.most == 270);
	estimate__merge_process(&sum, &free);
	estimate__merge_process(&sum, &other);
	assert_true(sum.most == 0);
}

/* At R = 1000, a block of 693.147 bytes is sampled with p = 1/2 and stands for twice its size. The
 * test adds such samples, and a large one. */
static void weights_and_their_squares(void **state)
{
	struct estimate e = {}, other = {};
	double half = 1000 * M_LN2;

	(void)state;
	for (int i = 0; i < 3; i++)
		estimate__add_seen(&e, 1000, 0.5);
	estimate__add_seen(&other, 50000, 1);
	assert_close(estimate__squares(&e), 3 * 4e6, 1e-12);
	estimate__merge(&e, &other);
	assert_close(estimate__squares(&e), 3 * 4e6 + 25e8, 1e-12);
	e.squares = 0; /* as from a file without squares: 56000 bytes in 4 equal parts */
	assert_close(estimate__squares(&e), 56000.0 * 56000 / 4, 1e-12);
	e.variance = 1e10;
	assert_close(estimate__squares(&e), 1e10, 1e-12);
	assert_close(estimate__weight_at(2 * half, 1000, 1000), 2 * half, 1e-9);
	assert_close(estimate__weight_at(2 * half, 1000, 1), half, 1e-9);
	/* 693 bytes at 2000: p = 1 - sqrt(1/2) */
	assert_close(estimate__weight_at(2 * half, 1000, 2000), half / (1 - sqrt(0.5)), 1e-9);
	assert_close(estimate__weight_at(half, 1, 1000), 2 * half, 1e-9);
	/* a block much larger than R stands for itself; a small one stands for R plus half its
	 * size */
	assert_close(estimate__weight_at(1e9, 1000, 2000), 1e9, 1e-9);
	assert_close(estimate__weight_at(1 << 20, 1 << 20, 1 << 16), (1 << 16) + 0.5, 1e-9);
	assert_close(estimate__weight_at((1 << 20) + 8, 1 << 20, 1 << 16), (1 << 16) + 8, 1e-5);
}

/* In windows, the error of a figure may exceed the figure. The interval must still be as wide as
 * the error. */
static void test_error_larger_than_the_figure(void **state)
{
	(void)state;
	for (double error = 1.1; error < 1000; error *= 1.5) {
		struct estimate e = {.samples = 5,
				     .objects = 10,
				     .bytes = 1e6,
				     .variance = 1e12 * error * error};
		struct interval interval = estimate__interval(&e);

		assert_true(interval.high >= 1e6 * (1 + 1.95 * error));
		assert_true(interval.low < 1e5);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(chi2_agrees_with_printed_tables),
		cmocka_unit_test(chi2_inverts_the_poisson_sum),
		cmocka_unit_test(chi2_of_half_a_degree),
		cmocka_unit_test(chi2_of_very_many_degrees),
		cmocka_unit_test(chi2_grows_and_stays_finite),
		cmocka_unit_test(probability),
		cmocka_unit_test(exact_mode_has_no_error),
		cmocka_unit_test(small_counts_give_garwoods_intervals),
		cmocka_unit_test(interval_survives_the_ends_of_the_range),
		cmocka_unit_test(estimates_are_unbiased),
		cmocka_unit_test(intervals_hold_the_truth),
		cmocka_unit_test(merge_is_addition),
		cmocka_unit_test(limits_are_of_a_process),
		cmocka_unit_test(weights_and_their_squares),
		cmocka_unit_test(test_error_larger_than_the_figure),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
