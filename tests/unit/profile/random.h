/* SPDX-License-Identifier: BSD-2-Clause */
/* Numbers that are random, and the same in every run. */
#ifndef MEMTRACE_TESTS_RANDOM_H
#define MEMTRACE_TESTS_RANDOM_H

#include <stdint.h>

static uint64_t random_state = 1;

static inline uint64_t random_u64(void) /* splitmix64 (Steele, Lea, Flood 2014) */
{
	uint64_t z = random_state += 0x9e3779b97f4a7c15ull;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ull;
	z = (z ^ z >> 27) * 0x94d049bb133111ebull;
	return z ^ z >> 31;
}

static inline double random_unit(void) /* in (0, 1) */
{
	return ((double)(random_u64() >> 11) + 0.5) * 0x1p-53;
}

#endif
