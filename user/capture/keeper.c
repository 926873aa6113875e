// SPDX-License-Identifier: BSD-2-Clause
/* A memtrace that hangs cannot keep the cost of its probes below the limit. It may be stopped
 * (Ctrl-Z), write to a terminal that nobody reads, or wait for a page of the target's memory that
 * never comes. So another process, the keeper, can take the probes out as well. Every 50 ms the
 * keeper checks whether memtrace has sent a beat ("all is well") since the last check. When no beat
 * comes for as long as the patience lasts, or memtrace has ended, the keeper closes every
 * descriptor that holds a probe.
 *
 * The keeper shares memtrace's table of descriptors (CLONE_FILES) and some memory, but not its
 * address space, its session or its signals. Because the table is shared, no descriptor has to be
 * handed over. The keeper can close a probe as soon as the probe's descriptor stands in a slot. The
 * helper of shield.c makes the descriptor and puts it into the slot at once; a SIGSTOP for memtrace
 * does not stop the helper. A memtrace that does not hang closes its probes by itself, without
 * asking the keeper. An atomic exchange empties the slot: the process that finds the descriptor in
 * the slot closes it.
 *
 * The keeper counts time in checks, not by a clock. So while the whole machine or container stands
 * still, the keeper counts no missing beats.
 *
 * When memtrace dies, the keeper's share in the table keeps the descriptors open. So the keeper
 * ends, too, and its exit closes them. It does not start a helper to take out the probes. The
 * reason: something may kill all of memtrace's processes one after the other, as the end of a
 * container does. If a SIGKILL were pending for the helper while it takes out a probe, the
 * breakpoint would stay in the target (shield.c). But no SIGKILL reaches a process that is already
 * exiting. Therefore, when memtrace dies, the keeper gets a signal that it survives, and exits by
 * itself.
 *
 * An exit closes descriptors in the order of their numbers, memtrace's standard input and output
 * first. If one of them is a file on FUSE or on a network file system, its close may take for ever,
 * and the probes would stay. So helpers close the standard files before the exit. A helper that
 * hangs shares the table, so the table outlives the keeper. In that case the keeper forks a
 * process. This process has a copy of the table, without the files that hang. The keeper then
 * closes the probes in the shared table. The forked process ends after the keeper, and its exit
 * takes the probes out. */
#include "capture/keeper.h"

#include <errno.h>
#include <linux/capability.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/capabilities.h"
#include "base/clock.h"
#include "base/priority.h"
#include "capture/shield.h"

#define LOOK_MS	   50
#define STD_MS	   50 /* a close of a standard file counts as hanging if it takes longer */
#define SLOTS	   65536
#define STACK_SIZE (64 * 1024)

enum state {
	WATCHING,
	CLOSING,   /* the keeper is closing probes: only the keeper ends this state */
	WITHDRAWN, /* the keeper has taken the probes out; this state lasts until
		    * keeper__resume() */
};

struct slot {
	atomic_int held; /* the descriptor + 1; 0: the slot is empty */
	uint32_t rank;
};

/* What both processes see. */
struct shared {
	atomic_ulong beats;
	atomic_uint patience; /* number of checks, LOOK_MS apart */
	atomic_int state;
	_Atomic uint64_t withdrawn_ns;
	atomic_bool over;
	atomic_uint n_slots; /* slots that were ever in use */
	struct slot slots[SLOTS];
};

struct keeper {
	struct shared *shared;
	bool in_turn;
	pid_t parent, pid; /* pid: 0 after it was waited for */
	char *stack;
	/* slots that were in use before; a slot that was given up may still hold a descriptor */
	uint32_t n_free, free[SLOTS];
};

/* --- in the keeper's process --- */

/* Finds the places of all descriptors, sorted by rank, ascending. Returns their number. */
static size_t find_all(struct shared *s, atomic_int **places, uint32_t *ranks)
{
	size_t n = 0;

	for (uint32_t i = 0; i < atomic_load(&s->n_slots); i++) {
		uint32_t rank = s->slots[i].rank;
		size_t at = n;

		if (!atomic_load(&s->slots[i].held))
			continue;
		for (; at && ranks[at - 1] > rank; at--) {
			places[at] = places[at - 1];
			ranks[at] = ranks[at - 1];
		}
		places[at] = &s->slots[i].held;
		ranks[at] = rank;
		n++;
	}
	return n;
}

