/* SPDX-License-Identifier: BSD-2-Clause */
/* Why blocks of a process are still there: lost for good, or who holds them. Scans the process
 * several times, from outside (scan.h). The first scan is a full one, which marks what can be
 * reached (reach.h). Those that follow look for pointers to what it did not reach (recheck.h). If
 * such pointers are found to blocks that were asked for, one more full scan tells who holds
 * them. How many scans: rounds.h. */
#ifndef MEMTRACE_HEAP_WHY_H
#define MEMTRACE_HEAP_WHY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/error.h"
#include "heap/find.h"
#include "heap/lost.h"
#include "heap/paths.h"
#include "heap/roots.h"
#include "sandbox/stream.h"

#define WHY_APART_S   0.5
#define WHY_MAX_ADDRS 4096
#define WHY_MAX_PATHS 1000	 /* of the blocks asked for: the most whose paths are reported */
#define WHY_MAX_TYPES 1024	 /* classes of blocks on paths; further ones have no name */
#define WHY_MAX_LOST  (4u << 20) /* blocks; more are only counted */

/* Which blocks are asked for. All zero: none, only what is lost is told. */
struct why_choice {
	const uint64_t *addrs; /* of the blocks, or within them */
	/* NULL, or the requested size of each block. Then a block is meant only if it begins at the
	 * address and has at least this size. */
	const uint64_t *sizes;
	size_t n_addrs;
	uint64_t size; /* blocks of the smallest usable size that is at least this; 0: none */
	/* objects of C++ classes: blocks that begin with one of these words, ascending */
	const uint64_t *vtables;
	size_t n_vtables;
};

struct why_options {
	struct why_choice choice;
	unsigned int scans;  /* as in rounds__begin(); 0: ROUNDS_LEAST */
	double apart_s;	     /* between the beginnings of two scans; 0: WHY_APART_S */
	double patience_s;   /* of one scan; 0: SCAN_PATIENCE_S */
	double within_s;     /* after this time no scan begins that is not needed; 0: no limit */
	uint64_t max_memory; /* of the child; 0: SCAN_MAX_MEMORY */

	/* Adds what is known of the threads' registers when a scan begins. 0 or negative errno,
	 * which is told as "registers are not known". NULL: nothing is known. */
	int (*registers)(pid_t pid, struct root_threads *threads, void *ctx);
	/* Asked before each scan; true: give up, -ECANCELED. NULL: never. */
	bool (*cancelled)(void *ctx);
	/* Stops the process for so long at most, for one exact scan (proc/freeze.h); 0: it runs.
	 * Then scans and registers have no meaning. */
	unsigned int freeze_ms;
	void *ctx;
	const struct stream_waiting *waiting; /* NULL: nobody */
};

/* What became of a block that was asked for. */
enum why_verdict {
	WHY_HELD,     /* it has a path */
	WHY_LOST,     /* in all scans no root led to it */
	WHY_IN_DOUBT, /* not reached in the last full scan, but another one found a pointer */
	WHY_MISSING,  /* no block in use is at the address */
	WHY_VERDICTS
};

/* Fixed numbers of a result. Of the last scan: quality, arenas, stopped, blocks in use, roots, what
 * is unread or swapped out. Of all scans: what is lost. The rest is of the last full scan. */
struct why_sums {
	struct heap_quality quality[HEAP_ALLOCATORS];
	uint64_t arenas[HEAP_ALLOCATORS];
	int stopped;		/* why the blocks may not be all: -ETIMEDOUT, -EFBIG; 0: they are */
	uint64_t blocks, bytes; /* in use */
	uint64_t lost, lost_bytes; /* in all scans */
	uint64_t lost_beyond;	   /* lost, as it seems, but not followed: WHY_MAX_LOST */
	uint64_t unreached;	   /* blocks that the last full scan did not reach */
	/* There was no time for more scans, and the last one still took so many blocks off the list
	 * of lost ones. So the list may have held blocks in it. */
	uint64_t unsettled;
	uint64_t pointers;    /* among blocks, that were kept */
	uint64_t late_beyond; /* pointers to younger blocks, for which there was no room */
	uint64_t root_bytes, unread_bytes;
	uint64_t swapped_bytes; /* of roots and of the heap: pointers in them are not seen */
	uint64_t table_bytes;	/* memory that the scan's tables took */
	/* blocks that were asked for; WHY_MISSING: addresses */
	uint64_t chosen[WHY_VERDICTS], chosen_bytes[WHY_VERDICTS];
	uint64_t chosen_size; /* usable size that why_choice.size stands for; 0: there is none */
	uint64_t no_path;     /* chosen blocks whose path is too long to be followed */
};

/* A block that was asked for, and how it is held. */
struct why_path {
	uint64_t addr, size;
	struct path path;
};

/* What became of the block at an address that was asked for. */
struct why_block {
	uint64_t addr, size; /* of the block; WHY_MISSING: 0 */
	enum why_verdict verdict;
};

/* Free with why__clear(). */
struct why {
	struct why_sums sums;
	unsigned int scans;
	double scan_s;		/* the longest scan */
	double pause_s;		/* for which the process was stopped; 0: it was not */
	double seconds;		/* all of them, with the time between */
	size_t threads_running; /* in the last scan: whole stacks were roots */
	bool registers;		/* the registers of threads were known */

	struct leak_group *groups; /* by bytes, descending */
	size_t n_groups;
	struct why_path *paths; /* of some of the held blocks that were asked for */
	size_t n_paths;
	/* C++ classes of blocks on the paths: those whose vtable is a path_step.word; counts are
	 * not set */
	struct census_type *types;
	size_t n_types;
	struct why_block *blocks; /* one for each of why_choice.addrs, in their order */
	size_t n_blocks;
	struct maps maps; /* of the last full scan, to name roots by */
};

/* Looks at pid. 0; -ESRCH; -ENOENT: no allocator that can be read; -ETIMEDOUT; -ECANCELED; other
 * negative errno, with the reason in err. */
int why__run(pid_t pid, const struct why_options *options, struct why *ret, struct error *err);
void why__clear(struct why *why);

#endif
