// SPDX-License-Identifier: BSD-2-Clause
/* When SIGKILL is pending for the process that takes a probe out (or that gives up placing one),
 * the kernel cannot write into the target's memory: "uprobe: failed to unregister, leaking uprobe",
 * and the breakpoint stays in the target for as long as it lives. So probes are placed and taken
 * out by a helper that the one who kills memtrace does not hit: a child that shares memory and
 * descriptors, while memtrace waits as after vfork(). When memtrace dies meanwhile, the helper
 * finishes its work and takes the descriptors, and with them the probes, along when it exits. (A
 * process that dies of SIGKILL closes its descriptors when the signal is pending no more: those are
 * safe.) */
#include "capture/shield.h"

#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#define STACK_SIZE (512 * 1024)

struct call {
	int (*fn)(void *arg);
	void *arg;
	int result;
};

static int helper(void *arg)
{
	struct call *call = arg;

	/* Whoever kills memtrace by its process group or by its name shall not hit this one. */
	setpgid(0, 0);
	prctl(PR_SET_NAME, "mt-probes");
	call->result = call->fn(call->arg);
	return 0;
}

int shield__run(int (*fn)(void *arg), void *arg)
{
	/* what it is when the helper is killed half-way */
	struct call call = {.fn = fn, .arg = arg, .result = -EINTR};
	sigset_t all, old;
	char *stack;
	int pid;

	stack = mmap(NULL, STACK_SIZE, PROT_READ | PROT_WRITE,
		     MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0);
	if (stack == MAP_FAILED)
		return fn(arg);
	/* The helper must not take part in a Ctrl-C, nor run a handler in our memory. */
	sigfillset(&all);
	sigprocmask(SIG_BLOCK, &all, &old);
	/* No signal at its end, so that nobody's wait() for another child meets it. */
	pid = clone(helper, stack + STACK_SIZE, CLONE_VM | CLONE_VFORK | CLONE_FILES, &call);
	if (pid < 0)
		call.result = fn(arg);
	else
		while (waitpid(pid, NULL, __WCLONE) < 0 && errno == EINTR)
			;
	sigprocmask(SIG_SETMASK, &old, NULL);
	munmap(stack, STACK_SIZE);
	return call.result;
}
