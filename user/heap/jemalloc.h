/* SPDX-License-Identifier: BSD-2-Clause */
/* The heap of jemalloc 5.3, as its structures in memory tell; no symbol is needed. Layouts:
 * include/jemalloc/internal/rtree.h, edata.h, bitmap.h and sc.h of jemalloc. Blocks in thread
 * caches look like blocks in use. Only the threads' own stacks of pointers show that they are free,
 * and no pointer leads to these. */
#ifndef MEMTRACE_HEAP_JEMALLOC_H
#define MEMTRACE_HEAP_JEMALLOC_H

#include "heap/blocks.h"
#include "heap/find.h"
#include "heap/image.h"

/* Adds the spans of all slabs and large extents, before blocks__finish(). 0, also where there is no
 * jemalloc or time is over; -ENOMEM. */
int jemalloc__find(struct image *image, struct blocks *blocks, struct heap_found *found);

#endif
