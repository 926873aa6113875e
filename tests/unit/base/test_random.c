// SPDX-License-Identifier: BSD-2-Clause
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <cmocka.h>

#include "base/random.h"

/* The first numbers of splitmix64 with the seed 0, as Java's SplittableRandom(0).nextLong() gives
 * them. */
static void it_is_splitmix64(void **state)
{
	uint64_t seed = 0;

	(void)state;
	assert_int_equal(random__next(&seed), 0xe220a8397b1dcdafULL);
	assert_int_equal(random__next(&seed), 0x6e789e6aa1b965f4ULL);
	assert_int_equal(random__next(&seed), 0x06c45d188009454fULL);
}

static void units_are_below_one(void **state)
{
	uint64_t seed = 1;
	double sum = 0;

	(void)state;
	for (int i = 0; i < 10000; i++) {
		double x = random__unit(&seed);

		assert_true(x >= 0 && x < 1);
		sum += x;
	}
	assert_true(sum > 4800 && sum < 5200); /* the standard error of the sum is 29 */
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(it_is_splitmix64),
		cmocka_unit_test(units_are_below_one),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
