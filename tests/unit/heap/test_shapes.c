// SPDX-License-Identifier: BSD-2-Clause
/* Blocks laid out by hand. Tests which of them count as alike. */
#include "fake.h"

#include "heap/look.h"
#include "heap/shapes.h"

#define FILE_AT 0x400000ULL
#define HEAP	0x500000ULL
#define ANON	0x600000ULL
#define LIBRARY 0x700000ULL
#define BYTES	0x10000ULL
#define NUMBER	0x9000000000000001ULL
#define TEXT	0x7473657474657374ULL /* "tsettest" */

static struct fake fake;
static struct image *image;
static struct blocks *blocks;
static struct span *span;
static uint64_t next_block;
static struct shape_label labels[8];
static size_t n_labels;
static struct census census;

static void start(void)
{
	const struct span model = {.kind = SPAN_WALKED, .start = HEAP, .end = HEAP + BYTES};

	fake__add(&fake, FILE_AT, 0x1000, "r-xp 00000000 08:01 77 /bin/program");
	fake__add(&fake, HEAP, BYTES, FAKE_BRK);
	fake__add(&fake, ANON, 0x1000, FAKE_ANON);
	assert_int_equal(blocks__new(&blocks), 0);
	assert_int_equal(blocks__add(blocks, &model, &span), 0);
	next_block = HEAP + 16;
	n_labels = 0;
}

/* Writes a block of n words; n is odd. Returns the block's address. */
static uint64_t put_block(bool in_use, size_t n, const uint64_t *words)
{
	uint64_t block = next_block;

	span__add_block(span, block, in_use);
	for (size_t i = 0; i < n; i++)
		fake__put(&fake, block + 8 * i, words[i]);
	next_block += 8 * n + 8;
	return block;
}

#define BLOCK(...)                                                                                 \
	put_block(true, sizeof((uint64_t[]){__VA_ARGS__}) / 8, (const uint64_t[]){__VA_ARGS__})

static void label(uint64_t addr, uint64_t size)
{
	labels[n_labels++] = (struct shape_label){addr, size};
}

static int count_block(const struct block *block, void *ctx)
{
	if (block->in_use)
		shapes__count(ctx, block, 7);
	return 0;
}

static void count(void)
{
	size_t dropped[HEAP_ALLOCATORS];
	struct shapes *shapes;

	span__add_block(span, next_block, false); /* ends the last block */
	image = fake__image(&fake);
	assert_int_equal(blocks__finish(blocks, dropped), 0);
	assert_int_equal(shapes__new(image, blocks, labels, n_labels, &shapes), 0);
	assert_int_equal(blocks__each(blocks, count_block, shapes), 0);
	shapes__give(shapes, &census);
	shapes__free(shapes);
	assert_int_equal(census.n_labels, n_labels);
}

static void end(void)
{
	census__clear(&census);
	blocks__free(blocks);
	fake__free(&fake, image);
}

static const struct census_shape *shape_of(size_t label)
{
	assert_in_range(census.shape_of[label], 0, census.n_shapes - 1);
	return &census.shapes[census.shape_of[label]];
}

/* Blocks are alike even if numbers, texts and targets of pointers differ. NULL and a pointer differ
 * in the shape, but not in the rough shape. Blocks of different sizes are not alike. */
static void test_blocks_look_alike(void **state)
{
	uint64_t known, one, other;

	(void)state;
	start();
	one = BLOCK(1, 2, 3);
	other = BLOCK(4, 5, 6);
	known = BLOCK(one, ANON + 8, NUMBER, 5, 0);
	BLOCK(other, ANON + 16, NUMBER + 1, 9, 0);
	BLOCK(other, ANON + 16, NUMBER + 1, 9, 0);
	BLOCK(one, 0, NUMBER, 5, 0);	       /* roughly alike */
	BLOCK(one, ANON + 8, NUMBER, TEXT, 8); /* roughly alike */
	BLOCK(5, ANON + 8, NUMBER, 5, 0);      /* a number instead of a pointer */
	BLOCK(one, ANON + 8, NUMBER, 5, 0, 0, 0);
	put_block(false, 5, (const uint64_t[]){one, ANON + 8, NUMBER, 5, 0});
	label(known, 33);
	count();
	assert_int_equal(census.n_shapes, 1);
	assert_int_equal(census.n_rough, 1);
	assert_int_equal(shape_of(0)->count.blocks, 3);
	assert_int_equal(shape_of(0)->count.bytes, 3 * 40);
	assert_int_equal(shape_of(0)->pinned, 3 * 7);
	assert_int_equal(census.rough[0].count.blocks, 2);
	end();
}

