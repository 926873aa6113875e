// SPDX-License-Identifier: GPL-2.0-only
/* Memory that processes take from the kernel themselves, by mmap, munmap, mremap and brk. Each call
 * that changed something is reported to user space, which keeps the map of the regions. Calls are
 * seen in one of two places: at libc's functions or at the system calls. Probes on libc's functions
 * cost other processes nothing. The tracepoints of system calls also show calls that do not go
 * through libc. */
#include "maps.bpf.h"
#include "own_stack.bpf.h"
#include "process.bpf.h"
#include "take.bpf.h"

#define NR_MMAP	  9
#define NR_MUNMAP 11
#define NR_BRK	  12
#define NR_MREMAP 25

#define THREAD_COMPAT 2 /* TS_COMPAT of asm/thread_info.h: a 32-bit system call is under way */

/* Did the call fail? A failed system call returns -ERRNO, except brk, which returns the break that
 * is in force. Of libc's functions, mmap and mremap return MAP_FAILED, and munmap and brk return -1
 * as an int. An int leaves the upper half of the register undefined. */
static __always_inline bool has_failed(const struct abi_region_call *call, __u64 result,
				       bool syscall)
{
	if (call->kind == REGION_BRK && syscall)
		return result != call->addr;
	if (call->kind == REGION_BRK || call->kind == REGION_MUNMAP)
		return (int)result != 0;
	return result >= (__u64)-4095;
}

static __always_inline __u64 current_brk(void)
{
	struct task_struct *task = (void *)bpf_get_current_task();

	return BPF_CORE_READ(task, mm, brk);
}

/* Records the beginning of a call. `call` has its kind and arguments. Returns 1 if the call's
 * return is awaited. */
static __always_inline int region_enter(struct abi_region_call *call, const struct stack_from *from)
{
	struct abi_inflight_key key;
	struct abi_process_cpu *cpu;
	struct abi_process *process;

	if (!active)
		return 0;
	process = process_current();
	cpu = process ? process_cpu(process->id) : NULL;
	if (!cpu)
		return 0;
	count(&cpu->region_calls, 1);
	call->process = process->id;
	call->entry_ns = bpf_ktime_get_ns();
	if (call->kind == REGION_BRK) {
		call->old_addr = current_brk();
		if (!call->addr || call->addr == call->old_addr)
			return 0;
	}
	/* A call that only gives memory back needs no stack. If a stack could not be taken, the
	 * call is reported without it, because the call still has an effect. */
	if (call->kind != REGION_MUNMAP &&
	    !(call->kind == REGION_BRK && call->addr < call->old_addr)) {
		if (take_stack(from, cpu, process, &call->stack))
			call->stack.lo = call->stack.hi = 0;
		count(&cpu->region_stack_ns, bpf_ktime_get_ns() - call->entry_ns);
	}
	inflight_key(&key, from->sp);
	if (bpf_map_update_elem(&region_calls, &key, call, BPF_ANY)) {
		lose(cpu, LOST_REGION_CALLS);
		return 0;
	}
	return 1;
}

/* Handles the return of a call, whose result is `result`. sp is the stack pointer at the call's
 * entry. */
static __always_inline void region_leave(__u64 sp, __u64 result, bool syscall)
{
	struct abi_region_call *found, *call;
	struct abi_process_cpu *cpu;
	struct abi_inflight_key key;

	if (!active)
		return;
	inflight_key(&key, sp);
	found = bpf_map_lookup_elem(&region_calls, &key);
	if (!found)
		return;
	if (has_failed(found, result, syscall))
		goto out;
	cpu = process_cpu(found->process);
	if (!cpu)
		goto out;
	call = bpf_ringbuf_reserve(&regions, sizeof(*call), 0);
	if (!call) {
		lose(cpu, LOST_REGION_CALLS);
		goto out;
	}
	*call = *found;
	call->exit_ns = bpf_ktime_get_ns();
	if (call->kind == REGION_MMAP || call->kind == REGION_MREMAP)
		call->addr = result;
	call->tid = key.tid;
	/* User space reads the ring several times a second anyway. So it is woken only when a
	 * quarter of the ring is full. */
	bpf_ringbuf_submit(call, bpf_ringbuf_query(&regions, BPF_RB_AVAIL_DATA) >
						 bpf_ringbuf_query(&regions, BPF_RB_RING_SIZE) / 4
					 ? BPF_RB_FORCE_WAKEUP
					 : BPF_RB_NO_WAKEUP);
	if (found->kind != REGION_MUNMAP)
		note_thread(cpu, found->process, key.tid);
out:
	bpf_map_delete_elem(&region_calls, &key);
}

