/* SPDX-License-Identifier: GPL-2.0-only */
/* Which process a call belongs to. The kernel keeps memtrace's note on a process (struct
 * abi_process) with the task of the process's main thread. So two processes are never mixed up,
 * even if a pid is used again, and whatever execs, forks and exits there are. */
#ifndef MEMTRACE_BPF_PROCESS_BPF_H
#define MEMTRACE_BPF_PROCESS_BPF_H

#include "abi.h"
#include "compat.bpf.h"
#include "maps.bpf.h"

/* Returns the note on a task's process; NULL: the process is not traced. */
static __always_inline struct abi_process *process_of(struct task_struct *task)
{
	struct task_struct *leader = task->group_leader;

	return leader ? bpf_task_storage_get(&processes, leader, NULL, 0) : NULL;
}

static __always_inline struct abi_process *process_current(void)
{
	return process_of(bpf_get_current_task_btf());
}

/* Gives the row of counters on this CPU to the process. false: the process has been dropped, and
 * the row has another owner, or none. If a process is dropped while a BPF program is about to count
 * for it, this program can still give the row to the dropped process. The next call of the row's
 * owner corrects that. */
static __noinline bool claim_row(struct abi_process_cpu *cpu, __u32 process)
{
	__u32 row = process & process_rows;
	__u32 *owner = bpf_map_lookup_elem(&row_owners, &row);

	if (!owner || *owner != process)
		return false;
	cpu->process = process;
	return true;
}

/* Returns a process's counters on this CPU; NULL: the process has been dropped. */
static __always_inline struct abi_process_cpu *process_cpu(__u32 process)
{
	__u32 row = process & process_rows;
	struct abi_process_cpu *cpu = row ? bpf_map_lookup_elem(&process_cpus, &row) : NULL;

	if (cpu && cpu->process != process && !claim_row(cpu, process))
		return NULL;
	return cpu;
}

/* Returns what the process held at its peak. */
static __always_inline struct abi_peak *process_peak(__u32 process)
{
	__u32 row = process & process_rows;

	return bpf_map_lookup_elem(&peaks, &row);
}

#endif
