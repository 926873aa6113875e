// SPDX-License-Identifier: BSD-2-Clause
/* Tests arrays that grow, the search in sorted arrays, and hash tables that hold the numbers of
 * elements. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <cmocka.h>

#include "base/search.h"
#include "base/table.h"
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
	assert_int_equal(VECTOR_RESERVE(array, room, 5), 0); /* there is already room */
	assert_true(room >= 1000);
	assert_int_equal(VECTOR_RESERVE(array, room, 5000), 0); /* in one step */
	array[4999].bytes[23] = 1;
	free(array);
}

/* If a size cannot be allocated, or its bytes exceed size_t, the array is unchanged. */
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
	for (int n = 100; n < 1000; n++) { /* overwrites the last 500 elements, and adds 400 */
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

static uint32_t *find(const struct table *table, const uint64_t *keys, uint64_t key, size_t hash)
{
	return TABLE_SLOT(table, hash, i, keys[i] == key);
}

/* n keys have n_hashes different hashes. Exactly these keys are found. A key that is added after
 * the table has grown is found, too. */
static void table_of(size_t n, size_t n_hashes)
{
	uint64_t *keys = NULL;
	struct table table = {};
	size_t grown = 0;

	for (size_t n_keys = 0; n_keys < n; n_keys++) {
		int rc = table__reserve(&table, n_keys + 1);
		uint32_t *slot;

		assert_true(rc == 0 || rc == 1);
		assert_true(table.n_slots >= 2 * (n_keys + 1));
		assert_int_equal(table.n_slots & (table.n_slots - 1), 0);
		grown += (size_t)rc;
		for (size_t i = 0; i < n_keys && rc; i++) {
			slot = find(&table, keys, keys[i], keys[i] % n_hashes);
			assert_int_equal(*slot, 0); /* the slot is empty */
			*slot = (uint32_t)i + 1;
		}
		assert_int_equal(VECTOR_ADD_ROOM(keys, n_keys), 0);
		keys[n_keys] = 7 * n_keys;
		slot = find(&table, keys, 7 * n_keys, 7 * n_keys % n_hashes);
		assert_int_equal(*slot, 0);
		*slot = (uint32_t)n_keys + 1;
	}
	assert_true(grown > 0 && grown < 10);
	for (size_t i = 0; i < 7 * n; i++)
		assert_int_equal(*find(&table, keys, i, i % n_hashes), i % 7 ? 0 : i / 7 + 1);
	table__clear(&table);
	assert_null(table.slots);
	assert_int_equal(table.n_slots, 0);
	free(keys);
}

static void test_table(void **state)
{
	(void)state;
	table_of(1000, SIZE_MAX);
	table_of(1000, 13);
	table_of(100, 1);
}

static void test_table_too_large(void **state)
{
	struct table table = {};
	uint32_t *slots;

	(void)state;
	assert_int_equal(table__reserve(&table, 10), 1);
	slots = table.slots;
	assert_int_equal(table__reserve(&table, (size_t)UINT32_MAX + 1), -ENOMEM);
	assert_int_equal(table__reserve(&table, SIZE_MAX), -ENOMEM);
	assert_ptr_equal(table.slots, slots);
	assert_int_equal(table__reserve(&table, 0), 0);
	table__clear(&table);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_reserve),	 cmocka_unit_test(test_too_much),
		cmocka_unit_test(test_add_room), cmocka_unit_test(test_search),
		cmocka_unit_test(test_table),	 cmocka_unit_test(test_table_too_large),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
