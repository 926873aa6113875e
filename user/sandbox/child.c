// SPDX-License-Identifier: BSD-2-Clause
#include "sandbox/child.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/io.h"
#include "sandbox/gentle.h"

#define MEMORY_BYTES (4ull << 30) /* address space of a child, without the size of the files */
#define MAX_CPU_S    86400.0
#define KILLED_MS    2000 /* a killed child that has not ended after this time is left behind */

struct child {
	pid_t pid;
	int fd;
	struct stream *stream;
};

/* Returns the limit of the child's CPU time, in seconds. */
static double most_cpu_s(const struct child_task *task)
{
	return task->patience_s * (task->max_share > 0 ? task->max_share : 1);
}

/* The whole life of the child. */
static _Noreturn void run(const struct child_task *task, pid_t parent, int out_fd)
{
	const int fds[] = {task->file_fd, out_fd, task->other_fd};
	int other_fd = task->other_fd >= 0 ? CHILD_OTHER_FD : -1;
	enum child_exit exit_status;
	FILE *out;

	if (sandbox__leave(parent, fds, other_fd >= 0 ? 3 : 2))
		_exit(CHILD_NO_SANDBOX);
	out = fdopen(CHILD_OUT_FD, "w");
	if (!out)
		_exit(CHILD_FAILED);
	if (task->open_other)
		other_fd = task->open_other(CHILD_FILE_FD, task->ctx);
	/* this comes before the filter, because gentle__begin() makes calls that the sandbox
	 * forbids */
	if (task->gentle_s > 0 || task->max_share > 0)
		gentle__begin(task->gentle_s, task->max_share);
	/* The files may be mapped whole, which costs no memory. So the limit of address space
	 * includes their size. */
	if (sandbox__seal((unsigned int)fmin(fmax(most_cpu_s(task), 0), MAX_CPU_S) + 1,
			  task->max_memory ? task->max_memory : MEMORY_BYTES,
			  io__file_bytes(CHILD_FILE_FD) + io__file_bytes(other_fd), CHILD_OUT_FD))
		_exit(CHILD_NO_SANDBOX);

	if (task->in_child)
		task->in_child();
	exit_status = task->read(out, CHILD_FILE_FD, other_fd, task->ctx);
	_exit(exit_status == CHILD_DONE && fflush(out) ? CHILD_FAILED : exit_status);
}

int child__start(const struct child_task *task, struct child **ret)
{
	_cleanup_close_ int read_fd = -1, write_fd = -1;
	_cleanup_free_ struct child *child = malloc(sizeof(*child));
	pid_t parent = getpid();
	int fds[2], err;

	if (!child)
		return -ENOMEM;
	if (pipe2(fds, O_CLOEXEC))
		return -errno;
	read_fd = fds[0];
	write_fd = fds[1];
	err = stream__new(read_fd, task->patience_s, task->waiting, task->max_bytes,
			  &child->stream);
	if (err)
		return err;

	child->pid = sandbox__fork();
	if (!child->pid)
		run(task, parent, write_fd);
	err = child->pid < 0 ? -errno : 0;
	if (err) {
		stream__free(child->stream);
		return err;
	}
	child->fd = take_fd(&read_fd);
	*ret = child;
	child = NULL;
	return 0;
}

struct stream *child__stream(struct child *child)
{
	return child->stream;
}

static int reap(pid_t pid)
{
	pid_t ended = 0;
	int status = 0;

	/* A child without errors closes the pipe only when it exits. So the kill that follows does
	 * not change the status of such a child. */
	kill(pid, SIGKILL);
	for (int ms = 0; ms < KILLED_MS && !ended; ms++) {
		ended = waitpid(pid, &status, WNOHANG);
		if (ended < 0 && errno != EINTR)
			return -errno;
		if (ended <= 0) {
			ended = 0;
			usleep(1000);
		}
	}
	if (!ended)
		return -ETIMEDOUT;
	if (!WIFEXITED(status))
		return -ECHILD;
	switch (WEXITSTATUS(status)) {
	case CHILD_DONE:
		return 0;
	case CHILD_NO_DATA:
		return -ENODATA;
	case CHILD_NO_SANDBOX:
		return -EPERM;
	default:
		return -ECHILD;
	}
}

int child__end(struct child *child)
{
	int end = reap(child->pid);

	close(child->fd);
	stream__free(child->stream);
	free(child);
	return end;
}
