// SPDX-License-Identifier: GPL-2.0-only
/* The programs of the probes on allocation functions. All allocating functions share one program,
 * and all freeing functions another one. The probe's cookie is an index into the table of
 * functions. This table tells what each argument means. The programs for allocating functions can
 * be attached in three ways. The best way comes first: "session" has one program for entry and
 * return, which decides at each call whether the return is trapped. "multi" and "perf" have a
 * program for the entry and another for the return, and every return is trapped. Functions that may
 * throw never have a return probe: they have the entry program, and another program at their ret
 * instructions. */
#include "argument.bpf.h"
#include "maps.bpf.h"
#include "marker.bpf.h"
#include "others.bpf.h"
#include "own_stack.bpf.h"
#include "process.bpf.h"
#include "running.bpf.h"
#include "sample.bpf.h"
#include "take.bpf.h"
#include "chunk.bpf.h"
#include "inner.bpf.h"
#include "live.bpf.h"
#include "pool.bpf.h"

char LICENSE[] SEC("license") = "GPL";

/* Returns this CPU's note on the last thread that hit a probe. */
static __always_inline struct abi_running *running_here(void)
{
	__u32 only = 0;

	return bpf_map_lookup_elem(&runnings, &only);
}

/* Finds out what a probe needs to know of the thread that has hit it, and writes the note. Returns
 * false if the thread is not traced. */
static __noinline bool find_caller(struct abi_running *running, struct caller *caller)
{
	struct task_struct *task = bpf_get_current_task_btf();
	__u64 turn = task_turn(task), changed = changes;
	struct abi_process *process;
	struct abi_outer_call *outer;

	barrier();
	process = process_of(task);
	if (!process)
		return false;
	caller->process = process->id;
	caller->interval = process->interval;
	outer = bpf_task_storage_get(&outer_calls, task, NULL, 0);
	caller->outer_sp = outer ? outer->sp : 0;
	running_note(running, task, turn, changed, caller);
	return true;
}

/* Finds the function that the probe stands on, and the thread that has called it. Counts the hit.
 * Returns the counters of the caller's process on this CPU; NULL: the hit is to be ignored. */
static __always_inline struct abi_process_cpu *begin(struct pt_regs *ctx, struct abi_func **fn,
						     struct caller *caller)
{
	struct abi_process_cpu *cpu, *machine;
	struct abi_running *running;
	__u64 index;
	__u32 cost;

	if (!active)
		return NULL;
	index = bpf_get_attach_cookie(ctx);
	if (index >= ABI_MAX_FUNCS)
		return NULL;
	*fn = &funcs[within(index, ABI_MAX_FUNCS)];
	cost = (*fn)->cost;
	if (cost >= ABI_COSTS) /* the function's file was released, and may already have new
				* probes */
		return NULL;
	machine = machine_cpu();
	if (machine)
		count(&machine->calls[within(cost, ABI_COSTS)], 1);
	running = running_here();
	if (!running)
		return NULL;
	if (!running_recall(running, bpf_get_current_task_btf(), &changes, caller) &&
	    !find_caller(running, caller))
		return NULL;
	cpu = process_cpu(caller->process);
	if (!cpu)
		return NULL;
	count(&cpu->calls[within(cost, ABI_COSTS)], 1);
	return cpu;
}

static __noinline void note_outer(struct abi_process_cpu *cpu, const struct abi_func *fn,
				  struct pt_regs *ctx, __u64 size)
{
	struct abi_outer_call *outer = outer_to_note(cpu);
	struct abi_running *running;
	__u64 ret = 0;

	if (!outer)
		return;
	/* If this function jumps to the next one, the next one has the same return address. So the
	 * address shows the jump. With OUTER_WITHIN it also shows that the outer call is still
	 * under way. A realloc that has a block to move never jumps, so its return address is
	 * needed only with OUTER_WITHIN. */
	if (fn->outer == OUTER_WITHIN || fn->role != ROLE_REALLOC || !argument(ctx, fn->ptr_arg))
		read_user_u64(&ret, PT_REGS_SP(ctx));
	outer->sp = PT_REGS_SP(ctx);
	outer->ret = ret;
	outer->size = size;
	outer->vaddr = fn->vaddr;
	outer->inner_sp = 0;
	running = running_here();
	if (running)
		running->outer_sp = outer->sp;
}

