/* SPDX-License-Identifier: GPL-2.0-only */
/* Counts the probes of other tracers on the function whose probe was hit.
 *
 * At each call the kernel visits all probes on the instruction, one after the other, in whatever
 * process the call is made. A probe for another process costs this visit, and a probe for all
 * processes also runs its program. The calibration measures probes on memtrace's own code, where
 * none of these costs arise. A probe for another process may even make the kernel trap the call's
 * return. The reason: its program is not run at the entry, so it cannot ask the kernel to leave the
 * return alone. So the probes of other tracers are counted now and then, and user space adds their
 * cost.
 *
 * While the kernel runs a program of a uprobe_multi link, it notes a context in the task. From this
 * context the program finds the list of probes. (Other kinds of links do not show the list.) Since
 * Linux 6.12 the list has the form that is read here. On older kernels nothing is counted. Probes
 * may come and go while the list is read. Then some values may be wrong, but no read can fault. */
#ifndef MEMTRACE_BPF_OTHERS_BPF_H
#define MEMTRACE_BPF_OTHERS_BPF_H

#include "maps.bpf.h"

/* OTHERS_EVERY is a power of two. On each CPU, the probes are counted at every OTHERS_EVERY-th
 * sample of a process. At most MAX_OTHERS probes are counted at a time. */
#define MAX_OTHERS   128
#define OTHERS_EVERY 16

/* The walk along the list of probes. */
struct others_walk {
	struct abi_process_cpu *cpu, *machine; /* machine: NULL if its counters are not wanted */
	const struct bpf_uprobe *own;	       /* the probe that runs */
	const struct list_head *head, *node;
	bool trapped; /* a probe that is not memtrace's makes the kernel trap the call's return */
};

/* Counts a probe, unless it is memtrace's own. memtrace attaches one program to many processes, so
 * a probe that has the same program is memtrace's, too. Returns true if the kernel traps the call's
 * return because of this probe. */
static __always_inline bool others_add(struct others_walk *walk,
				       const struct uprobe_consumer *consumer)
{
	struct abi_process_cpu *cpu = walk->cpu, *machine = walk->machine;
	const struct bpf_uprobe *own = walk->own;
	struct task_struct *task = (void *)bpf_get_current_task(), *of;
	const void *handler = BPF_CORE_READ(consumer, handler);
	const struct bpf_uprobe_multi_link *link;
	const struct bpf_uprobe *probe;
	bool runs = false;

	if (!handler) /* the probe is only on the return */
		return true;
	if (handler == BPF_CORE_READ(own, consumer.handler)) {
		probe = (const void *)consumer - bpf_core_field_offset(struct bpf_uprobe, consumer);
		link = BPF_CORE_READ(probe, link);
		if (BPF_CORE_READ(link, link.prog) == BPF_CORE_READ(own, link, link.prog))
			return false;
		of = BPF_CORE_READ(link, task);
		runs = !of || BPF_CORE_READ(of, signal) == BPF_CORE_READ(task, signal);
	} /* otherwise it is a perf uprobe, whose process is not known */
	count(runs ? &cpu->others_run : &cpu->others_visited, 1);
	if (machine)
		count(runs ? &machine->others_run : &machine->others_visited, 1);
	return !runs && BPF_CORE_READ(consumer, ret_handler);
}

static long others_step(__u32 i, struct others_walk *walk)
{
	const struct list_head *node = walk->node;

	node = BPF_CORE_READ(node, next);
	if (!node || node == walk->head)
		return 1;
	walk->node = node;
	walk->trapped |=
		others_add(walk, (const void *)node -
					 bpf_core_field_offset(struct uprobe_consumer, cons_node));
	return 0;
}

/* Counts the other tracers' probes, at some of the samples. Kernels that have the list have
 * bpf_loop(), too. */
CHECKED_ONCE int others_look(struct abi_process_cpu *cpu)
{
	const struct bpf_uprobe_multi_run_ctx *run;
	struct task_struct *task = (void *)bpf_get_current_task();
	const struct bpf_uprobe *own;
	struct others_walk walk = {.cpu = cpu, .machine = machine_cpu()};

	if (!counts_others || !cpu || cpu->samples % OTHERS_EVERY ||
	    !bpf_core_field_exists(struct uprobe_consumer, cons_node) ||
	    !bpf_core_field_exists(struct bpf_uprobe, uprobe) ||
	    !bpf_core_field_exists(struct bpf_uprobe_multi_run_ctx, uprobe) ||
	    !bpf_core_field_exists(task->bpf_ctx))
		return 0;
	run = (const void *)BPF_CORE_READ(task, bpf_ctx);
	own = BPF_CORE_READ(run, uprobe);
	walk.own = own;
	walk.node = walk.head = (const void *)BPF_CORE_READ(own, uprobe) +
				bpf_core_field_offset(struct uprobe, consumers);
	count(&cpu->other_looks, 1);
	if (walk.machine)
		count(&walk.machine->other_looks, 1);
	bpf_loop(MAX_OTHERS, others_step, &walk, 0);
	if (!walk.trapped || returns_always) /* returns_always: every return is trapped, even
					      * without other tracers */
		return 0;
	count(&cpu->others_trapped, 1);
	if (walk.machine)
		count(&walk.machine->others_trapped, 1);
	return 0;
}

#endif
