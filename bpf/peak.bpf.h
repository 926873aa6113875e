/* SPDX-License-Identifier: GPL-2.0-only */
/* What each site held when the process held most.
 *
 * A process reaches a new height with every other allocation while it grows, and to note at each of
 * them what all of its sites hold would take a walk through the whole table. So nothing is noted
 * then but that there is a new height: they are numbered. A site notes what it holds at its first
 * change after a height, just before that change, with the height's number. In the end what it held
 * at the last height is what it has noted with that number; and where it has noted none, it has not
 * changed since, and holds it still. So a change costs the same however many sites there are, and
 * every sampled allocation is a moment that counts: none falls between two looks.
 *
 * CPUs may overtake each other between the steps: what a site has noted can be wrong by the samples
 * that other CPUs book at that very moment. */
#ifndef MEMTRACE_BPF_PEAK_BPF_H
#define MEMTRACE_BPF_PEAK_BPF_H

#include "abi.h"
#include "compat.bpf.h"

#define PEAK_TRIES 4

/* The site is about to change. */
static __always_inline void peak_before(const struct abi_peak *peak, struct abi_site *site)
{
	__u64 n = peak->n;

	if (site->peak_n == n)
		return;
	site->peak_objects_q16 = site->alloc_objects_q16 - site->freed_objects_q16;
	site->peak_bytes = site->alloc_bytes - site->freed_bytes;
	site->peak_n = n;
}

/* It has: the process holds so many bytes more, or less. */
static __always_inline void peak_after(struct abi_peak *peak, __s64 bytes, __u64 now_ns)
{
	__s64 live = (__s64)__sync_fetch_and_add(&peak->live_bytes, bytes) + bytes;

	/* a lower height of another CPU must not take the place of ours */
	for (int i = 0; i < PEAK_TRIES; i++) {
		__u64 highest = peak->bytes;

		if (live <= (__s64)highest)
			return;
		if (__sync_val_compare_and_swap(&peak->bytes, highest, (__u64)live) != highest)
			continue;
		peak->time_ns = now_ns;
		__sync_fetch_and_add(&peak->n, 1);
		return;
	}
}

/* An exec: what the program before held is gone, and its heights with it. What has not changed
 * since is its. */
static __always_inline void peak_exec(struct abi_peak *peak)
{
	peak->live_bytes = 0;
	peak->bytes = 0;
	peak->time_ns = 0;
	peak->base = __sync_fetch_and_add(&peak->n, 1) + 1;
}

#endif
