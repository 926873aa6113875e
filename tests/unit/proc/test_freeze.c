// SPDX-License-Identifier: BSD-2-Clause
#include "proc/freeze.h"

#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#define THREADS 3

/* The counts of the target's threads, in memory that is shared with the target. */
static volatile unsigned long *counts;

static void *count_up(void *arg)
{
	for (;;)
		counts[(size_t)arg]++;
	return NULL;
}

static pid_t start(void)
{
	pid_t pid;

	counts = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	assert_ptr_not_equal(counts, MAP_FAILED);
	pid = fork();
	if (!pid) {
		pthread_t thread;

		for (size_t i = 0; i < THREADS; i++)
			pthread_create(&thread, NULL, count_up, (void *)i);
		for (;;)
			pause();
	}
	for (size_t i = 0; i < THREADS; i++)
		while (!counts[i])
			usleep(1000);
	return pid;
}

static void end(pid_t pid)
{
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	munmap((void *)counts, 4096);
}

static bool counts_on(void)
{
	unsigned long before[THREADS];
	bool all = false;

	for (size_t i = 0; i < THREADS; i++)
		before[i] = counts[i];
	for (int tries = 0; tries < 200 && !all; tries++) {
		usleep(5000);
		all = true;
		for (size_t i = 0; i < THREADS; i++)
			all = all && counts[i] != before[i];
	}
	return all;
}

static void test_stops_and_goes_on(void **state)
{
	unsigned long before[THREADS];
	struct freeze freeze;
	uint64_t pause_ns;
	pid_t pid = start();

	(void)state;
	assert_int_equal(freeze__begin(pid, 10000, &freeze), 0);
	assert_int_equal(freeze.n, THREADS + 1);
	for (size_t i = 0; i < THREADS; i++)
		before[i] = counts[i];
	usleep(30000);
	for (size_t i = 0; i < THREADS; i++) {
		assert_int_equal(counts[i], before[i]);
		assert_true(freeze.threads[i].state.tid >= pid && freeze.threads[i].state.sp);
		assert_true(freeze.threads[i].state.pc && freeze.threads[i].state.tp);
	}
	assert_int_equal(freeze__end(&freeze, &pause_ns), 0);
	assert_true(pause_ns >= 30000000);
	assert_true(counts_on());
	end(pid);
}

static void test_deadline(void **state)
{
	struct freeze freeze;
	uint64_t pause_ns;
	pid_t pid = start();
	int rc = freeze__begin(pid, 200, &freeze);

	(void)state;
	if (rc) /* on a busy machine threads may not stop in time */
		assert_int_equal(rc, -ETIMEDOUT);
	else {
		assert_true(counts_on()); /* even if this process does nothing */
		assert_int_equal(freeze__end(&freeze, &pause_ns), -ETIMEDOUT);
	}
	assert_true(counts_on());
	end(pid);
}

static void test_helper_that_is_killed(void **state)
{
	struct freeze freeze;
	uint64_t pause_ns;
	pid_t pid = start();

	(void)state;
	assert_int_equal(freeze__begin(pid, 10000, &freeze), 0);
	kill(freeze.helper, SIGKILL);
	assert_true(counts_on());
	assert_int_equal(freeze__end(&freeze, &pause_ns), -ECHILD);
	end(pid);
}

static void test_refusals(void **state)
{
	struct freeze first, second;
	uint64_t pause_ns;
	pid_t pid = start();

	(void)state;
	assert_int_equal(freeze__begin(pid, 10000, &first), 0);
	assert_int_equal(freeze__begin(pid, 10000, &second), -EPERM);
	assert_int_equal(freeze__end(&first, &pause_ns), 0);
	assert_true(counts_on());
	end(pid);
	assert_int_equal(freeze__begin(0x3fffff, 100, &first), -ESRCH);
}

static void count_signal(int number)
{
	(void)number;
	counts[0]++;
}

/* A signal that is pending for a thread when the thread is stopped is not lost. */
static void test_signals(void **state)
{
	unsigned long sent = 0;
	struct freeze freeze;
	uint64_t pause_ns;
	pid_t pid;

	(void)state;
	counts = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	assert_ptr_not_equal(counts, MAP_FAILED);
	signal(SIGRTMIN, count_signal);
	pid = fork();
	if (!pid)
		for (;;)
			pause();
	for (int round = 0; round < 50; round++) {
		pid_t sender = fork();

		if (!sender) {
			for (int i = 0; i < 200; i++)
				sigqueue(pid, SIGRTMIN, (union sigval){});
			_exit(0);
		}
		sent += 200;
		assert_int_equal(freeze__begin(pid, 10000, &freeze), 0);
		assert_int_equal(freeze__end(&freeze, &pause_ns), 0);
		waitpid(sender, NULL, 0);
		for (int tries = 0; tries < 1000 && counts[0] != sent; tries++)
			usleep(1000);
		assert_int_equal(counts[0], sent);
	}
	signal(SIGRTMIN, SIG_DFL);
	end(pid);
}

/* The main thread has ended, and others run. */
static void test_main_thread_that_has_ended(void **state)
{
	struct freeze freeze;
	uint64_t pause_ns;
	pid_t pid;

	(void)state;
	counts = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	assert_ptr_not_equal(counts, MAP_FAILED);
	pid = fork();
	if (!pid) {
		pthread_t thread;

		pthread_create(&thread, NULL, count_up, NULL);
		syscall(SYS_exit, 0);
	}
	while (!counts[0])
		usleep(1000);
	usleep(20000);
	assert_int_equal(freeze__begin(pid, 10000, &freeze), 0);
	assert_int_equal(freeze.n, 1);
	assert_int_equal(freeze__end(&freeze, &pause_ns), 0);
	end(pid);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_stops_and_goes_on),
		cmocka_unit_test(test_deadline),
		cmocka_unit_test(test_helper_that_is_killed),
		cmocka_unit_test(test_refusals),
		cmocka_unit_test(test_signals),
		cmocka_unit_test(test_main_thread_that_has_ended),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