/* The most time that counts for one stack. If a walk takes longer, it was interrupted, and an
 * interruption is no cost of tracing. */
#define STACK_MOST_NS 30000

/* Takes a stack and measures the time for this. The time depends on the stack's depth, and is a
 * part of the reported cost. */
static __always_inline int take_timed(const struct stack_from *from, struct abi_process_cpu *cpu,
				      const struct abi_process *process, struct abi_stack_key *key)
{
	struct abi_process_cpu *machine = machine_cpu();
	__u64 begin = bpf_ktime_get_ns(), ns;
	int rc = take_stack(from, cpu, process, key);

	ns = bpf_ktime_get_ns() - begin;
	ns = ns < STACK_MOST_NS ? ns : STACK_MOST_NS;
	count(&cpu->stack_ns, ns);
	if (machine)
		count(&machine->stack_ns, ns);
	return rc;
}

/* Deletes the entry of a call at sp that did not return, because a longjmp or an exception has left
 * the call. There is hardly ever such an entry. So the function looks the entry up first. A look-up
 * takes no lock, and needs only half the time of a deletion that finds nothing. */
static __noinline int forget_call(__u64 sp)
{
	struct abi_inflight_key key;

	inflight_key(&key, sp);
	if (bpf_map_lookup_elem(&inflight, &key))
		bpf_map_delete_elem(&inflight, &key);
	return 0;
}

/* Deletes an older entry at sp, which a longjmp or an exception may have left behind. The call of
 * fn at sp that begins now is not recorded, but its return may be seen. Without the deletion, this
 * return would count as the older call's return. If a pool has jumped to fn, the entry at sp
 * belongs to the pool, and stays. */
static __always_inline void forget_left(const struct abi_func *fn, __u64 sp)
{
	struct abi_outer_call *outer = NULL;

	if (!returns_always && !fn->exits && fn->wraps != WRAPS_AWAITED)
		return;
	if (any_pools && !fn->wraps)
		outer = last_outer();
	if (!outer || outer->pool_sp != sp || !is_under_way(sp, outer->pool_ret))
		forget_call(sp);
}

/* Counts a call inside another one, and does not record it. Its return may be seen, and must not be
 * taken for the return of an older call at sp (forget_left()). If the outer call has jumped here,
 * both calls have the same frame. Then the entry for this frame belongs to the outer call, and
 * stays. */
static __always_inline void pass_inner(struct abi_process_cpu *cpu, const struct abi_func *fn,
				       __u64 sp, struct abi_outer_call *outer)
{
	count(&cpu->inner, 1);
	if (outer && fn->outer)
		outer->inner_sp = sp;
	if (!returns_always && !fn->exits)
		return;
	if (!outer || (outer->sp != sp && outer->wrap_sp != sp))
		forget_call(sp);
}

/* --- what realloc adds ---
 *
 * When a process is traced in windows, most of a block's reallocs happen unseen. So at a realloc
 * that is seen, the size of the old block must be found at once. glibc keeps a block's size in
 * front of the block: rounded up to a multiple of 16, or to whole pages. This size includes the
 * bytes that glibc itself uses, which header_bytes() subtracts. The sizes of both blocks, old and
 * new, are taken from their headers, so that the growth adds up correctly over many reallocs. Other
 * allocators keep the size where it cannot be read cheaply. With those allocators the old size is
 * known only if the block was sampled in this same window. A target that itself writes into the
 * header falsifies only its own profile. The new block's size in the header must fit the requested
 * size. */

#define HEADER_FLAGS   7ULL
#define HEADER_MMAPPED 2ULL
#define MAX_BLOCK      (1ULL << 47)
#define MAX_ROUNDING   (4ULL << 20) /* the most bytes that rounding up to huge pages adds */

/* Returns how many bytes the block at addr has room for, as its header says; 0: it has no sound
 * header. */
static __always_inline __u64 header_bytes(__u64 addr)
{
	__u64 header, size;

	if (addr < 16 || read_user_u64(&header, addr - 8))
		return 0;
	size = header & ~HEADER_FLAGS;
	return size < 32 || size > MAX_BLOCK ? 0 : size - (header & HEADER_MMAPPED ? 16 : 8);
}

/* Notes the size of the block at addr in `call`, when a sampled realloc of this block begins. old:
 * the block's entry, if the block is tracked. */