static void close_all(const struct keeper *k, atomic_int *const *places, size_t n)
{
	struct shield_closer *closer;

	if (!n)
		return;
	if (!k->in_turn) {
		shield__close(places, n);
		return;
	}
	closer = shield__begin_close(places, n);
	if (closer)
		shield__end_close(closer, true);
}

/* Closes the descriptors of all slots, but only if the state is still `from`: memtrace may have
 * called keeper__resume() since the caller decided. */
static void withdraw(const struct keeper *k, int from)
{
	static uint32_t ranks[SLOTS];
	static atomic_int *places[SLOTS];
	struct shared *s = k->shared;
	size_t n;

	if (!atomic_compare_exchange_strong(&s->state, &(int){from}, CLOSING))
		return;
	n = find_all(s, places, ranks);
	if (n && from == WATCHING)
		atomic_store(&s->withdrawn_ns, clock__now_ns(CLOCK_MONOTONIC));
	close_all(k, places, n);
	atomic_store(&s->state, n ? WITHDRAWN : from);
}

static bool std_files_hang(void)
{
	static atomic_int places[3]; /* static, because a closer that hangs uses its place even
				      * after this function has returned */
	struct shield_closer *closers[3];
	bool hang = true;

	for (int fd = 0; fd < 3; fd++) {
		atomic_store(&places[fd], fd + 1);
		closers[fd] = shield__begin_close(&(atomic_int *){&places[fd]}, 1);
	}
	for (int ms = 0; ms < STD_MS && hang; ms++) {
		hang = false;
		for (int fd = 0; fd < 3; fd++) {
			if (closers[fd] && shield__end_close(closers[fd], false))
				closers[fd] = NULL;
			hang = hang || closers[fd];
		}
		if (hang)
			usleep(1000);
	}
	return hang;
}

/* Makes sure that an exit closes the probes. Called when memtrace is dead. */
static void leave_to_exit(struct shared *s)
{
	pid_t keeper = getpid(), pid;
	int fd;

	if (!std_files_hang())
		return;
	pid = fork();
	if (!pid)
		while (getppid() == keeper)
			usleep(1000);
	if (pid <= 0)
		return;
	for (uint32_t i = 0; i < atomic_load(&s->n_slots); i++) {
		fd = atomic_exchange(&s->slots[i].held, 0) - 1;
		if (fd >= 0)
			close(fd); /* the forked process has a copy of each descriptor, so these
				    * closes take no time */
	}
}

static int keep(void *arg)
{
	const struct timespec look = {.tv_nsec = LOOK_MS * 1000000L};
	const struct keeper *k = arg;
	struct shared *s = k->shared;
	unsigned long beats = 0;
	unsigned missed = 0;
	sigset_t parents_end;

	setsid(); /* Ctrl-C and Ctrl-Z do not reach the keeper */
	prctl(PR_SET_NAME, "mt-keeper");
	/* With a nice value of -20 and a session of its own, the keeper still waited 0.5 s for a
	 * CPU beside a session of 500 processes. */
	if (!priority__hurry())
		setpriority(PRIO_PROCESS, 0, -20);
	/* A close of a descriptor needs no capability, but raising the closers' priority needs
	 * one. */
	capabilities__limit(CAPABILITY(CAP_SYS_NICE), CAPABILITY(CAP_SYS_NICE));
	/* When the parent ends, the keeper gets SIGCONT. All signals are blocked, so SIGCONT only
	 * ends sigtimedwait(). It also continues a keeper that somebody has stopped. */
	sigemptyset(&parents_end);
	sigaddset(&parents_end, SIGCONT);
	prctl(PR_SET_PDEATHSIG, SIGCONT);
	while (getppid() == k->parent && !atomic_load(&s->over)) {
		unsigned patience = atomic_load(&s->patience);

		sigtimedwait(&parents_end, NULL, &look);
		missed = atomic_load(&s->beats) == beats ? missed + 1 : 0;
		beats = atomic_load(&s->beats);
		withdraw(k, WITHDRAWN);
		if (patience && missed >= patience)
			withdraw(k, WATCHING);
	}
	/* When memtrace is dead, the end of this process closes all descriptors, because it is the
	 * last process that uses the table. */
	if (getppid() == k->parent) {
		withdraw(k, WITHDRAWN);
		withdraw(k, WATCHING);
	} else {
		leave_to_exit(s);
	}
	return 0;
}

