/* SPDX-License-Identifier: GPL-2.0-only */
/* Walks a stack and puts it into the store. It serves every kind of probe. */
#ifndef MEMTRACE_BPF_TAKE_BPF_H
#define MEMTRACE_BPF_TAKE_BPF_H

#include "maps.bpf.h"
#include "python.bpf.h"
#include "stack.bpf.h"
#include "tables.bpf.h"
#include "threads.bpf.h"

/* Where a stack begins. */
struct stack_from {
	__u64 pc, sp, bp;
	bool irqs_off; /* the kernel must not be asked for mappings: vma.bpf.h says why */
	bool entry;    /* true: pc is a function's entry, and sp points to its return address;
		     * false: pc is as stack_begin_at() takes it */
};

/* Returns where the walk of a stack begins, for a probe that stands `delta` bytes after a
 * function's entry. */
static __always_inline struct stack_from stack_from_entry(struct pt_regs *ctx, __u32 delta)
{
	return (struct stack_from){
		.pc = PT_REGS_IP(ctx) - delta,
		.sp = PT_REGS_SP(ctx),
		.bp = PT_REGS_FP(ctx),
		.entry = true,
	};
}

/* Is a session probe hit at the return of the call, not at its entry? The kernel tells the probe's
 * address. If the thread is at another address, the call has returned. (The kernel's function
 * bpf_session_is_return would answer this, too, but its prototype has changed.) */
static __always_inline bool has_returned(struct pt_regs *ctx)
{
	return bpf_get_func_ip(ctx) != PT_REGS_IP(ctx);
}

struct walk {
	struct unwind *unwind;
	const struct abi_mappings *mappings; /* NULL: not known to user space yet */
	const struct abi_python *python;     /* NULL: no Python runs here */
};

static long walk_step(__u32 i, struct walk *walk)
{
	const struct abi_python *python = walk->python;

	if (python && walk->unwind->python_runs)
		return python_step(walk->unwind, python);
	if (unwind_step(walk->unwind, walk->mappings))
		return 1;
	if (python && python_runs_at(python, walk->unwind->pc))
		python_enter(walk->unwind, python);
	return 0;
}

static long walk_frame_pointer(__u32 i, struct walk *walk)
{
	return stack_frame_pointer_step(walk->unwind);
}

/* Walks a stack and records it in the store. Returns 0; -1: there is no stack. This loss is
 * counted, and the sample must be dropped. */
static __always_inline int take_stack(const struct stack_from *from, struct abi_process_cpu *cpu,
				      const struct abi_process *process, struct abi_stack_key *key)
{
	__u64 seed[2] = {config.hash_seed[0], config.hash_seed[1]};
	struct scratch *scratch = NULL;
	struct unwind *unwind;
	struct walk walk;
	int result = -1;
	__u32 i;

	/* Tasks on one CPU preempt each other even inside these programs. So a CPU needs several
	 * buffers. */
	for (i = 0; i < ABI_SCRATCH_EXACT; i++) {
		__u32 slot = i;

		scratch = bpf_map_lookup_elem(&scratches, &slot);
		if (scratch && __sync_val_compare_and_swap(&scratch->busy, 0, 1) == 0)
			break;
		scratch = NULL;
	}
	if (!scratch) {
		lose(cpu, LOST_SCRATCH_BUSY);
		return -1;
	}
	unwind = &scratch->unwind;
	if (!from->entry) {
		stack_begin_at(unwind, from->pc, from->sp, from->bp, config.max_frames);
	} else if (stack_begin(unwind, from->pc, from->sp, from->bp, config.max_frames)) {
		lose(cpu, LOST_RESULT_FAULT);
		goto out;
	}
	unwind->may_ask = !from->irqs_off;
	walk.unwind = unwind;
	walk.mappings = use_tables ? bpf_map_lookup_elem(&mappings, &process->id) : NULL;
	walk.python = any_python ? bpf_map_lookup_elem(&pythons, &process->id) : NULL;
	if (walk.python && python_runs_at(walk.python, unwind->pc))
		python_enter(unwind, walk.python);
	if (!use_tables)
		stack_walk_frame_pointers(unwind);
	else if (walk.mappings || unwind->may_ask)
		/* two steps for each frame: one reaches a native frame, the other puts a Python
		 * frame in its place */
		bpf_loop(2 * ABI_STACK_FRAMES, walk_step, &walk, 0);
	else
		bpf_loop(ABI_STACK_FRAMES, walk_frame_pointer, &walk, 0);
	if (unwind->guessed && unwind->stack.end == STACK_END_COMPLETE)
		unwind->stack.end = STACK_END_NO_TABLE;
	if (unwind->stack.end == STACK_END_TRUNCATED)
		lose(cpu, LOST_STACK_TRUNCATED);
	unwind->stack.end |= unwind->bridged;
	*key = stack_hash(&unwind->stack, seed);
	if (!bpf_map_lookup_elem(&stacks, key)) {
		long err = bpf_map_update_elem(&stacks, key, &unwind->stack, BPF_NOEXIST);

		if (!bpf_map_lookup_elem(&stacks, key)) {
			lose_insert(cpu, err, LOST_STACKS_FULL);
			goto out;
		}
	}
	result = 0;
out:
	__sync_lock_test_and_set(&scratch->busy, 0);
	return result;
}

static __always_inline void inflight_key(struct abi_inflight_key *key, __u64 sp)
{
	key->sp = sp;
	key->tid = (__u32)bpf_get_current_pid_tgid();
	key->pad = 0;
}

#endif
