// SPDX-License-Identifier: BSD-2-Clause
/* This process's own code, of a file that is nothing but ret instructions. Needs no root. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include <cmocka.h>

#include "capture/patch.h"

#define PAGE  4096UL
#define PAGES 4
#define RET   0xc3

static unsigned char *code;
static struct file_id file;
/* in pages 1 and 2, one beyond the mapping, one before it */
static const struct code_place places[] = {{2 * PAGE + 8, RET},
					   {3 * PAGE + 8, RET},
					   {100 * PAGE, RET},
					   {8, RET}};

static int map_file(void **state)
{
	char path[] = "/tmp/memtrace-test-XXXXXX", rets[(PAGES + 1) * PAGE];
	int fd = mkstemp(path);
	struct maps maps;

	(void)state;
	memset(rets, RET, sizeof(rets));
	if (fd < 0 || write(fd, rets, sizeof(rets)) != (ssize_t)sizeof(rets))
		return -1;
	code = mmap(NULL, PAGES * PAGE, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd, PAGE);
	unlink(path);
	close(fd);
	if (code == MAP_FAILED || maps__read(getpid(), &maps))
		return -1;
	file = maps__find(&maps, (uintptr_t)code)->file;
	maps__free(&maps);
	return 0;
}

static int unmap_file(void **state)
{
	(void)state;
	return munmap(code, PAGES * PAGE);
}

/* As hot patching does. */
static void put(size_t off, unsigned char byte)
{
	unsigned char *page = code + off / PAGE * PAGE;

	assert_int_equal(mprotect(page, PAGE, PROT_READ | PROT_WRITE | PROT_EXEC), 0);
	code[off] = byte;
	assert_int_equal(mprotect(page, PAGE, PROT_READ | PROT_EXEC), 0);
}

/* The index of what was found, or -1. */
static int find(size_t n)
{
	struct maps maps;
	size_t which = 77;
	int rc;

	assert_int_equal(maps__read(getpid(), &maps), 0);
	rc = patch__find(getpid(), &maps, &file, places, n, &which);
	maps__free(&maps);
	assert_true(rc == 0 || rc == 1);
	return rc ? (int)which : -1;
}

static void test_none(void **state)
{
	(void)state;
	assert_int_equal(find(4), -1);
	assert_int_equal(find(0), -1);
}

/* The mapping is several from then on. */
static void test_changed(void **state)
{
	(void)state;
	put(2 * PAGE + 8, 0x90);
	assert_int_equal(find(4), 1);
	assert_int_equal(find(1), -1);
	put(PAGE + 8, 0x90);
	assert_int_equal(find(1), 0);
	put(PAGE + 8, RET);
	assert_int_equal(find(1), -1);
}

static void test_breakpoint(void **state)
{
	(void)state;
	put(PAGE + 8, 0xcc);
	assert_int_equal(find(4), -1);
}

static void test_elsewhere(void **state)
{
	(void)state;
	put(PAGE + 9, 0x90);
	assert_int_equal(find(4), -1);
}

static void test_another_file(void **state)
{
	(void)state;
	put(PAGE + 8, 0x90);
	file.inode++;
	assert_int_equal(find(4), -1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_none, map_file, unmap_file),
		cmocka_unit_test_setup_teardown(test_changed, map_file, unmap_file),
		cmocka_unit_test_setup_teardown(test_breakpoint, map_file, unmap_file),
		cmocka_unit_test_setup_teardown(test_elsewhere, map_file, unmap_file),
		cmocka_unit_test_setup_teardown(test_another_file, map_file, unmap_file),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
