/* SPDX-License-Identifier: BSD-2-Clause */
/* A process that sleeps while a child allocates in its memory. The child comes from clone() with
 * CLONE_VM, so it is a process of its own and not a thread. At "go" the child begins to leak a
 * block of --size bytes (default 1000) every --us microseconds (default 1000). At "stop" it ends.
 * The truth is the memory that the child leaked: {"blocks", "bytes"}. Meanwhile the parent uses
 * nearly no CPU time. Parent and child share the C library's data for one thread, so only one of
 * them may call the C library at a time. */
#include <stdatomic.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "truth.h"

static atomic_bool stop;
static size_t size, n_blocks;
static uint64_t period_us;
static unsigned char stack[1 << 18] __attribute__((aligned(16)));

NOINLINE static void lent_leak(void)
{
	void *p = malloc(size);

	__asm__ volatile("" : : "r"(p) : "memory");
	n_blocks++;
}

static int work(void *unused)
{
	struct timespec rest = {0, (long)period_us * 1000};

	(void)unused;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	while (!atomic_load(&stop)) {
		lent_leak();
		syscall(SYS_clock_nanosleep, CLOCK_MONOTONIC, 0, &rest, NULL);
	}
	return 0;
}

int main(int argc, char **argv)
{
	int pid;

	size = truth_number(argc, argv, "--size", 1000);
	period_us = truth_number(argc, argv, "--us", 1000);
	truth_init(argc, argv);
	truth_ready();
	pid = clone(work, stack + sizeof(stack), CLONE_VM | SIGCHLD, NULL);
	if (pid < 0)
		return 2;
	truth_await("stop");
	atomic_store(&stop, true);
	if (waitpid(pid, NULL, 0) != pid)
		return 2;
	printf("{\"blocks\": %zu, \"bytes\": %zu}\n", n_blocks, n_blocks * size);
	return truth_finish();
}
