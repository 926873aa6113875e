/* SPDX-License-Identifier: BSD-2-Clause */
/* Divides the resident set into rows that add up to it. Each row comes from measurements of ranges
 * of addresses, and from what the profiles know of these ranges.
 *
 * All rows but two are measured, and each page is in one row. The heap's mappings are measured as
 * one sum, which is divided into two rows. HEAP_LIVE is the heap profile's estimate of blocks that
 * were allocated during the run and are not freed. HEAP is the rest of the sum: the allocator's own
 * memory. If the run did not see the process begin, HEAP also has what was allocated before the
 * run. HEAP has the error of the estimate. It can be negative, because live blocks count with the
 * size that was asked for, but pages count only if they were touched.
 *
 * Who owns a range? A range that a call mapped during the run belongs to the call's stack, which
 * may be an allocator's (profile_site.allocators_own). For older ranges, only two things are known:
 * the name that the kernel shows, and the kind that the caller states (struct resident_piece). An
 * older anonymous mapping belongs to an allocator if a block that the allocator gave out lies in
 * it.
 *
 * A census of the heap (heap/census.h) after the run can divide HEAP into parts. Let L be the row
 * HEAP_LIVE, and S the sum of both heap rows. All other names in the formula are members of struct
 * heap_slack. Then
 *
 *	HEAP = S - L
 *	     = (live - L) + whole_free + free + (pages - live - whole_free - free) + (S - pages).
 *
 * The last part, S - pages, has two causes. Some pages are in no structure of an allocator that the
 * census found. And the heap has changed between the end of the run and the census. */
#ifndef MEMTRACE_PROFILE_RESIDENT_H
#define MEMTRACE_PROFILE_RESIDENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/intern.h"
#include "base/optional.h"
#include "profile/estimate.h"
#include "profile/heap.h"

/* Rows: X(enumerator, name). In the order in which they are shown. */
#define RESIDENT_KINDS(X)                                                                          \
	X(HEAP_LIVE, "heap_live") /* estimated: allocated during the run and not freed */          \
	X(HEAP, "heap")		  /* the rest of the heap's mappings */                            \
	X(MAPPED, "mapped")	  /* mapped by the program during the run, by owner */             \
	X(STACK, "stacks")	  /* of threads */                                                 \
	X(FILE, "file")		  /* by path, with the private pages that were written to */       \
	X(BSS, "bss") /* anonymous, right behind a file's data, and neighbours joined to it */     \
	X(SHARED, "shared")		/* not on a disk: memfd, /dev/shm, MAP_SHARED, System V */ \
	X(EARLIER, "anonymous_earlier") /* anonymous, and nobody was seen to map it */             \
	X(SEVERAL,                                                                                 \
	  "several")	    /* one mapping of several owners, too large to look at page by page */ \
	X(KERNEL, "kernel") /* [vdso] and the like */                                              \
	X(LEFT_OUT, "left_out") /* mappings beyond RESIDENT_MAX_PIECES */

enum resident_kind {
#define X(id, name) RESIDENT_##id,
	RESIDENT_KINDS(X)
#undef X
		RESIDENT_N_KINDS
};

/* "heap_live", ... */
const char *resident_kind__name(enum resident_kind kind);

/* --- what was measured --- */

struct resident_bytes {
	uint64_t rss, anonymous, swap; /* anonymous: part of rss; swap: no part of rss */
	uint64_t mappings;	       /* number of mappings in this sum */
};

/* Adds each figure of `more` to the same figure of `sum`. */
void resident_bytes__add(struct resident_bytes *sum, const struct resident_bytes *more);

#define RESIDENT_NO_SITE    UINT32_MAX
#define RESIDENT_MAX_PIECES (1U << 18)
#define RESIDENT_MAX_NAMES  (4U << 20) /* bytes of all paths; further files get the name "" */

/* A mapping, or the part of a mapping that was mapped by one stack. */
struct resident_piece {
	uint64_t start, end;
	struct resident_bytes bytes;
	/* one of HEAP, MAPPED (with a site), STACK, FILE, BSS, SHARED, EARLIER, SEVERAL, KERNEL */
	enum resident_kind kind;
	uint32_t site; /* who mapped it, the caller's number; RESIDENT_NO_SITE: not known */
	uint32_t name; /* of FILE, BSS, SHARED, EARLIER: number in names */
	bool of_heap;  /* of MAPPED: an allocator mapped it, to give out blocks of it */
};

