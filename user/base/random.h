/* SPDX-License-Identifier: BSD-2-Clause */
/* Random numbers of a seeded sequence, for sampling and delays. An attacker who knows some of the
 * numbers can compute the others, so they protect nothing. */
#ifndef MEMTRACE_BASE_RANDOM_H
#define MEMTRACE_BASE_RANDOM_H

#include <stdint.h>

/* Maps each number to another one, whose bits look random. Source of both functions: splitmix64
 * (Steele, Lea, Flood, "Fast splittable pseudorandom number generators", 2014). */
static inline uint64_t random__mix(uint64_t x)
{
	x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9ULL;
	x = (x ^ x >> 27) * 0x94d049bb133111ebULL;
	return x ^ x >> 31;
}

/* Returns the next number of a sequence. *state: at first any number, the seed. */
static inline uint64_t random__next(uint64_t *state)
{
	return random__mix(*state += 0x9e3779b97f4a7c15ULL);
}

/* Like random__next(), but returns a number in [0, 1). */
static inline double random__unit(uint64_t *state)
{
	return (double)(random__next(state) >> 11) * 0x1p-53;
}

#endif
