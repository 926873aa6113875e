// SPDX-License-Identifier: BSD-2-Clause
#include "proc/thread.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/io.h"

int thread_state__read(pid_t pid, pid_t tid, struct thread_state *ret, uint64_t args[THREAD_ARGS],
		       size_t *ret_n_args)
{
	_cleanup_close_ int fd = -1;
	char path[64], text[256];
	uint64_t words[THREAD_ARGS + 2];
	ssize_t len = 0;
	int n;

	snprintf(path, sizeof(path), "/proc/%d/task/%d/syscall", pid, tid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd >= 0)
		len = io__read(fd, text, sizeof(text) - 1);
	text[len > 0 ? len : 0] = '\0';
	/* "running", "-1 SP PC" (blocked outside of a system call), or "NUMBER six arguments SP
	 * PC" */
	n = sscanf(text,
		   "%*d %" SCNx64 " %" SCNx64 " %" SCNx64 " %" SCNx64 " %" SCNx64 " %" SCNx64
		   " %" SCNx64 " %" SCNx64,
		   &words[0], &words[1], &words[2], &words[3], &words[4], &words[5], &words[6],
		   &words[7]);
	if (n != 2 && n != THREAD_ARGS + 2)
		return -EAGAIN;
	*ret_n_args = (size_t)n - 2;
	memcpy(args, words, *ret_n_args * sizeof(*args));
	*ret = (struct thread_state){.tid = tid, .sp = words[n - 2], .pc = words[n - 1]};
	return 0;
}
