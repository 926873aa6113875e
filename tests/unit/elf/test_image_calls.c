// SPDX-License-Identifier: BSD-2-Clause
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include <elf.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "image_fixture.h"

static void *volatile returned_to[4];
static volatile size_t n_calls;

static __attribute__((noinline)) void callee(void)
{
	returned_to[n_calls++ % 4] = __builtin_return_address(0);
	__asm__ volatile("");
}

static __attribute__((noinline)) void caller(void)
{
	callee();
	__asm__ volatile("");
	callee();
	__asm__ volatile("");
}

static void test_own_program(void **state)
{
	struct loaded self = find_loaded("");
	struct elf_image *image = open_path(self.path);
	uint64_t vaddrs[64];
	struct elf_symbol symbol;
	unsigned int matched = 0;
	size_t n;

	(void)state;
	assert_true(elf_image__has_interp(image));
	assert_null(elf_image__soname(image));
	assert_int_equal(elf_image__find_function(image, "callee", &symbol), 0);
	assert_false(symbol.dynamic);
	assert_int_equal(symbol.bind, STB_LOCAL);
	assert_int_equal(symbol.type, STT_FUNC);
	assert_ptr_equal((void *)(self.base + symbol.vaddr), (void *)callee);

	caller();
	assert_int_equal(n_calls, 2);
	n = elf_image__direct_callers(image, symbol.vaddr, vaddrs, 64);
	assert_true(n >= 2 && n <= 64);
	for (size_t i = 0; i < n; i++) {
		for (size_t call = 0; call < 2; call++)
			matched += self.base + vaddrs[i] == (uintptr_t)returned_to[call];
	}
	assert_int_equal(matched, 2);
	/* The array has room for fewer callers than there are. */
	vaddrs[1] = 0x5555;
	assert_int_equal(elf_image__direct_callers(image, symbol.vaddr, vaddrs, 1), n);
	assert_int_equal(vaddrs[1], 0x5555);
	assert_int_equal(elf_image__direct_callers(image, symbol.vaddr, NULL, 0), n);
	elf_image__free(image);
}

/* Calls across the borders of the chunks that are scanned, and at the segment's very end. */
static void test_direct_callers_everywhere(void **state)
{
	enum { SIZE = 1 << 20 };
	static const uint32_t calls[] = {0x1000,  0x3fff7, 0x3fffe, 0x40003,
					 0x7ffff, 0x80004, 0xbfffd, SIZE - 5};
	const size_t n = sizeof(calls) / sizeof(*calls);
	_cleanup_free_ unsigned char *data = calloc(1, SIZE);
	_cleanup_close_ int fd = -1;
	struct crafted file = craft();
	struct elf_image *image;
	uint64_t found[16];

	(void)state;
	file.phdr.p_filesz = SIZE;
	memcpy(data, &file, sizeof(file));
	for (size_t i = 0; i < n; i++) {
		int32_t rel = 0x800 - (int32_t)(calls[i] + 5);

		data[calls[i]] = 0xe8;
		memcpy(data + calls[i] + 1, &rel, sizeof(rel));
	}
	data[0x2000] = 0xe9; /* a jump to 0x800 is no call */
	memcpy(data + 0x2001, &(int32_t){0x800 - 0x2005}, 4);
	data[0x3000] = 0xe8; /* a call of another address */
	fd = store(data, SIZE);
	image = open_image(fd);
	assert_int_equal(elf_image__direct_callers(image, VADDR + 0x800, found, 16), n);
	for (size_t i = 0; i < n; i++)
		assert_int_equal(found[i], VADDR + calls[i] + 5);
	elf_image__free(image);
}

/* Finds loads of a pointer in each form, also across the border of two chunks. Ignores bytes that
 * only look like loads. */
static void test_loads(void **state)
{
	enum { SIZE = 1 << 20, SLOT = 0x900 };
	static const struct {
		uint32_t at;
		uint8_t bytes[2];
		bool counts;
	} code[] = {
		{0x1000, {0x8b, 0x05}, true},  {0x2000, {0x8b, 0x3d}, true},
		{0x3000, {0xff, 0x15}, true},  {0x3fffc, {0xff, 0x25}, true},
		{0x4000, {0x8b, 0x45}, false}, {0x5000, {0xff, 0x35}, false},
		{0x6000, {0x89, 0x05}, false}, {SIZE - 6, {0x8b, 0x0d}, true},
	};
	_cleanup_free_ unsigned char *data = calloc(1, SIZE);
	_cleanup_close_ int fd = -1;
	struct crafted file = craft();
	struct elf_image *image;
	size_t n = 0;

	(void)state;
	file.phdr.p_filesz = SIZE;
	memcpy(data, &file, sizeof(file));
	for (size_t i = 0; i < sizeof(code) / sizeof(*code); i++) {
		int32_t rel = SLOT - (int32_t)(code[i].at + 6);

		memcpy(data + code[i].at, code[i].bytes, 2);
		memcpy(data + code[i].at + 2, &rel, sizeof(rel));
		n += code[i].counts;
	}
	fd = store(data, SIZE);
	image = open_image(fd);
	assert_int_equal(elf_image__loads(image, VADDR + SLOT), n);
	assert_int_equal(elf_image__loads(image, VADDR + SLOT + 8), 0);
	elf_image__free(image);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_loads),
		cmocka_unit_test(test_own_program),
		cmocka_unit_test(test_direct_callers_everywhere),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
