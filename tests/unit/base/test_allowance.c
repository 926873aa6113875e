// SPDX-License-Identifier: BSD-2-Clause
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include "base/allowance.h"

#define S 1000000000ULL

static void test_renews_with_time(void **state)
{
	struct allowance a = ALLOWANCE(100, 5);

	(void)state;
	assert_true(allowance__renew(&a, 7 * S) == 100); /* no time counts before the first call */
	a.left -= 130;
	assert_true(allowance__renew(&a, 8 * S) == -25);
	assert_true(allowance__renew(&a, 8 * S) == -25);
	assert_true(allowance__renew(&a, 20 * S) == 35);
	assert_true(allowance__renew(&a, 1000 * S) == 100); /* never more than at the beginning */
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_renews_with_time)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
