// SPDX-License-Identifier: BSD-2-Clause
#include "heap/find.h"

#include <stdlib.h>
#include <string.h>

#include "base/vector.h"
#include "heap/glibc.h"
#include "heap/jemalloc.h"
#include "heap/jemalloc_caches.h"
#include "proc/maps.h"

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
	free(found->records);
	*found = (struct heap_found){};
}

static bool has_jemalloc(const struct heap_found *found)
{
	for (size_t i = 0; i < found->n_arenas; i++)
		if (found->arenas[i]->allocator == HEAP_JEMALLOC)
			return true;
	return false;
}

int heap__find_blocks(struct image *image, struct blocks *blocks, bool alone,
		      struct heap_found *ret)
{
	size_t dropped[HEAP_ALLOCATORS] = {};
	int err = glibc__find(image, blocks, alone, ret);

	if (!err)
		err = jemalloc__find(image, blocks, alone, ret);
	if (!err)
		err = blocks__finish(blocks, dropped);
	if (err)
		return err;
	if (has_jemalloc(ret) && !alone)
		jemalloc__free_cached(image, blocks, ret);
	for (int i = 0; i < HEAP_ALLOCATORS; i++)
		ret->quality[i].dropped_spans = dropped[i];
	ret->stopped = image__stopped(image);
	return 0;
}

const char *heap__unread_allocator(const struct maps *maps)
{
	static const struct {
		const char *file, *name;
	} libraries[] = {
		{"/ld-musl-", "musl"},
		{"-linux-musl/libc.so", "musl"},
		{"/libmimalloc", "mimalloc"},
		{"/libtcmalloc", "tcmalloc"},
	};

	for (size_t i = 0; i < maps->n; i++)
		for (size_t k = 0; k < sizeof(libraries) / sizeof(*libraries); k++)
			if (strstr(maps->entries[i].path, libraries[k].file))
				return libraries[k].name;
	return NULL;
}
