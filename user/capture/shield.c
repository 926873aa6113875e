// SPDX-License-Identifier: BSD-2-Clause
/* A process that takes a probe out (or gives up placing one) may have a SIGKILL pending. Then the
 * kernel cannot write into the target's memory: "uprobe: failed to unregister, leaking uprobe". The
 * breakpoint then stays in the target for as long as the target lives. So probes are placed and
 * taken out by a helper, which a kill of memtrace does not hit. The helper is a child that shares
 * memtrace's memory and descriptors, while memtrace waits as after vfork(). If memtrace dies
 * meanwhile, the helper finishes its work. Then its exit closes the descriptors, and the probes go
 * with them. (An exit closes descriptors safely, even after a SIGKILL: by then the signal is no
 * longer pending.) */
#include "capture/shield.h"

#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/priority.h"

#define STACK_SIZE	  (512 * 1024)
#define MAX_CLOSERS	  64
#define CLOSER_STACK_SIZE (64 * 1024)

struct call {
	int (*fn)(void *arg);
	void *arg;
	int result;
};

static int helper(void *arg)
{
	struct call *call = arg;

	/* A kill of memtrace by its process group or by its name must not hit this process. */
	setpgid(0, 0);
	prctl(PR_SET_NAME, "mt-probes");
	call->result = call->fn(call->arg);
	return 0;
}

/* Starts a helper. To change the target's code, the kernel locks the target's address space, and
 * the target's page faults, mappings and probes wait for that lock. On a busy machine the holder of
 * the lock could wait for a CPU for tens of milliseconds. So the helper has a real-time priority,
 * or else the lowest nice value. When the helper ends, memtrace gets no signal, so a wait() for
 * another child does not return the helper. */
static pid_t clone_helper(int (*fn)(void *arg), char *stack_end, int flags, void *arg)
{
	int priority = getpriority(PRIO_PROCESS, 0);
	sigset_t all, old;
	pid_t pid;

	/* The helper must neither get a Ctrl-C nor run a signal handler in memtrace's memory. */
	sigfillset(&all);
	sigprocmask(SIG_BLOCK, &all, &old);
	priority__lend();
	setpriority(PRIO_PROCESS, 0, -20);
	pid = clone(fn, stack_end, CLONE_VM | CLONE_FILES | flags, arg);
	setpriority(PRIO_PROCESS, 0, priority);
	priority__take_back();
	sigprocmask(SIG_SETMASK, &old, NULL);
	return pid;
}

int shield__run(int (*fn)(void *arg), void *arg)
{
	/* -EINTR stays if the helper is killed half-way */
	struct call call = {.fn = fn, .arg = arg, .result = -EINTR};
	char *stack;
	int pid;

	stack = mmap(NULL, STACK_SIZE, PROT_READ | PROT_WRITE,
		     MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0);
	if (stack == MAP_FAILED)
		return fn(arg);
	pid = clone_helper(helper, stack + STACK_SIZE, CLONE_VFORK, &call);
	if (pid < 0)
		call.result = fn(arg);
	else
		while (waitpid(pid, NULL, __WCLONE) < 0 && errno == EINTR)
			;
	munmap(stack, STACK_SIZE);
	return call.result;
}

/* --- closing --- */

static void close_in(atomic_int *place)
{
	int fd = atomic_exchange(place, 0) - 1;

	if (fd >= 0)
		close(fd);
}

/* A closer's share of n places: every `step`-th of them, beginning with places[first]. */
struct share {
	atomic_int *const *places;
	size_t n, first, step;
};

/* Closes the descriptors of a share. Closers run at the same time and share all memory, even errno.
 * So close() is the only call here. */
static int close_share(void *arg)
{
	const struct share *share = arg;

	for (size_t i = share->first; i < share->n; i += share->step)
		close_in(share->places[i]);
	return 0;
}

/* Runs in the helper, and starts the closers. They are the helper's children, so they inherit its
 * blocked signals and its process group. */
static int close_shares(void *arg)
{
	const struct share *all = arg;
	size_t n_closers = all->n < MAX_CLOSERS ? all->n : MAX_CLOSERS;
	struct share shares[MAX_CLOSERS];
	pid_t pids[MAX_CLOSERS];
	char *stacks;

	stacks = mmap(NULL, n_closers * CLOSER_STACK_SIZE, PROT_READ | PROT_WRITE,
		      MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0);
	if (stacks == MAP_FAILED)
		return close_share(arg);
	for (size_t i = 0; i < n_closers; i++) {
		shares[i] = (struct share){all->places, all->n, i, n_closers};
		pids[i] = clone(close_share, stacks + (i + 1) * CLOSER_STACK_SIZE,
				CLONE_VM | CLONE_FILES, &shares[i]);
	}
	for (size_t i = 0; i < n_closers; i++) {
		if (pids[i] < 0)
			close_share(&shares[i]);
		else
			while (waitpid(pids[i], NULL, __WCLONE) < 0 && errno == EINTR)
				;
	}
	munmap(stacks, n_closers * CLOSER_STACK_SIZE);
	return 0;
}

void shield__close(atomic_int *const *places, size_t n)
{
	struct share all = {places, n, 0, 1};

	if (n)
		shield__run(n > 1 ? close_shares : close_share, &all);
}

/* --- closing while we go on --- */

struct shield_closer {
	pid_t pid;
	char *stack;
	size_t n;
	atomic_int *places[];
};

/* Closes descriptors while memtrace goes on. A call that fails would change memtrace's errno. So
 * this function makes only calls that succeed, as close_share() does. */
static int close_beside(void *arg)
{
	const struct shield_closer *closer = arg;

	setpgid(0, 0);
	prctl(PR_SET_NAME, "mt-probes");
	for (size_t i = 0; i < closer->n; i++)
		close_in(closer->places[i]);
	return 0;
}

struct shield_closer *shield__begin_close(atomic_int *const *places, size_t n)
{
	struct shield_closer *closer = malloc(sizeof(*closer) + n * sizeof(*places));

	if (!closer)
		goto at_once;
	closer->n = n;
	memcpy(closer->places, places, n * sizeof(*places));
	closer->stack = mmap(NULL, CLOSER_STACK_SIZE, PROT_READ | PROT_WRITE,
			     MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0);
	if (closer->stack == MAP_FAILED)
		goto at_once;
	closer->pid = clone_helper(close_beside, closer->stack + CLOSER_STACK_SIZE, 0, closer);
	if (closer->pid > 0)
		return closer;
	munmap(closer->stack, CLOSER_STACK_SIZE);
at_once:
	free(closer);
	shield__close(places, n);
	return NULL;
}

bool shield__end_close(struct shield_closer *closer, bool wait)
{
	pid_t pid;

	do
		pid = waitpid(closer->pid, NULL, __WCLONE | (wait ? 0 : WNOHANG));
	while (pid < 0 && errno == EINTR);
	if (!pid)
		return false;
	munmap(closer->stack, CLOSER_STACK_SIZE);
	free(closer);
	return true;
}
