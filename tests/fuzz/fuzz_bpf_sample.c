// SPDX-License-Identifier: BSD-2-Clause
/* Compares the kernel side's sampler, and its fixed-point arithmetic, with the C library's floating
 * point. */
#include "fuzz.h"

#include <math.h>

#include "abi.h"
#include "sample.bpf.h"

static uint32_t drawn;

__u32 random_u32(void)
{
	return drawn;
}

long read_user_u64(__u64 *dst, __u64 addr)
{
	(void)dst;
	(void)addr;
	return -1;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct fuzz_input in = {data, data + size};
	uint64_t bytes = fuzz_take(&in, 8), interval = fuzz_take(&in, 4) + 1;
	int64_t until = (int64_t)fuzz_take(&in, 8), step = bytes ? (int64_t)bytes : 1, distance;
	struct abi_process_cpu cpu = {.until_sample = until, .drawn_for = interval};
	double p, want, got;
	bool taken;

	drawn = (uint32_t)fuzz_take(&in, 4);
	distance = draw_distance(interval);
	want = -(double)interval * log((drawn + 1.0) / 4294967296.0);
	require(distance >= 1);
	require(fabs((double)distance - want) <= 1.001 + 4e-6 * (double)interval);

	if (bytes >> 62)
		return 0;
	/* Only nested probes bring a countdown below zero, each by one allocation. So the countdown
	 * is never near the lowest number of its type. */
	if (until < -(INT64_MAX / 4))
		until = cpu.until_sample = -(INT64_MAX / 4);
	taken = sample_take(&cpu, bytes, interval);
	if (interval > 1) {
		require(taken == (until > 0 && until <= step));
		require(cpu.until_sample == (taken ? distance : until - step));
	} else {
		require(taken);
	}

	p = -expm1(-(double)step / (double)interval);
	want = interval == 1 ? 1 : 1 / p;
	got = (double)weight_q16(bytes, interval) / 65536;
	require(got >= 1 && fabs(got - want) < 1.5 / 65536 + 4e-6 * want);
	want = interval == 1 ? (double)bytes : (double)bytes / p;
	got = (double)weighted_bytes(bytes, weight_q16(bytes, interval));
	require(fabs(got - want) < 1 + (double)bytes / 65536 * 1.5 + 4e-6 * want);
	return 0;
}
