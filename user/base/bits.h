/* SPDX-License-Identifier: BSD-2-Clause */
/* Bitmaps in words of 64 bits. The caller clears the words first. No function checks that the
 * number of a bit is below the bitmap's size. */
#ifndef MEMTRACE_BASE_BITS_H
#define MEMTRACE_BASE_BITS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Returns how many words n bits need; at least one. */
static inline size_t bits__words(size_t n)
{
	return n / 64 + 1;
}

static inline bool bits__test(const uint64_t *bits, size_t i)
{
	return bits[i / 64] >> i % 64 & 1;
}

static inline void bits__set(uint64_t *bits, size_t i)
{
	bits[i / 64] |= 1ULL << i % 64;
}

static inline void bits__clear(uint64_t *bits, size_t i)
{
	bits[i / 64] &= ~(1ULL << i % 64);
}

/* Returns how many bits of a word are set. x86-64 without extensions has no instruction for this,
 * and the compiler's own function is slower: it looks bytes up in a table. */
static inline uint32_t bits__count(uint64_t word)
{
	word -= word >> 1 & 0x5555555555555555ULL;
	word = (word & 0x3333333333333333ULL) + (word >> 2 & 0x3333333333333333ULL);
	word = (word + (word >> 4)) & 0x0f0f0f0f0f0f0f0fULL;
	return (uint32_t)(word * 0x0101010101010101ULL >> 56);
}

/* Returns the number of the first bit, from number i on, whose value is `wanted`. Returns n if no
 * bit below n has this value. */
static inline size_t bits__next(const uint64_t *bits, size_t i, size_t n, bool wanted)
{
	uint64_t flip = wanted ? 0 : ~0ULL;

	while (i < n) {
		uint64_t word = (bits[i / 64] ^ flip) >> i % 64;

		if (word) {
			i += (size_t)__builtin_ctzll(word);
			return i < n ? i : n;
		}
		i = (i / 64 + 1) * 64;
	}
	return n;
}

#endif
