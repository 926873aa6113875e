// SPDX-License-Identifier: BSD-2-Clause
/* The kernel side's frame-pointer walk over stacks laid out by hand. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "host_stack.h"
#include "no_tables.h"
#include "stack.bpf.h"

__u64 trampoline_addr(void)
{
	return 0;
}

__u32 random_u32(void)
{
	return 0;
}

/* Walks by frame pointers, as the BPF programs do where there are no tables. Walks twice, with
 * bpf_loop() and without it, and checks that both walks find the same stack. */
static int stack_walk(struct abi_stack *stack, uint64_t entry, uint64_t sp, uint64_t bp,
		      uint32_t max_frames)
{
	static struct unwind u, by_steps;

	if (stack_begin(&u, entry, sp, bp, max_frames))
		return -1;
	by_steps = u;
	stack_walk_frame_pointers(&u);
	for (__u32 i = 0; i < ABI_STACK_FRAMES && !stack_frame_pointer_step(&by_steps); i++)
		;
	assert_int_equal(by_steps.stack.n, u.stack.n);
	assert_int_equal(by_steps.stack.end, u.stack.end);
	assert_memory_equal(by_steps.stack.ip, u.stack.ip, u.stack.n * sizeof(u.stack.ip[0]));
	*stack = u.stack;
	return 0;
}

/* Lays out n frames of 4 words above the return address at word 0. Returns the caller's rbp. */
static uint64_t lay_frames(size_t n)
{
	memset(memory, 0, sizeof(memory));
	memory[0] = 0x1000;
	for (size_t i = 0; i < n; i++) {
		size_t fp = 4 + 4 * i;

		memory[fp] = i + 1 < n ? at(fp + 4) : 0;
		memory[fp + 1] = 0x2000 + i;
	}
	return n ? at(4) : 0;
}

static void whole_stack(void **state)
{
	struct abi_stack stack;
	uint64_t bp = lay_frames(5);

	(void)state;
	assert_int_equal(stack_walk(&stack, 0x500, at(0), bp, ABI_STACK_FRAMES), 0);
	assert_int_equal(stack.n, 7);
	assert_int_equal(stack.end, STACK_END_FRAME_POINTERS);
	assert_int_equal(stack.ip[0], 0x501); /* entry + 1 */
	assert_int_equal(stack.ip[1], 0x1000);
	for (int i = 0; i < 5; i++)
		assert_int_equal(stack.ip[2 + i], 0x2000 + i);
}

static void caller_is_kept_whatever_rbp_is(void **state)
{
	static const uint64_t wild[] = {0,
					1,
					0x1234,
					STACK_ADDR - 8,
					STACK_ADDR + 3,
					~0ULL,
					~7ULL,
					1ULL << 63,
					STACK_ADDR + (32ULL << 20)};
	struct abi_stack stack;

	(void)state;
	lay_frames(0);
	for (size_t i = 0; i < sizeof(wild) / sizeof(wild[0]); i++) {
		assert_int_equal(stack_walk(&stack, 0x500, at(0), wild[i], ABI_STACK_FRAMES), 0);
		assert_int_equal(stack.n, 2);
		assert_int_equal(stack.ip[1], 0x1000);
		assert_int_equal(stack.end, STACK_END_FRAME_POINTERS);
	}
}

static void unreadable_return_address_is_an_error(void **state)
{
	struct abi_stack stack;

	(void)state;
	assert_int_equal(stack_walk(&stack, 0x500, 0x10, 0, ABI_STACK_FRAMES), -1);
}

static void cycles_and_steps_back_end_the_walk(void **state)
{
	struct abi_stack stack;
	uint64_t bp = lay_frames(3);

	(void)state;
	memory[8] = at(4); /* the second frame points back to the first */
	assert_int_equal(stack_walk(&stack, 0x500, at(0), bp, ABI_STACK_FRAMES), 0);
	assert_int_equal(stack.n, 4);
	memory[8] = at(8); /* the second frame points to itself */
	assert_int_equal(stack_walk(&stack, 0x500, at(0), bp, ABI_STACK_FRAMES), 0);
	assert_int_equal(stack.n, 4);
	assert_int_equal(stack.end, STACK_END_FRAME_POINTERS);
}

