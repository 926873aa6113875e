// SPDX-License-Identifier: BSD-2-Clause
#include "symbolize/variables.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "symbolize/symtab.h"

static long with_a_value[4] = {1}; /* .data */
long without_one[100000];	   /* .bss */

static struct maps maps;
static struct variables *variables;

static int open_own(void **state)
{
	(void)state;
	assert_int_equal(maps__read(getpid(), &maps), 0);
	assert_int_equal(variables__new(getpid(), &maps, NULL, &variables), 0);
	return 0;
}

static int close_own(void **state)
{
	(void)state;
	variables__free(variables);
	maps__free(&maps);
	return 0;
}

static void test_own_variables(void **state)
{
	struct variable v;

	(void)state;
	assert_int_equal(variables__name(variables, (uintptr_t)&with_a_value[2], &v), 0);
	assert_string_equal(v.name, "with_a_value");
	assert_int_equal(v.off, 2 * sizeof(long));
	assert_non_null(strstr(v.path, "test_variables"));
	assert_int_equal(variables__name(variables, (uintptr_t)&without_one[99999], &v), 0);
	assert_string_equal(v.name, "without_one");
	assert_int_equal(v.off, 99999 * sizeof(long));
	assert_int_equal(variables__name(variables, (uintptr_t)&v, &v), -ENOENT);
	assert_int_equal(variables__name(variables, 0, &v), -ENOENT);
	assert_int_equal(variables__unread(variables), 0);
}

static void child_fails(void)
{
	_exit(9);
}

/* A variable of a file whose symbols cannot be read has no name. The loss is counted, once for the
 * file. */
static void test_unread_symbols(void **state)
{
	struct variable v;

	(void)state;
	symtab__test_hooks.in_child = child_fails;
	for (int i = 0; i < 2; i++) {
		assert_int_equal(variables__name(variables, (uintptr_t)&with_a_value[i], &v), 0);
		assert_null(v.name);
	}
	symtab__test_hooks.in_child = NULL;
	assert_int_equal(variables__unread(variables), 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_own_variables, open_own, close_own),
		cmocka_unit_test_setup_teardown(test_unread_symbols, open_own, close_own),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