static __always_inline void note_old_size(const struct abi_func *fn,
					  const struct abi_process *process, __u64 addr,
					  const struct abi_live *old, struct abi_inflight *call)
{
	__u32 index = fn->object;

	if (!process->window_ns || !addr)
		return;
	call->birth = BIRTH_UNKNOWN;
	barrier_var(index);
	if (index < ABI_MAX_OBJECTS && objects[index].header) {
		call->header = 1;
		call->had = header_bytes(addr);
	} else if (old && old->birth_ns >= process->window_ns) {
		call->had = old->size;
	}
}

/* Notes in `block` how the block was made and, if this is known, by how much a realloc has enlarged
 * it. A sampled call has just returned addr, the block's address. */
static __always_inline void note_growth(const struct abi_inflight *call, __u64 addr,
					struct abi_live *block)
{
	__u64 has = block->size;
	__s64 grown;

	block->birth = call->birth;
	if (!call->had)
		return;
	if (call->header) {
		has = header_bytes(addr);
		if (has < block->size || (has - block->size > MAX_ROUNDING && has != call->had))
			return;
	}
	grown = has - call->had;
	/* The new size decides the sample's weight, so at most the new size may be subtracted. */
	if (grown < -(__s64)block->size)
		grown = -(__s64)block->size;
	block->birth = BIRTH_GROWN;
	block->grown = grown;
}

/* taken: 1 if a call is a sample. Then `stack` is the key of the call's stack. interval: the
 * interval that the call was drawn with. */
struct sample {
	struct abi_stack_key stack;
	__u64 taken;
	__u64 interval;
};

/* Returns the pool of the running thread, for functions that do not get the pool as an argument. */
static __always_inline __u64 thread_pool(void)
{
	return ABI_POOL_THREAD | (__u32)bpf_get_current_pid_tgid();
}

/* Returns the pool from which a call takes its block, in the form of abi_inflight.pool. */
static __always_inline __u64 pool_of(struct pt_regs *ctx, const struct abi_func *fn)
{
	if (fn->pool_thread)
		return thread_pool();
	return fn->pool_word ?: argument(ctx, fn->pool_arg);
}

/* Takes the stack of a call that is to be a sample. If the stack shows that the call was made
 * inside a pool's call (WRAPS_BY_STACK), the call is no sample. This and the next functions are not
 * inlined in their callers, to save stack. Before Linux 6.13 all functions of a call chain share
 * 512 bytes of stack, and a walk takes a third of them. */
static __noinline int take_sample(struct pt_regs *ctx, struct abi_process_cpu *cpu,
				  const struct abi_func *fn, struct sample *sample)
{
	struct stack_from from = stack_from_entry(ctx, fn->delta);
	struct abi_process *process = process_current();

	if (fn->role == ROLE_TAKEN || fn->role == ROLE_MARK_ALLOC) {
		from.entry = false;
		from.pc = PT_REGS_IP(ctx) + 1; /* the first frame is the instruction itself */
	}

	others_look(cpu);
	sample->taken = process && !take_timed(&from, cpu, process, &sample->stack);
	if (sample->taken && any_pools && !fn->wraps && is_in_pool_call(ctx, &sample->stack)) {
		sample->taken = 0;
		count(&cpu->inner, 1);
		count(&cpu->inner_of_pools, 1);
	}
	return 0;
}

/* Records the beginning of a call that is a sample, or may concern a tracked block. This function
 * is not inlined in enter(), because other calls must not pay for its stack and time. Returns 1 if
 * the call's return is awaited. */
