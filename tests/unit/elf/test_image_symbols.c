// SPDX-License-Identifier: BSD-2-Clause
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include <elf.h>
#include <string.h>

#include "image_fixture.h"

static void test_versions_and_ranks(void **state)
{
	struct crafted file = craft();
	struct elf_image *image = open_crafted(&file);
	struct elf_symbol symbol;
	size_t n = 0;

	(void)state;
	assert_null(elf_image__build_id(image));
	assert_int_equal(elf_image__each_function(image, count_functions, &n), 0);
	assert_int_equal(n, 5);
	/* The default version is only local, but it is preferred to the hidden one. */
	assert_int_equal(elf_image__find_function(image, "dup", &symbol), 0);
	assert_string_equal(symbol.name, "dup");
	assert_int_equal(symbol.vaddr, 0x200);
	/* Weak is preferred to local. */
	assert_int_equal(elf_image__find_function(image, "weak", &symbol), 0);
	assert_int_equal(symbol.vaddr, 0x310);
	assert_int_equal(symbol.type, STT_GNU_IFUNC);
	assert_int_equal(elf_image__find_function(image, "only", &symbol), 0);
	assert_int_equal(symbol.vaddr, 0x400);
	assert_int_equal(symbol.size, 16);
	assert_int_equal(elf_image__find_function(image, "undefined", &symbol), -ENOENT);
	assert_int_equal(elf_image__find_function(image, "absolute", &symbol), -ENOENT);
	assert_int_equal(elf_image__find_function(image, "data", &symbol), -ENOENT);
	elf_image__free(image);
}

static size_t functions_of(const struct crafted *file)
{
	struct elf_image *image = open_crafted(file);
	size_t n = 0;

	elf_image__each_function(image, count_functions, &n);
	elf_image__free(image);
	return n;
}

static void test_lying_tables(void **state)
{
	struct crafted file;

	(void)state;
	file = craft();
	file.sections[1].sh_size = 1ull << 62;
	assert_int_equal(functions_of(&file), 0);

	file = craft();
	file.sections[1].sh_offset = UINT64_MAX - 8;
	assert_int_equal(functions_of(&file), 0);

	file = craft();
	file.sections[1].sh_entsize = 1;
	assert_int_equal(functions_of(&file), 0);

	file = craft();
	file.sections[1].sh_link = 99;
	assert_int_equal(functions_of(&file), 0);
	file.sections[1].sh_link = 1;
	assert_int_equal(functions_of(&file), 0);

	/* The table ends inside a symbol: only whole symbols count. */
	file = craft();
	file.sections[1].sh_size = 3 * sizeof(Elf64_Sym) - 1;
	assert_int_equal(functions_of(&file), 1);

	/* The table of names does not end with a NUL: only names before its last NUL count. */
	file = craft();
	file.sections[2].sh_size = WEAK + 2;
	assert_int_equal(functions_of(&file), 2);
	file.sections[2].sh_size = 1;
	assert_int_equal(functions_of(&file), 0);
	file.sections[2].sh_size = 0;
	assert_int_equal(functions_of(&file), 0);
	file = craft();
	memset(file.strings, 'x', sizeof(file.strings));
	assert_int_equal(functions_of(&file), 0);
	memset(file.strings, '@', sizeof(file.strings));
	assert_int_equal(functions_of(&file), 0);

	/* Names that consist only of a version. */
	file = craft();
	memset(file.strings, '@', sizeof(file.strings) - 1);
	assert_int_equal(functions_of(&file), 0);

	/* No section headers at all. */
	file = craft();
	file.ehdr.e_shoff = 0;
	file.ehdr.e_shnum = 0;
	assert_int_equal(functions_of(&file), 0);
	file = craft();
	file.ehdr.e_shoff = 1ull << 40;
	assert_int_equal(functions_of(&file), 0);
}

static void count_call(void *ctx)
{
	++*(size_t *)ctx;
}

/* Strings of 40 MiB are read in parts of 16 MiB. The names begin in different parts, and one name
 * begins just before the end of a part. Only wanted symbols are kept. */
