// SPDX-License-Identifier: BSD-2-Clause
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "proc/environ.h"

static void variables_are_told_apart(void **state)
{
	static const char text[] = "A=1\0\0LONG_NAME=long value\0B=A=2";

	(void)state;
	assert_true(environ__text_has(text, sizeof(text), "A=1"));
	assert_true(environ__text_has(text, sizeof(text), "LONG_NAME=long"));
	assert_true(environ__text_has(text, sizeof(text), "B=A=2"));
	assert_true(environ__text_has(text, sizeof(text) - 1, "B=A=2")); /* without a NUL */
	assert_false(environ__text_has(text, sizeof(text) - 2, "B=A=2"));
	assert_false(environ__text_has(text, sizeof(text), "A=2"));
	assert_false(environ__text_has(text, sizeof(text), "NAME="));
	assert_false(environ__text_has(text, 0, "A"));
}

static void a_process_is_read(void **state)
{
	int out[2], in[2];
	char byte;
	pid_t pid;

	(void)state;
	assert_int_equal(pipe(out) | pipe(in), 0);
	pid = fork();
	if (!pid) {
		char *args[] = {"cat", NULL},
		     *env[] = {"FIRST=x", "PYTHONMALLOC=malloc_debug", NULL};

		dup2(in[0], STDIN_FILENO);
		dup2(out[1], STDOUT_FILENO);
		close(in[1]);
		execve("/bin/cat", args, env);
		_exit(127);
	}
	assert_int_equal(write(in[1], "x", 1), 1);
	assert_int_equal(read(out[0], &byte, 1), 1); /* the child runs */
	assert_true(environ__has(pid, "PYTHONMALLOC=malloc"));
	assert_true(environ__has(pid, "FIRST=x"));
	assert_false(environ__has(pid, "SECOND="));
	close(in[1]);
	close(in[0]);
	close(out[0]);
	close(out[1]);
	waitpid(pid, NULL, 0);
	assert_false(environ__has(pid, "FIRST=x"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(variables_are_told_apart),
		cmocka_unit_test(a_process_is_read),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
