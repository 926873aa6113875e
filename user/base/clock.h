/* SPDX-License-Identifier: BSD-2-Clause */
/* The kernel's clocks in nanoseconds. */
#ifndef MEMTRACE_BASE_CLOCK_H
#define MEMTRACE_BASE_CLOCK_H

#include <stdint.h>
#include <time.h>

/* Returns a time in nanoseconds. */
static inline uint64_t clock__to_ns(const struct timespec *time)
{
	return (uint64_t)time->tv_sec * 1000000000 + (uint64_t)time->tv_nsec;
}

/* Returns the time that `clock` (CLOCK_MONOTONIC, CLOCK_REALTIME) shows, in nanoseconds. */
static inline uint64_t clock__now_ns(clockid_t clock)
{
	struct timespec ts;

	clock_gettime(clock, &ts);
	return clock__to_ns(&ts);
}

static inline double clock__monotonic_s(void)
{
	return (double)clock__now_ns(CLOCK_MONOTONIC) / 1e9;
}

#endif
