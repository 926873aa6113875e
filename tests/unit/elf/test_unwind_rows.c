// SPDX-License-Identifier: BSD-2-Clause
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include <errno.h>
#include <stdlib.h>

#include "elf/unwind_rows.h"

#define SP(off) UNWIND_RULE(UNWIND_SP, off, 0, 0)

static void test_neighbours_differ(void **state)
{
	struct unwind_rows rows = {.max = 10};

	(void)state;
	/* Before the first row the rule is UNWIND_NONE anyway, so adding UNWIND_NONE makes no
	 * row. */
	assert_int_equal(unwind_rows__add(&rows, 0, UNWIND_NONE), 0);
	assert_int_equal(rows.n, 0);
	assert_int_equal(unwind_rows__add(&rows, 1, SP(8)), 0);
	assert_int_equal(unwind_rows__add(&rows, 2, SP(8)), 0);
	assert_int_equal(rows.n, 1);
	assert_int_equal(unwind_rows__add(&rows, 3, SP(16)), 0);
	assert_int_equal(unwind_rows__add(&rows, 3, SP(24)), 0);
	assert_int_equal(rows.n, 2);
	assert_int_equal(rows.rows[0].pc, 1);
	assert_int_equal(rows.rows[0].rule, SP(8));
	assert_int_equal(rows.rows[1].pc, 3);
	assert_int_equal(rows.rows[1].rule, SP(24));
	/* The previous row already has the new rule, so the replaced row is removed. */
	assert_int_equal(unwind_rows__add(&rows, 3, SP(8)), 0);
	assert_int_equal(rows.n, 1);
	assert_int_equal(unwind_rows__add(&rows, 1, UNWIND_NONE), 0);
	assert_int_equal(rows.n, 0);
	free(rows.rows);
}

static void test_limit(void **state)
{
	enum { MANY = 1000 }; /* larger than the first allocation */
	struct unwind_rows rows = {.max = MANY};

	(void)state;
	for (uint32_t i = 0; i < MANY; i++)
		assert_int_equal(unwind_rows__add(&rows, i, SP(8 + i % 2 * 8)), 0);
	assert_int_equal(rows.n, MANY);
	assert_int_equal(unwind_rows__add(&rows, MANY, UNWIND_NONE), -E2BIG);
	assert_int_equal(rows.n, MANY);
	/* A rule that needs no new row can still be added. */
	assert_int_equal(unwind_rows__add(&rows, MANY, SP(16)), 0);
	assert_int_equal(unwind_rows__add(&rows, MANY - 1, UNWIND_NONE), 0);
	for (uint32_t i = 0; i + 1 < MANY; i++)
		assert_int_equal(rows.rows[i].pc, i);
	free(rows.rows);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_neighbours_differ),
		cmocka_unit_test(test_limit),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