static void limit_is_said(void **state)
{
	struct abi_stack stack;
	uint64_t bp = lay_frames(200);

	(void)state;
	assert_int_equal(stack_walk(&stack, 0x500, at(0), bp, ABI_STACK_FRAMES), 0);
	assert_int_equal(stack.n, ABI_STACK_FRAMES);
	assert_int_equal(stack.end, STACK_END_TRUNCATED);
	assert_int_equal(stack_walk(&stack, 0x500, at(0), bp, 10), 0);
	assert_int_equal(stack.n, 10);
	assert_int_equal(stack.end, STACK_END_TRUNCATED);
	memory[37] = 0; /* the return address of the frame behind the limit */
	assert_int_equal(stack_walk(&stack, 0x500, at(0), bp, 10), 0);
	assert_int_equal(stack.n, 10);
	assert_int_equal(stack.end, STACK_END_FRAME_POINTERS);
	/* a stack that just fits is not cut */
	bp = lay_frames(8);
	assert_int_equal(stack_walk(&stack, 0x500, at(0), bp, 10), 0);
	assert_int_equal(stack.n, 10);
	assert_int_equal(stack.end, STACK_END_FRAME_POINTERS);
}

static void random_memory_is_survived(void **state)
{
	struct abi_stack stack;

	(void)state;
	srand(1);
	for (int round = 0; round < 20000; round++) {
		for (int i = 0; i < 64; i++)
			memory[rand() % 256] = rand() % 3 ? at((size_t)rand() % 260) + rand() % 2
							  : (uint64_t)rand() * rand();
		memory[0] = 0x1000;
		assert_int_equal(
			stack_walk(&stack, 0x500, at(0), memory[rand() % 256], ABI_STACK_FRAMES),
			0);
		assert_in_range(stack.n, 2, ABI_STACK_FRAMES);
		for (uint32_t i = 0; i < stack.n; i++)
			assert_int_not_equal(stack.ip[i], 0);
	}
}

static int compare_keys(const void *a, const void *b)
{
	return memcmp(a, b, sizeof(struct abi_stack_key));
}

static void keys_differ_where_stacks_do(void **state)
{
	enum { N = 200000 };
	static struct abi_stack_key keys[N];
	const __u64 seed[2] = {0x9e3779b97f4a7c15ULL, 0xd1b54a32d192ed03ULL};
	const __u64 other_seed[2] = {1234567, 7654321};
	struct abi_stack stack = {};
	struct abi_stack_key again;

	(void)state;
	/* addresses near each other, stacks of many lengths: as in real programs */
	srand(2);
	for (int i = 0; i < N; i++) {
		stack.n = 2 + (uint32_t)(i % 20);
		for (uint32_t j = 0; j < stack.n; j++)
			stack.ip[j] = 0x400000 + (uint64_t)(rand() % 64) * 16;
		stack.ip[0] = 0x400000 + (uint64_t)i; /* no two stacks are equal */
		keys[i] = stack_hash(&stack, seed);
		again = stack_hash(&stack, seed);
		assert_memory_equal(&again, &keys[i], sizeof(again));
		again = stack_hash(&stack, other_seed);
		assert_memory_not_equal(&again, &keys[i], sizeof(again));
	}
	qsort(keys, N, sizeof(keys[0]), compare_keys);
	for (int i = 1; i < N; i++) {
		assert_memory_not_equal(&keys[i - 1], &keys[i], sizeof(keys[0]));
		/* the lower halves of the hashes are enough to tell stacks apart */
		assert_int_not_equal(keys[i - 1].lo, keys[i].lo);
	}
}

static void truncation_is_part_of_the_key(void **state)
{
	const __u64 seed[2] = {3, 5};
	struct abi_stack stack = {.n = 2, .ip = {1, 2}};
	struct abi_stack_key whole = stack_hash(&stack, seed), cut;

	(void)state;
	stack.end = STACK_END_TRUNCATED;
	cut = stack_hash(&stack, seed);
	assert_memory_not_equal(&whole, &cut, sizeof(whole));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(whole_stack),
		cmocka_unit_test(caller_is_kept_whatever_rbp_is),
		cmocka_unit_test(unreadable_return_address_is_an_error),
		cmocka_unit_test(cycles_and_steps_back_end_the_walk),
		cmocka_unit_test(limit_is_said),
		cmocka_unit_test(random_memory_is_survived),
		cmocka_unit_test(keys_differ_where_stacks_do),
		cmocka_unit_test(truncation_is_part_of_the_key),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
