// SPDX-License-Identifier: BSD-2-Clause
#include "proc/freeze.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/uio.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/io.h"
#include "base/vector.h"
#include "proc/process.h"

#define MAX_THREADS 65536

/* What the helper says first, followed by the threads; and last. */
struct begun {
	int error; /* negative errno; 0: all threads are stopped */
	size_t n;
};
struct ended {
	uint64_t pause_ns;
	int error; /* -ETIMEDOUT: the deadline came first */
};

/* --- the helper --- */

struct helper {
	pid_t pid;
	uint64_t start_ns, deadline_ns;
	struct frozen_thread *threads;
	size_t n;
};

static bool knows(const struct helper *h, pid_t tid)
{
	for (size_t i = 0; i < h->n; i++)
		if (h->threads[i].tid == tid)
			return true;
	return false;
}

/* Waits until the thread has stopped. 0; -ESRCH: it has ended; -ETIMEDOUT. */
static int await_stop(const struct helper *h, pid_t tid)
{
	int status;
	pid_t rc;

	while (!(rc = waitpid(tid, &status, __WALL | WNOHANG))) {
		if (clock__now_ns(CLOCK_MONOTONIC) > h->deadline_ns)
			return -ETIMEDOUT;
		usleep(50);
	}
	return rc < 0 || !WIFSTOPPED(status) ? -ESRCH : 0;
}

static int read_registers(struct frozen_thread *thread)
{
	struct user_regs_struct r;
	struct iovec io = {&r, sizeof(r)};

	if (ptrace(PTRACE_GETREGSET, thread->tid, (void *)NT_PRSTATUS, &io))
		return -errno;
	thread->sp = r.rsp;
	memcpy(thread->values,
	       (uint64_t[FREEZE_REGISTERS]){r.rax, r.rbx, r.rcx, r.rdx, r.rsi, r.rdi, r.rbp, r.r8,
					    r.r9, r.r10, r.r11, r.r12, r.r13, r.r14, r.r15},
	       sizeof(thread->values));
	return 0;
}

/* Stops the threads that are there and not known yet. Returns how many; negative errno. */
static int stop_more(struct helper *h)
{
	_cleanup_closedir_ DIR *dir = process__open_threads(h->pid);
	size_t first = h->n;
	pid_t tid;
	int err;

	if (!dir)
		return -ESRCH;
	while ((tid = process__next_thread(dir))) {
		if (knows(h, tid))
			continue;
		if (h->n == MAX_THREADS)
			return -E2BIG;
		if (VECTOR_ADD_ROOM(h->threads, h->n))
			return -ENOMEM;
		if (ptrace(PTRACE_SEIZE, tid, NULL, NULL) ||
		    ptrace(PTRACE_INTERRUPT, tid, NULL, NULL)) {
			if (errno == ESRCH)
				continue; /* it has just ended */
			return -errno;
		}
		h->threads[h->n++] = (struct frozen_thread){.tid = tid};
	}
	for (size_t i = first; i < h->n; i++) {
		err = await_stop(h, h->threads[i].tid);
		if (!err)
			err = read_registers(&h->threads[i]);
		if (err && err != -ESRCH)
			return err;
	}
	return (int)(h->n - first);
}

static bool say(int fd, const void *data, size_t len)
{
	return !len || write(fd, data, len) == (ssize_t)len;
}

static _Noreturn void help(struct helper *h, pid_t parent, int in_fd, int out_fd)
{
	struct pollfd end = {.fd = in_fd, .events = POLLIN};
	struct begun begun = {};
	struct ended ended = {};
	int rc, left_ms;

	prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
	if (getppid() != parent)
		_exit(1);
	do /* a thread that was not stopped yet may have started others */
		rc = stop_more(h);
	while (rc > 0);
	begun.error = rc;
	begun.n = h->n;
	if (!say(out_fd, &begun, sizeof(begun)) || rc)
		_exit(0);
	for (size_t i = 0; i < h->n; i++)
		if (!say(out_fd, &h->threads[i], sizeof(h->threads[i])))
			_exit(0);
	left_ms = (int)(((int64_t)h->deadline_ns - (int64_t)clock__now_ns(CLOCK_MONOTONIC)) /
			1000000);
	if (!poll(&end, 1, left_ms > 0 ? left_ms : 0))
		ended.error = -ETIMEDOUT;
	for (size_t i = 0; i < h->n; i++)
		ptrace(PTRACE_DETACH, h->threads[i].tid, NULL, NULL);
	ended.pause_ns = clock__now_ns(CLOCK_MONOTONIC) - h->start_ns;
	say(out_fd, &ended, sizeof(ended));
	_exit(0);
}

/* --- our side --- */

static void end_helper(struct freeze *freeze)
{
	if (freeze->to_fd >= 0)
		close(freeze->to_fd);
	close(freeze->from_fd);
	kill(freeze->helper, SIGKILL);
	while (waitpid(freeze->helper, NULL, 0) < 0 && errno == EINTR)
		;
	free(freeze->threads);
	*freeze = (struct freeze){};
}

static int read_begun(struct freeze *freeze)
{
	struct begun begun;
	size_t len;

	if (io__read(freeze->from_fd, &begun, sizeof(begun)) != sizeof(begun))
		return -ECHILD;
	if (begun.error)
		return begun.error;
	freeze->n = begun.n;
	freeze->threads = calloc(begun.n + 1, sizeof(*freeze->threads));
	if (!freeze->threads)
		return -ENOMEM;
	len = begun.n * sizeof(*freeze->threads);
	return io__read(freeze->from_fd, freeze->threads, len) == (ssize_t)len ? 0 : -ECHILD;
}

int freeze__begin(pid_t pid, unsigned int max_ms, struct freeze *ret)
{
	struct helper h = {.pid = pid, .start_ns = clock__now_ns(CLOCK_MONOTONIC)};
	struct freeze freeze = {};
	pid_t parent = getpid();
	sigset_t all, old;
	int to[2], from[2], err;

	h.deadline_ns = h.start_ns + (uint64_t)max_ms * 1000000;
	if (pipe2(to, O_CLOEXEC))
		return -errno;
	if (pipe2(from, O_CLOEXEC)) {
		err = -errno;
		close(to[0]);
		close(to[1]);
		return err;
	}
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	freeze.helper = fork();
	if (!freeze.helper) {
		close(to[1]); /* the end of our side is the end of the file */
		close(from[0]);
		help(&h, parent, to[0], from[1]);
	}
	err = freeze.helper < 0 ? -errno : 0;
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	close(to[0]);
	close(from[1]);
	freeze.to_fd = to[1];
	freeze.from_fd = from[0];
	if (err) {
		close(to[1]);
		close(from[0]);
		return err;
	}
	err = read_begun(&freeze);
	if (err) {
		end_helper(&freeze);
		return err;
	}
	*ret = freeze;
	return 0;
}

int freeze__end(struct freeze *freeze, uint64_t *ret_pause_ns)
{
	struct ended ended;
	ssize_t len;

	close(freeze->to_fd);
	freeze->to_fd = -1;
	len = io__read(freeze->from_fd, &ended, sizeof(ended));
	end_helper(freeze);
	if (len != sizeof(ended))
		return -ECHILD;
	*ret_pause_ns = ended.pause_ns;
	return ended.error;
}
