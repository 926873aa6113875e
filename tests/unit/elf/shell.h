/* SPDX-License-Identifier: BSD-2-Clause */
/* Makes the files of a test with shell commands. Include after cmocka.h. */
#ifndef TESTS_UNIT_ELF_SHELL_H
#define TESTS_UNIT_ELF_SHELL_H

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

/* Runs shell commands in the directory dir; the test fails when a command fails. */
__attribute__((format(printf, 2, 3))) static inline void shell_run(const char *dir, const char *fmt,
								   ...)
{
	char command[8192];
	int n = snprintf(command, sizeof(command), "set -e; cd %s; ", dir);
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(command + n, sizeof(command) - (size_t)n, fmt, ap);
	va_end(ap);
	if (system(command) != 0)
		fail_msg("%s", command);
}

#endif
