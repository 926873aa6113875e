// SPDX-License-Identifier: BSD-2-Clause
/* Objects, vtables and type_infos laid out by hand by the Itanium C++ ABI. */
#include "fake.h"

#include "heap/types.h"

#define CODE  0x400000ULL
#define DATA  0x410000ULL /* .data.rel.ro: vtables and type_infos */
#define TEXT  0x420000ULL /* .rodata: names */
#define HEAP  0x500000ULL
#define LIB   0x7f0000000000ULL /* libstdc++, with the vtable of type_infos */
#define BYTES 0x20000ULL

#define VTABLE(i) (DATA + 0x110 + 0x100 * (uint64_t)(i))
#define INFO(i)	  (DATA + 0x4000 + 0x40 * (uint64_t)(i))
#define NAME(i)	  (TEXT + 0x400 * (uint64_t)(i))

static struct fake fake;
static struct image *image;
static struct blocks *blocks;
static struct span *span;
static uint64_t next_block;
static struct census_type *types;
static uint64_t n_types;
static uint64_t untold, unchecked;

static void start(void)
{
	const struct span model = {.kind = SPAN_WALKED, .start = HEAP, .end = HEAP + BYTES};

	fake__add(&fake, CODE, 0x1000, "r-xp 00000000 08:01 77 /bin/program");
	fake__add(&fake, DATA, 0x10000, "r--p 00010000 08:01 77 /bin/program");
	fake__add(&fake, TEXT, 0x2000, "r--p 00020000 08:01 77 /bin/program");
	fake__add(&fake, HEAP, BYTES, FAKE_BRK);
	fake__add(&fake, LIB, 0x1000, "r--p 00010000 08:01 78 /lib/libstdc++.so.6");
	assert_int_equal(blocks__new(&blocks), 0);
	assert_int_equal(blocks__add(blocks, &model, &span), 0);
	next_block = HEAP + 16;
}

/* Writes class i with this name. */
static void put_class(int i, const char *name)
{
	fake__put(&fake, VTABLE(i) - 16, 0);
	fake__put(&fake, VTABLE(i) - 8, INFO(i));
	fake__put(&fake, VTABLE(i), CODE + 0x10);
	fake__put(&fake, INFO(i), LIB + 0x10);
	fake__put(&fake, INFO(i) + 8, NAME(i));
	memcpy(fake__at(&fake, NAME(i)), name, strlen(name) + 1);
}

static void put_block(uint64_t word, bool in_use)
{
	span__add_block(span, next_block, in_use);
	fake__put(&fake, next_block, word);
	next_block += 48;
}

/* Each block of 72 bytes pins 100 bytes. */
static int pin(const struct block *block, void *ctx)
{
	return block->size == 72 ? types__pin(ctx, block, 100) : 0;
}

static void count(void)
{
	struct types *counting;
	size_t dropped[HEAP_ALLOCATORS];

	put_block(0, false); /* ends the last block */
	image = fake__image(&fake);
	assert_int_equal(blocks__finish(blocks, dropped), 0);
	assert_int_equal(types__new(image, &counting), 0);
	blocks__each(blocks, pin, counting);
	assert_int_equal(types__count(counting, blocks), 0);
	types__give(counting, &types, &n_types, &untold, &unchecked);
	types__free(counting);
}

static void end(void)
{
	free(types);
	blocks__free(blocks);
	fake__free(&fake, image);
}

static void test_classes(void **state)
{
	(void)state;
	start();
	put_class(0, "4Item");
	put_class(1, "*N12_GLOBAL__N_16HiddenE");
	put_block(VTABLE(0), true);
	put_block(VTABLE(1), true);
	put_block(VTABLE(0), true);
	put_block(VTABLE(0), false);
	put_block(HEAP + 16, true);
	count();
	assert_int_equal(n_types, 2);
	assert_int_equal(untold, 0);
	assert_int_equal(unchecked, 0);
	assert_int_equal(types[0].vtable, VTABLE(0));
	assert_int_equal(types[0].count.blocks, 2);
	assert_int_equal(types[0].count.bytes, 80);
	assert_string_equal(types[0].name, "4Item");
	assert_int_equal(types[1].count.blocks, 1);
	assert_string_equal(types[1].name, "N12_GLOBAL__N_16HiddenE");
	end();
}

