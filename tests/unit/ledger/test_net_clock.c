// SPDX-License-Identifier: BSD-2-Clause
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <cmocka.h>

#include "ledger/net_clock.h"

#define S 1000000000ULL

#define assert_near(a, b) assert_true(fabs((a) - (b)) < 1e-9)

static void test_cost_is_taken_off(void **state)
{
	struct net_clock c = {};

	(void)state;
	assert_near(net_clock__at(&c, 5), 0);
	assert_int_equal(net_clock__add(&c, 10 * S, 7e9, 1e9, true), 0);
	assert_int_equal(net_clock__add(&c, 12 * S, 9e9, 1e9, true), 0); /* a gap: two seconds of CPU time */
	assert_int_equal(net_clock__add(&c, 13 * S, 10e9, 1.6e9, true), 0); /* a window: most of it is felt as cost */
	assert_near(net_clock__at(&c, 10 * S), 0);
	assert_near(net_clock__at(&c, 11 * S), 1);
	assert_near(net_clock__at(&c, 13 * S), 3 - 0.6 * NET_CLOCK_FELT);
	assert_near(net_clock__at(&c, 99 * S), 3 - 0.6 * NET_CLOCK_FELT);
	assert_near(net_clock__cost_at(&c, 12 * S + S / 2), 0.3);
	net_clock__free(&c);
}

/* Cost beyond all CPU time: the process has done something, all the same. */
static void test_never_stands_still(void **state)
{
	struct net_clock c = {};

	(void)state;
	net_clock__add(&c, 1 * S, 0, 0, true);
	net_clock__add(&c, 2 * S, 1e9, 3e9, true);
	assert_true(net_clock__at(&c, 2 * S) > 0.01);
	net_clock__add(&c, 3 * S, 0.5e9, 2e9, true); /* totals that step back */
	assert_true(net_clock__at(&c, 3 * S) >= net_clock__at(&c, 2 * S));
	net_clock__free(&c);
}

/* Of many points in a gap few are kept; those that must be are. */
static void test_room(void **state)
{
	struct net_clock c = {};

	(void)state;
	for (uint64_t i = 0; i < 100000; i++)
		assert_int_equal(net_clock__add(&c, (i + 1) * S / 100, (double)i * 1e7, 0, i % 100 == 0), 0);
	assert_true(c.n <= NET_CLOCK_MAX);
	for (uint64_t i = 0; i < 1000; i++)
		assert_true(fabs(net_clock__at(&c, (i * 100 + 1) * S / 100) - (double)i) < 1e-6);
	net_clock__free(&c);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_cost_is_taken_off),
		cmocka_unit_test(test_never_stands_still),
		cmocka_unit_test(test_room),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
