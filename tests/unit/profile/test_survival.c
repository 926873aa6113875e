// SPDX-License-Identifier: BSD-2-Clause
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "profile/survival.h"

#define RUN_S	    60.0
#define PER_ALLOC_S 1e-6
#define WINDOW_S    0.01
#define RATE	    0.2 /* deaths per second */
#define ALL	    (-1)

static double middle_of(int class)
{
	return (survival__class_end(class) + (class ? survival__class_end(class - 1) : 0)) / 2;
}

/* Adds the frees of blocks that die at a constant rate. When a block dies, another such block gets
 * its address at once. So frees are at random times at each address. */
static void add_frees(struct survival_ages *ages, double rate)
{
	for (int k = 0; survival__class_end(k) <= RUN_S; k++) {
		ages->pairs[k] = 1e6;
		ages->exposed[k] = 1e6 * WINDOW_S / PER_ALLOC_S;
		ages->frees[k] = 1e6 * -expm1(-rate * WINDOW_S);
	}
}

static void add_contents(struct survival_ages *ages, double rate, double alike)
{
	for (int k = 30; survival__class_end(k) <= RUN_S; k++) {
		double s = exp(-rate * middle_of(k));

		ages->looked[k] = 1e6;
		ages->same[k] = 1e6 * (s + (1 - s) * alike);
		ages->looked_at[k] = 1e6 * middle_of(k);
	}
}

/* Fills in the terms that are the same in each test, and solves. */
static void solve(struct survival_ages *const *ages, size_t n, int without,
		  struct survival_terms *terms, struct survival *s)
{
	terms->per_alloc_s = PER_ALLOC_S;
	terms->left = 1;
	terms->length_s = RUN_S;
	survival__solve(ages, n, without, terms, s);
}

static void solve_one(struct survival_ages *ages, struct survival_terms *terms, struct survival *s)
{
	solve(&ages, 1, ALL, terms, s);
}

static double lowest[SURVIVAL_CLASSES]; /* lower bounds that the last solve_both() found */

/* Solves, and finds the lower bound. */
static void solve_both(struct survival_ages *ages, struct survival_terms *terms, struct survival *s)
{
	solve_one(ages, terms, s);
	survival__lowest(&ages, 1, terms, lowest);
}

static void assert_exponential(const struct survival *s, double rate, double error)
{
	static const double ages[] = {0.1, 1, 3, 10, 30};

	for (size_t i = 0; i < sizeof(ages) / sizeof(*ages); i++) {
		assert_true(fabs(survival__at(s, ages[i]) - exp(-rate * ages[i])) < error);
		assert_true(fabs(survival__area(s, ages[i]) + expm1(-rate * ages[i]) / rate) <
			    2 * error * ages[i]);
	}
	assert_true(survival__at(s, 0) == 1 && survival__area(s, 0) == 0);
}

static void classes_of_age_follow_each_other(void **state)
{
	(void)state;
	assert_int_equal(survival__age_class(0), 0);
	assert_int_equal(survival__age_class(1e9), SURVIVAL_CLASSES - 1);
	for (int k = 0; k < SURVIVAL_CLASSES - 1; k++) {
		assert_true(survival__class_end(k) < survival__class_end(k + 1));
		assert_int_equal(survival__age_class(survival__class_end(k)), k);
		assert_int_equal(survival__age_class(middle_of(k)), k);
	}
	/* six classes a decade, from 10 us on */
	assert_true(fabs(survival__class_end(30) - 1) < 1e-9);
}

static void nothing_seen_is_nothing_known(void **state)
{
	struct survival_ages ages = {};
	struct survival s;

	(void)state;
	solve_one(&ages, &(struct survival_terms){.slowed = 1, .sample = 1, .alike = 1}, &s);
	assert_int_equal(s.by, SURVIVAL_UNKNOWN);
	assert_true(survival__at(&s, 30) == 1);
	assert_true(fabs(survival__area(&s, 30) - 30) < 1e-6);
	solve(NULL, 0, ALL, &(struct survival_terms){.slowed = 1, .sample = 1, .alike = 1}, &s);
	assert_int_equal(s.by, SURVIVAL_UNKNOWN);
}

