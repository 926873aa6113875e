/* SPDX-License-Identifier: BSD-2-Clause */
/* The memory of jemalloc's records of extents (struct edata_s; struct extent_s in 5.2). Each record
 * has the address of an extent, which is the address of the extent's first block. So a record looks
 * like a pointer of the program to this block.
 *
 * In 5.3, each arena has arrays of 200 bins for free extents (eset_bin_t). A bin is four words:
 *
 *	word 0	the address of a record; 0: no extent is in the bin
 *	word 1	how many extents wait to be sorted
 *	word 2	the serial number of the first extent
 *	word 3	the address of the first extent
 *
 * The last two words stay in a bin when its last extent is used for blocks. */
#ifndef MEMTRACE_HEAP_JEMALLOC_RECORDS_H
#define MEMTRACE_HEAP_JEMALLOC_RECORDS_H

#include <stddef.h>
#include <stdint.h>

#include "heap/find.h"
#include "heap/image.h"

/* The words of a record that all versions have. */
enum {
	RECORD_BITS,
	RECORD_ADDR,
	RECORD_SIZE,
	RECORD_LINKS = 5, /* three addresses of other records */
	RECORD_BITMAP = 8,
	RECORD_WORDS = 16
};
#define RECORD_BYTES	   (8 * RECORD_WORDS)
#define RECORD_ARENA(bits) ((uint32_t)((bits)&0xfff))

/* Adds the memory of records to found->records, which must be empty. found->classes must be set.
 * at: the addresses of n records to which the tree leads; this function sorts them. szind: the bit
 * of the word RECORD_BITS at which the size class's number begins.
 *
 * When jemalloc merges an extent into another extent, it keeps the record of the merged extent for
 * later use. The tree does not lead to such an unused record, but the record still has the old
 * address. jemalloc allocates records one after the other. So memory directly beside a record is
 * added, too, if it looks like an unused record of the same arena. From an array of bins, only the
 * words that hold addresses of extents are added. The arrays are searched for only in memory that
 * jemalloc mapped for its own use. 0 or -ENOMEM. */
int jemalloc__add_records(struct image *image, uint64_t *at, size_t n, int szind,
			  struct heap_found *found);

#endif
