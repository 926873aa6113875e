// SPDX-License-Identifier: BSD-2-Clause
/* A sandboxed child may sleep, and does so beside a process that needs its CPU. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "sandbox/child.h"
#include "sandbox/gentle.h"

#define WORK_NS	   100000000ULL
#define PATIENCE_S 60.0

/* Moves this process to one CPU, on which another process computes until it is killed. */
static pid_t start_rival(void)
{
	cpu_set_t cpus;
	int cpu = sched_getcpu();
	pid_t pid;

	CPU_ZERO(&cpus);
	CPU_SET((size_t)(cpu < 0 ? 0 : cpu), &cpus);
	assert_int_equal(sched_setaffinity(0, sizeof(cpus), &cpus), 0);
	pid = fork();
	assert_true(pid >= 0);
	if (!pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		for (volatile unsigned int n = 0;; n++)
			;
	}
	return pid;
}

/* Works for WORK_NS of CPU time. Writes how long it took, ns. */
static enum child_exit work(FILE *out, int file_fd, int other_fd, void *ctx)
{
	uint64_t start_ns = clock__now_ns(CLOCK_MONOTONIC), took_ns;
	uint64_t end_ns = clock__now_ns(CLOCK_THREAD_CPUTIME_ID) + WORK_NS;

	(void)file_fd, (void)other_fd, (void)ctx;
	while (clock__now_ns(CLOCK_THREAD_CPUTIME_ID) < end_ns)
		gentle__step();
	took_ns = clock__now_ns(CLOCK_MONOTONIC) - start_ns;
	return fwrite(&took_ns, sizeof(took_ns), 1, out) == 1 ? CHILD_DONE : CHILD_FAILED;
}

static void test_a_child_holds_back(void **state)
{
	struct child_task task = {.file_fd = open("/dev/null", O_RDONLY | O_CLOEXEC),
				  .other_fd = -1,
				  .read = work,
				  .patience_s = PATIENCE_S,
				  .gentle_s = PATIENCE_S,
				  .max_bytes = 4096};
	pid_t rival = start_rival();
	struct child *child;
	uint64_t took_ns;
	char more;

	(void)state;
	assert_true(task.file_fd >= 0);
	assert_int_equal(child__start(&task, &child), 0);
	assert_int_equal(stream__read_all(child__stream(child), &took_ns, sizeof(took_ns)), 0);
	assert_int_equal(stream__read(child__stream(child), &more, 1), 0);
	assert_int_equal(child__end(child), 0);
	close(task.file_fd);
	kill(rival, SIGKILL);
	waitpid(rival, NULL, 0);
	/* The scheduler alone would give the child half of the CPU. */
	assert_true(took_ns > (GENTLE_SHARE - 2) * WORK_NS);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_a_child_holds_back)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