static __noinline int enter_tracked(struct pt_regs *ctx, struct abi_process_cpu *cpu,
				    const struct abi_func *fn, __u64 size,
				    const struct sample *sample)
{
	struct abi_process *process = process_current();
	struct abi_live_key old_key = {};
	struct abi_inflight_key key;
	struct abi_inflight *call;
	struct abi_live *old = NULL;
	__u64 sp = PT_REGS_SP(ctx), ret = 0;

	if (!process)
		return fn->wraps == WRAPS_AWAITED;
	old_key.process = process->id;
	if (fn->role == ROLE_REALLOC)
		old_key.addr = argument(ctx, fn->ptr_arg);
	/* The old block is taken out of the table until the result of the call is known. Once the
	 * allocator has released the block, another thread may get its address. */
	if (old_key.addr && filter_may_hold(live_filter, &old_key))
		old = bpf_map_lookup_elem(&live, &old_key);
	if (old && old->birth == BIRTH_ENDED) {
		live_free_again(process, old, old_key.addr);
		old = NULL;
	}
	if (!sample->taken && !old) {
		forget_left(fn, sp);
		return fn->wraps == WRAPS_AWAITED;
	}
	if (fn->exits && read_user_u64(&ret, sp)) {
		lose(cpu, LOST_RESULT_FAULT);
		return fn->wraps == WRAPS_AWAITED;
	}
	/* The program's stack has no room for the entry, so the entry is filled in inside the
	 * map. */
	inflight_key(&key, sp);
	call = bpf_map_update_elem(&inflight, &key, &no_call, BPF_ANY)
		       ? NULL
		       : bpf_map_lookup_elem(&inflight, &key);
	if (!call) {
		lose(cpu, LOST_INFLIGHT_FULL);
		if (old) /* assumes that the call will succeed, which is more likely */
			live_forget(cpu, process, old_key.addr);
		return fn->wraps == WRAPS_AWAITED;
	}
	if (old)
		call->old = *old;
	call->stack = sample->stack;
	call->size = size;
	call->sampled = sample->taken;
	call->interval = sample->interval;
	call->process = process->id;
	call->ret = ret;
	call->pool = pool_of(ctx, fn);
	if (fn->out_arg)
		call->out = argument(ctx, fn->out_arg);
	if (fn->in_place)
		call->in_place = argument(ctx, fn->ptr_arg);
	if (sample->taken && fn->role == ROLE_REALLOC)
		note_old_size(fn, process, old_key.addr, old, call);
	if (old) {
		call->old_addr = old_key.addr;
		live_delete(&old_key);
	}
	count(&cpu->armed, 1);
	return 1;
}

/* Records that the block at addr, which may be tracked, is freed. */
static __noinline int free_tracked(struct abi_process_cpu *cpu, __u64 addr)
{
	struct abi_process *process = process_current();

	if (!process)
		return 0;
	live_forget(cpu, process, addr);
	if (n_pools)
		pool_leave(process->id, addr);
	return 0;
}

/* Handles the entry of an allocating function. Returns 1 if the call's return is awaited. */
static __always_inline int enter(struct pt_regs *ctx)
{
	struct abi_outer_call *outer = NULL;
	struct abi_process_cpu *cpu;
	struct abi_func *fn;
	__u64 size, old_addr, sp = PT_REGS_SP(ctx);
	bool sampled, tracked = false, near;
	struct caller caller;

	cpu = begin(ctx, &fn, &caller);
	if (!cpu)
		return 0;
	size = argument(ctx, fn->size_arg);
	if (fn->count_arg) {
		__u64 n = argument(ctx, fn->count_arg), limit = n ? ~0ULL / n : ~0ULL;

		barrier_var(limit); /* else clang asks for a 128-bit product, which BPF lacks */
		if (size > limit) {
			if (returns_always || fn->exits)
				forget_call(sp);
			return 0; /* the product overflows: the call fails and changes nothing */
		}
		size *= n;
	}
	size += fn->own;
	near = is_near(&caller, sp);
	if (near || any_wraps)
		outer = last_outer();
	if (is_wrapped(outer, fn, ctx)) {
		/* a block that the pool takes from another allocator */
		if (!fn->wraps && !is_inner(fn, ctx, size, outer)) {
			count(&cpu->inner_of_pools, 1);
			if (fn->role == ROLE_REALLOC && argument(ctx, fn->ptr_arg))
				count(&cpu->no_births, 1);
		}
		pass_inner(cpu, fn, sp, outer);
		return 0;
	}
	if (near && is_inner(fn, ctx, size, outer)) {
		pass_inner(cpu, fn, sp, outer);
		return 0;
	}
	if (fn->pooled)
		count(&cpu->pool_takes, 1);
	if (fn->outer)
		note_outer(cpu, fn, ctx, size);
	if (fn->wraps == WRAPS_AWAITED)
		note_wrap(cpu, fn, ctx);
	else if (fn->wraps)
		note_pool_call(cpu, ctx);

	sampled = sample_take(cpu, size, caller.interval);
	if (sampled && !near && is_inner(fn, ctx, size, NULL)) {
		pass_inner(cpu, fn, sp, NULL);
		return 0;
	}
	if (fn->role == ROLE_REALLOC) {
		old_addr = argument(ctx, fn->ptr_arg);
		if (old_addr)
			count(&cpu->no_births, 1);
		tracked = live_may_hold(caller.process, old_addr);
	}
	if (fn->blind) {
		if (sampled)
			lose(cpu, LOST_RESULT_UNKNOWN);
		if (tracked) /* assumes that the call will succeed, which is more likely */
			free_tracked(cpu, argument(ctx, fn->ptr_arg));
		return 0;
	}
	if (sampled || tracked) {
		struct sample sample = {.interval = caller.interval};

		if (sampled)
			take_sample(ctx, cpu, fn, &sample);
		return enter_tracked(ctx, cpu, fn, size, &sample);
	}
	forget_left(fn, sp);
	return fn->wraps == WRAPS_AWAITED;
}

