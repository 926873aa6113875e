/* SPDX-License-Identifier: BSD-2-Clause */
/* Helpers for tests of sandboxed children: the child's state according to /proc, and the calls that
 * the child tries. Include after cmocka.h. */
#ifndef TESTS_UNIT_SYMBOLIZE_CHILD_FIXTURE_H
#define TESTS_UNIT_SYMBOLIZE_CHILD_FIXTURE_H

#include <dirent.h>
#include <errno.h>
#include <linux/futex.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"

#include "fixture.h"

static inline int open_fixture(const char *name)
{
	char path[512];
	int fd;

	snprintf(path, sizeof(path), "%s/%s", fixture_dir, name);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	assert_true(fd >= 0);
	return fd;
}

static inline double now_s(void)
{
	return (double)clock__now_ns(CLOCK_MONOTONIC) / 1e9;
}

static inline size_t count_fds(void)
{
	DIR *dir = opendir("/proc/self/fd");
	size_t n = 0;

	assert_non_null(dir);
	while (readdir(dir))
		n++;
	closedir(dir);
	return n;
}

static inline void assert_no_child(void)
{
	assert_int_equal(waitpid(-1, NULL, __WALL | WNOHANG), -1);
	assert_int_equal(errno, ECHILD);
}

/* A failed check in the child ends the child with a status that nothing else uses. */
#define CHILD_ASSERT(condition)                                                                    \
	do {                                                                                       \
		if (!(condition))                                                                  \
			_exit(100);                                                                \
	} while (0)

static inline bool refused(long ret)
{
	return ret == -1 && errno == EPERM;
}

static inline void child_waits(void)
{
	static uint32_t word;
	struct timespec limit = {.tv_sec = 30};

	syscall(SYS_futex, &word, FUTEX_WAIT, 0, &limit, NULL, 0);
	_exit(100);
}

/* Returns a child of pid, or 0. */
static inline pid_t child_of(pid_t pid)
{
	DIR *dir = opendir("/proc");
	struct dirent *entry;
	pid_t found = 0;

	while (!found && (entry = readdir(dir))) {
		char path[300], line[256];
		pid_t candidate = atoi(entry->d_name);
		FILE *f;

		if (candidate <= 0)
			continue;
		snprintf(path, sizeof(path), "/proc/%d/status", candidate);
		f = fopen(path, "r");
		while (f && fgets(line, sizeof(line), f))
			if (!strncmp(line, "PPid:", 5) && atoi(line + 5) == pid)
				found = candidate;
		if (f)
			fclose(f);
	}
	closedir(dir);
	return found;
}

static inline bool status_says(const char *status, const char *wanted)
{
	return strstr(status, wanted);
}

/* The state of a child after it has entered the sandbox: /proc/PID/status, number of descriptors,
 * oom_score_adj. */
struct watch {
	char status[8192];
	size_t n_fds;
	char oom[16];
};

static inline size_t slurp(pid_t pid, const char *name, char *buf, size_t room)
{
	char path[64];
	size_t n = 0;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/%s", pid, name);
	f = fopen(path, "r");
	if (f) {
		n = fread(buf, 1, room - 1, f);
		fclose(f);
	}
	buf[n] = '\0';
	return n;
}

/* Is called while child_waits() holds the child. Once the child is in the sandbox, this callback
 * records the child's state and kills the child. */
static inline void watch_child(void *ctx)
{
	struct watch *watch = ctx;
	pid_t pid = child_of(getpid());
	char path[64];
	DIR *dir;

	if (!pid || !slurp(pid, "status", watch->status, sizeof(watch->status)) ||
	    !strstr(watch->status, "Seccomp:\t2"))
		return;
	slurp(pid, "oom_score_adj", watch->oom, sizeof(watch->oom));
	snprintf(path, sizeof(path), "/proc/%d/fd", pid);
	dir = opendir(path);
	for (watch->n_fds = 0; dir && readdir(dir);)
		watch->n_fds++;
	if (dir)
		closedir(dir);
	kill(pid, SIGKILL);
}

/* Checks that the watched child had no privileges and, if the test is root, n_fds descriptors. */
static inline void assert_nobody(const struct watch *watch, size_t n_fds)
{
	assert_true(status_says(watch->status, "Seccomp:\t2\n"));
	assert_true(status_says(watch->status, "NoNewPrivs:\t1\n"));
	assert_true(status_says(watch->status, "CapInh:\t0000000000000000\n"));
	assert_true(status_says(watch->status, "CapPrm:\t0000000000000000\n"));
	assert_true(status_says(watch->status, "CapEff:\t0000000000000000\n"));
	assert_true(status_says(watch->status, "CapAmb:\t0000000000000000\n"));
	assert_true(status_says(watch->status, "Threads:\t1\n"));
	assert_true(status_says(watch->status, "SigBlk:\tfffffffe7ffbfeff\n") ||
		    status_says(watch->status, "SigBlk:\tfffffffc7ffbfeff\n") ||
		    status_says(watch->status, "SigBlk:\tfffffffe3ffbfeff\n"));
	assert_string_equal(watch->oom, "1000\n");
	if (geteuid() == 0) { /* only root can become another user */
		assert_true(status_says(watch->status, "Uid:\t65534\t65534\t65534\t65534\n"));
		assert_true(status_says(watch->status, "Gid:\t65534\t65534\t65534\t65534\n"));
		assert_true(status_says(watch->status, "Groups:\t \n"));
		assert_int_equal(watch->n_fds, 2 + n_fds);
	}
}

#endif
