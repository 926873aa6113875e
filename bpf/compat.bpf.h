/* SPDX-License-Identifier: GPL-2.0-only */
/* What the *.bpf.h headers need from their surroundings. On the host (unit tests, fuzzers) the same
 * names come from the test, which includes this header without __bpf__. */
#ifndef MEMTRACE_BPF_COMPAT_BPF_H
#define MEMTRACE_BPF_COMPAT_BPF_H

#ifdef __bpf__
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>
#include <bpf/bpf_core_read.h>

/* Reads 8 bytes of the target; 0, or negative where the page is not there. */
static __always_inline long read_user_u64(__u64 *dst, __u64 addr)
{
	return bpf_probe_read_user(dst, sizeof(*dst), (const void *)addr);
}

static __always_inline long read_user(void *dst, __u32 size, __u64 addr)
{
	return bpf_probe_read_user(dst, size, (const void *)addr);
}

/* If a function's return has a probe, of this tracer or another, the kernel redirects the return to
 * this address. 0: no return in this process ever had a probe. */
static __always_inline __u64 trampoline_addr(void)
{
	struct task_struct *task = (void *)bpf_get_current_task();

	return BPF_CORE_READ(task, mm, uprobes_state.xol_area, vaddr);
}

/* What pthread_self() returns in the running thread. The kernel's copy of the register fs is right
 * if the thread has set fs by a system call or at its start, as C libraries do. */
static __always_inline __u64 thread_pointer(void)
{
	struct task_struct *task = (void *)bpf_get_current_task();

	return BPF_CORE_READ(task, thread.fsbase);
}

static __always_inline __u32 random_u32(void)
{
	return bpf_get_prandom_u32();
}

#else
#include <stdbool.h>
#include <linux/types.h>
#ifndef __always_inline
#define __always_inline inline __attribute__((always_inline))
#endif
#ifndef barrier
#define barrier() __asm__ volatile("" ::: "memory")
#endif
#ifndef barrier_var
#define barrier_var(var) __asm__ volatile("" : "+r"(var))
#endif
long read_user_u64(__u64 *dst, __u64 addr);
long read_user(void *dst, __u32 size, __u64 addr);
__u64 trampoline_addr(void);
__u64 thread_pointer(void);
__u32 random_u32(void);
#endif

/* Since Linux 6.13, programs of the type of uprobes get their larger frames on a stack of their own
 * (x86, arm64): one for each CPU, not one for each task. The kernel relies on the check against
 * recursion that kprobes have, and uprobes do not have it. With a preemptible kernel, two tasks
 * whose programs run on one CPU at the same time overwrite each other's frames, and the kernel
 * panics (seen with 7.2.12). A program with a tail call in it never gets such a stack, even if the
 * call is never made. Every uprobe's program begins with this. `programs` stays empty; since 6.18
 * all programs that name such a map must be attached in the same way. */
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
