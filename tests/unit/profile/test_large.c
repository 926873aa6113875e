// SPDX-License-Identifier: BSD-2-Clause
/* The sums are worked out by hand. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "profile/heap.h"
#include "profile/large.h"

#define MB 1e6

static void stacks_get_what_there_is(void **state)
{
	struct large_stack stacks[] = {
		{.estimate = 2560 * MB, .seen = 128 * MB}, /* one block that stands for twenty */
		{.estimate = 0, .seen = 64 * MB},
		{.estimate = 0, .seen = 0},
	};

	(void)state;
	/* nothing else is live */
	assert_true(large__share(stacks, 3, 0) == 0);
	assert_true(stacks[0].live == 128 * MB);
	assert_true(stacks[1].live == 64 * MB);
	assert_true(stacks[2].live == 0);
	/* more is live, but less than the estimate */
	assert_true(large__share(stacks, 3, 304 * MB) == 0);
	assert_true(stacks[0].live == 432 * MB);
	assert_true(stacks[1].live == 64 * MB);
}

static void a_remainder_is_left(void **state)
{
	struct large_stack stacks[] = {
		{.estimate = 30 * MB, .seen = 10 * MB},
		{.estimate = 50 * MB, .seen = 10 * MB},
	};

	(void)state;
	assert_true(large__share(stacks, 2, 100 * MB) == 40 * MB);
	assert_true(stacks[0].live == 30 * MB);
	assert_true(stacks[1].live == 50 * MB);
	/* only half of the estimated bytes beyond the seen blocks is live, so each gets half */
	assert_true(large__share(stacks, 2, 30 * MB) == 0);
	assert_true(stacks[0].live == 20 * MB);
	assert_true(stacks[1].live == 30 * MB);
	assert_true(large__share(NULL, 0, 7 * MB) == 7 * MB);
}

static void blocks_are_found_by_their_start(void **state)
{
	struct large_block at[] = {{0x1000, 2 << 20}, {0x500000, 40 << 20}};
	const struct large_blocks blocks = {.at = at, .n = 2};
	const struct large_blocks none = {};

	(void)state;
	assert_ptr_equal(large_blocks__find(&blocks, 0x1000), &at[0]);
	assert_ptr_equal(large_blocks__find(&blocks, 0x500000), &at[1]);
	assert_null(large_blocks__find(&blocks, 0x1010));
	assert_null(large_blocks__find(&blocks, 0x600000));
	assert_null(large_blocks__find(&none, 0x1000));
}

static void sizes_are_rounded_up(void **state)
{
	const struct large_block block = {0x1000, 1280 << 10};

	(void)state;
	assert_true(heap__may_hold(block.size, 1280 << 10));
	assert_true(heap__may_hold(block.size, (1024 << 10) + 1)); /* jemalloc's next class */
	assert_true(heap__may_hold(block.size, (1280 << 10) - 4096));
	assert_false(heap__may_hold(block.size, (1280 << 10) + 1));
	assert_false(heap__may_hold(block.size, 640 << 10));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(stacks_get_what_there_is),
		cmocka_unit_test(a_remainder_is_left),
		cmocka_unit_test(blocks_are_found_by_their_start),
		cmocka_unit_test(sizes_are_rounded_up),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
