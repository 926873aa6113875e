// SPDX-License-Identifier: BSD-2-Clause
/* Code objects laid out by hand in this process, read as those of a target. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include "python/python.h"

#define TYPE 0x7777777

static unsigned char object[256], name[512], file[512], lines[256];
static struct python python;

static void put(unsigned char *at, size_t off, uint64_t value)
{
	memcpy(at + off, &value, sizeof(value));
}

/* kind: bytes of a character; the text is ASCII if kind is 0. */
static void put_text(unsigned char *at, const void *text, size_t length, uint32_t kind)
{
	uint32_t state = (kind ? kind : 1) << 2 | 0x20 | (kind ? 0 : 0x40);

	put(at, 16, length);
	memcpy(at + 32, &state, sizeof(state));
	memcpy(at + (kind ? python.layout->unicode : python.layout->ascii), text,
	       length * (kind ? kind : 1));
}

static void lay(uint32_t version)
{
	/* Lines of 3.11's compiler for
	 *   10 def f():
	 *   11     a = 1
	 *   13     return (a +
	 *   14             a) */
	static const unsigned char table[] = {
		0x80, 0x00,		/* RESUME: line 10, short form */
		0xd9, 0x04, 0x05,	/* 2 units, line + 1 */
		0xe0, 0x0c, 0x0d,	/* 1 unit, line + 2 */
		0xe8, 0x02,		/* 1 unit, no columns: line + 1 */
		0xf0, 0x01, 0x00, 0, 0, /* 1 unit, long: line - 0 */
		0xf9,			/* 2 units without a line */
		0xe8, 0x43, 0x01,	/* 1 unit: line - 33 */
	};

	memset(object, 0, sizeof(object));
	memset(name, 0, sizeof(name));
	memset(file, 0, sizeof(file));
	python = (struct python){.layout = python_layout__find(version), .code_type = TYPE};
	assert_non_null(python.layout);
	put(object, 8, TYPE);
	put(object, 16, 9);
	put(object, python.layout->name, (uintptr_t)name);
	put(object, python.layout->file, (uintptr_t)file);
	put(object, python.layout->lines, (uintptr_t)lines);
	memcpy(object + python.layout->first_line, &(int){10}, sizeof(int));
	put_text(name, "Klass.f", 7, 0);
	put_text(file, "/srv/app.py", 11, 0);
	put(lines, 16, sizeof(table));
	memcpy(lines + 32, table, sizeof(table));
}

static int get(struct python_code *ret)
{
	return python_code__read(getpid(), &python, (uintptr_t)object, ret);
}

static void objects_are_read(void **state)
{
	static const int wanted[] = {10, 11, 11, 13, 14, 14, 0, 0, 0};
	struct python_code code;

	(void)state;
	for (uint32_t version = 0x30b; version <= 0x30d; version++) {
		lay(version);
		assert_int_equal(get(&code), 0);
		assert_string_equal(code.name, "Klass.f");
		assert_string_equal(code.file, "/srv/app.py");
		assert_int_equal(code.first_line, 10);
		assert_int_equal(code.n_units, 9);
		for (size_t i = 0; i < sizeof(wanted) / sizeof(*wanted); i++)
			assert_int_equal(python_code__line(&code, i), wanted[i]);
		assert_int_equal(python_code__line(&code, 9), 0);
		assert_int_equal(python_code__line(&code, UINT64_MAX), 0);
		assert_int_equal(python_code__is_same(getpid(), &python, (uintptr_t)object, &code),
				 1);
		object[python.layout->first_line]++;
		assert_int_equal(python_code__is_same(getpid(), &python, (uintptr_t)object, &code),
				 0);
		assert_int_equal(python_code__is_same(getpid(), &python, 16, &code), -EFAULT);
		python_code__clear(&code);
	}
	assert_null(python_layout__find(0x30a));
	assert_null(python_layout__find(0x30e));
}

static void texts_become_utf8(void **state)
{
	static const uint32_t four[] = {'f', 0x20ac, 0x1f600};
	static const uint16_t two[] = {0x20ac, 'x'};
	struct python_code code;

	(void)state;
	lay(0x30b);
	put_text(name, four, 3, 4);
	put_text(file, two, 2, 2);
	assert_int_equal(get(&code), 0);
	assert_string_equal(code.name, "f\xe2\x82\xac\xf0\x9f\x98\x80");
	assert_string_equal(code.file, "\xe2\x82\xacx");
	python_code__clear(&code);
	put_text(name, "\xe4", 1, 1);
	assert_int_equal(get(&code), 0);
	assert_string_equal(code.name, "\xc3\xa4");
	python_code__clear(&code);
}

static void lies_are_refused(void **state)
{
	struct python_code code;

	(void)state;
	lay(0x30c);
	put(object, 8, TYPE + 1);
	assert_int_equal(get(&code), -ENOENT);
	lay(0x30c);
	put(name, 16, 1ULL << 40);
	assert_int_equal(get(&code), -ENOENT);
	lay(0x30c);
	name[32] = 0; /* no kind */
	assert_int_equal(get(&code), -ENOENT);
	lay(0x30c);
	put(object, python.layout->file, 0x10);
	assert_int_equal(get(&code), -EFAULT);
	lay(0x30c);
	put(lines, 16, 1ULL << 50);
	assert_int_equal(get(&code), -ENOENT);
	/* a number without an end */
	lay(0x30c);
	put(lines, 16, 3);
	memcpy(lines + 32, "\xe8\x7f\x7f", 3);
	assert_int_equal(get(&code), 0);
	python_code__line(&code, 0);
	python_code__clear(&code);
}

static void none_is_found_without_python(void **state)
{
	struct python_files *files;
	struct binaries *binaries;
	struct maps maps;
	struct python found;

	(void)state;
	assert_int_equal(maps__read(getpid(), &maps), 0);
	assert_int_equal(binaries__new(&binaries), 0);
	assert_int_equal(python_files__new(binaries, &files), 0);
	assert_int_equal(python__find(files, getpid(), &maps, &found), -ENOENT);
	python_files__free(files);
	binaries__free(binaries);
	maps__free(&maps);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(objects_are_read),
		cmocka_unit_test(texts_become_utf8),
		cmocka_unit_test(lies_are_refused),
		cmocka_unit_test(none_is_found_without_python),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
