/* SPDX-License-Identifier: BSD-2-Clause */
/* Pointers to blocks that are younger than the list of blocks.
 *
 * While a running process is scanned, it allocates blocks after the list of blocks was made and
 * before the pointers are read. The head of a growing list is always such a block. If it were not
 * followed, the whole list would seem to be lost in every scan.
 *
 * A pointer to heap memory without a known block either leads to such a late block, or is stale:
 * its block was freed. In most cases the previous scan has seen a stale pointer, too. A late block
 * of the previous scan is a known block in this one. So only values are followed that the previous
 * scan has not seen. Content of freed memory counts only where a pointer to it is new. */
#ifndef MEMTRACE_HEAP_LATE_H
#define MEMTRACE_HEAP_LATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/table.h"
#include "heap/blocks.h"

struct image;

#define LATE_VALUES (1u << 20) /* different values, and pointers to follow; more are only counted */
#define LATE_VISITS (1u << 18) /* late blocks that are followed */
#define LATE_WORDS  128	       /* read of a late block, from the pointer's target on */
/* Bytes from the allocator's known memory within which memory counts that was mapped after the maps
 * were read. */
#define LATE_NEAR (256ULL << 20)

/* A pointer that is to be followed. */
struct late_pointer {
	uint64_t value;
	uint32_t from; /* the block that has it, as in parents of struct reach; 0: a root */
};

struct late_values {
	uint64_t *list; /* each once */
	size_t n, room;
	struct table by_value;
};

/* All members but `before` zero: nothing seen yet. Free with late__clear(). */
struct late {
	/* Values that the previous scan has seen, ascending; owned by the caller. NULL: this is the
	 * first scan, and nothing is followed. */
	const uint64_t *before;
	size_t n_before;

	struct late_values seen;    /* in this scan */
	struct late_values visited; /* values that were followed */
	struct late_pointer *pointers;
	size_t n_pointers, pointers_room;
	uint64_t beyond; /* pointers for which there was no room */
};

/* Is the value an address in an allocator's memory, or near it, where no block is known? The caller
 * knows that the address is in no block in use. */
bool late__may_be(const struct image *image, const struct blocks *blocks, uint64_t value);

/* Notes such a value. 1: follow it; 0: do not; -ENOMEM. */
int late__note(struct late *late, uint64_t value);
/* Adds it to the pointers. 0 or -ENOMEM. */
int late__follow(struct late *late, uint64_t value, uint32_t from);

/* Reads the words to which a value points: at most LATE_WORDS, and none if the value was visited
 * before or the memory is not resident. Returns how many; -ENOMEM; image__spent(). */
int late__visit(struct late *late, struct image *image, uint64_t value, uint64_t *words);

/* Sorts late->seen.list, ascending. After that, nothing can be noted. */
void late__sort(struct late *late);
void late__clear(struct late *late);

#endif
