/* SPDX-License-Identifier: GPL-2.0-only */
/* The unwind tables, which user space fills in, and the buffers for walks along stacks. */
#ifndef MEMTRACE_BPF_TABLES_BPF_H
#define MEMTRACE_BPF_TABLES_BPF_H

#include "abi.h"
#include "compat.bpf.h"
#include "unwind.bpf.h"
#include "vma.bpf.h"

/* An unwind table: an array of as many chunks as the table needs. */
struct unwind_table {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_INNER_MAP);
	__uint(max_entries, 1);
	__uint(key_size, sizeof(__u32));
	__uint(value_size, sizeof(struct abi_unwind_chunk));
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY_OF_MAPS);
	__uint(max_entries, ABI_MAX_TABLES);
	__type(key, __u32);
	__array(values, struct unwind_table);
} unwind_tables __weak SEC(".maps");

/* A buffer for the state of a walk; busy: 1 if the buffer is in use. */
struct scratch {
	__u32 busy;
	__u32 pad;
	struct unwind unwind;
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, ABI_SCRATCH);
	__type(key, __u32);
	__type(value, struct scratch);
} scratches __weak SEC(".maps");

#define MAX_RETURN_PROBES 64 /* return probes nested in a thread: the kernel's own limit */

/* Returns the return address that stood at slot in the stack before the kernel replaced it by the
 * trampoline's address. 0: it is not known. */
CHECKED_ONCE __u64 original_return(__u64 slot, __u64 trampoline)
{
	struct task_struct *task = (void *)bpf_get_current_task();
	struct return_instance *instance = BPF_CORE_READ(task, utask, return_instances);
	int i;

	for (i = 0; i < MAX_RETURN_PROBES && instance; i++) {
		__u64 ret = BPF_CORE_READ(instance, orig_ret_vaddr);

		/* if a call has several probes, the later instances hold the trampoline's
		 * address */
		if (BPF_CORE_READ(instance, stack) == slot && ret != trampoline)
			return ret;
		instance = BPF_CORE_READ(instance, next);
	}
	return 0;
}

static __always_inline const struct abi_unwind_chunk *unwind_chunk(__u32 table, __u32 chunk)
{
	void *inner = bpf_map_lookup_elem(&unwind_tables, &table);

	return inner ? bpf_map_lookup_elem(inner, &chunk) : NULL;
}

#endif