static void the_window_of_birth_tells_of_young_ages(void **state)
{
	struct survival_ages ages = {};
	struct survival s;

	(void)state;
	for (int k = 0; survival__class_end(k) <= RUN_S; k++) {
		ages.watched[k] = 1e6 / PER_ALLOC_S;
		ages.ended[k] = RATE * 1e6;
	}
	solve_one(&ages, &(struct survival_terms){.slowed = 1, .sample = 1, .alike = 1}, &s);
	assert_exponential(&s, RATE, 0.02);
	/* Blocks end by the wall clock. A net second in windows has ten times as much wall time as
	 * a net second elsewhere. So per net second, a tenth as many blocks end elsewhere. */
	solve_one(&ages, &(struct survival_terms){.slowed = 10, .sample = 1, .alike = 1}, &s);
	assert_exponential(&s, RATE / 10, 0.02);
}

static void frees_at_addresses_tell_of_old_ages(void **state)
{
	struct survival_ages ages = {};
	struct survival s;

	(void)state;
	add_frees(&ages, RATE);
	solve_one(&ages, &(struct survival_terms){.slowed = 1, .sample = 1, .alike = 1}, &s);
	assert_int_equal(s.by, SURVIVAL_ENDS);
	assert_true(s.known_s > RUN_S / 2);
	assert_exponential(&s, RATE, 0.015);
}

static void contents_are_believed_where_they_differ(void **state)
{
	struct survival_ages ages = {};
	struct survival s;

	(void)state;
	add_frees(&ages, RATE);
	add_contents(&ages, RATE, 0.25);
	solve_one(&ages, &(struct survival_terms){.slowed = 1, .sample = 1, .alike = 0.25}, &s);
	assert_int_equal(s.by, SURVIVAL_CONTENTS);
	assert_exponential(&s, RATE, 0.015);
	/* most contents are equal by chance, so frees decide */
	solve_one(&ages, &(struct survival_terms){.slowed = 1, .sample = 1, .alike = 0.75}, &s);
	assert_int_equal(s.by, SURVIVAL_ENDS);
	assert_exponential(&s, RATE, 0.015);
}

/* Each part of the model can be left out, and then has no effect (profile/parts.h). */
static void parts_can_be_left_out(void **state)
{
	struct survival_terms terms = {.slowed = 1, .sample = 1, .alike = 0, .left = 1};
	struct survival_ages ages = {};
	struct survival s;

	(void)state;
	add_frees(&ages, RATE);
	add_contents(&ages, RATE / 4, 0);
	terms.without = 1U << PART_CONTENTS;
	solve_one(&ages, &terms, &s);
	assert_int_equal(s.by, SURVIVAL_ENDS);
	assert_exponential(&s, RATE, 0.015);
	/* If blocks end at random times, later blocks at the same address end at the same rate. So
	 * it makes no difference which block a later free belongs to. */
	terms.without |= 1U << PART_RENEWAL;
	solve_one(&ages, &terms, &s);
	assert_exponential(&s, RATE, 0.015);
}

/* At some ages contents look unchanged although blocks were freed. Contents are ignored at these
 * ages, and used at all others. */
static void contents_that_miss_ends_are_no_evidence(void **state)
{
	struct survival_ages ages = {};
	float missed[SURVIVAL_CLASSES] = {};
	struct survival s;

	(void)state;
	add_frees(&ages, RATE);
	add_contents(&ages, RATE, 0);
	for (int k = 30; survival__class_end(k) < 2; k++) {
		ages.same[k] = ages.looked[k];
		missed[k] = 0.9f;
	}
	solve_one(&ages,
		  &(struct survival_terms){.slowed = 1, .sample = 1, .alike = 0, .missed = missed},
		  &s);
	assert_int_equal(s.by, SURVIVAL_CONTENTS);
	assert_exponential(&s, RATE, 0.015);
	for (int k = 0; k < SURVIVAL_CLASSES; k++)
		missed[k] = 0.9f;
	solve_one(&ages,
		  &(struct survival_terms){.slowed = 1, .sample = 1, .alike = 0, .missed = missed},
		  &s);
	assert_int_equal(s.by, SURVIVAL_ENDS);
}

