/* SPDX-License-Identifier: BSD-2-Clause */
/* Memory that a traced allocator takes from the kernel to give out as blocks. These blocks are
 * counted as the heap, so the growth of the regions that hold them is not counted again. */
#ifndef MEMTRACE_SESSION_ALLOCATORS_OWN_H
#define MEMTRACE_SESSION_ALLOCATORS_OWN_H

#include "session/build.h"

/* Marks the sites by which a traced allocator takes memory from the kernel: they belong to the
 * heap. Also marks the sites that map arenas for a pool that is not probed. The stacks of these
 * sites say little: the code that happens to need the next arena is often not the code that holds
 * the pool's blocks. profile: a profile of regions, with names. */
void allocators_own__mark_sites(const struct build *build, struct profile *profile);

/* Returns how many bytes the allocator of a stack's blocks keeps in front of each block: 0, or 8
 * (glibc, functions that the user named, or an allocator that is not known). profile: must have its
 * mappings, but need not be sorted. */
double allocators_own__header(const struct build *build, const struct profile *profile,
			      const struct abi_stack_key *stack);

/* Marks the pieces of the resident set that belong to the heap. profile: a sorted profile of
 * regions. */
void allocators_own__mark_pieces(const struct build *build, const struct profile *profile);

#endif
