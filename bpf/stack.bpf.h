/* SPDX-License-Identifier: GPL-2.0-only */
/* The stack of a sampled call: who asked for the memory.
 *
 * The probe stands on (or so close to) the function's entry that the frame is still the caller's:
 * the return address is at [rsp] and rbp is what the caller left in it. So the allocator function
 * and its immediate caller are always right, whatever the program was compiled with. Beyond, frame
 * pointers are followed while they look like frame pointers; in a program compiled without them rbp
 * is any number, and what the walk then collects is removed in user space where it points to no
 * code (profile__cut_implausible). */
#ifndef MEMTRACE_BPF_STACK_BPF_H
#define MEMTRACE_BPF_STACK_BPF_H

#include "abi.h"
#include "compat.bpf.h"

/* A frame larger than this is taken for a wild pointer. */
#define MAX_FRAME_BYTES (16ULL << 20)

/* Fills stack for a call of the function at entry; sp is where its return address stands, bp the
 * caller's frame pointer. Returns 0, or -1 when not even the return address could be read. */
static __always_inline int stack_walk(struct abi_stack *stack, __u64 entry, __u64 sp, __u64 bp,
				      __u32 max_frames)
{
	__u64 fp = bp, low = sp, next, ret;
	__u32 i;

	stack->truncated = 0;
	stack->ip[0] = entry + 1;
	if (read_user_u64(&ret, sp) || !ret)
		return -1;
	stack->ip[1] = ret;
	stack->n = 2;
	for (i = 2; i < ABI_STACK_FRAMES; i++) {
		if (i >= max_frames)
			break;
		if (fp <= low || fp - low > MAX_FRAME_BYTES || (fp & 7))
			break;
		if (read_user_u64(&ret, fp + 8) || read_user_u64(&next, fp) || !ret)
			break;
		stack->ip[i] = ret;
		stack->n = i + 1;
		low = fp;
		fp = next;
	}
	/* Read back, not i: of what is in a map the verifier knows no value. Knowing i, it would
	 * follow the rest of the program once for every length of stack, 300,000 instructions in
	 * all. */
	barrier();
	if ((stack->n >= max_frames || stack->n >= ABI_STACK_FRAMES) && fp > low &&
	    fp - low <= MAX_FRAME_BYTES && !(fp & 7))
		stack->truncated = 1;
	return 0;
}

/* Two lanes of multiply and shift with secret multipliers. */
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
	key.lo ^= stack->truncated;
	return key;
}

#endif