/* At young ages few addresses were watched, and by chance a free was seen at each. So the rate of
 * frees must come from all other ages. */
static void few_frees_are_as_those_of_all_ages(void **state)
{
	struct survival_ages ages = {};
	struct survival s;

	(void)state;
	add_frees(&ages, RATE);
	for (int k = 0; survival__class_end(k) < 0.3; k++)
		ages.pairs[k] = ages.exposed[k] = ages.frees[k] = 0;
	for (int k = 20; survival__class_end(k) < 0.3; k++) {
		ages.pairs[k] = 1e2;
		ages.exposed[k] = 1e2 * WINDOW_S / PER_ALLOC_S;
		ages.frees[k] = 1e2;
	}
	solve_one(&ages, &(struct survival_terms){.slowed = 1, .sample = 1e6, .alike = 1}, &s);
	assert_exponential(&s, RATE, 0.05);
}

/* Buffers live for 25 ms. Later windows watch hardly any address at ages near 25 ms. At old ages
 * they watch addresses that nobody uses again, and see few frees. These few frees must not count
 * for young ages. */
static void dead_addresses_say_nothing_of_the_young(void **state)
{
	struct survival_terms terms = {.slowed = 1, .sample = 1e6, .alike = 1};
	struct survival_ages ages = {};
	struct survival s;

	(void)state;
	for (int k = 0; survival__class_end(k) < 0.01; k++) {
		ages.watched[k] = 1e8 / PER_ALLOC_S;
		ages.ended[k] = 40 * 1e8;
	}
	for (int k = 0; survival__class_end(k) < RUN_S; k++) {
		double pairs = survival__class_end(k) < 0.1 ? 0
			       : survival__class_end(k) < 1 ? 1e5
							    : 1e9;

		ages.pairs[k] = pairs;
		ages.exposed[k] = pairs * WINDOW_S / PER_ALLOC_S;
		ages.frees[k] = pairs / 1e4;
	}
	solve_one(&ages, &terms, &s);
	assert_true(survival__at(&s, 0.5) < 0.05);
}

/* All contents change, though few blocks are freed: blocks are written to while they live. */
static void contents_that_change_in_use_are_no_evidence(void **state)
{
	struct survival_ages ages = {};
	struct survival s;

	(void)state;
	add_frees(&ages, RATE / 1000);
	add_contents(&ages, 100 * RATE, 0);
	solve_one(&ages, &(struct survival_terms){.slowed = 1, .sample = 1, .alike = 0}, &s);
	assert_int_equal(s.by, SURVIVAL_ENDS);
	assert_false(s.doubtful);
	assert_exponential(&s, RATE / 1000, 0.015);
}

/* All contents have changed after a second. Twenty sampled blocks were watched for cases[].seconds
 * in all, and cases[].frees frees were seen. Blocks that live for 0.1 s would show no frees, and
 * blocks that stay would show none either. If addresses were freed about as often as contents
 * changed, contents decide. If windows watched a thousand times as long without a free, the blocks
 * stay. */
static void few_frees_leave_a_doubt(void **state)
{
	static const struct {
		double seconds, frees;
		bool doubtful;
		enum survival_evidence by;
	} cases[] = {
		{1, 0, true, SURVIVAL_ENDS},
		{1, 1, true, SURVIVAL_CONTENTS},
		{1000, 0, false, SURVIVAL_ENDS},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		struct survival_terms terms = {.slowed = 1, .sample = 1e3, .alike = 0};
		struct survival_ages ages = {};
		struct survival s;
		double sample = terms.sample;
		int young = survival__age_class(0.01), old = survival__age_class(2);

		for (int k = 0; k <= young; k++) /* no block ends in the window of its birth */
			ages.watched[k] = 20 * sample * survival__class_end(k) / PER_ALLOC_S;
		for (int k = young + 1; k <= old; k++)
			ages.looked_at[k] = 20 * sample * middle_of(k);
		for (int k = survival__age_class(1); k <= old; k++)
			ages.looked[k] = 20 * sample;
		/* by chance, no free was seen at the youngest age of later windows */
		ages.pairs[old - 2] = ages.pairs[old] = cases[i].seconds / WINDOW_S / 2 * sample;
		ages.exposed[old - 2] = ages.exposed[old] =
			cases[i].seconds / 2 * sample / PER_ALLOC_S;
		ages.frees[old] = cases[i].frees * sample;
		solve_one(&ages, &terms, &s);
		assert_int_equal(s.by, cases[i].by);
		assert_int_equal(s.doubtful, cases[i].doubtful);
		terms.only = SURVIVAL_CONTENTS;
		solve_one(&ages, &terms, &s);
		assert_int_equal(s.by, SURVIVAL_CONTENTS);
		terms.only = SURVIVAL_ENDS;
		solve_one(&ages, &terms, &s);
		assert_int_equal(s.by, SURVIVAL_ENDS);
	}
}

