// SPDX-License-Identifier: BSD-2-Clause
/* Arrays that grow, and searching in sorted ones. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <cmocka.h>

#include "base/search.h"
#include "base/vector.h"

struct element {
	char bytes[24];
};

static void test_reserve(void **state)
{
	struct element *array = NULL;
	size_t room = 0, moves = 0;

	(void)state;
	for (size_t n = 0; n < 1000; n++) {
		size_t before = room;

		assert_int_equal(VECTOR_RESERVE(array, room, n + 1), 0);
		assert_true(room > n && room >= before);
		moves += room != before;
		array[n].bytes[0] = (char)n;
	}
	assert_true(moves < 10);
	for (size_t n = 0; n < 1000; n++)
		assert_int_equal(array[n].bytes[0], (char)n);
	assert_int_equal(VECTOR_RESERVE(array, room, 5), 0); /* there is room */
	assert_true(room >= 1000);
	assert_int_equal(VECTOR_RESERVE(array, room, 5000), 0); /* at once */
	array[4999].bytes[23] = 1;
	free(array);
}

/* What cannot be had, or told in bytes, changes nothing. */
static void test_too_much(void **state)
{
	struct element *array = NULL, *before;
	size_t room = 0;

	(void)state;
	assert_int_equal(VECTOR_RESERVE(array, room, 10), 0);
	before = array;
	array[9].bytes[0] = 7;
	assert_int_equal(VECTOR_RESERVE(array, room, SIZE_MAX), -ENOMEM);
	assert_int_equal(VECTOR_RESERVE(array, room, SIZE_MAX / 24 + 1), -ENOMEM);
	assert_true(array == before && room >= 10 && room < 100);
	assert_int_equal(VECTOR_ADD_ROOM(array, (size_t)1 << 63), -ENOMEM);
	assert_int_equal(VECTOR_ADD_ROOM(array, (size_t)1 << 60), -ENOMEM);
	assert_true(array == before);
	assert_int_equal(array[9].bytes[0], 7);
	free(array);
}

static void test_add_room(void **state)
{
	int *array = NULL;

	(void)state;
	for (int n = 0; n < 600; n++) {
		assert_int_equal(VECTOR_ADD_ROOM(array, (size_t)n), 0);
		array[n] = n;
	}
	for (int n = 100; n < 1000; n++) { /* 500 were lost */
		assert_int_equal(VECTOR_ADD_ROOM(array, (size_t)n), 0);
		array[n] = -n;
	}
	for (int n = 0; n < 1000; n++)
		assert_int_equal(array[n], n < 100 ? n : -n);
	free(array);
}

static void test_search(void **state)
{
	const int sorted[] = {1, 3, 3, 3, 7, 9};
	const size_t n = sizeof(sorted) / sizeof(sorted[0]);

	(void)state;
	assert_int_equal(SEARCH_FIRST(i, n, sorted[i] >= 0), 0);
	assert_int_equal(SEARCH_FIRST(i, n, sorted[i] >= 3), 1);
	assert_int_equal(SEARCH_FIRST(i, n, sorted[i] > 3), 4);
	assert_int_equal(SEARCH_FIRST(i, n, sorted[i] >= 9), 5);
	assert_int_equal(SEARCH_FIRST(i, n, sorted[i] > 9), n);
	assert_int_equal(SEARCH_FIRST(i, 0, sorted[i] >= 0), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_reserve),
		cmocka_unit_test(test_too_much),
		cmocka_unit_test(test_add_room),
		cmocka_unit_test(test_search),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
