/* SPDX-License-Identifier: GPL-2.0-only */
/* Finds the calls that are not counted, because they are made inside other calls. */
#ifndef MEMTRACE_BPF_INNER_BPF_H
#define MEMTRACE_BPF_INNER_BPF_H

#include "maps.bpf.h"
#include "running.bpf.h"
#include "sample.bpf.h"

/* --- calls that an allocator makes to itself, inside a call that has been counted already ---
 *
 * Three examples: a realloc that moves its block calls malloc; realloc(NULL, n) jumps to malloc;
 * aligned_alloc hands calls with small alignments over to malloc. Such an inner call is recognized
 * by its return address. This address is
 * - right after the instruction of one of the allocator's direct calls, or
 * - in the body of a function that hands its calls over (abi_func.outer), or
 * - anywhere in a library that is nothing but an allocator, while an outer call is under way.
 * An inner call that was reached by a jump has the same frame and return address as the outer call.
 * Its size is the same, or larger by less than a page.
 *
 * Reading the return address costs as much as all the rest of the program (80 ns, the cost of an
 * access to user memory). So the address is read in two cases only: for samples, and if the
 * thread's last outer call was made at the present stack pointer or just above it. */

/* The stack pointer of an inner call is at most this many bytes below that of its outer call. */
#define INNER_DEPTH 1024

#define PAGE_BYTES 4096

/* Returns what is noted of the thread's last outer call and last calls into pools; NULL:
 * nothing. */
static __always_inline struct abi_outer_call *last_outer(void)
{
	return bpf_task_storage_get(&outer_calls, bpf_get_current_task_btf(), NULL, 0);
}

/* Inner calls may be made inside the running thread's call. Returns where to note this call. NULL:
 * the kernel had no memory for this note, and the inner calls are counted, too. */
static __always_inline struct abi_outer_call *outer_to_note(struct abi_process_cpu *cpu)
{
	struct abi_outer_call *outer = bpf_task_storage_get(
		&outer_calls, bpf_get_current_task_btf(), NULL, BPF_LOCAL_STORAGE_GET_F_CREATE);

	if (!outer)
		lose(cpu, LOST_OUTER_CALLS);
	return outer;
}

static __always_inline bool is_near(const struct caller *caller, __u64 sp)
{
	return sp <= caller->outer_sp && caller->outer_sp - sp <= INNER_DEPTH;
}

/* Is the call that was made at sp still running? If so, its return address is still stored at
 * sp. */
static __always_inline bool is_under_way(__u64 sp, __u64 ret)
{
	__u64 now;

	return !read_user_u64(&now, sp) && (now == ret || now == trampoline_addr());
}

static __noinline bool is_inner(const struct abi_func *fn, struct pt_regs *ctx, __u64 size,
				const struct abi_outer_call *outer)
{
	const struct abi_object *object;
	__u32 index = fn->object, i;
	__u64 vaddr, ret;

	barrier_var(index); /* the verifier wants the check and the use to be of the same loaded
			     * value */
	if (index >= ABI_MAX_OBJECTS || read_user_u64(&ret, PT_REGS_SP(ctx)))
		return false;
	object = &objects[index];
	vaddr = ret - (PT_REGS_IP(ctx) - fn->delta) + fn->vaddr;
	if (vaddr >= object->low && vaddr <= object->high) {
		for (i = 0; i < ABI_MAX_INNER && i < object->n_inner; i++)
			if (object->inner[i] == vaddr)
				return true;
		for (i = 0; i < ABI_MAX_OUTER && i < object->n_outer; i++)
			if (vaddr > object->outer[i].start && vaddr <= object->outer[i].end)
				return true;
	}
	if (outer && PT_REGS_SP(ctx) < outer->sp && vaddr > object->text_start &&
	    vaddr <= object->text_end && is_under_way(outer->sp, outer->ret))
		return true;
	/* An inner call may ask for more bytes than its outer call: pvalloc and the like round up
	 * to whole pages. */
	if (!outer || size - outer->size >= PAGE_BYTES || outer->vaddr == fn->vaddr)
		return false;
	if (outer->sp == PT_REGS_SP(ctx) && outer->ret == ret)
		return true;
	return (outer->sp == PT_REGS_SP(ctx) || outer->inner_sp == PT_REGS_SP(ctx)) &&
	       ret == trampoline_addr();
}

