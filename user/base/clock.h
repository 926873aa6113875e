/* SPDX-License-Identifier: BSD-2-Clause */
/* The kernel's clocks in nanoseconds. */
#ifndef MEMTRACE_BASE_CLOCK_H
#define MEMTRACE_BASE_CLOCK_H

#include <stdint.h>
#include <time.h>

/* Returns the time that `clock` (CLOCK_MONOTONIC, CLOCK_REALTIME) shows, in nanoseconds. */
static inline uint64_t clock__now_ns(clockid_t clock)
{
	struct timespec ts;

	clock_gettime(clock, &ts);
	return (uint64_t)ts.tv_sec * 1000000000 + (uint64_t)ts.tv_nsec;
}

static inline double clock__monotonic_s(void)
{
	return (double)clock__now_ns(CLOCK_MONOTONIC) / 1e9;
}

#endif
