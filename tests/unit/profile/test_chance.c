// SPDX-License-Identifier: BSD-2-Clause
/* Compares with independent truth: sums of binomial coefficients, closed forms, printed tables, and
 * simulated claims. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "profile/chance.h"

static void assert_close(double value, double expected, double relative)
{
	if (!(fabs(value - expected) <= relative * fabs(expected)))
		fail_msg("%.12g is not %.12g within %g", value, expected, relative);
}

/* P(X > k) + P(X = k) / 2, summed with the smallest terms first. */
static double mid_tail(int n, int k, double share)
{
	long double sum = 0;

	for (int i = n; i >= k; i--) {
		long double term = lgammal(n + 1.0L) - lgammal(i + 1.0L) - lgammal(n - i + 1.0L) +
				   i * logl(share) + (n - i) * log1pl(-share);

		sum += expl(term) / (i == k ? 2 : 1);
	}
	return (double)sum;
}

static void counts_are_binomial_sums(void **state)
{
	static const double shares[] = {0.5, 0.1, 0.8};
	static const int ns[] = {1, 2, 7, 12, 60, 1000};

	(void)state;
	for (size_t s = 0; s < 3; s++)
		for (size_t i = 0; i < sizeof(ns) / sizeof(ns[0]); i++)
			for (int k = 0; k <= ns[i]; k += 1 + ns[i] / 20)
				assert_close(chance__of_counts(ns[i] - k, k, shares[s]),
					     mid_tail(ns[i], k, shares[s]), 1e-9);
	/* the counts 0 and 6: 2^-7 */
	assert_close(chance__of_counts(0, 6, 0.5), 1.0 / 128, 1e-12);
	assert_true(chance__of_counts(0, 0, 0.5) == 0.5);
	/* the result for 3.5 is between the results for 3 and 4 */
	assert_true(chance__of_counts(3.5, 8, 0.5) > chance__of_counts(3, 8, 0.5));
	assert_true(chance__of_counts(3.5, 8, 0.5) < chance__of_counts(4, 8, 0.5));
	/* both tails add up to 1 */
	assert_close(chance__of_counts(3, 9, 0.3) + chance__of_counts(9, 3, 0.7), 1, 1e-12);
	/* large counts use the normal distribution, which is as exact for them */
	assert_close(chance__of_counts(499000, 500900, 0.5), chance__of_normal(1900 / sqrt(999900)),
		     1e-5);
	assert_close(chance__of_counts(499100, 501000, 0.5),
		     chance__of_normal(1900 / sqrt(1000100)), 1e-12);
}

/* P(X > k) + P(X = k) / 2 of a Poisson distribution. */
static double mid_tail_of_rare(double mean, int k)
{
	long double sum = 0;

	for (int i = k + 1000; i >= k; i--) {
		long double term = i * logl(mean) - mean - lgammal(i + 1.0L);

		sum += expl(term) / (i == k ? 2 : 1);
	}
	return (double)sum;
}

/* A small count and a count of millions or more, as when a sampled profile is compared with an
 * exact one. */
static void few_of_many_are_no_normal_distribution(void **state)
{
	(void)state;
	assert_close(chance__of_counts(1000000, 60, 3.05e-5), mid_tail(1000060, 60, 3.05e-5), 1e-7);
	assert_close(chance__of_counts(1e10, 60, 3.05e-9), mid_tail_of_rare(30.5, 60), 1e-4);
	assert_close(chance__of_counts(60, 1e10, 1 - 3.05e-9), 1 - mid_tail_of_rare(30.5, 60),
		     1e-4);
	assert_close(chance__of_counts(10, 1e10, 1 - 3.05e-9), 1 - mid_tail_of_rare(30.5, 10),
		     1e-4);
	assert_close(chance__of_counts(2000000, 100500, 0.0478), mid_tail(2100500, 100500, 0.0478),
		     1e-5);
}

static void tails_are_the_printed_ones(void **state)
{
	(void)state;
	assert_close(chance__of_student(tan(0.475 * M_PI), 1), 0.025, 1e-9); /* Cauchy */
	assert_close(chance__of_student(4.302653, 2), 0.025, 1e-6);
	assert_close(chance__of_student(2.364624, 7), 0.025, 1e-6);
	assert_close(chance__of_student(-2.364624, 7), 0.975, 1e-6);
	assert_close(chance__of_student(1.959964, 1e7), 0.025, 1e-5);
	assert_true(chance__of_student(0, 7) == 0.5);
	assert_true(chance__of_student(INFINITY, 7) == 0 && chance__of_student(-INFINITY, 7) == 1);
	assert_close(chance__of_normal(1.959963984540054), 0.025, 1e-12);
}

/* The expected decisions were worked out by hand, for the level 0.05. */
static void claims_step_down(void **state)
{
	struct claim equal[] = {{.p = 0.012, .traffic = 1},
				{.p = 0.04, .traffic = 1},
				{.p = 0.02, .traffic = 1},
				{.p = 0.3, .traffic = 1}};
	/* The weights 1 and 1/3 divide the level of 0.05 into 0.0375 and 0.0125. The first claim
	 * holds, and then the second one gets all of the level. */
	struct claim weighted[] = {{.p = 0.03, .traffic = 1}, {.p = 0.04, .traffic = 3}};
	struct claim crowded[] = {{.p = 0.02, .traffic = 3}, {.p = 0.04, .traffic = 1}};
	/* At first only many[0] can hold. The other nine cannot, because their least possible p of
	 * 0.25 is above the whole level of 0.05. */
	struct claim many[10];
	double weights;

	(void)state;
	assert_int_equal(claims__decide(equal, 4, 0.05, &weights), 0);
	assert_true(weights == 4);
	assert_true(equal[0].holds);					  /* 0.05 / 4 */
	assert_false(equal[2].holds || equal[1].holds || equal[3].holds); /* 0.05 / 3 */
	assert_int_equal(claims__decide(weighted, 2, 0.05, NULL), 0);
	assert_true(weighted[0].holds && weighted[1].holds);
	assert_int_equal(claims__decide(crowded, 2, 0.05, NULL), 0);
	assert_false(crowded[0].holds || crowded[1].holds);
	for (int i = 0; i < 10; i++)
		many[i] = (struct claim){.p = 0.25, .least = i ? 0.25 : 0, .traffic = 1};
	many[0].p = 0.04;
	assert_int_equal(claims__decide(many, 10, 0.05, &weights), 0);
	assert_true(weights == 1 && many[0].holds && !many[1].holds);
	/* Now the least possible p of the nine is 0.011. If four claims shared the level, each
	 * share would be 0.05 / 4 = 0.0125. This is more than 0.011, so a fifth claim takes part.
	 * Then each share is 0.01, so no more claims take part. */
	for (int i = 0; i < 10; i++)
		many[i].least = i ? 0.011 : 0;
	assert_int_equal(claims__decide(many, 10, 0.05, &weights), 0);
	assert_true(weights == 5 && !many[0].holds);
	/* a claim about which nothing is known */
	many[0] = (struct claim){};
	assert_int_equal(claims__decide(many, 1, 0.05, &weights), 0);
	assert_true(weights == 0 && !many[0].holds);
	assert_int_equal(claims__decide(NULL, 0, 0.05, NULL), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(counts_are_binomial_sums),
		cmocka_unit_test(few_of_many_are_no_normal_distribution),
		cmocka_unit_test(tails_are_the_printed_ones),
		cmocka_unit_test(claims_step_down),
	};

	return cmocka_run_group_tests_name("chance", tests, NULL, NULL);
}
