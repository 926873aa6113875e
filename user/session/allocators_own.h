/* SPDX-License-Identifier: BSD-2-Clause */
/* Memory that a traced allocator takes from the kernel to give out as blocks. These blocks are
 * counted as the heap, so the regions are not growth of their own. */
#ifndef MEMTRACE_SESSION_ALLOCATORS_OWN_H
#define MEMTRACE_SESSION_ALLOCATORS_OWN_H

#include "session/build.h"

/* Marks the sites by which a traced allocator takes memory from the kernel: they belong to the
 * heap. Also marks the sites that map arenas for a pool that is not probed: which code happens to
 * need the next arena says nothing about who holds the pool's blocks. profile: of regions, with
 * names. */
void allocators_own__mark_sites(const struct build *build, struct profile *profile);

/* Returns how many bytes the allocator of a stack's blocks keeps in front of each: 0, or 8 (glibc,
 * or not known). profile: has its mappings; need not be sorted. */
double allocators_own__header(const struct build *build, const struct profile *profile,
			      const struct abi_stack_key *stack);

/* Marks the pieces of the resident set that belong to the heap. profile: of regions, sorted. */
void allocators_own__mark_pieces(const struct build *build, const struct profile *profile);

#endif
