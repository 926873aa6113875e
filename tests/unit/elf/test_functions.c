// SPDX-License-Identifier: BSD-2-Clause
/* Where the functions of this program begin. */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <unistd.h>
#include <cmocka.h>

#include "base/cleanup.h"
#include "elf/functions.h"
#include "shell.h"

static struct elf_image *open_file(const char *path)
{
	_cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC);
	struct elf_image *image;

	assert_int_equal(elf_image__open(fd, path, NULL, &image, NULL), 0);
	return image;
}

static struct functions functions;

/* The table finds the beginning of a function from the address of each of its bytes. */
static int check_symbol(const struct elf_symbol *symbol, void *ctx)
{
	uint64_t start, end;
	size_t *n = ctx;

	if (!symbol->size || functions__around(&functions, symbol->vaddr, &start, &end) ||
	    start != symbol->vaddr)
		return 0;
	assert_true(end >= symbol->vaddr + symbol->size);
	assert_int_equal(
		functions__around(&functions, symbol->vaddr + symbol->size - 1, &start, &end), 0);
	assert_int_equal(start, symbol->vaddr);
	++*n;
	return 0;
}

static void functions_are_found(void **state)
{
	struct elf_image *image = open_file("/proc/self/exe");
	struct elf_symbol symbol;
	uint64_t start, end;
	size_t n = 0;

	(void)state;
	assert_int_equal(functions__read(image, &functions), 0);
	elf_image__each_function(image, check_symbol, &n);
	assert_true(n > 50);
	assert_int_equal(elf_image__find_function(image, "main", &symbol), 0);
	assert_int_equal(functions__around(&functions, symbol.vaddr, &start, &end), 0);
	assert_int_equal(start, symbol.vaddr);
	assert_int_equal(functions__around(&functions, 0, &start, &end), -ENOENT);
	assert_int_equal(functions__around(&functions, functions.code_end, &start, &end), -ENOENT);
	functions__free(&functions);
	elf_image__free(image);
}

/* A table whose addresses do not ascend, and one that is cut short, are refused. */
static void unsound_tables_are_refused(void **state)
{
	static const char *const damage[] = {
		/* the first entry has another address */
		"\\x00\\x00\\x00\\x00\\x00\\x00\\x00\\x00",
		"\\xff\\xff\\xff\\x7f", /* the number of entries */
		"\\x02",		/* the version */
	};
	static const int offs[] = {20, 8, 0};
	char dir[] = "/tmp/memtrace-test-functions-XXXXXX", path[64];

	(void)state;
	assert_non_null(mkdtemp(dir));
	snprintf(path, sizeof(path), "%s/x", dir);
	for (size_t i = 0; i < sizeof(offs) / sizeof(offs[0]); i++) {
		struct elf_image *image;

		shell_run(
			dir,
			"cp /proc/%d/exe x; "
			"off=$(readelf -SW x | sed -n 's/.* \\.eh_frame_hdr *[A-Z]* *[0-9a-f]* "
			"\\([0-9a-f]*\\).*/\\1/p'); "
			"printf '%s' | dd of=x bs=1 seek=$((0x$off + %d)) conv=notrunc status=none",
			getpid(), damage[i], offs[i]);
		image = open_file(path);
		assert_int_equal(functions__read(image, &functions), -ENOENT);
		functions__free(&functions);
		elf_image__free(image);
	}
	shell_run("/tmp", "rm -r %s", dir);
}

int main(void)
{
	const struct CMUnitTest list[] = {
		cmocka_unit_test(functions_are_found),
		cmocka_unit_test(unsound_tables_are_refused),
	};

	return cmocka_run_group_tests(list, NULL, NULL);
}
