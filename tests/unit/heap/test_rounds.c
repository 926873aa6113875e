// SPDX-License-Identifier: BSD-2-Clause
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "heap/rounds.h"

/* Makes scans. left: how many blocks each scan leaves on the list. Returns the number of scans. */
static unsigned int search(unsigned int least, const uint64_t *left, uint64_t *ret_unsettled)
{
	struct rounds rounds = rounds__begin(least);
	bool may_end, done;

	do {
		assert_int_equal(rounds__is_full(&rounds), rounds.n == 0);
		may_end = rounds__may_end(&rounds);
		done = rounds__add(&rounds, left[rounds.n], 0, true);
		assert_true(may_end || !done || !rounds.left);
	} while (!done);
	*ret_unsettled = rounds__unsettled(&rounds);
	return rounds.n;
}

static void test_until_nothing_comes_off(void **state)
{
	const uint64_t still[] = {5, 5, 5}, busy[] = {900, 40, 7, 7, 6, 6, 6}, none[] = {0},
		       gone[] = {800, 3, 0};
	uint64_t unsettled;

	(void)state;
	assert_int_equal(search(3, still, &unsettled), 3);
	assert_int_equal(unsettled, 0);
	assert_int_equal(search(3, busy, &unsettled), 7);
	assert_int_equal(unsettled, 0);
	assert_int_equal(search(3, none, &unsettled), 1);
	assert_int_equal(search(3, gone, &unsettled), 3);
	assert_int_equal(unsettled, 0);
}

static void test_at_most(void **state)
{
	uint64_t left[64], unsettled;
	struct rounds rounds = rounds__begin(3);

	(void)state;
	for (uint64_t i = 0; i < 64; i++)
		left[i] = 1000 - 4 * i;
	assert_int_equal(search(3, left, &unsettled), 3 + ROUNDS_MORE);
	assert_int_equal(unsettled, 4);
	assert_int_equal(search(1, left, &unsettled), 1);
	assert_int_equal(search(2, left, &unsettled), 2);
	assert_int_equal(unsettled, 0); /* only two scans were asked for */

	rounds__hurry(&rounds);
	assert_false(rounds__may_end(&rounds));
	assert_false(rounds__add(&rounds, 9, 0, true));
	assert_false(rounds__add(&rounds, 9, 0, true));
	rounds__hurry(&rounds);
	assert_true(rounds__may_end(&rounds));
	assert_true(rounds__add(&rounds, 8, 0, true));
	assert_int_equal(rounds__unsettled(&rounds), 1);
}

/* A scan that could not follow the heap is no evidence. */
static void test_scans_that_lose_their_way(void **state)
{
	struct rounds rounds = rounds__begin(3);

	(void)state;
	assert_false(rounds__add(&rounds, 0, 0, false)); /* "nothing is lost" is not proved */
	assert_true(rounds__add(&rounds, 0, 0, true));

	rounds = rounds__begin(3);
	assert_false(rounds__add(&rounds, 9, 0, true));
	assert_false(rounds__add(&rounds, 9, 0, true));
	assert_false(rounds__add(&rounds, 9, 0, false));
	assert_false(rounds__add(&rounds, 9, 0, true));
	assert_true(rounds__add(&rounds, 9, 0, true));
	assert_int_equal(rounds__unsettled(&rounds), 0);
}

/* One scan that takes nothing off the list proves little, because pointers may have moved during
 * this scan, too. */
static void test_time_is_up_after_one_calm_scan(void **state)
{
	struct rounds rounds = rounds__begin(3);

	(void)state;
	assert_false(rounds__add(&rounds, 900, 0, true));
	assert_false(rounds__add(&rounds, 40, 0, true));
	rounds__hurry(&rounds);
	assert_true(rounds__add(&rounds, 40, 0, true));
	assert_int_equal(rounds.calm, 1);
	assert_int_equal(rounds__unsettled(&rounds), 860);
}

/* Blocks for which the list has no room may point to blocks on the list. */
static void test_a_list_that_is_full(void **state)
{
	struct rounds rounds = rounds__begin(3);

	(void)state;
	assert_true(rounds__is_full(&rounds));
	assert_false(rounds__add(&rounds, 100, 1, true));
	assert_true(rounds__is_full(&rounds));
	assert_false(rounds__add(&rounds, 100, 1, true));
	assert_true(rounds__is_full(&rounds));
	assert_true(rounds__add(&rounds, 100, 1, true));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_until_nothing_comes_off),
		cmocka_unit_test(test_at_most),
		cmocka_unit_test(test_scans_that_lose_their_way),
		cmocka_unit_test(test_time_is_up_after_one_calm_scan),
		cmocka_unit_test(test_a_list_that_is_full),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
