/* SPDX-License-Identifier: BSD-2-Clause */
/* Children and threads to look at. Include after cmocka.h. */
#ifndef MEMTRACE_TESTS_PROC_CHILDREN_H
#define MEMTRACE_TESTS_PROC_CHILDREN_H

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

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

static inline void end_child(pid_t child)
{
	kill(child, SIGKILL);
	waitpid(child, NULL, 0);
}

/* A thread that sets its name, writes its number to *arg, a pid_t, and ends when *arg is 0. */
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
