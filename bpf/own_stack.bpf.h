/* SPDX-License-Identifier: GPL-2.0-only */
/* For the programs of uprobes: their frames stay on the task's own stack. */
#ifndef MEMTRACE_BPF_OWN_STACK_BPF_H
#define MEMTRACE_BPF_OWN_STACK_BPF_H

/* Since Linux 6.13, programs of the type of uprobes get their larger frames on a stack of their
 * own (x86, arm64): one for each CPU, not one for each task. The kernel relies on the check
 * against recursion that kprobes have, and uprobes do not have it. With a preemptible kernel, two
 * tasks whose programs run on one CPU at the same time overwrite each other's frames, and the
 * kernel panics (seen with 7.2.12). A program with a tail call in it never gets such a stack, even
 * if the call is never made. Every uprobe's program begins with this (a unit test checks it).
 * `programs` stays empty; since 6.18 all programs that name such a map must be attached in the
 * same way. */
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
