// SPDX-License-Identifier: BSD-2-Clause
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "heap/blocks.h"

#define BASE 0x7f0000000000ULL
#define FAR  0x7f8000000000ULL

static struct blocks *new_blocks(void)
{
	struct blocks *blocks;

	assert_int_equal(blocks__new(&blocks), 0);
	return blocks;
}

static struct span *add_walked(struct blocks *blocks, uint64_t start, uint64_t len)
{
	const struct span model = {.kind = SPAN_WALKED, .start = start, .end = start + len};
	struct span *span;

	assert_int_equal(blocks__add(blocks, &model, &span), 0);
	return span;
}

static void finish(struct blocks *blocks, size_t dropped)
{
	size_t n[HEAP_ALLOCATORS];

	assert_int_equal(blocks__finish(blocks, n), 0);
	assert_int_equal(n[HEAP_GLIBC], dropped);
	assert_int_equal(n[HEAP_JEMALLOC], 0);
}

struct list {
	struct block blocks[4096];
	size_t n;
};

static int add_to_list(const struct block *block, void *ctx)
{
	struct list *list = ctx;

	assert_true(list->n < 4096);
	list->blocks[list->n++] = *block;
	return 0;
}

/* For each address of a span, blocks__find() must find the same block as a linear search. */
static void check_all(const struct blocks *blocks, uint64_t start, uint64_t end)
{
	static struct list list;
	struct block block;
	size_t i = 0;

	list.n = 0;
	assert_int_equal(blocks__each(blocks, add_to_list, &list), 0);
	for (uint64_t at = start; at < end; at += 8) {
		bool there;

		while (i < list.n && list.blocks[i].start + list.blocks[i].size <= at)
			i++;
		there = i < list.n && list.blocks[i].start <= at;
		assert_int_equal(blocks__find(blocks, at, &block), there);
		if (there) {
			assert_int_equal(block.start, list.blocks[i].start);
			assert_int_equal(block.size, list.blocks[i].size);
			assert_int_equal(block.in_use, list.blocks[i].in_use);
			assert_int_equal(block.slot, list.blocks[i].slot);
		}
	}
}

static void test_walked(void **state)
{
	struct blocks *blocks = new_blocks();
	struct span *span = add_walked(blocks, BASE, 0x100000);
	struct block block;
	uint64_t bytes;

	(void)state;
	span__add_block(span, BASE + 0x20, true);
	span__add_block(span, BASE + 0x40, false);
	span__add_block(span, BASE + 0x80, true);    /* covers many pages */
	span__add_block(span, BASE + 0x80000, true); /* is at the start of a page */
	span__add_void(span, BASE + 0x80040);
	span__add_block(span, BASE + 0xfffc0, true);
	/* the fencepost at the end of a full heap of glibc */
	span__add_void(span, BASE + 0xffff0);
	assert_true(span__set_free(span, BASE + 0xfffc0, 40));
	assert_true(span__set_free(span, BASE + 0x20, 24));
	assert_false(span__set_free(span, BASE + 0x20, 24));
	assert_false(span__set_free(span, BASE + 0x30, 24));
	assert_false(span__set_free(span, BASE + 0x100000, 24));
	finish(blocks, 0);

	assert_false(blocks__find(blocks, BASE + 0x10, &block));
	assert_true(blocks__find(blocks, BASE + 0x37, &block));
	assert_int_equal(block.size, 0x18);
	assert_false(block.in_use);
	assert_false(blocks__find(blocks, BASE + 0x38, &block)); /* the next block's header */
	assert_true(blocks__find(blocks, BASE + 0x7fff7, &block));
	assert_int_equal(block.start, BASE + 0x80);
	assert_int_equal(block.size, 0x7ff78);
	assert_true(block.in_use);
	assert_false(blocks__find(blocks, BASE + 0x80050, &block));
	assert_true(blocks__find(blocks, BASE + 0xfffc0, &block));
	assert_int_equal(block.size, 40);
	assert_false(block.in_use);
	assert_false(blocks__find(blocks, BASE + 0xffff0, &block));
	assert_false(blocks__find(blocks, BASE - 1, &block));
	assert_false(blocks__find(blocks, BASE + 0x100000, &block));
	assert_int_equal(blocks__in_use(blocks, &bytes), 2);
	assert_int_equal(bytes, 0x7ff78 + 0x38);
	check_all(blocks, BASE, BASE + 0x100000);
	blocks__free(blocks);
}

