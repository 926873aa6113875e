/* SPDX-License-Identifier: BSD-2-Clause */
/* Walks the stack of a thread that does not run, by the rows of unwind.h. The kernel side walks
 * stacks in the same way while a process is traced (bpf/unwind.bpf.h). This walk is for a process
 * that is only read. */
#ifndef MEMTRACE_ELF_STACK_WALK_H
#define MEMTRACE_ELF_STACK_WALK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A function that has not returned. Its frame ends at `end`, where the caller's begins. */
struct stack_frame {
	uint64_t pc; /* an address in the function; in a caller, it lies within the call */
	uint64_t end;
};

/* The functions by which a walk reads its data. Both return false if the answer is not known. */
struct stack_source {
	bool (*rule)(void *ctx, uint64_t pc, uint32_t *ret); /* unwind.h */
	bool (*word)(void *ctx, uint64_t addr, uint64_t *ret);
	void *ctx;
};

/* Walks from a thread's registers outwards, at most `max` frames. Each frame ends above the one
 * before it. Returns how many frames were found. The walk ends where there is no rule. It also ends
 * at frames of Go and of signals, because it does not use their rules. */
size_t stack_walk(const struct stack_source *source, uint64_t pc, uint64_t sp, uint64_t bp,
		  struct stack_frame *ret, size_t max);

#endif
