/* SPDX-License-Identifier: BSD-2-Clause */
/* The heap of jemalloc 5.1 to 5.3, read from its structures in memory. No symbol is needed.
 * Layouts: include/jemalloc/internal/rtree.h, edata.h, bitmap.h and sc.h of jemalloc. Blocks in
 * thread caches look like blocks in use: see jemalloc_caches.h. */
#ifndef MEMTRACE_HEAP_JEMALLOC_H
#define MEMTRACE_HEAP_JEMALLOC_H

#include "heap/blocks.h"
#include "heap/find.h"
#include "heap/image.h"

/* Adds the spans of all slabs, large extents and free extents, before blocks__finish(). Sets
 * found->classes. alone: no slabs, and no records of extents. 0, also if there is no jemalloc or
 * the time is over; -ENOMEM. */
int jemalloc__find(struct image *image, struct blocks *blocks, bool alone,
		   struct heap_found *found);

/* The size classes of a build. --with-lg-quantum=3 makes classes in steps of 8 bytes up to 64
 * bytes. Redis and Valkey contain a jemalloc that was built with this option. */
struct jemalloc_classes {
	uint64_t quantum; /* bytes: 16 or 8 */
	uint32_t n;	  /* how many classes there are; a record without a block has this number as
			   * its class */
	uint32_t n_slab;  /* the first n_slab classes have slabs: those below 16 KiB */
};

/* Returns how many bytes a block of a size class has. number: jemalloc's number of the class, from
 * 0 on. */
uint64_t jemalloc__size_of(const struct jemalloc_classes *classes, uint64_t number);

#endif
