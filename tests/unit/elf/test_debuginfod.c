// SPDX-License-Identifier: BSD-2-Clause
/* A directory is the server: libdebuginfod takes file:// as well. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "elf/debuginfod.h"

#define SERVED "www/buildid/0123456789abcdef"

static char dir[] = "/tmp/memtrace-debuginfod-XXXXXX";

__attribute__((format(printf, 1, 2))) static void run(const char *fmt, ...)
{
	char command[2048];
	int n = snprintf(command, sizeof(command), "set -e; cd %s; ", dir);
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(command + n, sizeof(command) - (size_t)n, fmt, ap);
	va_end(ap);
	if (system(command) != 0)
		fail_msg("%s", command);
}

static int make_files(void **state)
{
	(void)state;
	if (!mkdtemp(dir))
		return -1;
	run("echo 'int main(void) { return 0; }' > p.c; mkdir -p " SERVED ";"
	    "gcc -g -Wl,--build-id=0x0123456789abcdef -o full p.c;"
	    "gcc -g -Wl,--build-id=0x0123456789abcdee -o other p.c;"
	    "gcc -s -Wl,--build-id=none -o nameless p.c; strip -o stripped full");
	return 0;
}

static int remove_files(void **state)
{
	(void)state;
	run("rm -rf %s", dir);
	return 0;
}

/* Asks for the debug file of a program, by a cache that is empty. */
static int ask(const char *name)
{
	_cleanup_close_ int fd = -1;
	char path[256];

	run("rm -rf cache");
	snprintf(path, sizeof(path), "%s/cache", dir);
	setenv("DEBUGINFOD_CACHE_PATH", path, 1);
	snprintf(path, sizeof(path), "%s/%s", dir, name);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	assert_true(fd >= 0);
	return debuginfod__open(fd);
}

static void test_nobody_is_asked(void **state)
{
	(void)state;
	unsetenv("DEBUGINFOD_URLS");
	assert_int_equal(ask("stripped"), -ENOENT);
	setenv("DEBUGINFOD_URLS", "", 1);
	assert_int_equal(ask("stripped"), -ENOENT);
	setenv("DEBUGINFOD_URLS", "file:///nowhere", 1);
	assert_int_equal(ask("p.c"), -ENOEXEC);
	assert_int_equal(debuginfod__open(-1), -EBADF);
}

static void test_server(void **state)
{
	char urls[256];
	int fd;

	(void)state;
	if (!dlopen("libdebuginfod.so.1", RTLD_LAZY))
		skip();
	snprintf(urls, sizeof(urls), "file://%s/www", dir);
	setenv("DEBUGINFOD_URLS", urls, 1);
	assert_int_equal(ask("stripped"), -ENOENT); /* it has none */
	run("cp full " SERVED "/debuginfo");
	fd = ask("stripped");
	assert_true(fd >= 0);
	assert_int_equal(fcntl(fd, F_GETFD), FD_CLOEXEC);
	close(fd);
	assert_int_equal(ask("full"), -ENOENT); /* needs none */
	assert_int_equal(ask("nameless"), -ENOENT);

	/* What comes is not believed. */
	run("cp other " SERVED "/debuginfo");
	assert_int_equal(ask("stripped"), -ENOENT);
	run("cp p.c " SERVED "/debuginfo");
	assert_int_equal(ask("stripped"), -ENOENT);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_nobody_is_asked),
		cmocka_unit_test(test_server),
	};

	return cmocka_run_group_tests(tests, make_files, remove_files);
}
