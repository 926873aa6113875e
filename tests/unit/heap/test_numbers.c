// SPDX-License-Identifier: BSD-2-Clause
#include "heap/numbers.h"

#include "fake.h"

#define BASE 0x10000000ULL

static void add_spans(struct blocks *blocks)
{
	const struct span walked = {.kind = SPAN_WALKED, .start = BASE, .end = BASE + 0x100000};
	const struct span slab = {.kind = SPAN_SLAB,
				  .start = BASE + 0x200000,
				  .end = BASE + 0x203000,
				  .first = BASE + 0x200010,
				  .block_size = 48,
				  .n_slots = 200};
	const struct span single = {.kind = SPAN_SINGLE,
				    .start = BASE + 0x300000,
				    .end = BASE + 0x310000,
				    .first = BASE + 0x300010,
				    .block_size = 60000};
	struct span *span;

	assert_int_equal(blocks__add(blocks, &walked, &span), 0);
	for (uint64_t at = BASE + 16; at < BASE + 0xff000; at += 32 + (uint64_t)rand() % 60 * 16)
		span__add_block(span, at, rand() % 3);
	assert_int_equal(blocks__add(blocks, &slab, &span), 0);
	for (size_t i = 0; i < 200; i += 3)
		span->in_use[i / 64] |= 1ULL << i % 64;
	assert_int_equal(blocks__add(blocks, &single, &span), 0);
}

static struct numbers numbers;
static uint32_t next;

static int take(const struct block *block, void *ctx)
{
	(void)ctx;
	if (block->in_use)
		numbers__take(&numbers, block);
	return 0;
}

static int number_all(const struct blocks *blocks)
{
	assert_int_equal(numbers__open(&numbers, blocks), 0);
	assert_int_equal(blocks__each(blocks, take, NULL), 0);
	return numbers__close(&numbers);
}

static int check(const struct block *block, void *ctx)
{
	struct block same;

	(void)ctx;
	if (!block->in_use) {
		assert_int_equal(numbers__find(&numbers, block->start), NO_NUMBER);
		return 0;
	}
	assert_int_equal(numbers__find(&numbers, block->start), next);
	assert_int_equal(numbers__find(&numbers, block->start + block->size - 1), next);
	assert_int_equal(numbers__find(&numbers, block->start + block->size - 9), next);
	if (block->span->kind == SPAN_WALKED) /* here is the size of the next block */
		assert_int_equal(numbers__find(&numbers, block->start + block->size), NO_NUMBER);
	assert_true(numbers__block(&numbers, next, &same));
	assert_int_equal(same.start, block->start);
	assert_int_equal(same.size, block->size);
	next++;
	return 0;
}

static void test_all_blocks(void **state)
{
	struct blocks *blocks;
	struct block block;
	size_t dropped[HEAP_ALLOCATORS];

	(void)state;
	srand(4);
	assert_int_equal(blocks__new(&blocks), 0);
	add_spans(blocks);
	assert_int_equal(blocks__finish(blocks, dropped), 0);
	assert_int_equal(number_all(blocks), 0);
	assert_int_equal(numbers.n, blocks__in_use(blocks, &(uint64_t){0}));
	blocks__each(blocks, check, NULL);
	assert_int_equal(next, numbers.n);
	assert_false(numbers__block(&numbers, numbers.n, &block));
	assert_int_equal(numbers__find(&numbers, BASE - 1), NO_NUMBER);
	numbers__clear(&numbers);
	blocks__free(blocks);
}

static void test_no_blocks(void **state)
{
	struct blocks *blocks;
	struct block block;
	size_t dropped[HEAP_ALLOCATORS];

	(void)state;
	assert_int_equal(blocks__new(&blocks), 0);
	assert_int_equal(blocks__finish(blocks, dropped), 0);
	assert_int_equal(number_all(blocks), 0);
	assert_int_equal(numbers.n, 0);
	assert_false(numbers__block(&numbers, 0, &block));
	assert_int_equal(numbers__find(&numbers, 0), NO_NUMBER);
	numbers__clear(&numbers);
	blocks__free(blocks);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_all_blocks),
		cmocka_unit_test(test_no_blocks),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
