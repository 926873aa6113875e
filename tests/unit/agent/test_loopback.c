// SPDX-License-Identifier: BSD-2-Clause
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "agent/loopback.h"

static bool is_name(const char *host)
{
	return loopback__is_name(host, strlen(host));
}

static void names_of_this_host(void **state)
{
	(void)state;
	assert_true(is_name("localhost") && is_name("LocalHost") && is_name("[::1]"));
	assert_true(is_name("127.0.0.1") && is_name("127.255.0.2"));
	/* only the first len bytes count */
	assert_true(loopback__is_name("localhost:80", 9) && loopback__is_name("127.0.0.1:80", 9));
}

static void names_that_only_look_like_it(void **state)
{
	static const char *const names[] = {
		"",	 "localhos", "localhost.example", "127.",   "127.0.0.1.example", "1270.0.1",
		"[::2]", "::1",	     "10.127.0.1",	  "example"};

	(void)state;
	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++)
		assert_false(is_name(names[i]));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(names_of_this_host),
		cmocka_unit_test(names_that_only_look_like_it),
	};

	return cmocka_run_group_tests_name("loopback", tests, NULL, NULL);
}
