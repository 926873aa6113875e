/* SPDX-License-Identifier: BSD-2-Clause */
/* Finds jemalloc's thread caches. jemalloc counts a block in a cache as allocated, but the program
 * has freed the block. */
#ifndef MEMTRACE_HEAP_JEMALLOC_CACHES_H
#define MEMTRACE_HEAP_JEMALLOC_CACHES_H

#include "heap/blocks.h"
#include "heap/find.h"

/* Marks the blocks in thread caches as free. If the slots of a cache are in a SPAN_SINGLE, turns
 * this span into a SPAN_OWN. `blocks` must be finished, and have jemalloc's blocks.
 * found->quality[HEAP_JEMALLOC].thread_caches counts the caches that were found. */
void jemalloc__free_cached(struct image *image, struct blocks *blocks, struct heap_found *found);

#endif
