/* SPDX-License-Identifier: GPL-2.0-only */
/* The names of threads, and which thread frees blocks of which thread. */
#ifndef MEMTRACE_BPF_THREADS_BPF_H
#define MEMTRACE_BPF_THREADS_BPF_H

#include "abi.h"
#include "compat.bpf.h"
#include "maps.bpf.h"

static __always_inline void note_thread(struct abi_process_cpu *cpu, __u32 process, __u32 tid)
{
	struct abi_thread thread = {.process = process}, *known;

	bpf_get_current_comm(thread.comm, sizeof(thread.comm));
	known = bpf_map_lookup_elem(&threads, &tid);
	if (known && known->process == process && known->comm[0] == thread.comm[0] &&
	    known->comm[1] == thread.comm[1])
		return;
	if (bpf_map_update_elem(&threads, &tid, &thread, BPF_ANY))
		lose(cpu, LOST_THREADS_FULL);
}

/* Counts a sampled block's birth (freer is 0) or end for the pair of owner and freer. */
static __always_inline void note_transfer(struct abi_process_cpu *cpu, __u32 process, __u32 owner,
					  __u32 freer, __u64 weight, __u64 bytes)
{
	struct abi_transfer_key key = {.process = process, .owner = owner, .freer = freer};
	struct abi_transfer *found = bpf_map_lookup_elem(&transfers, &key);

	if (!found) {
		long err = bpf_map_update_elem(&transfers, &key, &no_transfer, BPF_NOEXIST);

		found = bpf_map_lookup_elem(&transfers, &key);
		if (!found) {
			lose_insert(cpu, err, LOST_TRANSFERS_FULL);
			return;
		}
	}
	count(&found->samples, 1);
	count(&found->objects_q16, weight);
	count(&found->bytes, bytes);
}

#endif
