// SPDX-License-Identifier: BSD-2-Clause
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#undef fail /* cmocka's */
#include "cli/cli.h"
#include "cli/secret.h"

static char path[] = "/tmp/memtrace-secret-XXXXXX";

static void put(const char *bytes, size_t len, mode_t mode)
{
	int fd = (strcpy(strrchr(path, '-'), "-XXXXXX"), mkstemp(path));

	assert_true(fd >= 0);
	assert_int_equal(write(fd, bytes, len), len);
	assert_int_equal(fchmod(fd, mode), 0);
	close(fd);
}

static void assert_token(const char *bytes, size_t len, mode_t mode, bool guarded,
			 const char *wanted)
{
	char *text = NULL;

	put(bytes, len, mode);
	assert_int_equal(secret__read_token("test", path, guarded, 4, 8, &text),
			 wanted ? 0 : EXIT_FAILED);
	if (wanted)
		assert_string_equal(text, wanted);
	else
		assert_null(text);
	free(text);
	unlink(path);
}

static void tokens(void **state)
{
	(void)state;
	assert_token("abcd", 4, 0600, true, "abcd");
	assert_token("a-._~+/=", 8, 0640, true, "a-._~+/=");
	assert_token("abcd\r\n", 6, 0600, true, "abcd");
	assert_token("abc\n", 4, 0600, true, NULL);
	assert_token("ab\ncd", 5, 0600, true, NULL);
	assert_token("ab cd", 5, 0600, true, NULL);
	assert_token("abcd\0efg", 8, 0600, true, NULL);
	assert_token("abcdefghi", 9, 0600, true, NULL);
	assert_token("", 0, 0600, true, NULL);
}

static void everybodys_file(void **state)
{
	(void)state;
	assert_token("abcd", 4, 0644, true, NULL);
	assert_token("abcd", 4, 0602, true, NULL);
	assert_token("abcd", 4, 0644, false, "abcd");
}

static void no_file(void **state)
{
	char *text;

	(void)state;
	assert_int_equal(secret__read("test", "/nowhere", false, 8, &text), EXIT_FAILED);
	assert_int_equal(secret__read("test", "/dev/null", false, 8, &text), EXIT_FAILED);
	assert_int_equal(secret__read("test", "/tmp", false, 8, &text), EXIT_FAILED);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(tokens),
		cmocka_unit_test(everybodys_file),
		cmocka_unit_test(no_file),
	};

	return cmocka_run_group_tests_name("secret", tests, NULL, NULL);
}