/* --- in memtrace --- */

int keeper__new(bool in_turn, struct keeper **ret)
{
	struct keeper *k = calloc(1, sizeof(*k));
	sigset_t all, old;
	int rc;

	if (!k)
		return -ENOMEM;
	k->in_turn = in_turn;
	k->parent = getpid();
	k->stack = mmap(NULL, STACK_SIZE, PROT_READ | PROT_WRITE,
			MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0);
	k->shared = mmap(NULL, sizeof(*k->shared), PROT_READ | PROT_WRITE,
			 MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (k->stack == MAP_FAILED || k->shared == MAP_FAILED) {
		rc = -errno;
		goto fail;
	}
	/* The keeper keeps all signals blocked. clone() is given no exit signal. So memtrace gets
	 * no signal when the keeper ends, and a wait() for another child does not return the
	 * keeper. */
	sigfillset(&all);
	sigprocmask(SIG_BLOCK, &all, &old);
	k->pid = clone(keep, k->stack + STACK_SIZE, CLONE_FILES, k);
	rc = k->pid < 0 ? -errno : 0;
	sigprocmask(SIG_SETMASK, &old, NULL);
	if (rc)
		goto fail;
	*ret = k;
	return 0;
fail:
	if (k->stack != MAP_FAILED)
		munmap(k->stack, STACK_SIZE);
	if (k->shared != MAP_FAILED)
		munmap(k->shared, sizeof(*k->shared));
	free(k);
	return rc;
}

bool keeper__lives(struct keeper *k)
{
	if (k->pid && waitpid(k->pid, NULL, __WCLONE | WNOHANG))
		k->pid = 0;
	return k->pid;
}

void keeper__free(struct keeper *k)
{
	if (!k)
		return;
	atomic_store(&k->shared->over, true);
	if (keeper__lives(k)) {
		kill(k->pid, SIGCONT); /* ends the keeper's wait, even if somebody has stopped the
					* keeper */
		while (waitpid(k->pid, NULL, __WCLONE) < 0 && errno == EINTR)
			;
	}
	munmap(k->shared, sizeof(*k->shared));
	munmap(k->stack, STACK_SIZE);
	free(k);
}

int keeper__hold(struct keeper *k, int fd, uint32_t rank)
{
	uint32_t n = atomic_load(&k->shared->n_slots), at = n, i = k->n_free;

	while (i && atomic_load(&k->shared->slots[k->free[i - 1]].held))
		i--;
	if (i) {
		at = k->free[i - 1];
		k->free[i - 1] = k->free[--k->n_free];
	}
	if (at == SLOTS)
		return -ENOSPC;
	k->shared->slots[at].rank = rank;
	atomic_store(&k->shared->slots[at].held, fd + 1);
	if (at == n)
		atomic_store(&k->shared->n_slots, n + 1);
	keeper__beat(k);
	return (int)at;
}

int keeper__take(struct keeper *k, int slot)
{
	return atomic_exchange(keeper__give_up(k, slot), 0) - 1;
}

atomic_int *keeper__give_up(struct keeper *k, int slot)
{
	k->free[k->n_free++] = (uint32_t)slot;
	return &k->shared->slots[slot].held;
}

void keeper__beat(struct keeper *k)
{
	atomic_fetch_add(&k->shared->beats, 1);
}

void keeper__set_patience(struct keeper *k, unsigned patience_ms)
{
	keeper__beat(k);
	atomic_store(&k->shared->patience, patience_ms / LOOK_MS);
}

uint64_t keeper__withdrawn_ns(const struct keeper *k)
{
	return atomic_load(&k->shared->withdrawn_ns);
}

void keeper__resume(struct keeper *k)
{
	keeper__beat(k);
	atomic_store(&k->shared->withdrawn_ns, 0);
	while (keeper__lives(k) &&
	       !atomic_compare_exchange_strong(&k->shared->state, &(int){WITHDRAWN}, WATCHING)) {
		kill(k->pid, SIGCONT);
		usleep(1000);
		keeper__beat(k);
	}
}