/* All blocks live at 10 ms, none lives at one second, and no window saw ages between these. Blocks
 * may have lived for either time. */
static void ages_that_nobody_looks_at_are_an_error(void **state)
{
	struct survival_terms terms = {.slowed = 1, .sample = 1, .alike = 0};
	int young = survival__age_class(0.01), old = survival__age_class(1);
	struct survival_ages ages = {};
	struct survival s;

	(void)state;
	for (int k = 0; k <= young; k++)
		ages.watched[k] = 1e6 * survival__class_end(k) / PER_ALLOC_S;
	for (int k = old; k < old + 6; k++) {
		ages.looked[k] = 1e6;
		ages.looked_at[k] = 1e6 * middle_of(k);
	}
	solve_one(&ages, &terms, &s);
	assert_int_equal(s.by, SURVIVAL_CONTENTS);
	assert_true(survival__at(&s, 0.01) > 0.99 && survival__at(&s, 1) < 0.5);
	assert_true(survival__area(&s, RUN_S) - s.area_error < 0.3);
	assert_true(survival__area(&s, RUN_S) + s.area_error > 0.6);
	for (int k = young; k < old; k++) { /* now windows see these ages; half the blocks live */
		ages.looked[k] = 1e6;
		ages.same[k] = 5e5;
		ages.looked_at[k] = 1e6 * middle_of(k);
	}
	solve_one(&ages, &terms, &s);
	assert_true(s.area_error == 0);
}

static void one_group_can_be_left_out(void **state)
{
	struct survival_ages ages[2] = {}, *const groups[] = {&ages[0], NULL, &ages[1]};
	struct survival s;

	(void)state;
	add_frees(&ages[0], RATE);
	add_frees(&ages[1], 10 * RATE);
	solve(groups, 3, 2, &(struct survival_terms){.slowed = 1, .sample = 1, .alike = 1}, &s);
	assert_exponential(&s, RATE, 0.015);
	solve(groups, 3, ALL, &(struct survival_terms){.slowed = 1, .sample = 1, .alike = 1}, &s);
	assert_true(survival__at(&s, 1) < 0.95 * exp(-RATE));
}

static void half_of_them_live_so_long(void **state)
{
	struct survival_ages ages = {};
	struct survival s;

	(void)state;
	add_frees(&ages, RATE);
	add_contents(&ages, RATE, 0);
	solve_one(&ages, &(struct survival_terms){.slowed = 1, .sample = 1, .alike = 0}, &s);
	assert_true(fabs(survival__half_life(&s) - log(2) / RATE) < 0.05 * log(2) / RATE);
	for (int k = 0; k < SURVIVAL_CLASSES; k++) {
		ages.same[k] = ages.looked[k];
		ages.frees[k] = 0;
	}
	solve_one(&ages, &(struct survival_terms){.slowed = 1, .sample = 1, .alike = 0}, &s);
	assert_true(isinf(survival__half_life(&s)));
}

/* Only a tenth of the frees that contents imply is seen. So contents do not decide, but they remain
 * a lower bound. */
