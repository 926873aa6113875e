/* SPDX-License-Identifier: BSD-2-Clause */
/* Small functions in memtrace's own code. memtrace puts probes on them, to try what the kernel can
 * do, and to measure the cost of a probe on each kind of instruction. */
#ifndef MEMTRACE_CAPTURE_SELF_H
#define MEMTRACE_CAPTURE_SELF_H

#include <stddef.h>
#include <stdint.h>

enum insn_class {
	INSN_PUSH, /* push r64 */
	INSN_JUMP, /* jcc rel8 that is taken */
	INSN_NOP,  /* 5-byte nop */
	INSN_STEP, /* mov: single-stepped */
	INSN_CLASSES
};

/* A stub that is called like malloc or free and returns at once. Each role has its own stub, so
 * that both can be probed at the same time. */
struct self_stub {
	void (*call)(uint64_t arg);
	uint32_t delta; /* bytes from the entry to the instruction of the class */
};

/* role: 0 for the allocating stub, 1 for the freeing stub. */
struct self_stub self__stub(enum insn_class class, int role);

/* Stands for the work of a program between two calls. It runs through as much code as a program
 * does in some microseconds. So at the next call, the CPU's caches of code and branches are in the
 * same state as in a program. */
void self__other_work(void);

/* Finds the file offset in /proc/self/exe of an address of memtrace's own code. 0 or negative
 * errno. */
int self__offset(const void *addr, uint64_t *ret_off);

#endif
