// SPDX-License-Identifier: BSD-2-Clause
/* Code objects laid out by hand in this process. memtrace reads them as if they were in a
 * target. */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <unistd.h>
#include <cmocka.h>

#include "base/cleanup.h"
#include "python/python.h"

#define TYPE 0x7777777

static unsigned char object[256], name[512], file[512], lines[256];
static struct python python;

static void put(unsigned char *at, size_t off, uint64_t value)
{
	memcpy(at + off, &value, sizeof(value));
}

/* Writes a string object. kind: bytes of a character; 0: the text is ASCII. */
static void put_text(unsigned char *at, const void *text, size_t length, uint32_t kind)
{
	uint32_t state = (kind ? kind : 1) << 2 | 0x20 | (kind ? 0 : 0x40);

	put(at, 16, length);
	memcpy(at + 32, &state, sizeof(state));
	memcpy(at + (kind ? python.layout->unicode : python.layout->ascii), text,
	       length * (kind ? kind : 1));
}

/* The size of _PyRuntime on x86-64, by its declaration in the version's pycore_runtime.h. */
static uint64_t runtime_bytes(uint32_t version)
{
	return version == 0x309 ? 656 : 672;
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
	python = (struct python){.layout = version < 0x30b
						   ? python_layout__find_old(runtime_bytes(version))
						   : python_layout__find(version),
				 .code_type = TYPE};
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

static void old_objects_are_read(void **state)
{
	/* the line table of 3.9: line 11 from offset 0 on, 13 from 6 on, 10 from 10 on */
	static const unsigned char steps[] = {0, 1, 6, 2, 4, (unsigned char)-3};
	/* of 3.10: line 11 for 4 bytes, no line for 2, 16 for 0 bytes, 13 for 6, 4 for the rest */
	static const unsigned char ranges[] = {4, 1, 2, 0x80, 0, 5, 6, 0xfd, 6, 0xf7};
	static const struct {
		uint32_t version;
		const unsigned char *table;
		size_t len;
		int wanted[9];
	} cases[] = {
		{0x309, steps, sizeof(steps), {11, 11, 11, 13, 13, 10, 10, 10, 10}},
		{0x30a, ranges, sizeof(ranges), {11, 11, 0, 13, 13, 13, 4, 4, 4}},
	};
	static unsigned char instructions[64];
	struct python_code code;

	(void)state;
	for (size_t c = 0; c < sizeof(cases) / sizeof(*cases); c++) {
		lay(cases[c].version);
		assert_int_equal(python.layout->version, cases[c].version);
		put(object, 16, 0x300000001); /* co_argcount and co_posonlyargcount, not a size */
		put(object, python.layout->code_bytes, (uintptr_t)instructions);
		put(instructions, 16, 18);
		put(lines, 16, cases[c].len);
		memcpy(lines + 32, cases[c].table, cases[c].len);
		assert_int_equal(get(&code), 0);
		assert_string_equal(code.name, "Klass.f");
		assert_string_equal(code.file, "/srv/app.py");
		assert_int_equal(code.n_units, 9);
		for (size_t i = 0; i < 9; i++)
			assert_int_equal(python_code__line(&code, i), cases[c].wanted[i]);
		assert_int_equal(python_code__line(&code, 9), 0);
		assert_int_equal(python_code__line(&code, UINT64_MAX), 0);
		assert_int_equal(python_code__is_same(getpid(), &python, (uintptr_t)object, &code),
				 1);
		put(object, python.layout->code_bytes, (uintptr_t)instructions + 16);
		assert_int_equal(python_code__is_same(getpid(), &python, (uintptr_t)object, &code),
				 0);
		python_code__clear(&code);
		put(object, python.layout->code_bytes, 16);
		assert_int_equal(get(&code), -EFAULT);
	}
	assert_null(python_layout__find_old(0));
	assert_null(python_layout__find_old(1464)); /* 3.8 */
}

/* A PyTypeObject and its table of members. */
struct type {
	unsigned char head[256], members[32 * 40];
};

static void lay_type(struct type *type, uint64_t size, const struct python_member *members)
{
	memset(type, 0, sizeof(*type));
	put(type->head, 32, size);
	put(type->head, 240, (uintptr_t)type->members);
	put(type->members, 0, (uintptr_t) "a_field_with_a_name_too_long_to_be_one");
	put(type->members, 16, members[0].off);
	for (size_t i = 0; i < PYTHON_MEMBERS && members[i].name; i++) {
		put(type->members, 40 * (i + 1), (uintptr_t)members[i].name);
		put(type->members, 40 * (i + 1) + 16, members[i].off);
	}
}

static void a_layout_is_checked_by_what_types_declare(void **state)
{
	static struct type frame, code;
	const struct python_layout *layout;
	pid_t pid = getpid();

#define CHECK() python_layout__check(layout, pid, (uintptr_t)&frame, (uintptr_t)&code)
	(void)state;
	for (uint32_t version = 0x309; version <= 0x30a; version++) {
		layout = python_layout__find_old(runtime_bytes(version));
		lay_type(&frame, layout->frame_size, layout->frame_members);
		lay_type(&code, layout->code_size, layout->code_members);
		assert_int_equal(CHECK(), 0);
		put(frame.members, 40 * 3 + 16, 4); /* another offset */
		assert_int_equal(CHECK(), -ENOENT);
		lay_type(&frame, layout->frame_size + 8, layout->frame_members);
		assert_int_equal(CHECK(), -ENOENT);
		lay_type(&frame, layout->frame_size, layout->frame_members);
		put(code.members, 40, 0); /* the field is missing */
		assert_int_equal(CHECK(), -ENOENT);
		put(code.members, 0, 0); /* the loader has not yet run */
		assert_int_equal(CHECK(), -EAGAIN);
		put(code.members, 0, 0x1234); /* an address that is not yet relocated */
		assert_int_equal(CHECK(), -EAGAIN);
		put(code.head, 240, 0);
		assert_int_equal(CHECK(), -EAGAIN);
		put(code.head, 240, 0x1234);
		assert_int_equal(CHECK(), -EAGAIN);
		/* a table without an end */
		lay_type(&code, layout->code_size, layout->code_members);
		for (size_t i = 0; i < 32; i++)
			put(code.members, 40 * i, (uintptr_t) "co_nothing");
		assert_int_equal(CHECK(), -ENOENT);
		assert_int_equal(python_layout__check(layout, pid, 16, 16), -EFAULT);
	}
#undef CHECK
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
	/* a number without an end */
	lay(0x30c);
	put(lines, 16, 3);
	memcpy(lines + 32, "\xe8\x7f\x7f", 3);
	assert_int_equal(get(&code), 0);
	python_code__line(&code, 0);
	python_code__clear(&code);
}

/* A code object keeps its name if its file has no name, or if its table of lines is too large. */
static void names_stay_without_lines_and_files(void **state)
{
	struct python_code code;

	(void)state;
	for (int i = 0; i < 2; i++) {
		lay(i ? 0x30c : 0x309);
		put(object, python.layout->code_bytes, i ? TYPE : (uintptr_t)lines);
		put(lines, 16, i ? 1ULL << 50 : (48 << 10) + 1);
		assert_int_equal(get(&code), 0);
		assert_string_equal(code.name, "Klass.f");
		assert_string_equal(code.file, "/srv/app.py");
		assert_int_equal(python_code__line(&code, 0), 0);
		python_code__clear(&code);
	}
	lay(0x30c);
	put_text(file, "", 0, 0);
	assert_int_equal(get(&code), 0);
	assert_string_equal(code.name, "Klass.f");
	assert_null(code.file);
	assert_int_equal(python_code__line(&code, 0), 10);
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
	assert_int_equal(python_files__new(binaries, &(struct elf_meanwhile){}, &files), 0);
	assert_int_equal(python__find(files, getpid(), &maps, &found), -ENOENT);
	python_files__free(files);
	binaries__free(binaries);
	maps__free(&maps);
}

static void count_call(void *ctx)
{
	++*(size_t *)ctx;
}

/* Any process may map a file with this name and a symbol table that takes seconds. */
static void others_can_work_while_a_file_is_read(void **state)
{
	char path[] = "/tmp/python-XXXXXX";
	_cleanup_close_ int self = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
	_cleanup_close_ int fd = mkostemp(path, O_CLOEXEC);
	off_t size = lseek(self, 0, SEEK_END), at = 0;
	const struct map_entry *entry;
	struct python_files *files;
	struct binaries *binaries;
	struct binary *binary;
	struct maps maps;
	struct python found;
	size_t n_calls = 0;
	void *code;

	(void)state;
	while (at < size)
		assert_true(sendfile(fd, self, &at, (size_t)(size - at)) > 0);
	code = mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd, 0);
	assert_true(code != MAP_FAILED);
	assert_int_equal(maps__read(getpid(), &maps), 0);
	entry = maps__find(&maps, (uintptr_t)code);
	assert_non_null(entry);
	assert_int_equal(binaries__new(&binaries), 0);
	assert_int_equal(binaries__add(binaries, &entry->file, fcntl(fd, F_DUPFD_CLOEXEC, 0), -1,
				       path, &binary),
			 0);
	assert_int_equal(
		python_files__new(binaries, &(struct elf_meanwhile){count_call, &n_calls}, &files),
		0);
	assert_int_equal(python__find(files, getpid(), &maps, &found), -ENOENT);
	assert_true(n_calls > 0);
	python_files__free(files);
	binaries__free(binaries);
	maps__free(&maps);
	munmap(code, 4096);
	unlink(path);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(objects_are_read),
		cmocka_unit_test(old_objects_are_read),
		cmocka_unit_test(a_layout_is_checked_by_what_types_declare),
		cmocka_unit_test(texts_become_utf8),
		cmocka_unit_test(lies_are_refused),
		cmocka_unit_test(names_stay_without_lines_and_files),
		cmocka_unit_test(none_is_found_without_python),
		cmocka_unit_test(others_can_work_while_a_file_is_read),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
