/* SPDX-License-Identifier: GPL-2.0-only */
/* What each site held when the process held the most memory.
 *
 * While a process grows, nearly every allocation is a new peak. Noting at each peak what every site
 * holds would take a walk through the whole table of sites. So a new peak only gets a number. At
 * its first change after a peak, a site notes what it holds just before that change, with the
 * peak's number. In the end, if a site has a note with the number of the last peak, the note tells
 * what the site held at that peak. A site without such a note has not changed since, and still
 * holds what it held at the last peak. So the cost of a change does not depend on the number of
 * sites. Every sampled allocation is examined, so no peak is missed.
 *
 * Another CPU may change the site or the peak between two steps of a CPU. So a site's note can be
 * wrong by the samples that other CPUs count at that moment. */
#ifndef MEMTRACE_BPF_PEAK_BPF_H
#define MEMTRACE_BPF_PEAK_BPF_H

#include "abi.h"
#include "compat.bpf.h"

#define PEAK_TRIES 4

/* Called before the site changes. Notes what the site holds, if the site has no note for the last
 * peak. At the first change after an exec, also notes what the exec has removed: what the site held
 * before. */
static __always_inline void peak_before(const struct abi_peak *peak, struct abi_site *site)
{
	__u64 n = peak->n, objects_q16, bytes;

	if (site->peak_n == n)
		return;
	objects_q16 = site->alloc_objects_q16 - site->freed_objects_q16;
	bytes = site->alloc_bytes - site->freed_bytes;
	/* Reads peak_n again. A CPU writes peak_n before it changes the site's sums. So if the sums
	 * above include another CPU's change, this read returns the peak_n of that CPU. */
	barrier();
	if (site->peak_n < peak->base) {
		site->gone_objects_q16 = objects_q16;
		site->gone_bytes = bytes;
	}
	site->peak_objects_q16 = objects_q16 - site->gone_objects_q16;
	site->peak_bytes = bytes - site->gone_bytes;
	barrier(); /* a CPU that reads the new peak_n also reads what is gone */
	site->peak_n = n;
}

/* Called after the site has changed: the process holds `bytes` more (negative: less). If that is a
 * new peak, gives the peak a number. */
static __always_inline void peak_after(struct abi_peak *peak, __s64 bytes, __u64 now_ns)
{
	__s64 live = (__s64)__sync_fetch_and_add(&peak->live_bytes, bytes) + bytes;

	/* A decrease makes no peak, even if the process holds more than at the last peak. Then
	 * another CPU has just added more, and is about to note the new peak. */
	if (bytes <= 0)
		return;
	/* a lower peak of another CPU must not replace this one */
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

/* Resets the peaks for a new program. What the old program held is gone, and so are its peaks.
 * Sites that have not changed since the exec belong to the old program. */
static __always_inline void peak_exec(struct abi_peak *peak)
{
	peak->live_bytes = 0;
	peak->bytes = 0;
	peak->time_ns = 0;
	peak->base = __sync_fetch_and_add(&peak->n, 1) + 1;
}

#endif