/* All zero: nothing was measured. */
struct resident_pieces {
	struct resident_piece *at; /* ascending by address; each has something in memory or swap */
	size_t n, room;
	struct resident_bytes left_out; /* sum of further pieces, for which there was no room */
	struct intern names;
	/* VmRSS in /proc/PID/status, read right after smaps; 0: not measured */
	uint64_t vmrss_bytes;
	uint64_t huge_bytes, hugetlb_bytes; /* of all mappings: see proc/smaps.h */
	uint64_t skipped;		    /* lines of smaps that were not understood */
};

void resident_pieces__free(struct resident_pieces *pieces);

/* Adds a piece with a name (NULL: ""). Pieces must come in ascending order of address. Pieces for
 * which there is no room are added up in left_out. */
void resident_pieces__add(struct resident_pieces *pieces, const struct resident_piece *piece,
			  const char *name);

/* --- what it is --- */

struct resident_row {
	enum resident_kind kind;
	/* a path; for MAPPED the owner's frames ("map_cache < main"); "": no name. May contain any
	 * bytes. Owned */
	char *name;
	int64_t bytes; /* resident; of HEAP it can be negative */
	struct interval
		interval; /* of HEAP_LIVE and HEAP, if heap_split; NaN: this end is not known */
	uint64_t anonymous, swap; /* HEAP_LIVE has 0: HEAP has the sum of both rows */
	uint64_t mappings;
};

struct resident {
	struct resident_row *rows; /* by kind, HEAP_LIVE first, then descending by bytes; their
				    * bytes add up to smaps_bytes */
	size_t n;
	int64_t smaps_bytes, vmrss_bytes;
	int64_t heap_bytes; /* of the heap's mappings: the sum of both heap rows */
	/* huge_bytes is a part of smaps_bytes, the other two are not */
	uint64_t swap_bytes, huge_bytes, hugetlb_bytes;
	bool heap_split;    /* the heap was profiled: there is HEAP_LIVE */
	bool heap_windowed; /* the heap was profiled in windows: HEAP_LIVE is an estimate */
	bool from_start;    /* the run saw the process from its start, or from its last exec on */
	bool followed;	    /* memory mapped during the run is listed by owner */
	struct optional stopped_s; /* as in struct profile_regions; not known if not followed */
	uint64_t skipped;
	/* the heap's mappings, ascending, for the census; not in files */
	struct heap_range *ranges;
	size_t n_ranges;
	/* What a census after the run found in these ranges; owned. NULL: no census was made, or it
	 * failed (census_failed) */
	struct heap_slack *census;
	char *census_failed;
};

struct profile;

/* The parts of the row HEAP, by the census. */
enum resident_part {
	RESIDENT_PART_IN_USE,	  /* blocks in use, minus HEAP_LIVE; may be negative */
	RESIDENT_PART_WHOLE_FREE, /* whole free pages */
	RESIDENT_PART_FREE,	  /* free blocks on pages with blocks in use */
	RESIDENT_PART_HEADERS,	  /* headers, and bytes that no block can use */
	RESIDENT_PART_OTHER,	  /* the rest; may be negative */
	RESIDENT_PARTS
};

/* Computes the bytes of each part, which add up to the row HEAP. resident->census must be set. */
void resident__parts(const struct resident *resident, int64_t ret[RESIDENT_PARTS]);

/* resident__take_census() stores what a census of resident->ranges found. resident__fail_census()
 * stores why there was no census. 0 or -ENOMEM. */
int resident__take_census(struct resident *resident, const struct heap_slack *slack);
int resident__fail_census(struct resident *resident, const char *why);

/* Makes *ret, which resident__free() frees. heap, regions: sorted and symbolized profiles, NULL:
 * none; each site of regions has `resident` filled in. blocks: addresses of blocks of the heap,
 * ascending. 0 or -ENOMEM. */
int resident__make(const struct resident_pieces *pieces, const struct profile *heap,
		   const struct profile *regions, const uint64_t *blocks, size_t n_blocks,
		   bool from_start, struct resident **ret);
void resident__free(struct resident *resident);

#endif