static void contents_that_are_set_aside_are_a_lower_bound(void **state)
{
	struct survival_ages ages = {};
	struct survival s;

	(void)state;
	add_frees(&ages, RATE / 10);
	add_contents(&ages, RATE, 0);
	solve_both(&ages, &(struct survival_terms){.slowed = 1, .sample = 1, .alike = 0}, &s);
	assert_int_equal(s.by, SURVIVAL_ENDS);
	assert_true(survival__half_life(&s) > 5 * log(2) / RATE);
	for (int k = 0; k < SURVIVAL_CLASSES; k++) {
		double end = survival__class_end(k);

		assert_true(lowest[k] <= s.s[k]);
		if (end > 1 && end < 15) /* contents are compared at these ages */
			assert_true(fabs(lowest[k] - exp(-RATE * end)) < 0.05);
	}
}

/* Windows are short, because a trap is expensive. Together they watched an address for one second,
 * and saw no free. Nothing follows for lives longer than one second. If windows watched a thousand
 * times as long without a free, a lower limit for the length of lives follows. */
static void without_a_free_lives_are_no_longer_than_was_watched(void **state)
{
	struct survival_terms terms = {.slowed = 1, .sample = 128, .alike = 1};
	struct survival_ages ages = {};
	struct survival s;
	double watched = 0;
	int last = survival__age_class(RUN_S), half = 0;

	(void)state;
	for (int k = 20; k <= last; k++)
		watched += survival__class_end(k);
	for (int times = 1; times <= 1000; times *= 1000) {
		for (int k = 20; k <= last; k++) {
			double seconds = times * survival__class_end(k) / watched;

			ages.pairs[k] = 1e4;
			ages.exposed[k] = 128 * seconds / PER_ALLOC_S;
		}
		solve_both(&ages, &terms, &s);
		assert_true(isinf(survival__half_life(&s)));
		for (half = 0; half <= last && lowest[half] > 0.5; half++)
			;
		if (times == 1)
			assert_true(survival__class_end(half) < 1);
	}
	assert_true(half > last);
}

/* Only a few frees at old ages were seen. Young ages were watched for too short a time. */
static void few_ends_of_the_young_may_be_chance(void **state)
{
	struct survival_terms terms = {.slowed = 1, .sample = 128, .alike = 1};
	struct survival_ages ages = {};
	struct survival s;

	(void)state;
	for (int k = 0; survival__class_end(k) < 0.001; k++)
		ages.watched[k] = 0.02 * 128 / PER_ALLOC_S; /* a third of a second in all */
	for (int k = 24; survival__class_end(k) < 10; k++) {
		ages.pairs[k] = 1e4;
		ages.exposed[k] = 0.3 * 128 / PER_ALLOC_S;
		ages.frees[k] = survival__class_end(k) < 1 ? 0 : 3 * 128;
	}
	solve_both(&ages, &terms, &s);
	for (int k = 0; k < SURVIVAL_CLASSES; k++)
		if (survival__class_end(k) > 0.3)
			assert_true(lowest[k] < 0.5);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(classes_of_age_follow_each_other),
		cmocka_unit_test(nothing_seen_is_nothing_known),
		cmocka_unit_test(the_window_of_birth_tells_of_young_ages),
		cmocka_unit_test(frees_at_addresses_tell_of_old_ages),
		cmocka_unit_test(contents_are_believed_where_they_differ),
		cmocka_unit_test(parts_can_be_left_out),
		cmocka_unit_test(contents_that_miss_ends_are_no_evidence),
		cmocka_unit_test(few_frees_are_as_those_of_all_ages),
		cmocka_unit_test(dead_addresses_say_nothing_of_the_young),
		cmocka_unit_test(contents_that_change_in_use_are_no_evidence),
		cmocka_unit_test(few_frees_leave_a_doubt),
		cmocka_unit_test(ages_that_nobody_looks_at_are_an_error),
		cmocka_unit_test(one_group_can_be_left_out),
		cmocka_unit_test(half_of_them_live_so_long),
		cmocka_unit_test(contents_that_are_set_aside_are_a_lower_bound),
		cmocka_unit_test(without_a_free_lives_are_no_longer_than_was_watched),
		cmocka_unit_test(few_ends_of_the_young_may_be_chance),
	};

	return cmocka_run_group_tests_name("survival", tests, NULL, NULL);
}
