/* SPDX-License-Identifier: GPL-2.0-only */
/* What the *.bpf.h headers need from their surroundings. On the host (unit tests, fuzzers) the test
 * includes this header without __bpf__, and defines the same functions. */
#ifndef MEMTRACE_BPF_COMPAT_BPF_H
#define MEMTRACE_BPF_COMPAT_BPF_H

#ifdef __bpf__
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>
#include <bpf/bpf_core_read.h>

/* Marks a function that the verifier checks once, and not again on each path of each caller. Its
 * arguments are numbers, or memory of constant size. The verifier takes the function's result for
 * an arbitrary number. */
#define CHECKED_ONCE __weak __noinline

/* Reads 8 bytes of the target's memory. Returns 0, or a negative number if the page is not
 * there. */
static __always_inline long read_user_u64(__u64 *dst, __u64 addr)
{
	return bpf_probe_read_user(dst, sizeof(*dst), (const void *)addr);
}

static __always_inline long read_user(void *dst, __u32 size, __u64 addr)
{
	return bpf_probe_read_user(dst, size, (const void *)addr);
}

/* Returns the address of the kernel's trampoline in this process. If a function has a return probe,
 * whichever tracer placed it, the kernel redirects the function's return to this address. 0: no
 * function of this process has had a return probe so far. */
static __always_inline __u64 trampoline_addr(void)
{
	struct task_struct *task = (void *)bpf_get_current_task();

	return BPF_CORE_READ(task, mm, uprobes_state.xol_area, vaddr);
}

/* Returns what pthread_self() returns in the running thread. The kernel's copy of the register fs
 * is right if the thread has set fs by a system call or at its start, as C libraries do. */
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
#define CHECKED_ONCE static inline
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

#endif
