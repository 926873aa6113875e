/* SPDX-License-Identifier: GPL-2.0-only */
/* Keeps the frames of uprobes' programs on the task's own stack. */
#ifndef MEMTRACE_BPF_OWN_STACK_BPF_H
#define MEMTRACE_BPF_OWN_STACK_BPF_H

/* Since Linux 6.13, programs of the type that uprobes use keep their larger frames on a private
 * stack (x86, arm64). A program has one such stack for each CPU, not one for each task. The kernel
 * relies on the check against recursion that kprobes have, but uprobes do not have this check. With
 * a preemptible kernel, two tasks whose programs run on one CPU at the same time overwrite each
 * other's frames, and the kernel panics (seen with 7.2.12). A program with a tail call in it never
 * gets a private stack, even if the call is never made. So every uprobe's program begins with
 * NO_PRIVATE_STACK (a unit test checks this). The map that the macro names stays empty. There are
 * two such maps: since Linux 6.18, all programs that name the same map must be attached in the same
 * way. */
struct no_programs {
	__uint(type, BPF_MAP_TYPE_PROG_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u32);
};

struct no_programs no_programs __weak SEC(".maps");
struct no_programs no_programs_session __weak SEC(".maps");

const volatile bool makes_tail_calls __weak = false;

#define NO_PRIVATE_STACK(ctx, programs)                                                            \
	do {                                                                                       \
		if (makes_tail_calls)                                                              \
			bpf_tail_call(ctx, &programs, 0);                                          \
	} while (0)

#endif
