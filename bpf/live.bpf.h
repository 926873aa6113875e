/* SPDX-License-Identifier: GPL-2.0-only */
/* The table of sampled blocks that are alive, and the sums of the sites that they came from.
 *
 * A free is seen before it happens (probe at its entry), an allocation after it has happened (probe
 * at its return). So when one thread frees an address and another gets it, the old entry is always
 * deleted before the new one is inserted. If the table has a block at the address of a new block,
 * the old block is therefore dead, and its free was not seen. */
#ifndef MEMTRACE_BPF_LIVE_BPF_H
#define MEMTRACE_BPF_LIVE_BPF_H

#include "abi.h"
#include "compat.bpf.h"
#include "filter.bpf.h"
#include "maps.bpf.h"
#include "peak.bpf.h"
#include "process.bpf.h"
#include "sample.bpf.h"
#include "threads.bpf.h"

/* What ended a block. */
enum live_end {
	LIVE_FREED,
	LIVE_MOVED,  /* realloc has replaced the block by another one */
	LIVE_UNSEEN, /* the block's end was not seen */
};

/* The filter must follow the table. So each insertion and each deletion changes both, as these two
 * functions do. */
static __always_inline long live_insert(const struct abi_live_key *key,
					const struct abi_live *block)
{
	long err;

	filter_add(live_filter, key);
	err = bpf_map_update_elem(&live, key, block, BPF_ANY);
	if (err)
		filter_remove(live_filter, key);
	return err;
}

/* Deletes an entry. Returns false if another CPU, or user space, has deleted it first. */
static __always_inline bool live_delete(const struct abi_live_key *key)
{
	if (bpf_map_delete_elem(&live, key))
		return false;
	filter_remove(live_filter, key);
	return true;
}

/* Returns false if the block at addr is surely not in the table. */
static __always_inline bool live_may_hold(__u32 process, __u64 addr)
{
	struct abi_live_key key = {.addr = addr, .process = process};

	return filter_may_hold(live_filter, &key);
}

/* Returns the class of an age: an index into abi_site.ended_objects_q16. */
static __always_inline __u32 age_class(__u64 ns)
{
	__u64 end = ABI_AGE_NS;
	__u32 i;

	for (i = 0; i < ABI_AGES - 1; i++, end *= 10)
		if (ns <= end)
			break;
	return i;
}

/* Counts a block as freed. The caller has deleted the block's entry or made it BIRTH_ENDED. Returns
 * false if exec has replaced the program to which the block belonged: then the block was not
 * freed. */
static __noinline bool live_settle(struct abi_process_cpu *cpu, const struct abi_process *process,
				   const struct abi_live *block, enum live_end how)
{
	struct abi_site_key key = {.stack = block->stack, .process = process->id};
	struct abi_peak *peak = process_peak(process->id);
	struct abi_site *site;
	__u64 weight, bytes;

	if (block->birth_ns < process->exec_ns) {
		lose(cpu, LOST_DROPPED_BY_EXEC);
		return false;
	}
	site = bpf_map_lookup_elem(&sites, &key);
	if (!site)
		return true;
	weight = weight_q16(block->size, block->interval);
	bytes = weighted_bytes(block->size, weight);
	if (peak)
		peak_before(peak, site);
	count(&site->freed_samples, 1);
	count(&site->freed_objects_q16, weight);
	count(&site->freed_bytes, bytes);
	if (peak)
		peak_after(peak, -(__s64)bytes, 0);
	count(&cpu->freed_bytes, bytes);
	if (how != LIVE_UNSEEN) {
		__u32 tid = (__u32)bpf_get_current_pid_tgid();
		__u32 class = age_class(bpf_ktime_get_ns() - block->birth_ns);

		if (class < ABI_AGES)
			count(&site->ended_objects_q16[class], weight);
		note_transfer(cpu, process->id, block->tid, tid, weight, bytes);
		if (tid != block->tid)
			note_thread(cpu, process->id, tid);
	}
	/* Only blocks that were allocated in this window are counted here. A block of an earlier
	 * window may have been freed unseen. Then the block that ends here is a later one at the
	 * same address. */
	if (how != LIVE_UNSEEN && block->birth_ns >= process->window_ns)
		count(how == LIVE_MOVED ? &site->moved_samples : &site->ended_samples, 1);
	return true;
}

/* Reports to user space what was seen at the address of a sampled block, if the process is traced
 * in windows (abi_process.watch). */
static __noinline int live_tell(const struct abi_process *process, const struct abi_live *block,
				__u64 addr, enum abi_end_kind kind)
{
	struct abi_end *end;

	if (!process || !block || !process->watch)
		return 0;
	end = bpf_ringbuf_reserve(&ends, sizeof(*end), 0);
	if (!end) {
		count(&ends_lost, 1);
		return 0;
	}
	end->block = *block;
	end->addr = addr;
	end->time_ns = bpf_ktime_get_ns();
	end->process = process->id;
	end->kind = kind;
	/* user space reads the ring when a window is over: no need to wake it */
	bpf_ringbuf_submit(end, BPF_RB_NO_WAKEUP);
	return 0;
}

/* Returns the name of the present part of the window (abi_process.part). */
static __always_inline __s64 live_part(const struct abi_process *process)
{
	return (__s64)(process->window_ns + process->part);
}

