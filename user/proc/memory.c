// SPDX-License-Identifier: BSD-2-Clause
#include "proc/memory.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <time.h>

#include "base/clock.h"

#define BATCH	   256	       /* pieces in one call; the kernel takes 1,024 */
#define STACK_SIZE (256 << 10) /* of the thread; AddressSanitizer has use for it */
#define START_MS   2000	       /* until the thread runs: a busy machine takes its time */
#define SLOW_NS	   2000000     /* a longer read is the target's doing, or a disk's: */
#define SLOW_SHARE 0.25	       /* of the time for those, */
#define BURST_NS   200000000   /* and so much at once: the keeper waits no longer */

/* What a thread is to read, and into memory of its own: who waits for it may be gone. */
struct job {
	pid_t pid;
	size_t n;
	atomic_bool one_is_done;     /* of the two, the thread and who waits */
	_Atomic uint64_t started_ns; /* 0: the thread has had no CPU yet */
	uint64_t took_ns;
	int rc;
	size_t slot; /* of left_behind[], once it is left behind */
	struct memory_read reads[];
};

/* pids whose memory threads that were left behind are still reading; 0: free. */
static _Atomic pid_t left_behind[MEMORY_MAX_LEFT];
static _Atomic uint64_t given_up;

/* Of a batch that meets memory which is not there the kernel reads what comes before it. */
static int read_all(struct job *job)
{
	struct iovec local[BATCH], remote[BATCH];
	size_t done = 0;

	while (done < job->n) {
		size_t batch = job->n - done < BATCH ? job->n - done : BATCH, whole = 0;
		struct memory_read *reads = job->reads + done;
		ssize_t got;

		for (size_t i = 0; i < batch; i++) {
			local[i] = (struct iovec){reads[i].to, reads[i].len};
			remote[i] = (struct iovec){(void *)(uintptr_t)reads[i].addr, reads[i].len};
		}
		got = process_vm_readv(job->pid, local, batch, remote, batch, 0);
		if (got < 0 && errno != EFAULT)
			return -errno;
		while (whole < batch && got >= (ssize_t)reads[whole].len) {
			got -= (ssize_t)reads[whole].len;
			reads[whole++].ok = true;
		}
		done += whole < batch ? whole + 1 : whole;
	}
	return 0;
}

static void *run(void *arg)
{
	struct job *job = arg;
	uint64_t now_ns = clock__now_ns(CLOCK_MONOTONIC);

	atomic_store(&job->started_ns, now_ns);
	job->rc = read_all(job);
	job->took_ns = clock__now_ns(CLOCK_MONOTONIC) - now_ns;
	if (atomic_exchange(&job->one_is_done, true)) {
		atomic_store(&left_behind[job->slot], 0);
		free(job);
	}
	return NULL;
}

/* 0 or negative errno. No signal is the thread's to handle. */
static int start(struct job *job, pthread_t *ret_thread)
{
	pthread_attr_t attr;
	sigset_t all, old;
	int rc;

	rc = pthread_attr_init(&attr);
	if (rc)
		return -rc;
	pthread_attr_setstacksize(&attr, STACK_SIZE);
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	rc = pthread_create(ret_thread, &attr, run, job);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	pthread_attr_destroy(&attr);
	return -rc;
}

/* Is it over within MEMORY_PATIENCE_MS after it has begun to read? */
static bool is_over(struct job *job, pthread_t thread)
{
	uint64_t end_ns = clock__now_ns(CLOCK_MONOTONIC) + START_MS * 1000000ull;

	for (;;) {
		uint64_t until_ns =
			clock__now_ns(CLOCK_MONOTONIC) + MEMORY_PATIENCE_MS * 1000000ull;
		struct timespec until = {(time_t)(until_ns / 1000000000),
					 (long)(until_ns % 1000000000)};
		bool started = atomic_load(&job->started_ns);

		if (!pthread_clockjoin_np(thread, NULL, CLOCK_MONOTONIC, &until))
			return true;
		if (started || clock__now_ns(CLOCK_MONOTONIC) >= end_ns)
			return false;
	}
}

/* What slow reads may still take, ns. Only who waits asks: memtrace's main thread. */
static double slow_left_ns = BURST_NS;

static bool may_be_slow(void)
{
	static uint64_t last_ns;
	uint64_t now_ns = clock__now_ns(CLOCK_MONOTONIC);

	slow_left_ns += last_ns ? SLOW_SHARE * (double)(now_ns - last_ns) : 0;
	slow_left_ns = slow_left_ns < BURST_NS ? slow_left_ns : BURST_NS;
	last_ns = now_ns;
	return slow_left_ns > 0;
}

/* Waits for the thread. 0, or -ETIMEDOUT: then the job is its own. */
static int wait_for(struct job *job, pthread_t thread, size_t slot)
{
	if (is_over(job, thread)) {
		slow_left_ns -= job->took_ns > SLOW_NS ? (double)job->took_ns : 0;
		return 0;
	}
	slow_left_ns -= MEMORY_PATIENCE_MS * 1e6;
	job->slot = slot;
	atomic_store(&left_behind[slot], job->pid);
	if (atomic_exchange(&job->one_is_done, true)) { /* it has come after all */
		atomic_store(&left_behind[slot], 0);
		pthread_join(thread, NULL);
		return 0;
	}
	pthread_detach(thread);
	atomic_fetch_add(&given_up, 1);
	return -ETIMEDOUT;
}

int memory__read_all(pid_t pid, struct memory_read *reads, size_t n)
{
	size_t bytes = 0, slot = MEMORY_MAX_LEFT;
	struct job *job;
	pthread_t thread;
	char *to;
	int rc;

	for (size_t i = 0; i < MEMORY_MAX_LEFT; i++) {
		pid_t theirs = atomic_load(&left_behind[i]);

		if (theirs == pid)
			return -ETIMEDOUT;
		slot = theirs ? slot : i;
	}
	if (slot == MEMORY_MAX_LEFT || !may_be_slow()) {
		atomic_fetch_add(&given_up, 1);
		return -EBUSY;
	}
	for (size_t i = 0; i < n; i++)
		if (__builtin_add_overflow(bytes, reads[i].len, &bytes))
			return -EINVAL;
	if (__builtin_add_overflow(bytes, sizeof(*job) + n * sizeof(*reads), &bytes))
		return -EINVAL;
	job = calloc(1, bytes);
	if (!job)
		return -ENOMEM;
	job->pid = pid;
	job->n = n;
	to = (char *)(job->reads + n);
	for (size_t i = 0; i < n; i++) {
		job->reads[i] = (struct memory_read){reads[i].addr, to, reads[i].len, false};
		to += reads[i].len;
	}
	rc = start(job, &thread);
	if (rc) {
		free(job);
		return rc;
	}
	rc = wait_for(job, thread, slot);
	if (rc)
		return rc;
	rc = job->rc;
	for (size_t i = 0; i < n; i++) {
		reads[i].ok = !rc && job->reads[i].ok;
		if (reads[i].ok)
			memcpy(reads[i].to, job->reads[i].to, reads[i].len);
	}
	free(job);
	return rc;
}

int memory__read(pid_t pid, uint64_t addr, void *to, size_t len)
{
	struct memory_read read = {addr, to, len, false};
	int rc = memory__read_all(pid, &read, 1);

	return rc ? rc : read.ok ? 0 : -EFAULT;
}

uint64_t memory__given_up(void)
{
	return atomic_load(&given_up);
}
