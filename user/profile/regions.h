/* SPDX-License-Identifier: BSD-2-Clause */
/* The memory that a process has mapped and still holds: ranges of addresses that do not overlap,
 * each with the stack and the thread that mapped it. */
#ifndef MEMTRACE_PROFILE_REGIONS_H
#define MEMTRACE_PROFILE_REGIONS_H

#include <stddef.h>
#include <stdint.h>

/* Kinds of memory: X(enumerator, name). */
#define REGION_KINDS(X)                                                                            \
	X(ANONYMOUS, "anonymous")                                                                  \
	X(FILE, "file")                                                                            \
	X(STACK, "stack")     /* MAP_STACK: a thread's */                                          \
	X(HUGETLB, "hugetlb") /* MAP_HUGETLB */                                                    \
	X(BRK, "brk")                                                                              \
	X(OTHER, "other") /* what mremap added to a mapping from before the run */

enum region_memory {
#define X(id, name) REGION_OF_##id,
	REGION_KINDS(X)
#undef X
		REGION_MEMORY_KINDS
};

/* "anonymous", ... */
const char *region_memory__name(enum region_memory kind);

struct region {
	uint64_t start, end; /* addresses, end exclusive; not empty */
	uint32_t site;	     /* who mapped it: a number that the caller chooses */
	uint32_t tid;	     /* thread that mapped it */
	enum region_memory kind;
};

/* All zero: an empty map. */
struct regions {
	struct region *at; /* ascending by start; neighbours are not joined */
	size_t n, room;
};

void regions__free(struct regions *regions);

/* Removes the addresses [start, end). Regions inside are removed. Regions that cross start or end
 * are cut or split. cut (may be NULL): the removed parts are appended to it, ascending. 0; -ENOMEM:
 * nothing has changed. */
int regions__remove(struct regions *regions, uint64_t start, uint64_t end, struct regions *cut);

/* Inserts a region, and removes or cuts older regions that it overlaps, as the kernel does. 0;
 * -EINVAL: the region is empty; -ENOMEM: the region is not inserted, but older ones in its range
 * may be gone. */
int regions__insert(struct regions *regions, const struct region *region);

/* Index of the first region that ends above addr; the number of regions if none does. */
size_t regions__first_above(const struct regions *regions, uint64_t addr);

/* The region that holds addr, or NULL. */
const struct region *regions__find(const struct regions *regions, uint64_t addr);

#endif
