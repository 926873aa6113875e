/* SPDX-License-Identifier: GPL-2.0-only */
/* The stack of a sampled call: who asked for the memory.
 *
 * The probe is at the function's entry, or so close to it that the frame is still the caller's. The
 * return address is at [rsp], and rbp has the caller's value. So the allocator function and its
 * immediate caller are always right. From there the walk goes on by unwind tables (unwind.bpf.h).
 *
 * Tables cannot be used in two cases. First, the kernel is older than 5.17, or refuses the programs
 * for this walk (use_tables). Second, the process's mappings are not known yet, and the kernel must
 * not be asked for them (vma.bpf.h). In both cases the walk follows frame pointers, as long as they
 * look like frame pointers. In a program compiled without frame pointers, such a walk collects
 * wrong addresses. User space removes addresses that point to no code
 * (profile__cut_implausible). */
#ifndef MEMTRACE_BPF_STACK_BPF_H
#define MEMTRACE_BPF_STACK_BPF_H

#include "abi.h"
#include "compat.bpf.h"
#include "unwind.bpf.h"

/* Begins the stack of a call. entry is the function's address, sp points to its return address, and
 * bp is the caller's frame pointer. Returns 0, or -1 when not even the return address could be
 * read. */
static __always_inline int stack_begin(struct unwind *u, __u64 entry, __u64 sp, __u64 bp,
				       __u32 max_frames)
{
	__u64 ret;

	u->window_addr = 0;
	u->bridged = u->guessed = 0;
	u->python_known = u->python_runs = 0;
	u->asked.start = u->asked.end = 0;
	u->trampoline = trampoline_addr();
	u->sp = sp;
	if (read_return(u, sp, &ret) || !ret)
		return -1;
	u->stack.ip[0] = entry + 1;
	u->stack.ip[1] = ret;
	u->stack.n = 2;
	u->pc = ret - 1;
	u->sp = sp + 8;
	u->bp = bp;
	u->max_frames = max_frames;
	return 0;
}

/* Begins the stack of a thread whose first frame is the code at pc - 1. So pc is the address of
 * this frame's instruction + 1 or, after a system call, the address behind the instruction. */
static __always_inline void stack_begin_at(struct unwind *u, __u64 pc, __u64 sp, __u64 bp,
					   __u32 max_frames)
{
	u->window_addr = 0;
	u->bridged = u->guessed = 0;
	u->python_known = u->python_runs = 0;
	u->asked.start = u->asked.end = 0;
	u->trampoline = trampoline_addr();
	u->stack.ip[0] = pc;
	u->stack.n = 1;
	u->pc = pc - 1;
	u->sp = sp;
	u->bp = bp;
	u->max_frames = max_frames;
}

/* Walks one frame further by frame pointers alone. Returns 0, or 1 if the walk is over. */
static __always_inline int stack_frame_pointer_step(struct unwind *u)
{
	__u32 n = u->stack.n;
	__u64 ret;

	u->stack.end = STACK_END_FRAME_POINTERS;
	if (step_by_frame_pointer(u, &ret) || !ret)
		return 1;
	if (n >= ABI_STACK_FRAMES || n >= u->max_frames) {
		u->stack.end = STACK_END_TRUNCATED;
		return 1;
	}
	u->stack.ip[n] = ret;
	u->stack.n = n + 1;
	return 0;
}

/* Walks to the stack's end by frame pointers alone. Used where there may be no bpf_loop(). */
static __always_inline void stack_walk_frame_pointers(struct unwind *u)
{
	__u64 ret;
	__u32 i;

	u->stack.end = STACK_END_TRUNCATED;
	for (i = 1; i < ABI_STACK_FRAMES; i++) {
		if (i < u->stack.n)
			continue;
		if (i >= u->max_frames)
			break;
		if (step_by_frame_pointer(u, &ret) || !ret) {
			u->stack.end = STACK_END_FRAME_POINTERS;
			break;
		}
		u->stack.ip[i] = ret;
		u->stack.n = i + 1;
	}
	/* A stack of exactly max_frames frames is not truncated. */
	if (u->stack.end == STACK_END_TRUNCATED && (step_by_frame_pointer(u, &ret) || !ret))
		u->stack.end = STACK_END_FRAME_POINTERS;
	/* After the barrier clang loads stack.n from the map again, and the verifier does not know
	 * values in maps. If it knew the value of stack.n, it would follow the rest of the program
	 * once for every length of stack: 300,000 instructions in all. */
	barrier();
}

/* Hashes a stack in two lanes. Each lane multiplies by secret numbers, and shifts bits. */
static __always_inline struct abi_stack_key stack_hash(const struct abi_stack *stack,
						       const __u64 seed[2])
{
	struct abi_stack_key key = {seed[1], seed[0]};
	__u64 k0 = seed[0] | 1, k1 = seed[1] | 1;
	__u32 i;

	for (i = 0; i < ABI_STACK_FRAMES; i++) {
		if (i >= stack->n)
			break;
		key.lo = (key.lo ^ stack->ip[i]) * k0;
		key.lo ^= key.lo >> 32;
		key.hi = (key.hi ^ stack->ip[i]) * k1;
		key.hi ^= key.hi >> 29;
	}
	key.lo ^= stack->end;
	return key;
}

#endif
