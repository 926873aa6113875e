// SPDX-License-Identifier: GPL-2.0-only
/* Records which memory becomes resident, without a probe in the code of any process. A page of
 * anonymous memory becomes resident by a page fault, when it is first written to. Each such fault
 * counts as an allocation of a page at that address, and is sampled like other allocations. A page
 * was given back to the kernel if it faults again, or if the page map no longer has it at the end
 * of the run. The page map also tells files' pages from anonymous ones. (bpf_find_vma() could tell
 * them apart here, too. But interrupts are off here, so it must not be called: vma.bpf.h.) */
#include "maps.bpf.h"
#include "process.bpf.h"
#include "sample.bpf.h"
#include "take.bpf.h"
#include "live.bpf.h"

#define PAGE_BYTES 4096
/* Bits of a fault's error code. */
#define FAULT_PRESENT 1 /* the page was there, but not writable, for example */
#define FAULT_WRITE   2

static __always_inline void fault(__u64 address, const struct pt_regs *regs, __u64 error)
{
	__u64 page = address & ~(PAGE_BYTES - 1ULL);
	struct task_struct *task = bpf_get_current_task_btf();
	struct abi_live block = {.size = PAGE_BYTES};
	struct abi_process_cpu *cpu;
	struct abi_process *process;
	struct stack_from from;

	if (!active || (error & FAULT_PRESENT) || !(error & FAULT_WRITE) || address >> 63)
		return;
	/* The kernel disables page faults while it only tries an access, for example for a tracer.
	 * Such a fault makes no page resident. */
	if (task->pagefault_disabled)
		return;
	process = process_of(task);
	cpu = process ? process_cpu(process->id) : NULL;
	if (!cpu)
		return;
	live_forget(cpu, process, page);
	count(&cpu->calls[0], 1);
	if (!sample_take(cpu, PAGE_BYTES, process->interval))
		return;
	from = (struct stack_from){
		.pc = regs->ip + 1, .sp = regs->sp, .bp = regs->bp, .irqs_off = true};
	if (take_stack(&from, cpu, process, &block.stack))
		return;
	block.interval = process->interval;
	block.birth_ns = bpf_ktime_get_ns();
	block.tid = task->pid;
	live_remember(cpu, process, page, &block);
	note_thread(cpu, process->id, block.tid);
}

SEC("tp_btf/page_fault_user")
int BPF_PROG(fault_user, unsigned long address, struct pt_regs *regs, unsigned long error)
{
	fault(address, regs, error);
	return 0;
}

/* Handles a fault in which the kernel is the first to touch the page, as when read() fills a new
 * buffer. */
SEC("tp_btf/page_fault_kernel")
int BPF_PROG(fault_kernel, unsigned long address, struct pt_regs *regs, unsigned long error)
{
	fault(address, (void *)bpf_task_pt_regs(bpf_get_current_task_btf()), error);
	return 0;
}
