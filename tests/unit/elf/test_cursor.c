// SPDX-License-Identifier: BSD-2-Clause
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include <dwarf.h>
#include <stdlib.h>
#include <string.h>

#include "elf/cursor.h"

#define HERE 0x401000ull

/* A cursor over a copy that ends with the bytes, so that ASan sees each read beyond it. The caller
 * frees the copy. */
static struct cursor cursor_of(const void *bytes, size_t n)
{
	unsigned char *copy = malloc(n ? n : 1);

	assert_non_null(copy);
	memcpy(copy, bytes, n);
	return (struct cursor){.pos = copy, .end = copy + n};
}

#define CURSOR(...)                                                                                \
	cursor_of((const unsigned char[]){__VA_ARGS__},                                            \
		  sizeof((const unsigned char[]){__VA_ARGS__}))

static void test_bytes(void **state)
{
	struct cursor cursor = CURSOR(1, 2, 3, 4, 5, 6, 7, 8, 9);
	unsigned char *copy = (unsigned char *)cursor.pos;

	(void)state;
	assert_int_equal(cursor__bytes(&cursor, 1), 1);
	assert_int_equal(cursor__bytes(&cursor, 8), 0x0908070605040302);
	assert_false(cursor.broken);
	cursor.pos = copy + 6;
	assert_int_equal(cursor__bytes(&cursor, 4), 0);
	assert_true(cursor.broken);
	/* After a read beyond the end, all later reads fail, even if they would fit, because their
	 * position would be wrong. */
	assert_int_equal(cursor__bytes(&cursor, 1), 0);
	assert_ptr_equal(cursor.pos, copy + 6);

	cursor = (struct cursor){.pos = copy, .end = copy + 9};
	cursor__skip(&cursor, 9);
	assert_false(cursor.broken);
	cursor__skip(&cursor, UINT64_MAX);
	assert_true(cursor.broken);
	assert_ptr_equal(cursor.pos, copy + 9);
	free(copy);
}

/* Examples of the DWARF standard (version 4, section 7.6), the longest numbers that are accepted,
 * and longer ones. */
static void test_leb(void **state)
{
	static const struct {
		unsigned char bytes[12];
		size_t n;
		uint64_t plain;
		int64_t with_sign;
		bool broken;
	} cases[] = {
		{{2}, 1, 2, 2, false},
		{{0x7f}, 1, 127, -1, false},
		{{0x7e}, 1, 126, -2, false},
		{{0x80, 1}, 2, 128, 128, false},
		{{0xb9, 0x64}, 2, 12857, -3527, false},
		{{0xff, 0x7e}, 2, 16255, -129, false},
		{{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1},
		 10,
		 UINT64_MAX,
		 -1,
		 false},
		{{0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0}, 11, 0, 0, true},
		{{0x80}, 1, 0, 0, true},
		{{0}, 0, 0, 0, true},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		struct cursor start = cursor_of(cases[i].bytes, cases[i].n), cursor = start;

		assert_int_equal(cursor__uleb(&cursor), cases[i].plain);
		assert_int_equal(cursor.broken, cases[i].broken);
		cursor = start;
		assert_int_equal(cursor__sleb(&cursor), cases[i].with_sign);
		assert_int_equal(cursor.broken, cases[i].broken);
		free((void *)start.pos);
	}
}

static void test_addresses(void **state)
{
	static const struct {
		uint8_t encoding;
		size_t n; /* bytes read */
		uint64_t address;
		bool broken;
	} cases[] = {
		{DW_EH_PE_absptr, 8, 0xf7f6f5f4f3f2f1f0, false},
		{DW_EH_PE_udata2, 2, 0xf1f0, false},
		{DW_EH_PE_sdata2, 2, (uint64_t)(int16_t)0xf1f0, false},
		{DW_EH_PE_udata4, 4, 0xf3f2f1f0, false},
		{DW_EH_PE_sdata4, 4, (uint64_t)(int32_t)0xf3f2f1f0, false},
		{DW_EH_PE_pcrel | DW_EH_PE_sdata4, 4, HERE - 0x0c0d0e10, false},
		{DW_EH_PE_pcrel | DW_EH_PE_sdata8, 8, HERE - 0x08090a0b0c0d0e10, false},
		{DW_EH_PE_datarel | DW_EH_PE_sdata4, 4, 0, true},
		{DW_EH_PE_indirect | DW_EH_PE_pcrel | DW_EH_PE_sdata4, 4, 0, true},
		{DW_EH_PE_omit, 0, 0, true},
		{5, 0, 0, true},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		struct cursor cursor = CURSOR(0xf0, 0xf1, 0xf2, 0xf3, 0xf4, 0xf5, 0xf6, 0xf7);
		unsigned char *copy = (unsigned char *)cursor.pos;

		assert_int_equal(cursor__address(&cursor, cases[i].encoding, HERE),
				 cases[i].address);
		assert_int_equal(cursor.broken, cases[i].broken);
		assert_int_equal(cursor.pos - copy, cases[i].n);
		free(copy);
	}
}

static void test_blocks(void **state)
{
	struct cursor cursor = CURSOR(2, 10, 11, 0, 3, 12, 13), block;
	unsigned char *copy = (unsigned char *)cursor.pos;

	(void)state;
	block = cursor__block(&cursor);
	assert_int_equal(block.end - block.pos, 2);
	assert_int_equal(cursor__bytes(&block, 2), 0x0b0a);
	assert_int_equal(cursor__bytes(&block, 1), 0);
	assert_true(block.broken);
	assert_false(cursor.broken);
	block = cursor__block(&cursor);
	assert_ptr_equal(block.pos, block.end);
	assert_false(cursor.broken);
	/* a block one byte longer than the rest */
	block = cursor__block(&cursor);
	assert_ptr_equal(block.pos, block.end);
	assert_true(cursor.broken);
	free(copy);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_bytes),
		cmocka_unit_test(test_leb),
		cmocka_unit_test(test_addresses),
		cmocka_unit_test(test_blocks),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
