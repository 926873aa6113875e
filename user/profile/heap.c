// SPDX-License-Identifier: BSD-2-Clause
#include "profile/heap.h"

#include <math.h>
#include <stdlib.h>

#define EXACT	    64 /* groups of 16 bytes: up to 1 KiB */
#define EXACT_LOG   10
#define MOST_EXCESS 64 /* bytes: heap__may_hold() */
#define BROKEN	    50 /* of n slabs, at most n / BROKEN + 1 may be broken */

const char *heap_allocator__name(enum heap_allocator allocator)
{
	return allocator == HEAP_GLIBC ? "glibc" : "jemalloc";
}

size_t heap__size_group(uint64_t bytes)
{
	unsigned int log;
	size_t group;

	if (bytes <= EXACT * 16)
		return (size_t)(bytes + 15) / 16;
	bytes--;
	log = 63 - (unsigned int)__builtin_clzll(bytes);
	group = EXACT + 1 + (log - EXACT_LOG) * 4 + (size_t)(bytes >> (log - 2) & 3);
	return group < HEAP_SIZES ? group : HEAP_SIZES - 1;
}

bool heap__may_hold(uint64_t usable, uint64_t asked)
{
	return usable >= asked && usable - asked <= asked / 4 + MOST_EXCESS;
}

uint64_t heap__group_max(size_t group)
{
	size_t over = group - EXACT - 1;

	if (group <= EXACT)
		return group * 16;
	return (1ULL << (EXACT_LOG + over / 4)) / 4 * (5 + over % 4);
}

bool heap_quality__slabs_agree(const struct heap_quality *quality)
{
	return quality->broken_slabs <= 1 + quality->slabs / BROKEN;
}

double census__doubt(const struct census *census, enum heap_allocator allocator)
{
	const struct heap_quality *quality = &census->quality[allocator];
	double found = (double)quality->found_bytes, own = (double)quality->own_bytes;
	double skipped = (double)quality->unknown_bytes + (double)quality->absent_bytes;
	double missing = own > found ? own - found : 0, total = fmax(found, own);

	if (!heap_quality__slabs_agree(quality))
		return 1;
	return total > 0 ? fmin((skipped + missing) / total, 1) : 0;
}

void census__clear(struct census *census)
{
	free(census->arenas);
	free(census->types);
	free(census->shapes);
	free(census->rough);
	free(census->shape_of);
	*census = (struct census){};
}

bool heap_slack__adds_up(const struct heap_slack *s)
{
	return s->live <= s->pages && s->whole_free <= s->pages - s->live &&
	       s->free <= s->pages - s->live - s->whole_free && s->trimmable <= s->whole_free;
}
