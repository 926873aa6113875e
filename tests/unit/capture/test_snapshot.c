// SPDX-License-Identifier: BSD-2-Clause
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "capture/snapshot.h"

#define N 300

static struct capture_table table(size_t key_size, size_t value_size)
{
	struct capture_table t = {calloc(N, key_size), calloc(N, value_size), N};

	assert_non_null(t.keys);
	assert_non_null(t.values);
	return t;
}

/* A permutation of 0 to N - 1, because 7 and N have no common factor. */
static uint64_t shuffled(size_t i)
{
	return i * 7 % N;
}

static void blocks_of_a_process_lie_together(void **state)
{
	struct capture_table live = table(sizeof(struct abi_live_key), sizeof(struct abi_live));
	struct abi_live_key *keys = live.keys;
	struct abi_live *blocks = live.values;
	size_t n = 0;

	(void)state;
	for (size_t i = 0; i < N; i++) {
		keys[i] = (struct abi_live_key){.addr = 1000 - shuffled(i),
						.process = 10 + 2 * (uint32_t)(shuffled(i) % 3)};
		blocks[i].size = keys[i].addr;
	}
	assert_int_equal(snapshot__sort_live(&live), 0);
	for (uint32_t process = 9; process < 16; process++) {
		struct snapshot_live his = snapshot__live_of(&live, process);

		assert_int_equal(his.n, process % 2 || process > 14 ? 0 : N / 3);
		for (size_t i = 0; i < his.n; i++, n++) {
			assert_int_equal(his.keys[i].process, process);
			/* block i belongs to key i */
			assert_int_equal(his.blocks[i].size, his.keys[i].addr);
			assert_true(!i || his.keys[i - 1].addr < his.keys[i].addr);
		}
	}
	assert_int_equal(n, N);
	assert_int_equal(snapshot__live_of(&live, UINT32_MAX - 1).n, 0);
	capture_table__free(&live);
}

/* A thread began to reallocate a block while the tables were read. */
static void a_block_counts_once(void **state)
{
	struct capture_table live = table(sizeof(struct abi_live_key), sizeof(struct abi_live));
	struct abi_live_key *keys = live.keys;

	(void)state;
	live.n = 5;
	for (size_t i = 0; i < live.n; i++)
		keys[i] = (struct abi_live_key){.addr = 1000 + i % 3, .process = 10};
	assert_int_equal(snapshot__sort_live(&live), 0);
	assert_int_equal(live.n, 3);
	assert_int_equal(snapshot__live_of(&live, 10).n, 3);
	for (size_t i = 0; i < 3; i++)
		assert_int_equal(snapshot__live_of(&live, 10).keys[i].addr, 1000 + i);
	capture_table__free(&live);
}

static void sites_are_sorted_by_process_and_stack(void **state)
{
	struct capture_table sites = table(sizeof(struct abi_site_key), sizeof(struct abi_site));
	struct abi_site_key *keys = sites.keys;
	struct abi_site *values = sites.values;
	struct snapshot_sites his;

	(void)state;
	for (size_t i = 0; i < N; i++) {
		keys[i] = (struct abi_site_key){.stack = {.lo = shuffled(i), .hi = shuffled(i) % 5},
						.process = 1 + i % 2};
		values[i].alloc_samples = shuffled(i);
	}
	assert_int_equal(snapshot__sort_sites(&sites), 0);
	his = snapshot__sites_of(&sites, 2);
	assert_int_equal(his.n, N / 2);
	for (size_t i = 0; i < his.n; i++) {
		assert_int_equal(his.keys[i].process, 2);
		assert_int_equal(his.sites[i].alloc_samples, his.keys[i].stack.lo);
		assert_true(!i ||
			    stack_key__compare(&his.keys[i - 1].stack, &his.keys[i].stack) < 0);
	}
	capture_table__free(&sites);
}

static void stacks_are_found(void **state)
{
	struct capture_table stacks = table(sizeof(struct abi_stack_key), sizeof(struct abi_stack)),
			     none = {};
	struct abi_stack_key *keys = stacks.keys;
	struct abi_stack *values = stacks.values;

	(void)state;
	for (size_t i = 0; i < N; i++) {
		keys[i] = (struct abi_stack_key){.lo = 2 * shuffled(i), .hi = shuffled(i) % 5};
		values[i].n = (uint32_t)shuffled(i);
	}
	assert_int_equal(snapshot__sort_stacks(&stacks), 0);
	for (uint64_t i = 0; i < N; i++) {
		const struct abi_stack_key odd = {.lo = 2 * i + 1, .hi = i % 5},
					   key = {.lo = 2 * i, .hi = i % 5};
		const struct abi_stack *found = snapshot__find_stack(&stacks, &key);

		assert_non_null(found);
		assert_int_equal(found->n, i);
		assert_null(snapshot__find_stack(&stacks, &odd));
	}
	assert_int_equal(snapshot__sort_stacks(&none), 0);
	assert_null(snapshot__find_stack(&none, &keys[0]));
	assert_int_equal(snapshot__sites_of(&none, 1).n, 0);
	capture_table__free(&stacks);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(blocks_of_a_process_lie_together),
		cmocka_unit_test(a_block_counts_once),
		cmocka_unit_test(sites_are_sorted_by_process_and_stack),
		cmocka_unit_test(stacks_are_found),
	};

	return cmocka_run_group_tests_name("snapshot", tests, NULL, NULL);
}
