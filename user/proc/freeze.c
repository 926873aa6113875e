// SPDX-License-Identifier: BSD-2-Clause
#include "proc/freeze.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fork.h"
#include "base/io.h"
#include "base/vector.h"
#include "proc/process.h"

#define MAX_THREADS 65536

/* The first message of the helper to memtrace. If there is no error, n struct frozen_thread
 * follow. */
struct begun {
	int error; /* negative errno; 0: all threads are stopped */
	size_t n;
};

/* --- the helper --- */

struct stopped {
	struct frozen_thread thread;
	int signal; /* the signal that the thread was about to get; 0: none */
};

struct helper {
	pid_t pid;
	uint64_t start_ns, deadline_ns;
	struct stopped *threads;
	size_t n;
};

static bool knows(const struct helper *h, pid_t tid)
{
	for (size_t i = 0; i < h->n; i++)
		if (h->threads[i].thread.state.tid == tid)
			return true;
	return false;
}

/* Waits until PTRACE_INTERRUPT or a signal has stopped the thread. 0; -ESRCH: the thread has
 * ended. */
static int await_stop(struct stopped *stopped)
{
	int status;

	if (waitpid(stopped->thread.state.tid, &status, __WALL) < 0 || !WIFSTOPPED(status))
		return -ESRCH;
	stopped->signal = status >> 16 ? 0 : WSTOPSIG(status);
	return 0;
}

static int read_registers(struct frozen_thread *thread)
{
	struct user_regs_struct r;
	struct iovec io = {&r, sizeof(r)};

	if (ptrace(PTRACE_GETREGSET, thread->state.tid, (void *)NT_PRSTATUS, &io))
		return -errno;
	thread->state.sp = r.rsp;
	thread->state.pc = r.rip;
	thread->state.bp = r.rbp;
	thread->state.tp = r.fs_base;
	memcpy(thread->values,
	       (uint64_t[FREEZE_REGISTERS]){r.rax, r.rbx, r.rcx, r.rdx, r.rsi, r.rdi, r.rbp, r.r8,
					    r.r9, r.r10, r.r11, r.r12, r.r13, r.r14, r.r15},
	       sizeof(thread->values));
	return 0;
}

/* Has the thread ended? A main thread that has ended stays as a zombie while other threads run, and
 * cannot be traced. */
static bool has_ended(pid_t tid)
{
	struct process_info info;

	return process__read_stat(tid, &info) || info.state == 'Z' || info.state == 'X';
}

/* Stops the threads that the helper does not know yet. Returns how many it has found, or negative
 * errno. */
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
			err = -errno;
			if (err == -ESRCH || (err == -EPERM && has_ended(tid)))
				continue;
			return err;
		}
		h->threads[h->n++] = (struct stopped){.thread = {.state.tid = tid}};
	}
	for (size_t i = first; i < h->n; i++) {
		err = await_stop(&h->threads[i]);
		if (!err)
			err = read_registers(&h->threads[i].thread);
		if (err && err != -ESRCH)
			return err;
	}
	return (int)(h->n - first);
}

static bool say(int fd, const void *data, size_t len)
{
	return write(fd, data, len) == (ssize_t)len;
}

/* Makes SIGALRM end the helper at the deadline, even if the helper waits for something at that
 * time. */
static void end_at(uint64_t deadline_ns)
{
	uint64_t now_ns = clock__now_ns(CLOCK_MONOTONIC);
	uint64_t left_us = deadline_ns > now_ns ? (deadline_ns - now_ns) / 1000 : 0;
	struct itimerval timer = {.it_value = {.tv_sec = (time_t)(left_us / 1000000),
					       .tv_usec = (suseconds_t)(left_us % 1000000 + 1)}};
	sigset_t alarm;

	if (timer.it_value.tv_usec == 1000000)
		timer.it_value.tv_usec--;
	signal(SIGALRM, SIG_DFL);
	sigemptyset(&alarm);
	sigaddset(&alarm, SIGALRM);
	pthread_sigmask(SIG_UNBLOCK, &alarm, NULL);
	setitimer(ITIMER_REAL, &timer, NULL);
}

static _Noreturn void help(struct helper *h, pid_t parent, int in_fd, int out_fd)
{
	struct begun begun = {};
	uint64_t pause_ns;
	char end;
	int rc;

	prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
	if (getppid() != parent)
		_exit(1);
	end_at(h->deadline_ns);
	do /* a thread that was not stopped yet may have started new threads */
		rc = stop_more(h);
	while (rc > 0);
	begun.error = rc || h->n ? rc : -ESRCH;
	begun.n = h->n;
	if (!say(out_fd, &begun, sizeof(begun)) || begun.error)
		_exit(0);
	for (size_t i = 0; i < h->n; i++)
		if (!say(out_fd, &h->threads[i].thread, sizeof(h->threads[i].thread)))
			_exit(0);
	io__read(in_fd, &end, 1);
	for (size_t i = 0; i < h->n; i++)
		ptrace(PTRACE_DETACH, h->threads[i].thread.state.tid, NULL,
		       (void *)(intptr_t)h->threads[i].signal);
	pause_ns = clock__now_ns(CLOCK_MONOTONIC) - h->start_ns;
	say(out_fd, &pause_ns, sizeof(pause_ns));
	_exit(0);
}

/* --- our side --- */

/* Ends the helper. If err is not 0, and the deadline has ended the helper, returns -ETIMEDOUT.
 * Otherwise returns err. */
static int end_helper(struct freeze *freeze, int err)
{
	int status = 0;

	if (freeze->to_fd >= 0)
		close(freeze->to_fd);
	close(freeze->from_fd);
	kill(freeze->helper, SIGKILL);
	while (waitpid(freeze->helper, &status, 0) < 0 && errno == EINTR)
		;
	free(freeze->threads);
	*freeze = (struct freeze){};
	return err && WIFSIGNALED(status) && WTERMSIG(status) == SIGALRM ? -ETIMEDOUT : err;
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
	freeze.helper = fork__blocked();
	if (!freeze.helper) {
		close(to[1]); /* with this end open in the helper, the helper would not see when
			       * memtrace closes the pipe */
		close(from[0]);
		help(&h, parent, to[0], from[1]);
	}
	err = freeze.helper < 0 ? -errno : 0;
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
	if (err)
		return end_helper(&freeze, err);
	*ret = freeze;
	return 0;
}

int freeze__end(struct freeze *freeze, uint64_t *ret_pause_ns)
{
	uint64_t pause_ns;
	ssize_t len;
	int err;

	close(freeze->to_fd);
	freeze->to_fd = -1;
	len = io__read(freeze->from_fd, &pause_ns, sizeof(pause_ns));
	err = end_helper(freeze, len == sizeof(pause_ns) ? 0 : -ECHILD);
	if (!err)
		*ret_pause_ns = pause_ns;
	return err;
}
