/* SPDX-License-Identifier: BSD-2-Clause */
/* Children and threads for tests that read /proc. Include after cmocka.h. */
#ifndef MEMTRACE_TESTS_PROC_CHILDREN_H
#define MEMTRACE_TESTS_PROC_CHILDREN_H

#include <fcntl.h>
#include <grp.h>
#include <pthread.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

#include "proc/process.h"

/* A child that has set its name and waits to be killed. */
static inline pid_t named_child(const char *name)
{
	int ready[2];
	pid_t child;
	char byte;

	assert_int_equal(pipe2(ready, O_CLOEXEC), 0);
	child = fork();
	assert_true(child >= 0);
	if (child == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		prctl(PR_SET_NAME, name);
		if (write(ready[1], "x", 1) != 1)
			_exit(1);
		for (;;)
			pause();
	}
	assert_int_equal(read(ready[0], &byte, 1), 1);
	close(ready[0]);
	close(ready[1]);
	return child;
}

static inline void *wait_for_end(void *arg)
{
	(void)arg;
	for (;;)
		pause();
	return NULL;
}

/* A child whose main thread has ended while another one waits to be killed. */
static inline pid_t headless_child(void)
{
	pid_t child = fork();
	siginfo_t none;

	assert_true(child >= 0);
	if (child == 0) {
		pthread_t other;

		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (pthread_create(&other, NULL, wait_for_end, NULL))
			_exit(1);
		syscall(SYS_exit, 0); /* ends only this thread */
	}
	for (int i = 0; i < 10000; i++) {
		struct process_info info;

		assert_int_equal(waitid(P_PID, (id_t)child, &none, WEXITED | WNOWAIT | WNOHANG), 0);
		assert_int_equal(process__read_stat(child, &info), 0);
		if (info.state == 'Z')
			return child;
		usleep(1000);
	}
	fail_msg("the main thread does not end");
	return 0;
}

static inline void end_child(pid_t child)
{
	kill(child, SIGKILL);
	waitpid(child, NULL, 0);
}

/* Runs fn in a child with very many groups: the line "Groups:" of its status file is longer than 64
 * KiB. fn must return 0. */
static inline void assert_with_many_groups(int (*fn)(void))
{
	enum { N = 6500 }; /* numbers of 10 digits and a blank each */
	static gid_t groups[N];
	int status;
	pid_t child;

	if (geteuid() != 0) {
		print_message("only root can set groups\n");
		skip();
	}
	for (size_t i = 0; i < N; i++)
		groups[i] = 1000000000 + (gid_t)i;
	child = fork();
	assert_true(child >= 0);
	if (child == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		_exit(setgroups(N, groups) ? 99 : fn());
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 0);
}

/* Sets the thread's name, writes its tid to *arg (a pid_t), and ends when *arg is 0. */
static inline void *sleeper(void *arg)
{
	pid_t *tid = arg;

	prctl(PR_SET_NAME, "worker thread");
	__atomic_store_n(tid, (pid_t)syscall(SYS_gettid), __ATOMIC_RELEASE);
	while (__atomic_load_n(tid, __ATOMIC_ACQUIRE))
		usleep(1000);
	return NULL;
}

#endif
