/* SPDX-License-Identifier: GPL-2.0-only */
/* Which allocations are sampled, and what one sample stands for.
 *
 * Points are laid over the stream of allocated bytes by a Poisson process with mean distance R. An
 * allocation is sampled when at least one point falls into it. The distance to the next point is
 * exponential,
 *
 *	X = -R ln(u),	u uniform on (0, 1],
 *
 * and is counted down in bytes. Sizes are whole numbers, so the countdown is a whole number, too.
 * It begins at floor(X) + 1 bytes, for which P(floor(X) + 1 <= z) = P(X < z) = 1 - exp(-z/R)
 * exactly. The Poisson process has no memory. So when an allocation is sampled, its bytes beyond
 * the point are not counted down from the next distance. For the same reason, counters per CPU are
 * as good as counters per thread. The first distance on a CPU is drawn like any other. (A countdown
 * that started at 0 would always sample the first allocation.)
 *
 * BPF has no floating point. Let u = m 2^-32, where m is a random integer in [1, 2^32], and write
 * m = f 2^e with f in [1, 2). Then -ln(u) = (32 - e) ln 2 - ln(f). Counting bits gives e. A table
 * of 257 values joined by straight lines gives ln(f), with an error below (1/256)^2 / 8 = 2e-6. */
#ifndef MEMTRACE_BPF_SAMPLE_BPF_H
#define MEMTRACE_BPF_SAMPLE_BPF_H

#include "abi.h"
#include "compat.bpf.h"
#include "ln_table.h"

#define LN2_Q24 11629080ULL /* ln(2) 2^24 */

/* Returns the position of the highest set bit of x, for x > 0. */
static __always_inline __u32 highest_bit(__u64 x)
{
	__u32 n = 0;

	if (x >> 32) {
		n += 32;
		x >>= 32;
	}
	if (x >> 16) {
		n += 16;
		x >>= 16;
	}
	if (x >> 8) {
		n += 8;
		x >>= 8;
	}
	if (x >> 4) {
		n += 4;
		x >>= 4;
	}
	if (x >> 2) {
		n += 2;
		x >>= 2;
	}
	return n + (__u32)(x >> 1);
}

/* Returns -ln(m 2^-32) with 24 binary places, for m in [1, 2^32]. The result is between 0 and
 * 22.2. */
static __always_inline __u64 neg_ln_q24(__u64 m)
{
	__u32 e = highest_bit(m);
	__u64 f = m << (32 - e); /* [1, 2) with 32 binary places */
	__u32 i = (f >> 24) & 0xff;
	__u64 rest = f & 0xffffff;
	__u64 lo = ln_table_q24[i], hi = ln_table_q24[i + 1];
	__u64 ln_f = lo + (((hi - lo) * rest) >> 24);

	return (32 - e) * LN2_Q24 - ln_f;
}

/* Draws the number of bytes to the next sample. Because interval <= 2^32 (ABI_MAX_INTERVAL), the
 * product fits into 64 bits. */
CHECKED_ONCE __s64 draw_distance(__u64 interval)
{
	return (__s64)((interval * neg_ln_q24((__u64)random_u32() + 1)) >> 24) + 1;
}

/* Counts `size` bytes down, or 1 if `size` is 0. Returns true if this allocation is a sample.
 * Probes on one CPU preempt each other, so the countdown is atomic. If two calls race for the byte
 * at which the countdown ends, exactly one of them gets the sample. */
static __always_inline bool sample_take(struct abi_process_cpu *cpu, __u64 size, __u64 interval)
{
	__s64 step = size ? (__s64)size : 1, before;

	if (interval <= 1)
		return true;
	if (size >> 62) /* an allocation of this size cannot succeed */
		return false;
	/* The rest of a distance that was drawn for another interval means nothing now. So a new
	 * distance is drawn. */
	if (cpu->drawn_for != interval) {
		cpu->until_sample = draw_distance(interval);
		cpu->drawn_for = interval;
	}
	before = __sync_fetch_and_add(&cpu->until_sample, -step);
	if (before <= 0 || before > step)
		return false;
	/* The new distance is set, not added: what is left of the old one is forgotten. */
	cpu->until_sample = draw_distance(interval);
	return true;
}

#define WEIGHT_Q 16

/* Returns the weight 1/p = 1 / (1 - exp(-x)) for x = size / interval, with 16 binary places,
 * rounded.
 *
 * Up to x = 1 the value is computed by the series 1/x + 1/2 + x/12 - x^3/720 + x^5/30240. (This is
 * the expansion of 1/(1 - exp(-x)) with Bernoulli numbers. Up to x = 1, its error is below 1e-6.)
 * Above x = 1 it is computed from exp(-x) = exp(-floor(x)) exp(-frac(x)). The first factor is from
 * a table, the second from its own series. */
CHECKED_ONCE __u64 weight_q16(__u64 size, __u64 interval)
{
	__u64 x, x2, inverse, t, e;
	__u32 whole;

	if (interval <= 1)
		return 1ULL << WEIGHT_Q;
	if (!size)
		size = 1;
	if (size / interval >= 16) /* exp(-16) is below half of 2^-16 */
		return 1ULL << WEIGHT_Q;
	x = (size << 24) / interval; /* 24 binary places; size < 16 * 2^32 */
	if (size <= interval) {
		inverse = (interval << WEIGHT_Q) / size;
		x2 = (x * x) >> 24;
		t = x / 12;
		t -= ((x2 * x) >> 24) / 720;
		t += ((((x2 * x2) >> 24) * x) >> 24) / 30240;
		return inverse + (1ULL << (WEIGHT_Q - 1)) + ((t + 128) >> 8);
	}
	whole = (x >> 24) & 15;
	x &= 0xffffff;
	/* for x in [0, 1), exp(-x) is computed as (exp(-x/4))^4, and exp(-x/4) by six terms of its
	 * series */
	x >>= 2;
	e = 1ULL << 24;
	t = x;
	e -= t;
	t = (t * x) >> 24;
	e += t / 2;
	t = (t * x) >> 24;
	e -= t / 6;
	t = (t * x) >> 24;
	e += t / 24;
	t = (t * x) >> 24;
	e -= t / 120;
	e = (e * e) >> 24;
	e = (e * e) >> 24;
	e = (e * exp_table_q24[whole]) >> 24;
	return ((1ULL << (24 + WEIGHT_Q)) + (((1ULL << 24) - e) >> 1)) / ((1ULL << 24) - e);
}

/* Returns z/p in whole bytes, where z is size and 1/p is weight. */
static __always_inline __u64 weighted_bytes(__u64 size, __u64 weight)
{
	if (weight == 1ULL << WEIGHT_Q)
		return size;
	/* The product is below 2^53, because here size < 16 interval, and z/p <= z + interval. */
	return (size * weight + (1ULL << (WEIGHT_Q - 1))) >> WEIGHT_Q;
}

#endif
