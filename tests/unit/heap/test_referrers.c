// SPDX-License-Identifier: BSD-2-Clause
/* The colours of blocks that point to each other. */
#include "heap/referrers.h"

#include "made_heap.h"

#define WORD(block, i) (BLOCK(block) + 8 * (uint64_t)(i))

static struct made_heap heap;
static struct referrers referrers;
static uint64_t sizes[REFERRERS_SIZES / 64];

static void point(uint64_t from, uint64_t to)
{
	fake__put(&heap.fake, from, to);
}

static void find_with(struct referrers_options options)
{
	made_heap__finish(&heap, 0);
	memset(sizes, 0, sizeof(sizes));
	sizes[BLOCK_SIZE / 64] |= 1ULL << BLOCK_SIZE % 64;
	options.sizes = sizes;
	assert_int_equal(referrers__find(heap.image, heap.blocks, &options, &referrers), 0);
}

static void find(void)
{
	find_with((struct referrers_options){});
}

static uint32_t colour(uint64_t i)
{
	struct block block;

	assert_true(blocks__find(heap.blocks, BLOCK(i), &block));
	return referrers__of(&referrers, &block);
}

static void end(void)
{
	referrers__clear(&referrers);
	made_heap__free(&heap);
}

static void test_kinds_of_referrers(void **state)
{
	(void)state;
	made_heap__begin(&heap, 40);
	point(WORD(1, 0), BLOCK(20));
	point(WORD(2, 0), BLOCK(21) + 5); /* into the block */
	point(WORD(3, 1), BLOCK(22));	  /* from another word */
	point(WORD(4, 0), BLOCK(23));	  /* from another kind of block */
	point(WORD(4, 3), 77);
	find();
	assert_int_not_equal(colour(20), 0);
	assert_int_not_equal(colour(21), 0);
	assert_int_not_equal(colour(20), colour(21)); /* the referrers do not look alike */
	assert_int_not_equal(colour(20), colour(22));
	assert_int_not_equal(colour(20), colour(23));
	assert_int_not_equal(colour(22), colour(23));
	assert_int_equal(colour(24), 0);
	end();
}

/* The colour does not depend on which of two referrers is read first. */
static void test_several_referrers(void **state)
{
	(void)state;
	made_heap__begin(&heap, 40);
	for (uint64_t i = 0; i < 2; i++) {
		point(WORD(3 + i, 0), BLOCK(20 + i));
		point(WORD(5 - 3 * i, 1), BLOCK(20 + i));
	}
	point(WORD(6, 0), BLOCK(22));
	point(WORD(7, 1), BLOCK(23));
	find();
	assert_int_equal(colour(20), colour(21));
	assert_true(colour(20) == colour(22) || colour(20) == colour(23));
	assert_int_not_equal(colour(22), colour(23));
	end();
}

/* Globals, free blocks and the block itself do not count as referrers. */
static void test_no_referrers(void **state)
{
	(void)state;
	made_heap__begin(&heap, 40);
	point(DATA, BLOCK(20));
	point(WORD(50, 0), BLOCK(20));
	point(WORD(20, 0), BLOCK(20));
	point(WORD(50, 0), BLOCK(51));
	find();
	assert_int_equal(colour(20), 0);
	end();
}

/* An array of several pages points to blocks. All its elements count as one word. If a page is not
 * resident, the pages behind it are still read. */
static void test_arrays(void **state)
{
	const struct span model = {.kind = SPAN_SINGLE,
				   .start = ANON,
				   .end = ANON + 0x2000,
				   .first = ANON + 16,
				   .block_size = 0x1ff0};
	struct span *span;

	(void)state;
	made_heap__begin(&heap, 40);
	assert_int_equal(blocks__add(heap.blocks, &model, &span), 0);
	point(ANON + 0x800, BLOCK(20));
	point(ANON + 0x1000, BLOCK(21));
	point(ANON + 0x1ff8, BLOCK(22));
	point(ANON + 16, BLOCK(23));
	find();
	assert_int_not_equal(colour(20), 0);
	assert_int_equal(colour(20), colour(21));
	assert_int_equal(colour(20), colour(22));
	assert_int_not_equal(colour(20), colour(23));
	end();

	made_heap__begin(&heap, 40);
	assert_int_equal(blocks__add(heap.blocks, &model, &span), 0);
	point(ANON + 0x1000, BLOCK(21));
	fake__set_page(&heap.fake, ANON, 0);
	find();
	assert_int_not_equal(colour(21), 0);
	end();
}

