// SPDX-License-Identifier: GPL-2.0-only
/* What happens to the processes themselves. */
#include "maps.bpf.h"

/* An exec replaces the address space: blocks recorded before it are gone. Probes follow the main
 * thread's task; when another thread makes the exec it takes over the pid, but not the probes. */
SEC("tp_btf/sched_process_exec")
int BPF_PROG(task_exec, struct task_struct *task, int old_pid)
{
	__u32 tgid = task->tgid;
	struct abi_target *target = bpf_map_lookup_elem(&targets, &tgid);

	if (!target)
		return 0;
	target->exec_ns = bpf_ktime_get_ns();
	if ((__u32)old_pid != tgid)
		target->exec_by_thread = 1;
	return 0;
}
