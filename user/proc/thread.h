/* SPDX-License-Identifier: BSD-2-Clause */
/* What is known of a thread of another process at one moment. */
#ifndef MEMTRACE_PROC_THREAD_H
#define MEMTRACE_PROC_THREAD_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define THREAD_ARGS 6

/* 0: not known. The stack pointer, the program counter and the frame pointer are known only if the
 * thread waits or is stopped. */
struct thread_state {
	pid_t tid;
	uint64_t sp, pc, bp;
	uint64_t tp; /* thread pointer: the base of fs. Thread-local memory is below it */
};

/* Reads sp and pc of a thread that waits in the kernel, and the arguments of its system call, if it
 * is in one. *ret_n_args: 0 or THREAD_ARGS. bp and tp in *ret are 0. 0; -EAGAIN: the thread runs,
 * or has ended, or memtrace may not read it. Source: /proc/PID/task/TID/syscall. */
int thread_state__read(pid_t pid, pid_t tid, struct thread_state *ret, uint64_t args[THREAD_ARGS],
		       size_t *ret_n_args);

#endif
