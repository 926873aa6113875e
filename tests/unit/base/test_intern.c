// SPDX-License-Identifier: BSD-2-Clause
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "base/intern.h"

static void equal_strings_have_one_number(void **state)
{
	struct intern intern = {};
	uint32_t number;
	size_t len;

	(void)state;
	assert_int_equal(intern__add(&intern, "b", 1, &number), 1);
	assert_int_equal(number, 0);
	assert_int_equal(intern__add(&intern, "", 0, &number), 1);
	assert_int_equal(number, 1);
	assert_int_equal(intern__add(&intern, "b\0c", 3, &number), 1);
	assert_int_equal(number, 2);
	assert_int_equal(intern__add(&intern, "", 0, &number), 0);
	assert_int_equal(number, 1);
	assert_int_equal(intern__add(&intern, "b", 1, &number), 0);
	assert_int_equal(number, 0);
	assert_int_equal(intern.n, 3);
	assert_memory_equal(intern__get(&intern, 2, &len), "b\0c", 3);
	assert_int_equal(len, 3);
	intern__get(&intern, 1, &len);
	assert_int_equal(len, 0);
	intern__clear(&intern);
	assert_int_equal(intern.n, 0);
}

static void the_first_may_be_empty(void **state)
{
	struct intern intern = {};
	uint32_t number;
	size_t len;

	(void)state;
	assert_int_equal(intern__add(&intern, "", 0, &number), 1);
	assert_int_equal(intern__add(&intern, "", 0, &number), 0);
	assert_int_equal(intern__add(&intern, "x", 1, &number), 1);
	assert_memory_equal(intern__get(&intern, 1, &len), "x", 1);
	intern__clear(&intern);
}

static void many_are_found_again(void **state)
{
	struct intern intern = {};
	uint32_t number;
	char text[32];
	size_t len;

	(void)state;
	for (int round = 0; round < 2; round++) {
		for (uint32_t i = 0; i < 20000; i++) {
			int n = snprintf(text, sizeof(text), "%*u", (int)(i % 20), i);

			assert_int_equal(intern__add(&intern, text, (size_t)n, &number), !round);
			assert_int_equal(number, i);
		}
	}
	assert_memory_equal(intern__get(&intern, 19999, &len), "              19999", 19);
	assert_int_equal(len, 19);
	intern__clear(&intern);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(equal_strings_have_one_number),
		cmocka_unit_test(the_first_may_be_empty),
		cmocka_unit_test(many_are_found_again),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