/* Is the value at [sp] the return address of call? If not, an exception has ended the recorded call
 * and left its entry behind. The function that returns now is another one with the same sp. */
static __always_inline bool is_own_return(const struct abi_inflight *call, __u64 sp)
{
	return !call->ret || is_under_way(sp, call->ret);
}

/* Handles the return of a recorded call. ret is the call's result. */
static __always_inline void end_call(struct abi_process_cpu *cpu, const struct abi_process *process,
				     struct abi_inflight *call, __u64 ret)
{
	__u64 old_addr = call->old_addr;
	struct abi_live block = {};

	count(&cpu->returned, 1);

	if (call->out) {
		if ((int)ret) /* posix_memalign's error number */
			ret = 0;
		else if (read_user_u64(&ret, call->out)) {
			lose(cpu, LOST_RESULT_FAULT);
			ret = 0;
		}
	}
	if (call->in_place)
		ret = ret >= call->size ? call->in_place : 0;
	if (old_addr) {
		/* User space may read the tables at this moment. It must not find the old block
		 * both here and in the table of live blocks. */
		call->old_addr = 0;
		if (!ret && call->size) { /* the call has failed: the old block stays */
			struct abi_live_key old_key = {.addr = old_addr, .process = process->id};
			long err = live_insert(&old_key, &call->old);

			if (err)
				lose_insert(cpu, err, LOST_LIVE_FULL);
			return;
		}
		if (live_settle(cpu, process, &call->old, ret ? LIVE_MOVED : LIVE_FREED)) {
			live_watch_on(process, old_addr, &call->old);
			live_tell(process, &call->old, old_addr, END_MOVED);
		}
		if (n_pools && ret != old_addr)
			pool_leave(process->id, old_addr);
	}
	if (!call->sampled || !ret)
		return;
	block.size = call->size;
	block.interval = call->interval;
	block.birth_ns = bpf_ktime_get_ns();
	block.stack = call->stack;
	block.tid = (__u32)bpf_get_current_pid_tgid();
	note_growth(call, ret, &block);
	live_remember(cpu, process, ret, &block);
	if (n_pools && ret != old_addr)
		pool_leave(process->id, ret); /* an earlier block at this address, whose free was
					       * not seen */
	if (call->pool && ret != old_addr) {
		__u64 pool = call->pool;

		if (pool == ABI_POOL_CHUNK)
			pool = chunk_context(ret);
		else if (pool == ABI_POOL_WORD && read_user_u64(&pool, ret - sizeof(pool)))
			pool = 0;
		if (pool)
			pool_join(cpu, process->id, pool, ret);
		else
			lose(cpu, LOST_POOLED);
	}
	note_thread(cpu, process->id, block.tid);
}

/* Handles the return of an allocating function. Its return address stands or stood at sp. at_exit:
 * the probe is on its ret instruction. */
