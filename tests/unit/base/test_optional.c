// SPDX-License-Identifier: BSD-2-Clause
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/optional.h"

static void only_finite_numbers_are_known(void **state)
{
	struct optional zeroed = {}, zero = optional__of(0), negative = optional__of(-1);

	(void)state;
	assert_true(!zeroed.known && isnan(optional__or_nan(zeroed)));
	assert_true(zero.known && optional__or_nan(zero) == 0);
	assert_true(negative.known && optional__or_nan(negative) == -1);
	assert_true(optional__is_above(zero, -1) && !optional__is_above(zero, 0));
	assert_false(optional__is_above(zeroed, -1));
	assert_false(optional__of(NAN).known || optional__of(INFINITY).known);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(only_finite_numbers_are_known)};

	return cmocka_run_group_tests_name("optional", tests, NULL, NULL);
}
