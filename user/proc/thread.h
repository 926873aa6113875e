/* SPDX-License-Identifier: BSD-2-Clause */
/* What is known of a thread of another process at one moment. */
#ifndef MEMTRACE_PROC_THREAD_H
#define MEMTRACE_PROC_THREAD_H

#include <stdint.h>
#include <sys/types.h>

/* 0: not known. The first three registers are known only of a thread that does not run. */
struct thread_state {
	pid_t tid;
	uint64_t sp, pc, bp; /* stack pointer, program counter, frame pointer */
	uint64_t tp;	     /* thread pointer: the base of fs, behind the thread-local memory */
};

#endif
