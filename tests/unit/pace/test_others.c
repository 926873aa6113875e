// SPDX-License-Identifier: BSD-2-Clause
/* What other tracers' probes add to the cost of calls. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include "pace/others.h"

static void assert_near(double is, double wanted)
{
	if (!(fabs(is - wanted) <= 1e-9 * fabs(wanted)))
		fail_msg("%.12g instead of %.12g", is, wanted);
}

static void nobody_else(void **state)
{
	struct others others = {};

	(void)state;
	assert_near(others__pct(&others), 0);
	assert_near(others__note(&others, &(struct others_counts){}, 1000), 0);
	assert_near(others__note(&others, &(struct others_counts){.looks = 4}, 5000), 0);
	assert_near(others__pct(&others), 0);
}

/* The extra cost of a call depends on how many probes there are at the time of this call. */
static void they_come_and_go(void **state)
{
	const double sixteen = others__share(1, 16, 0);
	struct others others = {};
	double ns;

	(void)state;
	/* Two counts were made. Each found sixteen probes for other processes, and trapped
	 * returns. */
	ns = others__note(&others, &(struct others_counts){2, 2, 32, 0}, 1000);
	assert_near(ns, sixteen * 1000);
	/* no new count: the number of probes counts as unchanged */
	ns = others__note(&others, &(struct others_counts){2, 2, 32, 0}, 3000);
	assert_near(ns, sixteen * 3000);
	/* a third count: the probes are gone */
	ns = others__note(&others, &(struct others_counts){3, 2, 32, 0}, 9000);
	assert_near(ns, sixteen * 3000);
	/* two more counts: one of them found one probe whose program runs */
	ns = others__note(&others, &(struct others_counts){5, 2, 32, 1}, 10000);
	assert_near(ns, sixteen * 3000 + others__share(0, 0, 0.5) * 1000);
	assert_near(others__pct(&others), 100 * ns / 10000);
}

/* A pair of malloc and free took 1,820 ns beside sixteen processes with probes of their own, 1,200
 * ns beside four, and 830 ns beside none. Beside a tracer of all processes, such a pair took 960 to
 * 990 ns instead of 840 to 880. */
static void as_measured(void **state)
{
	(void)state;
	assert_true(fabs(830 * (1 + others__share(1, 16, 0)) / 1820 - 1) < 0.05);
	assert_true(fabs(830 * (1 + others__share(1, 4, 0)) / 1200 - 1) < 0.05);
	assert_true(fabs(860 * (1 + others__share(0, 0, 1)) / 975 - 1) < 0.05);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(nobody_else),
		cmocka_unit_test(they_come_and_go),
		cmocka_unit_test(as_measured),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
