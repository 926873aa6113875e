/* SPDX-License-Identifier: BSD-2-Clause */
/* Reads the registers of the threads of a process, without a probe and without stopping the
 * process. */
#ifndef MEMTRACE_CAPTURE_REGISTERS_H
#define MEMTRACE_CAPTURE_REGISTERS_H

#include <sys/types.h>

struct registers; /* opaque: a program in the kernel */
struct abi_registers;

/* Loads the program that reads the registers of pid (a pid of the initial pid namespace). 0;
 * -EPERM; other negative errno where the kernel cannot do it (before Linux 5.15, or without
 * BTF). */
int registers__new(pid_t pid, struct registers **ret);
void registers__free(struct registers *registers);

/* Calls fn once for each thread, with the registers that the thread had when it last entered the
 * kernel. For a thread that waits, these are its present registers. Stops when fn returns something
 * other than 0, and returns that. 0; -ESRCH: the kernel knows no thread of pid; other negative
 * errno. */
int registers__read(struct registers *registers,
		    int (*fn)(void *ctx, const struct abi_registers *thread), void *ctx);

#endif
