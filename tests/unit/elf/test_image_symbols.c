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
	/* The default version, although only local, is preferred to the hidden one. */
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

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_versions_and_ranks),
		cmocka_unit_test(test_lying_tables),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