/* --- at the functions --- */

static __always_inline int function_enter(struct pt_regs *ctx)
{
	__u64 cookie = bpf_get_attach_cookie(ctx);
	struct stack_from from = stack_from_entry(ctx, cookie >> 8);
	struct abi_region_call call = {.kind = cookie & 0xff};

	switch (call.kind) {
	case REGION_MMAP:
		call.len = PT_REGS_PARM2(ctx);
		call.flags = PT_REGS_PARM4(ctx);
		break;
	case REGION_MUNMAP:
		call.addr = PT_REGS_PARM1(ctx);
		call.len = PT_REGS_PARM2(ctx);
		break;
	case REGION_MREMAP:
		call.old_addr = PT_REGS_PARM1(ctx);
		call.old_len = PT_REGS_PARM2(ctx);
		call.len = PT_REGS_PARM3(ctx);
		call.flags = PT_REGS_PARM4(ctx);
		break;
	case REGION_BRK:
		call.addr = PT_REGS_PARM1(ctx);
		break;
	}
	return region_enter(&call, &from);
}

SEC("uprobe")
int region_session(struct pt_regs *ctx)
{
	NO_PRIVATE_STACK(ctx, no_programs_session);
	if (has_returned(ctx)) {
		region_leave(PT_REGS_SP(ctx) - 8, PT_REGS_RC(ctx), false);
		return 0;
	}
	return !function_enter(ctx); /* non-zero: do not trap the return */
}

SEC("uprobe")
int region_entry(struct pt_regs *ctx)
{
	NO_PRIVATE_STACK(ctx, no_programs);
	function_enter(ctx);
	return 0;
}

SEC("uprobe")
int region_return(struct pt_regs *ctx)
{
	NO_PRIVATE_STACK(ctx, no_programs);
	region_leave(PT_REGS_SP(ctx) - 8, PT_REGS_RC(ctx), false);
	return 0;
}

/* --- tracepoints of system calls, for all processes --- */

static __always_inline bool is_region_call(long nr)
{
	return nr == NR_MMAP || nr == NR_MUNMAP || nr == NR_BRK || nr == NR_MREMAP;
}

/* Is the system call a 32-bit one? Then its number means another call. */
static __always_inline bool is_compat(void)
{
	return bpf_get_current_task_btf()->thread_info.status & THREAD_COMPAT;
}

SEC("tp_btf/sys_enter")
int BPF_PROG(region_sys_enter, struct pt_regs *regs, long nr)
{
	struct abi_region_call call = {};
	struct stack_from from;

	if (!is_region_call(nr) || is_compat())
		return 0;
	from = (struct stack_from){.pc = regs->ip, .sp = regs->sp, .bp = regs->bp};
	if (nr == NR_MMAP) {
		call.kind = REGION_MMAP;
		call.len = regs->si;
		call.flags = regs->r10;
	} else if (nr == NR_MUNMAP) {
		call.kind = REGION_MUNMAP;
		call.addr = regs->di;
		call.len = regs->si;
	} else if (nr == NR_MREMAP) {
		call.kind = REGION_MREMAP;
		call.old_addr = regs->di;
		call.old_len = regs->si;
		call.len = regs->dx;
		call.flags = regs->r10;
	} else {
		call.kind = REGION_BRK;
		call.addr = regs->di;
	}
	region_enter(&call, &from);
	return 0;
}

SEC("tp_btf/sys_exit")
int BPF_PROG(region_sys_exit, struct pt_regs *regs, long result)
{
	if (is_region_call((long)regs->orig_ax) && !is_compat())
		region_leave(regs->sp, result, true);
	return 0;
}
