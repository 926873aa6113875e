/* SPDX-License-Identifier: GPL-2.0-only */
/* Which process a call belongs to. The kernel keeps our note on a process with the task of its main
 * thread, so that no pid that is used again, and no exec, fork or exit, can mix two of them up. */
#ifndef MEMTRACE_BPF_PROCESS_BPF_H
#define MEMTRACE_BPF_PROCESS_BPF_H

#include "abi.h"
#include "compat.bpf.h"
#include "maps.bpf.h"

/* The note on a task's process; NULL: it is not traced. */
static __always_inline struct abi_process *process_of(struct task_struct *task)
{
	struct task_struct *leader = task->group_leader;

	return leader ? bpf_task_storage_get(&processes, leader, NULL, 0) : NULL;
}

static __always_inline struct abi_process *process_current(void)
{
	return process_of(bpf_get_current_task_btf());
}

#endif
