/* SPDX-License-Identifier: BSD-2-Clause */
/* Pointers to blocks that are younger than the list of blocks.
 *
 * A process that runs gives out blocks while it is scanned: after the blocks were found, and before
 * the pointers to them are read. The head of a list that grows is always such a block. If it were
 * not followed, the whole list would seem to be lost, in every scan.
 *
 * A pointer to memory of the heap that holds no known block either leads to such a late block, or
 * is stale: its block was freed. A stale pointer mostly was there in the scan before, too. A late
 * block of the scan before is a known block by now. So only those values are followed that the scan
 * before has not seen. Content of freed memory counts only where a pointer to it is new. */
#ifndef MEMTRACE_HEAP_LATE_H
#define MEMTRACE_HEAP_LATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/table.h"
#include "heap/blocks.h"

struct image;

#define LATE_VALUES (1u << 20) /* different ones, and pointers to follow; more are only counted */
#define LATE_VISITS (1u << 18) /* late blocks that are followed */
#define LATE_WORDS  128	       /* of a late block, from where the pointer leads on */
/* Memory that was mapped after the maps were read lies so near to what the allocator has, bytes. */
#define LATE_NEAR (256ULL << 20)

/* A pointer that is to be followed. */
struct late_pointer {
	uint64_t value;
	uint32_t from; /* what leads there: as in parents of struct reach, 0: a root */
};

struct late_values {
	uint64_t *list; /* each once */
	size_t n, room;
	struct table by_value;
};

/* All zero but before: nothing seen yet. Free with late__clear(). */
struct late {
	/* What the scan before has seen: ascending, the caller's. NULL: this is the first scan, and
	 * nothing is followed. */
	const uint64_t *before;
	size_t n_before;

	struct late_values seen;    /* in this scan */
	struct late_values visited; /* values that were followed */
	struct late_pointer *pointers;
	size_t n_pointers, pointers_room;
	uint64_t beyond; /* pointers that found no room */
};

/* Does the value lead to memory of an allocator, or near to it, in which no block is known? The
 * caller knows that no block in use holds it. */
bool late__may_be(const struct image *image, const struct blocks *blocks, uint64_t value);

/* Notes such a value. 1: it is to be followed; 0; -ENOMEM. */
int late__note(struct late *late, uint64_t value);
/* Adds it to the pointers. 0 or -ENOMEM. */
int late__follow(struct late *late, uint64_t value, uint32_t from);

/* Reads the words that a value leads to: at most LATE_WORDS, none if it was visited before or if
 * nothing is resident there. Returns how many; -ENOMEM; image__spent(). */
int late__visit(struct late *late, struct image *image, uint64_t value, uint64_t *words);

/* Sorts late->seen.list, ascending. Nothing can be noted any more. */
void late__sort(struct late *late);
void late__clear(struct late *late);

#endif
