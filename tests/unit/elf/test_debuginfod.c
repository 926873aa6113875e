// SPDX-License-Identifier: BSD-2-Clause
/* A directory is the server: libdebuginfod accepts file:// URLs, too. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <arpa/inet.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "elf/debuginfod.h"
#include "tests/unit/elf/shell.h"

#define SERVED "www/buildid/0123456789abcdef"

static char dir[] = "/tmp/memtrace-debuginfod-XXXXXX";

static int make_files(void **state)
{
	(void)state;
	if (!mkdtemp(dir))
		return -1;
	shell_run(dir, "echo 'int main(void) { return 0; }' > p.c; mkdir -p " SERVED ";"
		       "gcc -g -Wl,--build-id=0x0123456789abcdef -o full p.c;"
		       "gcc -g -Wl,--build-id=0x0123456789abcdee -o other p.c;"
		       "gcc -s -Wl,--build-id=none -o nameless p.c; strip -o stripped full");
	return 0;
}

static int remove_files(void **state)
{
	(void)state;
	shell_run(dir, "rm -rf %s", dir);
	return 0;
}

/* Asks for the debug file of a program, with an empty cache. */
static int ask(const char *name)
{
	_cleanup_close_ int fd = -1;
	char path[256];

	shell_run(dir, "rm -rf cache");
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
	assert_int_equal(ask("stripped"), -ENOENT); /* the server has none */
	shell_run(dir, "cp full " SERVED "/debuginfo");
	fd = ask("stripped");
	assert_true(fd >= 0);
	assert_int_equal(fcntl(fd, F_GETFD), FD_CLOEXEC);
	close(fd);
	assert_int_equal(ask("full"), -ENOENT); /* not stripped */
	assert_int_equal(ask("nameless"), -ENOENT);

	/* The server's file is refused. At first it belongs to another build, then it is no ELF
	 * file. */
	shell_run(dir, "cp other " SERVED "/debuginfo");
	assert_int_equal(ask("stripped"), -ENOENT);
	shell_run(dir, "cp p.c " SERVED "/debuginfo");
	assert_int_equal(ask("stripped"), -ENOENT);
}

/* A server accepts connections and never answers. memtrace waits for this server only once. This
 * test is the last one, because memtrace asks no server after it. */
static void test_dead_server(void **state)
{
	struct sockaddr_in addr = {.sin_family = AF_INET,
				   .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	_cleanup_close_ int server = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	socklen_t len = sizeof(addr);
	uint64_t start_ns;
	char urls[64];

	(void)state;
	if (!dlopen("libdebuginfod.so.1", RTLD_LAZY))
		skip();
	assert_int_equal(bind(server, (struct sockaddr *)&addr, len), 0);
	assert_int_equal(listen(server, 10), 0);
	assert_int_equal(getsockname(server, (struct sockaddr *)&addr, &len), 0);
	snprintf(urls, sizeof(urls), "http://127.0.0.1:%d/", ntohs(addr.sin_port));
	setenv("DEBUGINFOD_URLS", urls, 1);
	setenv("DEBUGINFOD_TIMEOUT", "1", 1);
	assert_int_equal(ask("stripped"), -ETIMEDOUT);
	start_ns = clock__now_ns(CLOCK_MONOTONIC);
	for (int i = 0; i < 5; i++)
		assert_int_equal(ask("stripped"), -ETIMEDOUT);
	/* five waits would take 5 s */
	assert_true(clock__now_ns(CLOCK_MONOTONIC) - start_ns < 900000000);
	unsetenv("DEBUGINFOD_TIMEOUT");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_nobody_is_asked),
		cmocka_unit_test(test_server),
		cmocka_unit_test(test_dead_server),
	};

	return cmocka_run_group_tests(tests, make_files, remove_files);
}
