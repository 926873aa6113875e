/* SPDX-License-Identifier: BSD-2-Clause */
/* Binaries made by the test itself, in a directory of its own. */
#ifndef TESTS_UNIT_SYMBOLIZE_FIXTURE_H
#define TESTS_UNIT_SYMBOLIZE_FIXTURE_H

#include <fcntl.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char fixture_dir[] = "/tmp/memtrace-symbolize-XXXXXX";

/* Runs a shell command in the directory; true when it succeeds. */
__attribute__((format(printf, 1, 2))) static bool fixture_run(const char *fmt, ...)
{
	char command[4096];
	int n = snprintf(command, sizeof(command), "cd %s && ", fixture_dir);
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(command + n, sizeof(command) - (size_t)n, fmt, ap);
	va_end(ap);
	return system(command) == 0;
}

static bool fixture_write(const char *name, const void *data, size_t len)
{
	char path[512];
	FILE *f;
	bool ok;

	snprintf(path, sizeof(path), "%s/%s", fixture_dir, name);
	f = fopen(path, "w");
	if (!f)
		return false;
	ok = fwrite(data, 1, len, f) == len;
	return !fclose(f) && ok;
}

static int fixture_setup(void **state)
{
	(void)state;
	return mkdtemp(fixture_dir) ? 0 : -1;
}

static int fixture_teardown(void **state)
{
	(void)state;
	fixture_run("rm -rf %s", fixture_dir);
	return 0;
}

#endif
