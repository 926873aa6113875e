/* SPDX-License-Identifier: BSD-2-Clause */
/* Stops a process for a moment, and makes sure that it continues. A helper process stops it by
 * ptrace, and then only waits for memtrace. When the helper ends, for whatever reason, the kernel
 * lets all threads continue. An alarm ends the helper at the deadline. The helper also ends when
 * memtrace ends.
 *
 * If a thread waits in a system call, the kernel interrupts the call and restarts it afterwards.
 * The kernel does not restart the calls that signal(7) lists as never restarted: epoll_wait(), for
 * example, returns EINTR. */
#ifndef MEMTRACE_PROC_FREEZE_H
#define MEMTRACE_PROC_FREEZE_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "proc/thread.h"

#define FREEZE_REGISTERS 15

struct frozen_thread {
	struct thread_state state;
	uint64_t values[FREEZE_REGISTERS]; /* the general registers but sp, in no order */
};

struct freeze {
	pid_t helper;
	int from_fd, to_fd;
	struct frozen_thread *threads;
	size_t n;
};

/* Stops all threads of pid for at most `max_ms` milliseconds from now. 0: all threads are stopped;
 * call freeze__end(). After an error (negative errno), no thread stays stopped. -ETIMEDOUT: not all
 * threads stopped in time; -EPERM: another debugger has the process, or memtrace may not stop it;
 * -ESRCH: there is no such process; others. */
int freeze__begin(pid_t pid, unsigned int max_ms, struct freeze *ret);

/* Lets the process continue, and frees `freeze`. *ret_pause_ns: for how long the process was
 * stopped, counted from the call of freeze__begin(). 0; -ETIMEDOUT: the pause had already ended, at
 * the deadline; other negative errno. */
int freeze__end(struct freeze *freeze, uint64_t *ret_pause_ns);

#endif
