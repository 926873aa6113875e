/* SPDX-License-Identifier: BSD-2-Clause */
/* Pointers to blocks that are younger than the list of blocks.
 *
 * A running process allocates blocks after the list of blocks was made and before the pointers are
 * read. If the program adds to the front of a linked list, the list's head is always such a block.
 * If the scan did not follow this block, the whole linked list would seem lost in every scan.
 *
 * A pointer to heap memory without a known block either leads to such a late block, or is stale:
 * its block was freed. In most cases the previous scan has seen the same stale pointer. A block
 * that was late in the previous scan is a known block in this scan. So a scan follows only values
 * that the previous scan has not seen. The content of freed memory counts only if a new pointer
 * leads to it. */
#ifndef MEMTRACE_HEAP_LATE_H
#define MEMTRACE_HEAP_LATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/table.h"
#include "heap/blocks.h"

struct image;

/* at most this many different values, and at most this many pointers to follow; further pointers
 * are only counted */
#define LATE_VALUES (1u << 20)
#define LATE_VISITS (1u << 18) /* at most this many late blocks are visited */
/* at most this many words of a late block are read, from the pointer's target on */
#define LATE_WORDS 128
/* Bytes. Memory that was mapped after the maps were read may hold late blocks if it is this close
 * to known memory of an allocator. */
#define LATE_NEAR (256ULL << 20)

/* A pointer to follow. */
struct late_pointer {
	uint64_t value;
	/* the block or root that holds the pointer, as in `parents` of struct reach; in a recheck:
	 * 0 */
	uint32_t from;
};

struct late_values {
	uint64_t *list; /* each value once */
	size_t n, room;
	struct table by_value;
};

/* All members but `before` zero: nothing seen yet. Free with late__clear(). */
struct late {
	/* Values that the previous scan has seen, ascending; owned by the caller. NULL: this is the
	 * first scan, and nothing is followed. */
	const uint64_t *before;
	size_t n_before;

	struct late_values seen;    /* values that this scan has seen */
	struct late_values visited; /* values whose targets were visited */
	struct late_pointer *pointers;
	size_t n_pointers, pointers_room;
	uint64_t beyond; /* pointers that were not followed because there was no room */
};

/* Finds the range of addresses from the first span to the last, with their vicinity. A value
 * outside of the range points to no block, known or late. If there are no spans, both results are
 * 0. */
void late__range(const struct blocks *blocks, uint64_t *ret_lowest, uint64_t *ret_highest);

/* May the value point to a late block? Yes, if it points into an allocator's memory. Also yes if it
 * points near an allocator's memory, to an address that is not in the maps or was not accessible.
 * The caller knows that the value points into no block in use. */
bool late__may_be(const struct image *image, const struct blocks *blocks, uint64_t value);

/* If there is room in late->seen, adds a value that may point to a late block. 1: the caller should
 * follow the value; 0: it should not; -ENOMEM. */
int late__note(struct late *late, uint64_t value);
/* Adds a pointer to late->pointers. 0 or -ENOMEM. */
int late__follow(struct late *late, uint64_t value, uint32_t from);

/* Reads the words to which a value points: at most LATE_WORDS. Reads none if the value was visited
 * before, or if the memory is not resident. Returns the number of words, -ENOMEM, or
 * image__spent(). */
int late__visit(struct late *late, struct image *image, uint64_t value, uint64_t *words);

/* Sorts late->seen.list, ascending. late__note() must not be called afterwards. */
void late__sort(struct late *late);
void late__clear(struct late *late);

/* Returns how many bytes of memory the tables of `late` need. */
size_t late__bytes(const struct late *late);

#endif