/* --- an allocator on top of others ---
 *
 * A pool that the user named takes its memory from malloc, sometimes during a call of the pool's
 * function. The pool's blocks stand for that memory. So no call inside a call of the pool's
 * function is counted, in whatever file and at whatever depth it is made. To know when the call of
 * the pool's function ends, its return is always awaited (WRAPS_AWAITED). If stacks do not follow
 * unwind tables, returns are awaited for every pool. An exception or longjmp may leave the function
 * without a return, but the stack pointer of a later call shows this. If the later call is made
 * above the function's frame, the frame has been left. If it is made below a frame that was left,
 * the frame's return address has usually been overwritten. If a window ends during a call of the
 * pool's function, the call's return is not seen either. The function may then be called again from
 * the same place, at the same stack pointer: this is a new call.
 *
 * A known pool of native code (WRAPS_BY_STACK) is called so often that awaiting each return would
 * double the cost. So its returns are not awaited, and calls inside a call of such a pool are
 * candidates for samples, too. Two conditions show that a sample is inside such a call. First, the
 * return address of the thread's last call into the pool is still in its place on the stack.
 * Second, this return address is among the first addresses of the sample's stack. */

static __always_inline bool is_wrapped(struct abi_outer_call *outer, const struct abi_func *fn,
				       struct pt_regs *ctx)
{
	if (!any_wraps || !outer || !outer->wrap_sp)
		return false;
	if (PT_REGS_SP(ctx) > outer->wrap_sp ||
	    (PT_REGS_SP(ctx) == outer->wrap_sp && outer->wrap_vaddr == fn->vaddr) ||
	    !is_under_way(outer->wrap_sp, outer->wrap_ret)) {
		outer->wrap_sp = 0;
		return false;
	}
	return true;
}

static __always_inline void note_wrap(struct abi_process_cpu *cpu, const struct abi_func *fn,
				      struct pt_regs *ctx)
{
	struct abi_outer_call *outer = outer_to_note(cpu);
	__u64 ret;

	if (!outer || read_user_u64(&ret, PT_REGS_SP(ctx)))
		return;
	outer->wrap_ret = ret;
	outer->wrap_sp = PT_REGS_SP(ctx);
	outer->wrap_vaddr = fn->vaddr;
}

static __noinline int note_pool_call(struct abi_process_cpu *cpu, struct pt_regs *ctx)
{
	struct abi_outer_call *outer = outer_to_note(cpu);
	__u64 ret;

	if (!outer || read_user_u64(&ret, PT_REGS_SP(ctx)))
		return 0;
	outer->pool_ret = ret;
	outer->pool_sp = PT_REGS_SP(ctx);
	return 0;
}

#define POOL_FRAMES 16 /* at most this many frames of a stack are the pool's and the allocator's */

static __noinline bool is_in_pool_call(struct pt_regs *ctx, const struct abi_stack_key *key)
{
	const struct abi_outer_call *outer = last_outer();
	const struct abi_stack *stack;
	__u32 i;

	/* if the pool's function jumps to the allocator, the return address stays in its place on
	 * the stack */
	if (!key || !outer || PT_REGS_SP(ctx) > outer->pool_sp ||
	    !is_under_way(outer->pool_sp, outer->pool_ret))
		return false;
	stack = bpf_map_lookup_elem(&stacks, key);
	for (i = 0; stack && i < POOL_FRAMES && i < stack->n; i++)
		if (stack->ip[i] == outer->pool_ret)
			return true;
	/* if the walk ended too early to check the second condition, the first one decides */
	return stack && stack->n < POOL_FRAMES && stack->end;
}

#endif