/* A pointer to the place behind a block's header differs from a pointer to the block's start. So
 * does a pointer to an element of an array. Blocks with such a pointer are still roughly alike,
 * because remains of older blocks look like this. In the last word, which may be beyond the
 * requested size, all pointers are alike. */
static void test_distances(void **state)
{
	static const uint64_t array[33] = {1};
	uint64_t target, known, start_of_all;

	(void)state;
	start();
	target = put_block(true, 33, array);
	known = BLOCK(target + 3, NUMBER, target);
	BLOCK(target + 5, NUMBER, target + 3);
	BLOCK(target, NUMBER, target);
	BLOCK(target + 64, NUMBER, target);
	start_of_all = BLOCK(target, NUMBER, NUMBER, NUMBER, NUMBER);
	BLOCK(target + 64, NUMBER, NUMBER, NUMBER, NUMBER);
	BLOCK(target + 200, NUMBER, NUMBER, NUMBER, NUMBER);
	BLOCK(target + 3, NUMBER, NUMBER, NUMBER, NUMBER);
	label(known, 24);
	label(start_of_all, 40);
	count();
	assert_int_equal(census.n_shapes, 2);
	assert_int_equal(shape_of(0)->count.blocks, 2);
	assert_int_equal(census.rough[shape_of(0)->rough].count.blocks, 0);
	assert_int_equal(shape_of(1)->count.blocks, 1);
	assert_int_equal(census.rough[shape_of(1)->rough].count.blocks, 2);
	end();
}

/* Texts are alike if blocks that are alike point to them from the same word. Here some are keys and
 * values of one struct, some are those of another struct, and nothing points to the last text. */
static void test_referrers_of_plain_blocks(void **state)
{
	uint64_t texts[7];

	(void)state;
	start();
	for (size_t i = 0; i < 7; i++)
		texts[i] = BLOCK(TEXT + i, TEXT, 0);
	BLOCK(texts[0], NUMBER, 0);
	BLOCK(texts[1], NUMBER, 7);
	BLOCK(texts[2] + 3, texts[3] + 3, 7);
	BLOCK(texts[4] + 3, texts[5] + 3, 8);
	label(texts[0], 24);
	label(texts[2], 24);
	label(texts[3], 24);
	label(texts[6], 24);
	count();
	assert_int_equal(census.n_shapes, 4);
	assert_int_equal(shape_of(0)->count.blocks, 2);
	assert_int_equal(shape_of(1)->count.blocks, 2);
	assert_int_equal(shape_of(2)->count.blocks, 2);
	assert_int_equal(shape_of(3)->count.blocks, 1);
	for (size_t i = 0; i < 3; i++)
		assert_int_equal(shape_of(i)->shape_class, SHAPE_PLAIN);
	assert_int_equal(shape_of(3)->shape_class, SHAPE_ALONE);
	end();
}

