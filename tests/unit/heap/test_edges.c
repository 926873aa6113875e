// SPDX-License-Identifier: BSD-2-Clause
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "heap/edges.h"

static size_t collect(const struct edges *edges, uint32_t from, uint32_t *to, size_t max)
{
	struct edge_walk walk = edges__from(edges, from);
	size_t n = 0;

	while (n < max && edge_walk__next(&walk, &to[n]))
		n++;
	return n;
}

static void test_targets_come_back_in_order(void **state)
{
	const uint32_t far[] = {0, 0xfffffff0, 5, 5}, near[] = {41};
	struct edges edges = {};
	uint32_t to[8];

	(void)state;
	assert_int_equal(edges__init(&edges, 1000), 0);
	assert_int_equal(collect(&edges, 7, to, 8), 0);
	assert_int_equal(edges__add(&edges, 7, far, 4), 0);
	assert_int_equal(edges__add(&edges, 9, NULL, 0), 0);
	assert_int_equal(edges__add(&edges, 40, near, 1), 0);
	assert_int_equal(edges.n, 5);
	assert_int_equal(collect(&edges, 7, to, 8), 4);
	assert_memory_equal(to, far, sizeof(far));
	assert_int_equal(collect(&edges, 40, to, 8), 1);
	assert_int_equal(to[0], 41);
	for (uint32_t from = 0; from < 100; from++)
		if (from != 7 && from != 40)
			assert_int_equal(collect(&edges, from, to, 8), 0);
	edges__clear(&edges);
}

static void test_a_block_may_be_added_again(void **state)
{
	struct edges edges = {};
	uint32_t to[8];

	(void)state;
	assert_int_equal(edges__init(&edges, 3), 0);
	assert_int_equal(edges__add(&edges, 1, (const uint32_t[]){2}, 1), 0);
	assert_int_equal(edges__add(&edges, 1, (const uint32_t[]){0, 1}, 2), 0);
	assert_int_equal(edges__add(&edges, 2, (const uint32_t[]){0}, 1), 0);
	assert_int_equal(collect(&edges, 1, to, 8), 3);
	assert_int_equal(to[0], 2);
	assert_int_equal(to[1], 0);
	assert_int_equal(to[2], 1);
	assert_int_equal(collect(&edges, 2, to, 8), 1);
	edges__clear(&edges);
}

/* Compares with a plain array of all edges. */
static void test_random_graphs(void **state)
{
	enum { BLOCKS = 2000, MOST = 6 };
	static uint32_t plain[BLOCKS][MOST];
	static size_t n[BLOCKS];

	(void)state;
	srand(1);
	for (int round = 0; round < 10; round++) {
		struct edges edges = {};
		uint32_t to[MOST + 1];

		assert_int_equal(edges__init(&edges, BLOCKS), 0);
		for (uint32_t from = 0; from < BLOCKS; from++) {
			n[from] = (size_t)rand() % (MOST + 1);
			if (rand() % 3 == 0)
				n[from] = 0;
			for (size_t i = 0; i < n[from]; i++)
				plain[from][i] = (uint32_t)rand() % BLOCKS;
			assert_int_equal(edges__add(&edges, from, plain[from], n[from]), 0);
			/* an edge can be walked as soon as it is added */
			assert_int_equal(collect(&edges, from, to, MOST + 1), n[from]);
		}
		for (uint32_t from = 0; from < BLOCKS; from++) {
			assert_int_equal(collect(&edges, from, to, MOST + 1), n[from]);
			assert_memory_equal(to, plain[from], n[from] * sizeof(*to));
		}
		edges__clear(&edges);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_targets_come_back_in_order),
		cmocka_unit_test(test_a_block_may_be_added_again),
		cmocka_unit_test(test_random_graphs),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