static void test_random_sizes(void **state)
{
	(void)state;
	srandom(1);
	for (int round = 0; round < 20; round++) {
		struct blocks *blocks = new_blocks();
		uint64_t len = 0x40000, at = BASE + 0x10;
		struct span *span = add_walked(blocks, BASE, len);

		while (at + 0x20 < BASE + len) {
			long kind = random() % 16;

			if (kind)
				span__add_block(span, at, kind % 2);
			else
				span__add_void(span, at);
			at += 32 + 16 * (uint64_t)(random() % (round % 2 ? 8 : 1000));
		}
		finish(blocks, 0);
		check_all(blocks, BASE, BASE + len);
		blocks__free(blocks);
	}
}

static void test_kinds_together(void **state)
{
	struct blocks *blocks = new_blocks();
	struct span *span;
	struct block block;
	const struct span slab = {.kind = SPAN_SLAB,
				  .allocator = HEAP_JEMALLOC,
				  .start = BASE + 0x3000,
				  .end = BASE + 0x4000,
				  .first = BASE + 0x3000,
				  .block_size = 48,
				  .n_slots = 85};
	const struct span single = {.kind = SPAN_SINGLE,
				    .start = FAR,
				    .end = FAR + 0x5000,
				    .first = FAR + 0x10,
				    .block_size = 0x4ff0,
				    .arena = 3};
	const struct span overlapping = {
		.kind = SPAN_SINGLE,
		.start = FAR + 0x4000,
		.end = FAR + 0x6000,
		.first = FAR + 0x4010,
		.block_size = 8,
	};

	(void)state;
	assert_int_equal(blocks__add(blocks, &single, &span), 0);
	assert_int_equal(blocks__add(blocks, &overlapping, &span), 0);
	assert_int_equal(blocks__add(blocks, &slab, &span), 0);
	span->in_use[0] = 1ULL << 2;
	span->in_use[1] = 1ULL << (84 - 64);
	span = add_walked(blocks, BASE, 0x2000);
	span__add_block(span, BASE + 0x10, true);
	finish(blocks, 1);

	assert_int_equal(blocks__n_spans(blocks), 3);
	assert_int_equal(blocks__n_slots(blocks), 0x200 + 85 + 1);
	assert_true(blocks__find(blocks, BASE + 0x3000 + 2 * 48 + 47, &block));
	assert_int_equal(block.start, BASE + 0x3000 + 2 * 48);
	assert_int_equal(block.slot, 0x200 + 2);
	assert_true(block.in_use);
	assert_int_equal(block.span->allocator, HEAP_JEMALLOC);
	assert_true(blocks__find(blocks, BASE + 0x3000, &block));
	assert_false(block.in_use);
	assert_false(blocks__find(blocks, BASE + 0x3000 + 85 * 48, &block));
	assert_false(blocks__find(blocks, BASE + 0x2000, &block)); /* between spans */
	assert_true(blocks__find(blocks, FAR + 0x4fff, &block));
	assert_int_equal(block.slot, 0x200 + 85);
	assert_int_equal(block.span->arena, 3);
	assert_false(blocks__find(blocks, FAR, &block));
	assert_ptr_equal(blocks__find_span(blocks, FAR + 0x4fff), blocks__span(blocks, 2));
	check_all(blocks, BASE, BASE + 0x5000);
	blocks__free(blocks);
}

static void test_what_does_not_fit(void **state)
{
	static const struct span bad[] = {
		{.kind = SPAN_WALKED, .start = BASE, .end = BASE},
		{.kind = SPAN_WALKED, .start = BASE + 8, .end = BASE + 0x1000},
		{.kind = SPAN_WALKED, .start = BASE, .end = BASE + (1ULL << 36)},
		{.kind = SPAN_SINGLE, .start = BASE, .end = BASE + 0x1000, .first = BASE},
		{.kind = SPAN_SINGLE,
		 .start = BASE,
		 .end = BASE + 0x1000,
		 .first = BASE + 16,
		 .block_size = 0xff1},
		{.kind = SPAN_SINGLE,
		 .start = BASE,
		 .end = BASE + 0x1000,
		 .first = BASE - 16,
		 .block_size = 8},
		{.kind = SPAN_SLAB,
		 .start = BASE,
		 .end = BASE + 0x1000,
		 .first = BASE,
		 .block_size = 64,
		 .n_slots = 65},
		{.kind = SPAN_SLAB,
		 .start = BASE,
		 .end = BASE + 0x1000,
		 .first = BASE,
		 .block_size = 1ULL << 63,
		 .n_slots = 2},
	};
	struct blocks *blocks = new_blocks();
	struct block block;
	struct span *span;

	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++)
		assert_int_equal(blocks__add(blocks, &bad[i], &span), -EINVAL);
	finish(blocks, 0);
	assert_false(blocks__find(blocks, BASE, &block));
	blocks__free(blocks);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_walked),
		cmocka_unit_test(test_random_sizes),
		cmocka_unit_test(test_kinds_together),
		cmocka_unit_test(test_what_does_not_fit),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