static void test_large_strings(void **state)
{
	static const char *const names[] = {"near", "border", "far", "object", "absent", NULL};
	static const struct {
		const char *text;
		uint32_t at;
	} texts[] = {
		{"near@@V1", 1},	{"border@V1", (16 << 20) - 3}, {"far", 33 << 20},
		{"unwanted", 34 << 20}, {"object", 35 << 20},
	};
	size_t n_calls = 0;
	const struct elf_wanted wanted = {elf_wanted__is_listed, names, {count_call, &n_calls}};
	_cleanup_(elf_image__cleanup) struct elf_image *image = NULL;
	_cleanup_close_ int fd = -1;
	struct crafted file = craft();
	struct elf_symbol symbol;
	char *longest;
	size_t n = 0;

	(void)state;
	file.sections[1].sh_size = 7 * sizeof(Elf64_Sym);
	file.sections[2].sh_offset = 4096;
	file.sections[2].sh_size = 40 << 20;
	file.symbols[1] = make_symbol(texts[2].at, 0x300, STB_LOCAL, STT_FUNC, 1);
	file.symbols[2] = make_symbol(texts[0].at, 0x100, STB_GLOBAL, STT_FUNC, 1);
	file.symbols[3] = make_symbol(texts[1].at, 0x200, STB_GLOBAL, STT_FUNC, 1);
	file.symbols[4] = make_symbol(texts[3].at, 0x400, STB_GLOBAL, STT_FUNC, 1);
	file.symbols[5] = make_symbol(texts[4].at, 0x500, STB_GLOBAL, STT_OBJECT, 1);
	file.symbols[6] = make_symbol(36 << 20, 0x600, STB_GLOBAL, STT_FUNC, 1);
	fd = store(&file, sizeof(file));
	for (size_t i = 0; i < 5; i++)
		assert_true(pwrite(fd, texts[i].text, strlen(texts[i].text) + 1,
				   4096 + texts[i].at) > 0);
	longest = malloc(ELF_MAX_NAME_BYTES + 1);
	memset(longest, 'x', ELF_MAX_NAME_BYTES + 1);
	assert_true(pwrite(fd, longest, ELF_MAX_NAME_BYTES, 4096 + (36 << 20)) > 0);
	assert_int_equal(ftruncate(fd, 4096 + (40 << 20)), 0);

	assert_int_equal(elf_image__open(fd, "large", &wanted, &image, NULL), 0);
	assert_int_equal(n_calls, 3); /* in each part */
	assert_int_equal(elf_image__each_function(image, count_functions, &n), 0);
	assert_int_equal(n, 3);
	assert_int_equal(elf_image__find_function(image, "near", &symbol), 0);
	assert_int_equal(symbol.vaddr, 0x100);
	assert_int_equal(elf_image__find_function(image, "border", &symbol), 0);
	assert_int_equal(symbol.vaddr, 0x200);
	assert_int_equal(elf_image__find_function(image, "far", &symbol), 0);
	assert_int_equal(symbol.vaddr, 0x300);
	assert_int_equal(elf_image__find_function(image, "unwanted", &symbol), -ENOENT);
	assert_int_equal(elf_image__find_object(image, "object", &symbol), 0);
	assert_int_equal(symbol.vaddr, 0x500);
	elf_image__free(image);

	/* All symbols: the one with the longest name is among them. */
	image = open_image(fd);
	n = 0;
	assert_int_equal(elf_image__each_function(image, count_functions, &n), 0);
	assert_int_equal(n, 5);
	elf_image__free(image);

	/* A longer name is left out. */
	assert_true(pwrite(fd, longest, ELF_MAX_NAME_BYTES + 1, 4096 + (36 << 20)) > 0);
	image = open_image(fd);
	n = 0;
	assert_int_equal(elf_image__each_function(image, count_functions, &n), 0);
	assert_int_equal(n, 4);
	free(longest);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_versions_and_ranks),
		cmocka_unit_test(test_lying_tables),
		cmocka_unit_test(test_large_strings),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
