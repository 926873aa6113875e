// SPDX-License-Identifier: BSD-2-Clause
/* The kernel side's arithmetic for samples that a target reports itself, compiled for the host. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "marker.bpf.h"

/* xorshift64* */
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

/* The weight that a target computes at mean interval R. */
static double weight_at(double size, double R)
{
	return size / -expm1(-size / R);
}

static void numbers_are_widened(void **state)
{
	(void)state;
	assert_int_equal(marker_widen(0x1122334455667788, 8, 0), 0x1122334455667788);
	assert_int_equal(marker_widen(0x1122334455667788, 8, 1), 0x1122334455667788);
	assert_int_equal(marker_widen(0x11223344f5667788, 4, 0), 0xf5667788);
	assert_int_equal(marker_widen(0x11223344f5667788, 4, 1), 0xfffffffff5667788);
	assert_int_equal(marker_widen(0x11223344f5668788, 2, 1), 0xffffffffffff8788);
	assert_int_equal(marker_widen(0x11223344f5667788, 1, 0), 0x88);
	assert_int_equal(marker_widen(0x11223344f5667778, 1, 1), 0x78);
}

/* A target computed a weight from its sampling interval. memtrace finds this interval again from
 * the weight, as exactly as a weight in whole bytes allows. The bytes that memtrace records are
 * those that the target reported. */
static void interval_is_found_again(void **state)
{
	static const double intervals[] = {1000, 4096, 65536, 524288, 1 << 24, 4294967296.0};

	(void)state;
	for (size_t i = 0; i < sizeof(intervals) / sizeof(*intervals); i++)
		for (double size = 1; size < 12 * intervals[i]; size = floor(size * 1.07 + 1)) {
			double R = intervals[i], weight = round(weight_at(size, R)), t = size / R;
			uint64_t found = marker_interval((uint64_t)size, (uint64_t)weight);
			uint64_t bytes =
				weighted_bytes((uint64_t)size, weight_q16((uint64_t)size, found));
			/* The error of R has two sources: the weight is rounded by up to half a
			 * byte, and the logarithm is not exact. */
			double per_byte = t < 1e-4 ? 1 : expm1(t) / t * -expm1(-t) / t;
			double room = 2 + R * 2e-5 + per_byte;

			room += t > 0.9 ? R * 4e-6 * exp(t) / t : 0;
			if (t < 8 && fabs((double)found - R) > room)
				fail_msg("R %g, size %g: found %g", R, size, (double)found);
			/* R and the bytes are whole numbers; the weight has 16 binary places */
			if (fabs((double)bytes - weight) > 2 + weight * 2e-5)
				fail_msg("R %g, size %g: %g, not %g", R, size, (double)bytes,
					 weight);
		}
}

/* A block that is sampled for sure has a variance of 0. */
static void sure_samples_are_exact(void **state)
{
	(void)state;
	assert_int_equal(marker_interval(1000, 1000), 1);
	assert_int_equal(marker_interval(1000, 999), 1); /* no estimator has such a weight */
	assert_int_equal(marker_interval(1000, 0), 1);
	assert_int_equal(marker_interval(0, 0), 1);
	assert_int_equal(weighted_bytes(100, weight_q16(100, marker_interval(100, 100))), 100);
}

/* Whatever a target reports, the result is an interval that later calculations can use. */
static void absurd_weights_do_no_harm(void **state)
{
	(void)state;
	for (int s = 0; s < 64; s++)
		for (int w = 0; w < 64; w++)
			for (int d = -1; d <= 1; d++) {
				uint64_t size = (1ULL << s) + (uint64_t)d;
				uint64_t weighted = (1ULL << w) - (uint64_t)d;
				uint64_t R = marker_interval(size, weighted);
				__u64 interval;

				assert_true(R >= 1 && R <= ABI_MAX_INTERVAL);
				weight_q16(size, R);
				marker_keep(size, weighted, 524288, &interval);
				assert_true(interval >= 1 && interval <= ABI_MAX_INTERVAL);
			}
}

/* If a target samples no more often than memtrace would, all its samples are kept. */
static void coarser_samples_are_all_kept(void **state)
{
	__u64 interval;

	(void)state;
	for (uint64_t size = 1; size < 1 << 24; size = size * 3 + 1) {
		uint64_t same = (uint64_t)round(weight_at((double)size, 524288));
		uint64_t coarse = (uint64_t)round(weight_at((double)size, 4194304));

		for (int i = 0; i < 20; i++) {
			/* a rounding error must not turn one interval into two */
			if (size < 8 * 524288) {
				assert_true(marker_keep(size, same + 1, 524288, &interval));
				assert_int_equal(interval, 524288);
			}
			assert_true(marker_keep(size, coarse, 524288, &interval));
			assert_in_range(interval, 4194304 - 4194304 / 100, 4194304 + 4194304 / 100);
		}
	}
}

/* If a target samples more often, the kept samples are as if memtrace had sampled. The target takes
 * a block of S bytes with the chance p(S, R). Of these samples, the share q = p(S, I) / p(S, R) is
 * kept. So the share of kept samples among n reports has the mean q and the standard error
 * sqrt(q (1 - q) / n). */
static void finer_samples_are_thinned(void **state)
{
	enum { N = 200000 };
	static const double sizes[] = {16, 1000, 65536, 300000, 1e6};
	const double R = 65536, I = 524288;

	(void)state;
	for (size_t s = 0; s < sizeof(sizes) / sizeof(*sizes); s++) {
		double size = sizes[s], q = weight_at(size, R) / weight_at(size, I);
		uint64_t weighted = (uint64_t)round(weight_at(size, R)), kept = 0;
		__u64 interval;

		for (int i = 0; i < N; i++) {
			kept += marker_keep((uint64_t)size, weighted, (uint64_t)I, &interval);
			assert_int_equal(interval, I);
		}
		if (fabs((double)kept / N - q) > 5 * sqrt(q * (1 - q) / N) + 1e-4)
			fail_msg("size %g: %g, and not %g", size, (double)kept / N, q);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(numbers_are_widened),
		cmocka_unit_test(interval_is_found_again),
		cmocka_unit_test(sure_samples_are_exact),
		cmocka_unit_test(absurd_weights_do_no_harm),
		cmocka_unit_test(coarser_samples_are_all_kept),
		cmocka_unit_test(finer_samples_are_thinned),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
