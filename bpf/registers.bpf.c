// SPDX-License-Identifier: GPL-2.0-only
/* Reads the registers of a process's threads without stopping the threads. The values are those
 * that each thread saved when it last entered the kernel. This program has a source file of its
 * own, because it is loaded alone, without probes and tables. Needs Linux 5.15
 * (bpf_task_pt_regs()). */
#include "vmlinux.h"

#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>

#include "abi.h"

char LICENSE[] SEC("license") = "GPL";

const volatile __u32 target; /* the target's tgid in the initial pid namespace */

SEC("iter/task")
int read_registers(struct bpf_iter__task *ctx)
{
	struct task_struct *task = ctx->task;
	struct abi_registers registers = {};
	struct pt_regs *regs;

	if (!task || (__u32)task->tgid != target)
		return 0;
	regs = (struct pt_regs *)bpf_task_pt_regs(task);
	if (!regs)
		return 0;
	registers.tid = (__u32)task->pid;
	registers.sp = regs->sp;
	registers.pc = regs->ip;
	registers.bp = regs->bp;
	registers.tp = task->thread.fsbase;
	registers.values[0] = regs->bx;
	registers.values[1] = regs->bp;
	registers.values[2] = regs->r12;
	registers.values[3] = regs->r13;
	registers.values[4] = regs->r14;
	registers.values[5] = regs->r15;
	registers.values[6] = regs->ax;
	registers.values[7] = regs->cx;
	registers.values[8] = regs->dx;
	registers.values[9] = regs->si;
	registers.values[10] = regs->di;
	registers.values[11] = regs->r8;
	registers.values[12] = regs->r9;
	registers.values[13] = regs->r10;
	registers.values[14] = regs->r11;
	bpf_seq_write(ctx->meta->seq, &registers, sizeof(registers));
	return 0;
}