/* A pointer into a mapped file, or into the block itself, counts with its exact target. */
static void test_exact_targets(void **state)
{
	uint64_t object, list;

	(void)state;
	start();
	object = BLOCK(FILE_AT + 0x10, 1, 2);
	BLOCK(FILE_AT + 0x10, 3, 4);
	BLOCK(FILE_AT + 0x18, 3, 4);
	list = next_block;
	BLOCK(list, list, 1);
	BLOCK(next_block, next_block, 2);
	BLOCK(next_block, next_block + 8, 2);
	label(object, 24);
	label(list, 24);
	count();
	assert_int_equal(census.n_shapes, 2);
	assert_int_equal(shape_of(0)->count.blocks, 2);
	assert_int_equal(shape_of(1)->count.blocks, 2);
	assert_int_equal(shape_of(0)->shape_class, SHAPE_PARTICULAR);
	assert_int_equal(shape_of(1)->shape_class, SHAPE_PARTICULAR);
	assert_int_equal(shape_of(0)->mark, FILE_AT + 0x10);
	assert_int_equal(shape_of(1)->mark, 0);
	end();
}

static void test_classes(void **state)
{
	static const uint64_t large[131] = {5};
	uint64_t node, text, buffer;

	(void)state;
	start();
	text = BLOCK(TEXT, TEXT, 0x74736574);
	node = BLOCK(text, text, 1);
	buffer = put_block(true, 131, large);
	label(text, 24);
	label(node, 24);
	label(buffer, 1040);
	count();
	assert_int_equal(shape_of(0)->shape_class, SHAPE_PLAIN);
	assert_int_equal(shape_of(1)->shape_class, SHAPE_PARTICULAR);
	assert_int_equal(shape_of(2)->shape_class, SHAPE_LARGE);
	end();
}

/* Labels whose block is freed, smaller, or not resident, and a label inside a block. */
static void test_labels_without_blocks(void **state)
{
	uint64_t freed, small;

	(void)state;
	start();
	freed = put_block(false, 3, (const uint64_t[]){1, 2, 3});
	small = BLOCK(1, 2, 3);
	put_block(false, 3, (const uint64_t[]){0, 0, 0});
	next_block = HEAP + 0x8010;
	BLOCK(1, 2, 3);
	fake__set_page(&fake, HEAP + 0x8000, 0);
	label(freed, 24);
	label(small, 40);
	label(small + 8, 8);
	label(HEAP + 0x8010, 24);
	label(ANON, 24);
	count();
	assert_int_equal(census.n_shapes, 0);
	for (size_t i = 0; i < n_labels; i++)
		assert_int_equal(census.shape_of[i], CENSUS_NO_SHAPE);
	end();
}

/* An allocator's memory may lie right behind a file's data, and looks like the file's bss. */
static void test_targets_behind_a_file(void **state)
{
	const struct span model = {
		.kind = SPAN_FREE, .start = LIBRARY + 0x1000, .end = LIBRARY + 0x3000};
	const uint64_t words[] = {LIBRARY + 0x1000, LIBRARY + 0x2000, LIBRARY};
	struct block block = {.start = HEAP + 16, .size = 24, .in_use = true};
	size_t dropped[HEAP_ALLOCATORS];
	struct look look;
	struct span *behind;

	(void)state;
	start();
	fake__add(&fake, LIBRARY, 0x1000, "rw-p 00001000 08:01 78 /lib/lib.so");
	fake__add(&fake, LIBRARY + 0x1000, 0x2000, FAKE_ANON);
	assert_int_equal(blocks__add(blocks, &model, &behind), 0);
	image = fake__image(&fake);
	assert_int_equal(blocks__finish(blocks, dropped), 0);
	block.span = blocks__find_span(blocks, HEAP);
	look = look__of(image, blocks, &block, words, 3);
	assert_int_equal(look.words[0] >> 56, LOOK_HEAP);
	assert_int_equal(look.words[0], look.words[1]);
	assert_int_equal(look.words[2] >> 56, LOOK_FILE);
	blocks__free(blocks);
	fake__free(&fake, image);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_blocks_look_alike),
		cmocka_unit_test(test_distances),
		cmocka_unit_test(test_referrers_of_plain_blocks),
		cmocka_unit_test(test_exact_targets),
		cmocka_unit_test(test_classes),
		cmocka_unit_test(test_labels_without_blocks),
		cmocka_unit_test(test_targets_behind_a_file),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
