/* SPDX-License-Identifier: GPL-2.0-only */
/* Samples that the target has taken itself, and reports through markers (user/elf/stapsdt.h).
 *
 * The target samples as memtrace does (sample.bpf.h). Points lie over its allocated bytes with a
 * mean distance R. An allocation of S bytes with at least one point is a sample. The probability of
 * at least one point is p(S, R) = 1 - exp(-S/R). The target reports the weight W = S / p(S, R)
 * instead of R. memtrace computes R from S and W, and records R with the block, in place of
 * memtrace's interval. From there on the sample is like any other. S and R give the bytes and
 * objects that the sample stands for. They also give the sample's part of the variance, W (W - S) =
 * S^2 (1 - p) / p^2 (profile/estimate.h).
 *
 * If memtrace's own interval I is larger than R, memtrace keeps only a part of the samples: each
 * one with the probability p(S, I) / p(S, R). Then an allocation is recorded with the probability
 * p(S, I), as if memtrace itself had sampled at the interval I. So -i and the limit of overhead
 * mean the same for such a target as for others. But the mean distance of its samples cannot be
 * below R. */
#ifndef MEMTRACE_BPF_MARKER_BPF_H
#define MEMTRACE_BPF_MARKER_BPF_H

#include "abi.h"
#include "compat.bpf.h"
#include "sample.bpf.h"

/* If a reported R is larger than memtrace's interval by at most 1/512, the two count as equal. The
 * reason: W was rounded to whole bytes, and the target may have computed with a rougher
 * logarithm. */
#define MARKER_EQUAL_SHIFT 9

/* Does a sample of this size tell the target's interval well? A block that is many intervals long
 * is almost surely sampled, so its weight is hardly more than its size. The weight is rounded to
 * whole bytes, so such a small difference tells R only roughly. */
static __always_inline bool marker_tells(__u64 size, __u64 interval)
{
	return size < 4 * interval;
}

/* Widens the number in the lowest `bytes` bytes of `raw` to 8 bytes. */
static __always_inline __u64 marker_widen(__u64 raw, __u32 bytes, __u32 is_signed)
{
	__u32 shift = (64 - 8 * bytes) & 63;

	return is_signed ? (__u64)((__s64)(raw << shift) >> shift) : raw << shift >> shift;
}

/* Returns the interval R at which a sample of `size` bytes has the weight `weighted`. 1: each
 * allocation of this size is a sample. The result is at most ABI_MAX_INTERVAL, whatever the target
 * says.
 *
 * Let t = S/R. Up to t = 1, that is for W >= S / (1 - 1/e), the series of weight_q16() gives
 * W = R + S/2 + S t/12 - S t^3/720 + ... So R = W - S/2 - S t/12 + S t^3/720. This equation is
 * solved by iteration: each step divides the error by at least 12. Above t = 1, R follows from
 * t = -ln(1 - S/W). */
CHECKED_ONCE __u64 marker_interval(__u64 size, __u64 weighted)
{
	__u64 rest, start, interval, x, term, cube, u;
	__u32 i;

	if (!size)
		size = 1;
	if (weighted <= size || size >> 40) /* 2^40 bytes: 256 times the largest interval */
		return 1;
	rest = weighted - size;
	if (rest >= ABI_MAX_INTERVAL) /* W - S is at most R */
		return ABI_MAX_INTERVAL;
	if (rest < size / 2 || rest - size / 2 < (size * 21) >> 8) { /* W < 1.582 S */
		u = (rest << 32) / weighted;
		x = u ? neg_ln_q24(u) : 0;
		interval = x ? (size << 24) / x : 1;
	} else {
		start = weighted - size / 2;
		interval = start;
		/* here S < 1.72 (W - S) < 2^33 and S <= R */
		for (i = 0; i < 5; i++) {
			x = (size << 24) / interval;
			term = (size * x) >> 24;
			cube = (((term * x) >> 24) * x) >> 24;
			interval = start - term / 12 + cube / 720;
			if (!interval)
				return 1;
		}
	}
	return interval > ABI_MAX_INTERVAL ? ABI_MAX_INTERVAL : interval ? interval : 1;
}

/* Must the target's sample of `size` bytes be recorded if memtrace's interval is `own`? Sets
 * *ret_interval to the interval that is recorded with the sample. */
static __always_inline bool marker_keep(__u64 size, __u64 weighted, __u64 own, __u64 *ret_interval)
{
	__u64 theirs = marker_interval(size, weighted), wanted;

	if (theirs > own + (own >> MARKER_EQUAL_SHIFT)) {
		*ret_interval = theirs;
		return true;
	}
	*ret_interval = own;
	/* p(S, I) / p(S, R) = W / W', where W' is the weight at memtrace's interval */
	if (weighted < size)
		weighted = size;
	wanted = weighted_bytes(size ? size : 1, weight_q16(size, own));
	if (weighted >= wanted)
		return true;
	/* here size < 16 own, so wanted < 2^37. For a larger size, wanted = size, so the function
	 * has returned above */
	return ((random_u32() >> 8) * wanted) >> 24 < weighted;
}

#endif
