// SPDX-License-Identifier: BSD-2-Clause
/* Text that nobody reads is dropped, and the writer does not wait. */
#include <errno.h>
#include <fcntl.h>
#include <pty.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include <cmocka.h>

#include "base/clock.h"
#include "cli/nowait.h"

#define MOST_BYTES (16 << 20) /* more than the buffer of any pipe or terminal */

static char line[1000];

/* Writes until the buffer is full. The open file must stay blocking, because other processes may
 * share it. */
static void check_fills(int fd)
{
	int to = nowait__open(fd);
	double begin = clock__monotonic_s();
	size_t sum = 0;
	ssize_t n;

	assert_false(fcntl(fd, F_GETFL) & O_NONBLOCK);
	while (sum < MOST_BYTES && (n = nowait__write(to, line, sizeof(line))) > 0)
		sum += (size_t)n;
	assert_int_equal(n, 0);
	assert_in_range(sum, 1, MOST_BYTES - 1);
	assert_true(clock__monotonic_s() - begin < 5);
	assert_false(fcntl(fd, F_GETFL) & O_NONBLOCK);
	if (to != fd)
		close(to);
}

static void pipes_that_nobody_reads(void **state)
{
	int fds[2];

	(void)state;
	assert_int_equal(pipe2(fds, O_CLOEXEC), 0);
	check_fills(fds[1]);
	close(fds[0]);
	close(fds[1]);
}

/* Where a pipe cannot be opened anew, text goes to the blocking descriptor itself. */
static void pipes_that_stay_blocking(void **state)
{
	static char much[8192];
	size_t sum = 0;
	ssize_t n;
	int fds[2];

	(void)state;
	assert_int_equal(pipe2(fds, O_CLOEXEC), 0);
	alarm(30); /* ends a test that waits for a reader */
	while (sum < MOST_BYTES && (n = nowait__write(fds[1], much, sizeof(much))) > 0)
		sum += (size_t)n;
	assert_int_equal(n, 0);
	assert_in_range(sum, 1, MOST_BYTES - 1);
	assert_int_equal(read(fds[0], much, sizeof(much)), sizeof(much));
	assert_true(nowait__write(fds[1], line, sizeof(line)) > 0);
	alarm(0);
	close(fds[0]);
	close(fds[1]);
}

static void sockets_that_nobody_reads(void **state)
{
	int fds[2];

	(void)state;
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds), 0);
	check_fills(fds[1]);
	close(fds[0]);
	assert_int_equal(nowait__write(fds[1], line, 1), -EPIPE); /* without a SIGPIPE */
	close(fds[1]);
}

static void terminals_that_nobody_reads(void **state)
{
	int master, slave;

	(void)state;
	assert_int_equal(openpty(&master, &slave, NULL, NULL, NULL), 0);
	check_fills(slave);
	close(slave);
	close(master);
}

static void stderr_that_nobody_reads(void **state)
{
	int fds[2], before = dup(STDERR_FILENO);
	double begin, first, rest;

	(void)state;
	assert_int_equal(pipe2(fds, O_CLOEXEC), 0);
	dup2(fds[1], STDERR_FILENO);
	nowait__complain("heard");
	assert_int_equal(read(fds[0], line, sizeof(line)), strlen("memtrace: heard\n"));
	assert_memory_equal(line, "memtrace: heard\n", strlen("memtrace: heard\n"));
	begin = clock__monotonic_s();
	for (int i = 0; i < 100; i++)
		nowait__put(line, sizeof(line));
	first = clock__monotonic_s() - begin;
	begin = clock__monotonic_s();
	for (int i = 0; i < 100; i++)
		nowait__put(line, sizeof(line));
	rest = clock__monotonic_s() - begin;
	dup2(before, STDERR_FILENO);
	close(before);
	/* the first write waited for a reader, the others did not */
	assert_true(first > 0.05 && first < 5);
	assert_true(rest < 5);
	close(fds[0]);
	close(fds[1]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(pipes_that_nobody_reads),
		cmocka_unit_test(pipes_that_stay_blocking),
		cmocka_unit_test(sockets_that_nobody_reads),
		cmocka_unit_test(terminals_that_nobody_reads),
		cmocka_unit_test(stderr_that_nobody_reads),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