/* Only blocks of the wanted sizes have a colour. */
static void test_sizes(void **state)
{
	struct referrers_options options = {.sizes = sizes};

	(void)state;
	made_heap__begin(&heap, 40);
	point(WORD(1, 0), BLOCK(20));
	made_heap__finish(&heap, 0);
	memset(sizes, 0xff, sizeof(sizes));
	sizes[BLOCK_SIZE / 64] &= ~(1ULL << BLOCK_SIZE % 64);
	assert_int_equal(referrers__find(heap.image, heap.blocks, &options, &referrers), 0);
	assert_int_equal(colour(20), 0);
	end();
}

/* With too many blocks or too little time no colour is known. This is no error. */
static void test_limits(void **state)
{
	(void)state;
	made_heap__begin(&heap, 40);
	point(WORD(1, 0), BLOCK(20));
	find_with((struct referrers_options){.max_blocks = 39});
	assert_int_equal(colour(20), 0);
	end();

	made_heap__begin(&heap, 40);
	point(WORD(1, 0), BLOCK(20));
	find_with((struct referrers_options){.max_blocks = 40});
	assert_int_not_equal(colour(20), 0);
	end();

	made_heap__begin(&heap, N_BLOCKS - 1);
	point(WORD(1, 0), BLOCK(20));
	find_with((struct referrers_options){.max_ns = 1});
	assert_int_equal(colour(20), 0);
	end();
}

static uint32_t weight(uint64_t i)
{
	struct block block;

	assert_true(blocks__find(heap.blocks, BLOCK(i), &block));
	return referrers__weight(&referrers, &block);
}

/* In a large heap, the blocks on some pages stand for all. These blocks have colours, and so have
 * blocks that the caller names. */
static void test_large_heap(void **state)
{
	const uint64_t n = N_BLOCKS - 1;
	uint64_t addrs[2] = {0, 0}, sum = 0, named = 0;

	(void)state;
	made_heap__begin(&heap, (uint32_t)n);
	for (uint64_t i = 0; i + 1 < n; i++)
		point(WORD(i, 0), BLOCK(i + 1) + 3);
	find_with((struct referrers_options){.exact = 5000});
	assert_int_equal(referrers.every, 4); /* one page in four: at most 5000 of 16383 blocks */
	for (uint64_t i = 1; i < n; i++) {
		assert_true(weight(i) == 0 || weight(i) == 4);
		if (weight(i))
			assert_int_not_equal(colour(i), 0);
		sum += weight(i);
		if (!colour(i))
			named = i;
	}
	assert_in_range(sum, n / 2, 2 * n);
	assert_true(named && !weight(named));
	referrers__clear(&referrers);

	addrs[1] = BLOCK(named);
	memset(sizes, 0xff, sizeof(sizes));
	assert_int_equal(referrers__find(heap.image, heap.blocks,
					 &(struct referrers_options){.sizes = sizes,
								     .addrs = addrs,
								     .n_addrs = 2,
								     .exact = 5000},
					 &referrers),
			 0);
	assert_int_not_equal(colour(named), 0);
	assert_int_equal(weight(named), 0);
	end();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_kinds_of_referrers),
		cmocka_unit_test(test_several_referrers),
		cmocka_unit_test(test_no_referrers),
		cmocka_unit_test(test_arrays),
		cmocka_unit_test(test_sizes),
		cmocka_unit_test(test_limits),
		cmocka_unit_test(test_large_heap),
	};

	return cmocka_run_group_tests_name("referrers", tests, NULL, NULL);
}
