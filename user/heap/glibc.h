/* SPDX-License-Identifier: BSD-2-Clause */
/* The heap of glibc's malloc, versions 2.31 to 2.43, read from its structures in memory. No symbol
 * is needed, so stripped and static programs can be read, too. Layouts and invariants:
 * malloc/malloc.c and malloc/arena.c of glibc. */
#ifndef MEMTRACE_HEAP_GLIBC_H
#define MEMTRACE_HEAP_GLIBC_H

#include "heap/blocks.h"
#include "heap/find.h"
#include "heap/image.h"

/* Adds the spans of all arenas and mmapped blocks, before blocks__finish(). alone: only mmapped
 * blocks. 0, also if there is no glibc heap or the time is over; -ENOMEM. */
int glibc__find(struct image *image, struct blocks *blocks, bool alone, struct heap_found *found);

#endif
