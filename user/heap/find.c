// SPDX-License-Identifier: BSD-2-Clause
#include "heap/find.h"

#include <errno.h>
#include <stdlib.h>

#include "base/vector.h"
#include "heap/glibc.h"
#include "heap/jemalloc.h"

#define EXACT	  64 /* groups of 16 bytes: up to 1 KiB */
#define EXACT_LOG 10

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

uint64_t heap__group_max(size_t group)
{
	size_t over = group - EXACT - 1;

	if (group <= EXACT)
		return group * 16;
	return (1ULL << (EXACT_LOG + over / 4)) / 4 * (5 + over % 4);
}

struct heap_arena *heap_found__add_arena(struct heap_found *found, enum heap_allocator allocator,
					 uint64_t addr)
{
	struct heap_arena *arena;

	if (VECTOR_ADD_ROOM(found->arenas, found->n_arenas))
		return NULL;
	arena = calloc(1, sizeof(*arena));
	if (!arena)
		return NULL;
	arena->allocator = allocator;
	arena->addr = addr;
	found->arenas[found->n_arenas++] = arena;
	return arena;
}

void heap_arena__count(struct heap_arena *arena, enum heap_place place, uint64_t bytes)
{
	struct heap_count *count = &arena->count[place][heap__size_group(bytes)];

	count->blocks++;
	count->bytes += bytes;
}

void heap_found__clear(struct heap_found *found)
{
	for (size_t i = 0; i < found->n_arenas; i++)
		free(found->arenas[i]);
	free(found->arenas);
	*found = (struct heap_found){};
}

int heap__find_blocks(struct image *image, struct blocks *blocks, struct heap_found *ret)
{
	size_t dropped[HEAP_ALLOCATORS] = {};
	int err = glibc__find(image, blocks, ret);

	if (!err)
		err = jemalloc__find(image, blocks, ret);
	if (!err)
		err = blocks__finish(blocks, dropped);
	if (err)
		return err;
	for (int i = 0; i < HEAP_ALLOCATORS; i++)
		ret->quality[i].dropped_spans = dropped[i];
	ret->stopped = image__stopped(image);
	return 0;
}
