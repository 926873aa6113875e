// SPDX-License-Identifier: BSD-2-Clause
/* The kernel side's sampler, compiled for the host. Compares it with the C library's functions. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "sample.bpf.h"

/* xorshift64*: a generator of our own, so that the runs are the same everywhere. */
static uint64_t random_state = 88172645463325252ULL;

__u32 random_u32(void)
{
	random_state ^= random_state >> 12;
	random_state ^= random_state << 25;
	random_state ^= random_state >> 27;
	return (__u32)((random_state * 2685821657736338717ULL) >> 32);
}

long read_user_u64(__u64 *dst, __u64 addr)
{
	(void)dst;
	(void)addr;
	return -1;
}

static void highest_bit_is_log2(void **state)
{
	(void)state;
	for (int i = 0; i < 64; i++) {
		assert_int_equal(highest_bit(1ULL << i), i);
		assert_int_equal(highest_bit((1ULL << i) | 1), i);
	}
	assert_int_equal(highest_bit(~0ULL), 63);
}

static void logarithm_agrees_with_libm(void **state)
{
	double worst = 0;

	(void)state;
	assert_int_equal(neg_ln_q24(1ULL << 32), 0);
	for (uint64_t m = 1; m <= 1ULL << 32; m += 1 + m / 5003) {
		double want = -log((double)m / 4294967296.0);
		double got = (double)neg_ln_q24(m) / 16777216.0;

		worst = fmax(worst, fabs(got - want));
	}
	/* straight lines between 257 points are off by (1/256)^2 / 8 = 1.9e-6; the table is
	 * rounded, too */
	assert_true(worst < 3e-6);
}

static void distances_are_exponential(void **state)
{
	enum { N = 400000 };
	const uint64_t interval = 524288;
	double sum = 0, squares = 0;
	uint64_t below[3] = {0, 0, 0};

	(void)state;
	for (int i = 0; i < N; i++) {
		int64_t d = draw_distance(interval);

		assert_true(d >= 1);
		sum += (double)d;
		squares += (double)d * (double)d;
		below[0] += (uint64_t)d <= interval / 100;
		below[1] += (uint64_t)d <= interval;
		below[2] += (uint64_t)d <= interval * 4;
	}
	/* mean R, second moment 2 R^2; standard errors R/sqrt(N), sqrt(20) R^2 / sqrt(N) */
	assert_true(fabs(sum / N / (double)interval - 1) < 5 / sqrt(N));
	assert_true(fabs(squares / N / (double)interval / (double)interval - 2) <
		    5 * sqrt(20) / sqrt(N));
	for (int i = 0; i < 3; i++) {
		double x[3] = {0.01, 1, 4}, p = 1 - exp(-x[i]);

		assert_true(fabs((double)below[i] / N - p) < 5 * sqrt(p * (1 - p) / N) + 1e-6);
	}
}

/* Checks which share of the allocations of one size is sampled, while allocations of other sizes
 * come between them. */
static void check_probability(uint64_t size, uint64_t interval, int n)
{
	struct abi_process_cpu cpu = {};
	double p = 1 - exp(-(double)(size ? size : 1) / (double)interval);
	int taken = 0;

	for (int i = 0; i < n; i++) {
		taken += sample_take(&cpu, size, interval);
		/* other allocations on the same CPU must not matter */
		sample_take(&cpu, random_u32() % (2 * interval), interval);
	}
	assert_true(fabs((double)taken / n - p) <= 5 * sqrt(p * (1 - p) / n) + 1e-9);
}

static void probability_is_right(void **state)
{
	(void)state;
	check_probability(0, 64, 1000000);
	check_probability(1, 64, 1000000);
	check_probability(16, 64, 1000000);
	check_probability(64, 64, 1000000);
	check_probability(200, 64, 1000000);
	check_probability(64, 65536, 3000000);
	check_probability(4096, 65536, 1000000);
	check_probability(65536, 65536, 1000000);
	check_probability(1 << 20, 65536, 100000);
	check_probability(1, 2, 1000000);
	check_probability(3, 2, 1000000);
}

static void first_allocation_is_no_special_one(void **state)
{
	int taken = 0;

	(void)state;
	for (int i = 0; i < 1000000; i++) {
		struct abi_process_cpu cpu = {};

		taken += sample_take(&cpu, 64, 4096);
	}
	assert_true(fabs(taken / 1e6 - (1 - exp(-64.0 / 4096))) < 5 * sqrt(0.0155 / 1e6));
}

static void interval_of_one_takes_all(void **state)
{
	struct abi_process_cpu cpu = {};

	(void)state;
	for (uint64_t size = 0; size < 1000; size++) {
		assert_true(sample_take(&cpu, size, 1));
		assert_int_equal(weight_q16(size, 1), 1 << 16);
		assert_int_equal(weighted_bytes(size, weight_q16(size, 1)), size);
	}
}

static void absurd_sizes_are_left_out(void **state)
{
	struct abi_process_cpu cpu = {};

	(void)state;
	assert_false(sample_take(&cpu, ~0ULL, 4096));
	assert_false(sample_take(&cpu, 1ULL << 63, 4096));
	/* absurd sizes do not disturb the countdown either */
	assert_int_equal(cpu.drawn_for, 0);
}

/* The rest of a distance for a long interval must not delay the samples of a short interval. */
static void another_interval_draws_anew(void **state)
{
	struct abi_process_cpu cpu = {};
	int taken = 0;

	(void)state;
	for (int i = 0; i < 100000; i++) {
		sample_take(&cpu, 64, 1ULL << 32);
		taken += sample_take(&cpu, 64, 4096);
	}
	assert_true(fabs(taken / 1e5 - (1 - exp(-64.0 / 4096))) < 5 * sqrt(0.0155 / 1e5));
}

static void weight_agrees_with_libm(void **state)
{
	static const uint64_t intervals[] = {2, 3, 64, 4096, 65536, 524288, 1 << 30, 1ULL << 32};

	(void)state;
	for (size_t i = 0; i < sizeof(intervals) / sizeof(intervals[0]); i++) {
		uint64_t r = intervals[i];

		for (uint64_t z = 1; z < r * 40 && z < 1ULL << 40; z += 1 + z / 257) {
			double p = -expm1(-(double)z / (double)r), want = 1 / p;
			double got = (double)weight_q16(z, r) / 65536;
			double bytes = (double)weighted_bytes(z, weight_q16(z, r));

			/* allowed: about one unit in the last of 16 binary places, and 4e-6 of the
			 * value */
			assert_true(fabs(got - want) < 1.5 / 65536 + 4e-6 * want);
			assert_true(fabs(bytes - (double)z / p) <
				    1 + ((double)z / 65536) * 1.5 + 4e-6 * (double)z / p);
		}
	}
	assert_int_equal(weight_q16(0, 4096), weight_q16(1, 4096));
	/* no overflow at the ends */
	assert_int_equal(weighted_bytes(1ULL << 46, weight_q16(1ULL << 46, 1ULL << 32)),
			 1ULL << 46);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(highest_bit_is_log2),
		cmocka_unit_test(logarithm_agrees_with_libm),
		cmocka_unit_test(distances_are_exponential),
		cmocka_unit_test(probability_is_right),
		cmocka_unit_test(first_allocation_is_no_special_one),
		cmocka_unit_test(interval_of_one_takes_all),
		cmocka_unit_test(another_interval_draws_anew),
		cmocka_unit_test(absurd_sizes_are_left_out),
		cmocka_unit_test(weight_agrees_with_libm),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
