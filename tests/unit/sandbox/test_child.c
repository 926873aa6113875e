// SPDX-License-Identifier: BSD-2-Clause
/* When a child is forked while probes are in place, it gets copies of the probes' descriptors. Here
 * pipes stand for probes: the reader sees when no copy of the writer's end is left. Slow children
 * stand for children that get no CPU. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "base/clock.h"
#include "sandbox/child.h"
#include "sandbox/sandbox.h"

static enum { IS_QUICK, IS_SLOW, IS_STOPPED } what_child_is;

/* Called in each child, before fork() returns. */
static void begin_child(void)
{
	if (what_child_is == IS_SLOW)
		usleep(100000);
	if (what_child_is == IS_STOPPED)
		raise(SIGSTOP);
}

static int file(void)
{
	int fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);

	assert_true(fd >= 0);
	return fd;
}

static enum child_exit answer(FILE *out, int file_fd, int other_fd, void *ctx)
{
	(void)file_fd, (void)other_fd, (void)ctx;
	return fputc('y', out) == 'y' ? CHILD_DONE : CHILD_FAILED;
}

static bool is_gone(int reader)
{
	struct pollfd end = {.fd = reader, .events = POLLIN};

	return poll(&end, 1, 0) == 1 && end.revents & POLLHUP;
}

static void check_probes_are_free(void)
{
	int fd = file(), probe[2];
	struct child_task task = {
		.file_fd = fd, .other_fd = -1, .read = answer, .patience_s = 10, .max_bytes = 1};
	struct child *child;
	char got = 0;

	assert_int_equal(pipe2(probe, O_CLOEXEC), 0);
	assert_int_equal(child__start(&task, &child), 0);
	close(probe[1]);
	assert_true(is_gone(probe[0])); /* the child has no copy any more */
	assert_int_equal(stream__read_all(child__stream(child), &got, 1), 0);
	assert_int_equal(got, 'y');
	assert_int_equal(stream__read(child__stream(child), &got, 1), 0); /* the child has ended */
	assert_int_equal(child__end(child), 0);
	close(probe[0]);
	close(fd);
}

static void test_no_child_has_probes(void **state)
{
	(void)state;
	for (int i = 0; i < 10; i++)
		check_probes_are_free();
	what_child_is = IS_SLOW;
	check_probes_are_free();
	what_child_is = IS_QUICK;
}

static void test_stopped_child(void **state)
{
	int fd = file(), probe[2];
	struct child_task task = {
		.file_fd = fd, .other_fd = -1, .read = answer, .patience_s = 10, .max_bytes = 1};
	struct child *child = NULL;
	double began = clock__monotonic_s();

	(void)state;
	assert_int_equal(pipe2(probe, O_CLOEXEC), 0);
	what_child_is = IS_STOPPED;
	assert_int_equal(child__start(&task, &child), -ETIMEDOUT);
	what_child_is = IS_QUICK;
	assert_true(clock__monotonic_s() - began < 5);
	close(probe[1]);
	assert_true(is_gone(probe[0]));
	assert_int_equal(waitpid(-1, NULL, WNOHANG), -1);
	assert_int_equal(errno, ECHILD);
	close(probe[0]);
	close(fd);
}

/* If a child ends before it has closed its copies, the parent stops waiting for it. */
static void test_ended_child(void **state)
{
	double began = clock__monotonic_s();
	int status = 0;
	pid_t pid;

	(void)state;
	pid = sandbox__fork();
	if (!pid)
		_exit(7);
	assert_true(pid > 0);
	assert_true(clock__monotonic_s() - began < 0.9);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 7);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_no_child_has_probes),
		cmocka_unit_test(test_stopped_child),
		cmocka_unit_test(test_ended_child),
	};

	if (pthread_atfork(NULL, NULL, begin_child))
		return 1;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