/* Returns the part of a window that a free at this moment belongs to, for abi_live.grown; 0: the
 * free belongs to no part. A window begins some ms after its probes are in place. */
static __always_inline __s64 live_window(const struct abi_process *process)
{
	return bpf_ktime_get_ns() >= process->window_ns ? live_part(process) : 0;
}

/* Reports a free at the address of a block that was freed before, but only once per part of a
 * window. */
static __always_inline void live_free_again(const struct abi_process *process,
					    struct abi_live *ended, __u64 addr)
{
	if (ended->grown == live_part(process) || !live_window(process))
		return;
	ended->grown = live_part(process);
	live_tell(process, ended, addr, END_AGAIN);
}

/* Ends the block at addr, which is about to be freed, if the block is tracked. */
static __always_inline void live_forget(struct abi_process_cpu *cpu,
					const struct abi_process *process, __u64 addr)
{
	struct abi_live_key key = {.addr = addr, .process = process->id};
	struct abi_live *found, block;

	if (!filter_may_hold(live_filter, &key))
		return;
	found = bpf_map_lookup_elem(&live, &key);
	if (!found)
		return;
	if (found->birth == BIRTH_ENDED) {
		live_free_again(process, found, addr);
		return;
	}
	block = *found; /* copied before the deletion: another block may get the entry's memory */
	if (process->watch) {
		found->birth = BIRTH_ENDED;
		found->grown = live_window(process);
	} else if (!live_delete(&key)) {
		return;
	}
	if (live_settle(cpu, process, &block, LIVE_FREED))
		live_tell(process, &block, addr, END_FREED);
}

/* Called when realloc has replaced or freed the block at addr. Keeps the address watched, as after
 * a free. If another sampled block is already there, nothing changes. */
static __always_inline void live_watch_on(const struct abi_process *process, __u64 addr,
					  struct abi_live *block)
{
	struct abi_live_key key = {.addr = addr, .process = process->id};
	__u32 birth = block->birth;
	__s64 grown = block->grown;

	if (!process->watch)
		return;
	block->birth = BIRTH_ENDED;
	block->grown = live_window(process);
	filter_add(live_filter, &key);
	if (bpf_map_update_elem(&live, &key, block, BPF_NOEXIST))
		filter_remove(live_filter, &key);
	block->birth = birth;
	block->grown = grown;
}

static __always_inline void note_high(struct abi_site *site)
{
	__u64 bytes = site->alloc_bytes - site->freed_bytes - site->gone_bytes;
	__u64 objects = site->alloc_objects_q16 - site->freed_objects_q16 - site->gone_objects_q16;

	if ((__s64)bytes > (__s64)site->high_bytes)
		site->high_bytes = bytes;
	if ((__s64)objects > (__s64)site->high_objects_q16)
		site->high_objects_q16 = objects;
}

/* Records that a sampled block now stands at addr. */
static __always_inline void live_remember(struct abi_process_cpu *cpu,
					  const struct abi_process *process, __u64 addr,
					  const struct abi_live *block)
{
	struct abi_site_key site_key = {.stack = block->stack, .process = process->id};
	struct abi_live_key key = {.addr = addr, .process = process->id};
	struct abi_live *found, old;
	struct abi_process_cpu *machine = machine_cpu();
	struct abi_peak *peak = process_peak(process->id);
	struct abi_site *site;
	__u64 weight, bytes;
	long err;

	found = bpf_map_lookup_elem(&live, &key);
	if (found) {
		old = *found;
		live_delete(&key);
		if (old.birth != BIRTH_ENDED && live_settle(cpu, process, &old, LIVE_UNSEEN)) {
			lose(cpu, LOST_FREED_UNOBSERVED);
			live_tell(process, &old, addr, END_UNSEEN);
		}
	}

	site = bpf_map_lookup_elem(&sites, &site_key);
	if (!site) {
		/* If another CPU has inserted the site first, this insertion fails, and that site
		 * is used. */
		err = bpf_map_update_elem(&sites, &site_key, &no_site, BPF_NOEXIST);
		site = bpf_map_lookup_elem(&sites, &site_key);
		if (!site) {
			lose_insert(cpu, err, LOST_SITES_FULL);
			return;
		}
	}
	err = live_insert(&key, block);
	if (err) {
		lose_insert(cpu, err, LOST_LIVE_FULL);
		return;
	}
	weight = weight_q16(block->size, block->interval);
	bytes = weighted_bytes(block->size, weight);
	if (peak)
		peak_before(peak, site);
	count(&site->alloc_samples, 1);
	count(&site->alloc_objects_q16, weight);
	count(&site->alloc_bytes, bytes);
	if (peak)
		peak_after(peak, (__s64)bytes, block->birth_ns);
	count(&cpu->alloc_bytes, bytes);
	count(&cpu->samples, 1);
	note_high(site);
	note_transfer(cpu, process->id, block->tid, 0, weight, bytes);
	if (machine)
		count(&machine->samples, 1);
	if (block->birth == BIRTH_GROWN && block->birth_ns >= process->window_ns) {
		bytes = block->grown < 0 ? -weighted_bytes(-block->grown, weight)
					 : weighted_bytes(block->grown, weight);
		count(&site->grown_samples, 1);
		count(&site->grown_bytes, bytes);
	}
}

#endif