static __noinline int leave(struct pt_regs *ctx, __u64 sp, bool at_exit)
{
	struct abi_outer_call *outer;
	struct abi_inflight_key key;
	struct abi_inflight *call;
	struct abi_process *process;
	struct abi_process_cpu *cpu;

	if (!active)
		return 0;
	if (any_wraps) {
		outer = last_outer();
		if (outer && outer->wrap_sp == sp)
			outer->wrap_sp = 0;
	}
	inflight_key(&key, sp);
	call = bpf_map_lookup_elem(&inflight, &key);
	if (!call)
		return 0;
	if (!at_exit && call->ret)
		/* heap_exit() handles this return, because the function is probed at its ret
		 * instructions */
		return 0;
	if (at_exit && !is_own_return(call, sp))
		return 0;
	process = process_current();
	cpu = process ? process_cpu(process->id) : NULL;
	/* The program's stack has no room for a copy of the entry, so the entry is read inside the
	 * map. That is safe, because nobody else deletes the entry while this thread lives. */
	if (cpu)
		end_call(cpu, process, call, PT_REGS_RC(ctx));
	bpf_map_delete_elem(&inflight, &key);
	return 0;
}

SEC("uprobe")
int heap_session(struct pt_regs *ctx)
{
	NO_PRIVATE_STACK(ctx, no_programs_session);
	if (has_returned(ctx)) {
		leave(ctx, PT_REGS_SP(ctx) - 8, false);
		return 0;
	}
	return !enter(ctx); /* non-zero: do not trap the return */
}

SEC("uprobe")
int heap_entry(struct pt_regs *ctx)
{
	NO_PRIVATE_STACK(ctx, no_programs);
	enter(ctx);
	return 0;
}

SEC("uprobe")
int heap_return(struct pt_regs *ctx)
{
	NO_PRIVATE_STACK(ctx, no_programs);
	/* the ret instruction has already popped the return address */
	leave(ctx, PT_REGS_SP(ctx) - 8, false);
	return 0;
}

/* Runs at the ret instructions of a function that may throw. The program at such a function's entry
 * is heap_entry, whichever way to attach programs is used. The function gets no return probe,
 * because a return probe replaces the return address, and an exception that meets the replaced
 * address ends the process. */
SEC("uprobe")
int heap_exit(struct pt_regs *ctx)
{
	NO_PRIVATE_STACK(ctx, no_programs);
	leave(ctx, PT_REGS_SP(ctx), true);
	return 0;
}

/* Records the sampled block at addr, which was taken from a pool or reported by a marker. */
static __noinline int taken(struct abi_process_cpu *cpu, __u64 addr, __u64 size, __u64 interval,
			    const struct sample *sample)
{
	struct abi_process *process = process_current();
	struct abi_live block = {};

	if (!process || !sample->taken)
		return 0;
	block.size = size;
	block.interval = interval;
	block.birth_ns = bpf_ktime_get_ns();
	block.stack = sample->stack;
	block.tid = (__u32)bpf_get_current_pid_tgid();
	live_remember(cpu, process, addr, &block);
	note_thread(cpu, process->id, block.tid);
	return 0;
}

/* The program of probes inside code that takes a block from one of pymalloc's pools. The pool's
 * header tells the size class (user/elf/pymalloc.h). The target may have falsified this header. */
#define PYMALLOC_HEADER	 32 /* offset of the eight bytes whose upper half is the size class */
#define PYMALLOC_CLASSES 32

SEC("uprobe")
int heap_taken(struct pt_regs *ctx)
{
	struct sample sample = {};
	struct abi_process_cpu *cpu;
	struct caller caller;
	struct abi_func *fn;
	__u64 header, size;
	bool known;

	NO_PRIVATE_STACK(ctx, no_programs);
	cpu = begin(ctx, &fn, &caller);
	if (!cpu)
		return 0;
	known = !read_user_u64(&header, argument(ctx, fn->pool_arg) + PYMALLOC_HEADER) &&
		header >> 32 < PYMALLOC_CLASSES;
	size = known ? 16 * ((header >> 32) + 1) : 16;
	if (!sample_take(cpu, size, caller.interval))
		return 0;
	if (!known) {
		lose(cpu, LOST_RESULT_FAULT);
		return 0;
	}
	take_sample(ctx, cpu, fn, &sample);
	taken(cpu, argument(ctx, fn->ptr_arg), size, caller.interval, &sample);
	return 0;
}

