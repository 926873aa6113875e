// SPDX-License-Identifier: BSD-2-Clause
/* Compares the run times of threads with what the threads' own clocks say. */
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "base/clock.h"
#include "proc/run_time.h"

#define MS 1000000ULL

static void spin(uint64_t ns)
{
	uint64_t until = clock__now_ns(CLOCK_THREAD_CPUTIME_ID) + ns;

	while (clock__now_ns(CLOCK_THREAD_CPUTIME_ID) < until)
		;
}

static void *spin_here(void *ns)
{
	spin(*(uint64_t *)ns);
	return NULL;
}

/* Opens the events of this process. If they are not allowed here, skips the test with a message. */
static void open_own(struct run_time *run)
{
	int rc = run_time__open(run, getpid());

	if (rc == -EACCES || rc == -EPERM) {
		print_message("perf events of our own are not allowed here\n");
		skip();
	}
	assert_int_equal(rc, 0);
	spin(MS);
}

/* The time of this process and of a new thread counts, but not a forked child's. */
static void test_threads_that_run(void **state)
{
	uint64_t more = 30 * MS, before, took, ns;
	struct run_time run = {};
	pthread_t thread;
	pid_t child;

	(void)state;
	open_own(&run);
	run_time__begin(&run);
	assert_true(run_time__runs(&run));
	before = clock__now_ns(CLOCK_PROCESS_CPUTIME_ID);
	spin(20 * MS);
	assert_int_equal(pthread_create(&thread, NULL, spin_here, &more), 0);
	pthread_join(thread, NULL);
	child = fork();
	if (!child) {
		spin(300 * MS);
		_exit(0);
	}
	assert_int_equal(waitpid(child, NULL, 0), child);
	took = clock__now_ns(CLOCK_PROCESS_CPUTIME_ID) - before;
	assert_int_equal(run_time__end(&run, &ns), 0);
	assert_true(took >= 50 * MS);
	assert_true(ns + MS > took && ns < took + 5 * MS);
	assert_false(run_time__runs(&run));
	assert_int_equal(run_time__end(&run, &ns), -ENODATA);
}

static void *wait_here(void *pipe_end)
{
	char byte;

	return read(*(int *)pipe_end, &byte, 1) == 1 ? NULL : pipe_end;
}

/* Nothing is opened for a process with too many threads, or for one that does not exist. */
static void test_too_many(void **state)
{
	pthread_t threads[RUN_TIME_THREADS];
	struct run_time run = {};
	int ends[2];
	uint64_t ns;

	(void)state;
	open_own(&run);
	assert_int_equal(pipe(ends), 0);
	for (int i = 0; i < RUN_TIME_THREADS; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, wait_here, &ends[0]), 0);
	assert_int_equal(run_time__open(&run, getpid()), -E2BIG);
	assert_int_equal(run.n, 0);
	run_time__begin(&run);
	assert_int_equal(run_time__end(&run, &ns), -ENODATA);
	for (int i = 0; i < RUN_TIME_THREADS; i++)
		assert_int_equal(write(ends[1], "", 1), 1);
	for (int i = 0; i < RUN_TIME_THREADS; i++)
		pthread_join(threads[i], NULL);
	assert_int_equal(run_time__open(&run, 1 << 30), -ENOENT);
	close(ends[0]);
	close(ends[1]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_threads_that_run),
		cmocka_unit_test(test_too_many),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
