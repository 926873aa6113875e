// SPDX-License-Identifier: BSD-2-Clause
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "agent/guard.h"

static void assert_text(const char *text, const char *wanted)
{
	assert_true(!text == !wanted);
	if (wanted)
		assert_string_equal(text, wanted);
}

static void goes_through_memory(void **state)
{
	static char large[GUARD_PEM_MOST + 1];
	const struct guard guards[] = {{},
				       {.token = (char *)"t"},
				       {(char *)"t", (char *)"c", large},
				       {NULL, large, large}};

	(void)state;
	memset(large, 'x', sizeof(large) - 1);
	for (size_t i = 0; i < sizeof(guards) / sizeof(*guards); i++) {
		int fd = guard__to_memory(&guards[i]);
		struct guard guard;

		assert_true(fd >= 0);
		for (int twice = 0; twice < 2; twice++) { /* two servers read the memory */
			assert_int_equal(guard__from_memory(fd, &guard), 0);
			assert_text(guard.token, guards[i].token);
			assert_text(guard.cert, guards[i].cert);
			assert_text(guard.key, guards[i].key);
			guard__clear(&guard);
		}
		close(fd);
	}
}

static void half_of_it_is_refused(void **state)
{
	static const char bytes[] = "token\0cert\0key";
	struct guard guard;

	(void)state;
	for (size_t n = 0; n < sizeof(bytes); n++) {
		int fd = memfd_create("test", 0);

		assert_int_equal(write(fd, bytes, n), n);
		assert_int_equal(guard__from_memory(fd, &guard), -EPROTO);
		close(fd);
	}
}

static void only_the_token_is_admitted(void **state)
{
	static const char *const others[] = {"",
					     "Bearer",
					     "Bearer ",
					     "Bearer abc",
					     "Bearer abcdefghijklmno",
					     "Bearer abcdefghijklmnopa",
					     "Bearer abcdefghijklmnopabcdefghijklmnop",
					     "Bearer  abcdefghijklmnop",
					     "Bearer abcdefghijklmnoq",
					     "Bearer Abcdefghijklmnop",
					     "Basic abcdefghijklmnop",
					     "abcdefghijklmnop"};
	const struct guard none = {}, guard = {.token = (char *)"abcdefghijklmnop"};

	(void)state;
	assert_true(guard__admits(&none, NULL) && guard__admits(&none, "Bearer x"));
	assert_true(guard__admits(&guard, "Bearer abcdefghijklmnop"));
	assert_true(guard__admits(&guard, "bearer abcdefghijklmnop")); /* RFC 9110, 11.1 */
	assert_false(guard__admits(&guard, NULL));
	for (size_t i = 0; i < sizeof(others) / sizeof(*others); i++)
		assert_false(guard__admits(&guard, others[i]));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(goes_through_memory),
		cmocka_unit_test(half_of_it_is_refused),
		cmocka_unit_test(only_the_token_is_admitted),
	};

	return cmocka_run_group_tests_name("guard", tests, NULL, NULL);
}
