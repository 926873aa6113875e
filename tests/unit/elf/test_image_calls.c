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

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_own_program),
		cmocka_unit_test(test_direct_callers_everywhere),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
