// SPDX-License-Identifier: BSD-2-Clause
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/bits.h"

#define N 200

/* Bits at the first and last place of a word, and beyond the end that the caller gives. */
static void bits_are_found(void **state)
{
	uint64_t bits[4] = {};

	(void)state;
	assert_true(bits__words(N) * 64 >= N && bits__words(0) == 1);
	bits__set(bits, 0);
	bits__set(bits, 63);
	bits__set(bits, 64);
	bits__set(bits, 150);
	assert_true(bits__test(bits, 63) && bits__test(bits, 64) && !bits__test(bits, 65));
	assert_int_equal(bits__next(bits, 0, N, true), 0);
	assert_int_equal(bits__next(bits, 1, N, true), 63);
	assert_int_equal(bits__next(bits, 65, N, true), 150);
	assert_int_equal(bits__next(bits, 65, 150, true), 150);
	assert_int_equal(bits__next(bits, 151, N, true), N);
	assert_int_equal(bits__next(bits, N, N, true), N);
	assert_int_equal(bits__next(bits, 63, N, false), 65);
	bits__clear(bits, 64);
	assert_int_equal(bits__next(bits, 63, N, false), 64);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(bits_are_found)};

	return cmocka_run_group_tests_name("bits", tests, NULL, NULL);
}
