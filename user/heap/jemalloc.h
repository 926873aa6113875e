/* SPDX-License-Identifier: BSD-2-Clause */
/* The heap of jemalloc 5.2 and 5.3, read from its structures in memory. No symbol is needed.
 * Layouts: include/jemalloc/internal/rtree.h, edata.h, bitmap.h and sc.h of jemalloc. Blocks in
 * thread caches look like blocks in use: see jemalloc_caches.h. */
#ifndef MEMTRACE_HEAP_JEMALLOC_H
#define MEMTRACE_HEAP_JEMALLOC_H

#include "heap/blocks.h"
#include "heap/find.h"
#include "heap/image.h"

/* Adds the spans of all slabs, large extents and free extents, before blocks__finish(). alone: no
 * slabs, and no records of extents. 0, also if there is no jemalloc or the time is over;
 * -ENOMEM. */
int jemalloc__find(struct image *image, struct blocks *blocks, bool alone,
		   struct heap_found *found);

/* Returns how many bytes a block of a size class has. number: jemalloc's number of the class, from
 * 0 on. */
uint64_t jemalloc__size_of(uint64_t number);

#endif
