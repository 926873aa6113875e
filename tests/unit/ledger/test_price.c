// SPDX-License-Identifier: BSD-2-Clause
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include "ledger/price.h"

/* A process that needs own_ns for each call and feels `price` times the cost: n windows, some per cent of noise. */
static struct price windows(int n, double own_ns, double price, double noise)
{
	const double half_ns = 500, whole_ns = 1000;
	struct price p;

	price__init(&p, 1);
	for (int i = 0; i < n; i++) {
		double more = 1 + noise * sin(i * 12.9898), less = 1 + noise * cos(i * 78.233);
		struct price_totals from = {100, 200, 300}, to = from;

		to.allocs += 5000;
		to.cost_ns += 5000 * half_ns;
		to.cpu_ns += 5000 * (own_ns + price * half_ns) * more;
		price__note_half(&p, &from, &to);
		to = from;
		to.allocs += 20000;
		to.cost_ns += 20000 * whole_ns;
		to.cpu_ns += 20000 * (own_ns + price * whole_ns) * less;
		price__note_whole(&p, &from, &to);
	}
	return p;
}

static void test_unmeasured(void **state)
{
	struct price p = windows(2, 200, 1.5, 0);

	(void)state;
	assert_true(p.factor == 1 && p.error == PRICE_PRIOR);
}

/* Measured well, it counts for most of what is said. */
static void test_measured(void **state)
{
	(void)state;
	for (double truth = 0.8; truth < 2; truth += 0.1) {
		struct price p = windows(40, 200, truth, 0.01);

		assert_true(fabs(p.factor - truth) < 2 * p.error);
		assert_true(p.error < 0.1);
		assert_true(fabs(p.factor - truth) < 0.6 * fabs(1 - truth) + 0.02);
	}
}

/* Windows that differ much tell little. */
static void test_noise(void **state)
{
	struct price p = windows(40, 200, 1.5, 0.5);

	(void)state;
	assert_true(p.error > 0.08 && p.error <= PRICE_PRIOR);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_unmeasured),
		cmocka_unit_test(test_measured),
		cmocka_unit_test(test_noise),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
