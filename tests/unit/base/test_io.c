// SPDX-License-Identifier: BSD-2-Clause
/* Reading files of unknown length. */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include <cmocka.h>

#include "base/io.h"

#define BYTES 300000

static int filled_file(size_t n)
{
	int fd = memfd_create("memtrace-test", MFD_CLOEXEC);

	assert_true(fd >= 0);
	for (size_t i = 0; i < n; i += 1000) {
		char part[1000];

		memset(part, (int)('a' + i / 1000 % 26), sizeof(part));
		assert_int_equal(write(fd, part, n - i < 1000 ? n - i : 1000),
				 n - i < 1000 ? n - i : 1000);
	}
	assert_int_equal(lseek(fd, 0, SEEK_SET), 0);
	return fd;
}

/* For sizes near those at which the array grows, no byte is missing, and a 0 follows. */
static void test_whole(void **state)
{
	const size_t sizes[] = {0, 1, 65534, 65535, 65536, 65537, 131071, 131072, BYTES};

	(void)state;
	for (size_t k = 0; k < sizeof(sizes) / sizeof(*sizes); k++) {
		int fd = filled_file(sizes[k]);
		char *bytes = NULL;
		size_t len = 1;

		assert_int_equal(io__read_all(fd, BYTES, &bytes, &len), 0);
		assert_int_equal(len, sizes[k]);
		for (size_t i = 0; i < len; i++)
			assert_int_equal(bytes[i], 'a' + i / 1000 % 26);
		assert_int_equal(bytes[len], 0);
		free(bytes);
		close(fd);
	}
}

/* A file that is one byte too long, and an endless file, are refused. */
static void test_too_much(void **state)
{
	int fd = filled_file(BYTES), zero = open("/dev/zero", O_RDONLY | O_CLOEXEC);
	char *bytes = NULL;
	size_t len = 1;

	(void)state;
	assert_int_equal(io__read_all(fd, BYTES - 1, &bytes, &len), -EFBIG);
	assert_int_equal(io__read_all(zero, 1 << 20, &bytes, &len), -EFBIG);
	assert_null(bytes);
	assert_int_equal(len, 1);
	close(zero);
	close(fd);
	assert_int_equal(io__read_all(fd, BYTES, &bytes, &len), -EBADF);
}

/* Reads a pipe to its end. Its bytes come from several writes. */
static void test_pipe(void **state)
{
	char *bytes = NULL;
	size_t len = 0;
	int ends[2];

	(void)state;
	assert_int_equal(pipe(ends), 0);
	assert_int_equal(write(ends[1], "one ", 4), 4);
	assert_int_equal(write(ends[1], "two", 3), 3);
	close(ends[1]);
	assert_int_equal(io__read_all(ends[0], 7, &bytes, &len), 0);
	assert_int_equal(len, 7);
	assert_string_equal(bytes, "one two");
	free(bytes);
	close(ends[0]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_whole),
		cmocka_unit_test(test_too_much),
		cmocka_unit_test(test_pipe),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