SEC("uprobe")
int heap_free(struct pt_regs *ctx)
{
	struct abi_process_cpu *cpu;
	struct caller caller;
	struct abi_func *fn;
	__u64 addr;

	NO_PRIVATE_STACK(ctx, no_programs);
	cpu = begin(ctx, &fn, &caller);
	if (!cpu)
		return 0;
	addr = argument(ctx, fn->ptr_arg);
	if (fn->role == ROLE_FREE && addr) {
		if (fn->outer && is_near(&caller, PT_REGS_SP(ctx))) {
			const struct abi_outer_call *outer = last_outer();

			if (outer && is_inner(fn, ctx, outer->size, outer))
				count(&cpu->no_deaths, 1);
		}
		if (live_may_hold(caller.process, addr))
			free_tracked(cpu, addr);
		return 0;
	}
	count(&cpu->no_deaths, 1);
	if (fn->role == ROLE_FREE)
		return 0;
	if (fn->role != ROLE_POOL_LEFT)
		count(&cpu->pool_ends, 1);
	if (fn->pool_thread)
		addr = thread_pool();
	pool_end(cpu, addr, fn->role != ROLE_POOL_LEFT);
	if (fn->role == ROLE_POOL_FREE && live_may_hold(caller.process, addr))
		free_tracked(cpu, addr);
	return 0;
}

/* --- markers: the target reports its own samples (marker.bpf.h) --- */

static __noinline __u64 register_of(struct pt_regs *ctx, __u8 number)
{
	return number == 16 ? PT_REGS_SP(ctx) : argument(ctx, number);
}

/* Reads a marker's argument. Returns 0, or a negative number if the argument is in memory that is
 * not there. */
static __noinline int read_place(struct pt_regs *ctx, const struct abi_place *place, __u64 *ret)
{
	__u64 value = place->value;
	__u32 bytes = place->bytes;

	barrier_var(bytes); /* the verifier wants the check and the use to be of the same loaded
			     * value */
	if (bytes > sizeof(value))
		return -1;
	if (place->kind == PLACE_REGISTER) {
		value = register_of(ctx, place->base);
	} else if (place->kind == PLACE_MEMORY) {
		__u64 addr = value + register_of(ctx, place->base) +
			     (register_of(ctx, place->index) << (place->shift & 3));

		value = 0;
		if (read_user(&value, bytes, addr))
			return -1;
	}
	*ret = marker_widen(value, bytes, place->is_signed);
	return 0;
}

SEC("uprobe")
int heap_mark_alloc(struct pt_regs *ctx)
{
	__u64 addr = 0, size = 0, weighted = 0, interval;
	const struct abi_marker *marker;
	struct sample sample = {};
	struct abi_process_cpu *cpu;
	struct caller caller;
	struct abi_func *fn;

	NO_PRIVATE_STACK(ctx, no_programs);
	cpu = begin(ctx, &fn, &caller);
	if (!cpu)
		return 0;
	/* only samples are seen: how many blocks were allocated is not known */
	count(&cpu->no_births, 1);
	marker = &markers[within(fn->marker, ABI_MAX_MARKERS)];
	if (read_place(ctx, &marker->ptr, &addr) || read_place(ctx, &marker->size, &size) ||
	    read_place(ctx, &marker->weighted, &weighted)) {
		lose(cpu, LOST_RESULT_FAULT);
		return 0;
	}
	if (!addr || size >> 62 || !marker_keep(size, weighted, caller.interval, &interval))
		return 0;
	if (interval > caller.interval && interval > cpu->marked_interval &&
	    marker_tells(size, interval))
		cpu->marked_interval = interval;
	take_sample(ctx, cpu, fn, &sample);
	taken(cpu, addr, size, interval, &sample);
	return 0;
}

SEC("uprobe")
int heap_mark_free(struct pt_regs *ctx)
{
	struct abi_process_cpu *cpu;
	struct caller caller;
	struct abi_func *fn;
	__u64 addr = 0;

	NO_PRIVATE_STACK(ctx, no_programs);
	cpu = begin(ctx, &fn, &caller);
	if (!cpu)
		return 0;
	count(&cpu->no_deaths, 1);
	if (read_place(ctx, &markers[within(fn->marker, ABI_MAX_MARKERS)].ptr, &addr)) {
		lose(cpu, LOST_RESULT_FAULT);
		return 0;
	}
	if (addr && live_may_hold(caller.process, addr))
		free_tracked(cpu, addr);
	return 0;
}

/* Takes the block args[1] of process args[0] out of its pool's list. User space runs this program
 * after it has taken the block out of the live table. */
SEC("raw_tp")
int heap_leave_pool(struct bpf_raw_tracepoint_args *ctx)
{
	pool_leave((__u32)ctx->args[0], ctx->args[1]);
	return 0;
}
