// SPDX-License-Identifier: GPL-2.0-only
/* What happens to the processes themselves. */
#include "maps.bpf.h"

/* An exec replaces the address space: blocks recorded before it are gone. */
SEC("tp_btf/sched_process_exec")
int BPF_PROG(task_exec, struct task_struct *task)
{
	__u32 tgid = task->tgid;
	struct abi_target *target = bpf_map_lookup_elem(&targets, &tgid);

	if (target)
		target->exec_ns = bpf_ktime_get_ns();
	return 0;
}