/* Objects of one class in blocks of two sizes, and a class whose vtable has a lower address. */
static void test_sizes(void **state)
{
	const uint32_t expected[] = {5, 3, 5}; /* groups of 16 bytes */
	const uint64_t blocks_of[] = {1, 2, 1};

	(void)state;
	start();
	put_class(0, "4Book");
	put_class(1, "4Item");
	put_block(VTABLE(1), true);
	next_block += 32; /* the block before has 72 bytes */
	put_block(VTABLE(1), true);
	put_block(VTABLE(0), true);
	next_block += 32;
	put_block(VTABLE(1), true);
	count();
	assert_int_equal(n_types, 3);
	for (size_t i = 0; i < 3; i++) {
		assert_int_equal(types[i].vtable, VTABLE(i > 0));
		assert_string_equal(types[i].name, i > 0 ? "4Item" : "4Book");
		assert_int_equal(types[i].allocator, HEAP_GLIBC);
		assert_int_equal(types[i].size_group, expected[i]);
		assert_int_equal(types[i].count.blocks, blocks_of[i]);
		assert_int_equal(types[i].pinned, expected[i] == 5 ? 100 : 0);
	}
	end();
}

/* A class without type_info, or with a name that is not resident, is still a class of its own. */
static void test_classes_without_name(void **state)
{
	(void)state;
	start();
	put_class(0, "4Item");
	put_class(1, "4Book");
	fake__put(&fake, VTABLE(0) - 8, 0);
	fake__put(&fake, INFO(1) + 8, TEXT + 0x1000);
	fake__set_page(&fake, TEXT + 0x1000, 0);
	put_block(VTABLE(0), true);
	put_block(VTABLE(1), true);
	count();
	assert_int_equal(n_types, 2);
	assert_string_equal(types[0].name, "");
	assert_string_equal(types[1].name, "");
	end();
}

/* Data that cannot be a vtable, a type_info or a name. */
static void test_what_is_no_class(void **state)
{
	char longer[CENSUS_TYPE_NAME + 1];

	(void)state;
	memset(longer, 'a', CENSUS_TYPE_NAME);
	longer[CENSUS_TYPE_NAME] = '\0';
	start();
	for (int i = 0; i < 8; i++)
		put_class(i, i == 5 ? "no name" : i == 6 ? "" : "4Item");
	memcpy(fake__at(&fake, NAME(7)), longer, sizeof(longer));
	fake__put(&fake, VTABLE(0) - 16, 8);		 /* part of an object */
	fake__put(&fake, VTABLE(1), DATA);		 /* no code */
	fake__put(&fake, VTABLE(2) - 8, HEAP + 0x18000); /* type_info on the heap */
	fake__put(&fake, INFO(3), 5);
	fake__put(&fake, INFO(4) + 8, HEAP);
	for (int i = 0; i < 8; i++)
		put_block(VTABLE(i), true);
	put_block(VTABLE(7) + 1, true);
	put_block(DATA + 8, true); /* the vtable would begin before the mapping */
	put_block(LIB, true);
	put_block(UINT64_MAX - 7, true);
	count();
	/* a name that is too long is not a name, but the class still counts */
	assert_int_equal(n_types, 1);
	assert_int_equal(types[0].vtable, VTABLE(7));
	assert_string_equal(types[0].name, "");
	end();
}

/* The first 65,536 different words that point into a file are checked. Blocks with further words
 * are counted; blocks with the first words still have their class. */
static void test_too_many_words(void **state)
{
	enum { CHECKED = 65536, FURTHER = 3 };
	const uint64_t heap = LIB + 0x100000, size = 0x400000, strings = heap + size;
	const struct span model = {.kind = SPAN_WALKED, .start = heap, .end = heap + size};

	(void)state;
	start();
	fake__add(&fake, heap, size, FAKE_ANON);
	fake__add(&fake, strings, 8ULL * CHECKED + 4096, "r--p 00050000 08:01 77 /bin/program");
	assert_int_equal(blocks__add(blocks, &model, &span), 0);
	next_block = heap + 16;
	put_class(0, "4Item");
	put_class(1, "4Late");
	put_block(VTABLE(0), true);
	for (uint64_t i = 0; i < CHECKED - 1 + FURTHER - 1; i++)
		put_block(strings + 8 * i, true);
	put_block(VTABLE(1), true);
	put_block(VTABLE(0), true);
	count();
	assert_int_equal(n_types, 1);
	assert_int_equal(types[0].count.blocks, 2);
	assert_int_equal(untold, 0);
	assert_int_equal(unchecked, FURTHER);
	end();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_classes),
		cmocka_unit_test(test_sizes),
		cmocka_unit_test(test_classes_without_name),
		cmocka_unit_test(test_what_is_no_class),
		cmocka_unit_test(test_too_many_words),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
