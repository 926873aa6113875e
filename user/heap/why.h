/* SPDX-License-Identifier: BSD-2-Clause */
/* Why blocks of a process still exist: they are lost for good, or somebody holds them. The process
 * is scanned several times, from outside (scan.h). The first scan is a full one, which marks all
 * reachable blocks (reach.h). The following scans search for pointers to the blocks that the first
 * one did not reach (recheck.h). If they find pointers to blocks that were asked for, one more full
 * scan tells who holds these blocks. rounds.h decides how many scans are made. If a scan fails
 * after the least number of scans was made, the search ends with the list of the earlier scans. */
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
#include "heap/scan.h"
#include "sandbox/stream.h"

#define WHY_APART_S   0.5
#define WHY_MAX_ADDRS 4096
#define WHY_MAX_PATHS 1000	 /* at most this many paths are reported */
#define WHY_MAX_TYPES 1024	 /* at most this many classes of blocks on paths are named */
#define WHY_MAX_LOST  (4u << 20) /* at most this many lost blocks are listed; others are counted */

/* Which blocks are asked for. All zero: none, and only lost blocks are reported. */
struct why_choice {
	const uint64_t *addrs; /* addresses of blocks, or of bytes within them */
	/* the requested size of each block. A block counts only if it begins at the address and is
	 * not smaller than this size. NULL: no such condition */
	const uint64_t *sizes;
	size_t n_addrs;
	uint64_t size; /* asks for the blocks of one usable size: the smallest that is at least
			* this; 0: none */
	/* addresses in vtables, ascending. Blocks whose first word is one of these addresses are
	 * asked for: objects of C++ classes */
	const uint64_t *vtables;
	size_t n_vtables;
};

struct why_options {
	struct why_choice choice;
	unsigned int scans; /* `least` of rounds__begin(); 0: ROUNDS_LEAST */
	/* time from the beginning of a scan to the beginning of the next one; 0: WHY_APART_S */
	double apart_s;
	double patience_s; /* time limit for one scan; 0: SCAN_PATIENCE_S */
	/* time limit for all scans; 0: no limit. A scan that would probably end after this time is
	 * the last scan, if at least `scans` scans are then made */
	double within_s;
	uint64_t max_memory; /* memory of the child, bytes; 0: SCAN_MAX_MEMORY */
	struct scan_pace pace;

	/* Adds what is known of the threads' registers when a scan begins. 0, or negative errno:
	 * why.registers becomes false. NULL: nothing is known. */
	int (*registers)(pid_t pid, struct root_threads *threads, void *ctx);
	/* Called before each scan. True: why__run() ends with -ECANCELED. NULL: why__run() cannot
	 * be cancelled. */
	bool (*cancelled)(void *ctx);
	/* Stops the process for at most this time, for one exact scan (proc/freeze.h). Then
	 * `scans`, `registers` and `pace` are ignored. 0: the process runs. */
	unsigned int freeze_ms;
	void *ctx;
	/* called while a scan runs; NULL: nothing is called */
	const struct stream_waiting *waiting;
};

/* What became of a block that was asked for. */
enum why_verdict {
	WHY_HELD, /* a root leads to it */
	WHY_LOST, /* no root led to it in any scan */
	/* the last full scan did not reach it. But another scan found a pointer to it, or it has
	 * changed, or the list of lost blocks had no room for it */
	WHY_IN_DOUBT,
	WHY_MISSING, /* no block in use is at the address */
	WHY_VERDICTS
};

/* Numbers of a result. From the last scan: quality, arenas, blocks in use, roots, unread bytes and
 * swapped bytes. From all scans: lost blocks, and the members whose comments say so. From the last
 * full scan: unreached blocks and pointers. From the last scan that followed paths: the blocks that
 * were asked for. */
struct why_sums {
	struct heap_quality quality[HEAP_ALLOCATORS];
	uint64_t arenas[HEAP_ALLOCATORS];
	/* why blocks may be missing: image__stopped(); 0: none were missing in any scan */
	int stopped;
	uint64_t blocks, bytes;	   /* number and usable bytes of the blocks in use */
	uint64_t lost, lost_bytes; /* number and bytes of the blocks that no scan reached */
	uint64_t lost_beyond;	   /* blocks that seem lost, but for which the list had no room */
	uint64_t unreached;	   /* blocks that the last full scan did not reach */
	/* rounds__unsettled(). If it is not 0, the list may contain blocks that are not lost. */
	uint64_t unsettled;
	uint64_t pointers; /* stored pointers between blocks */
	/* in all scans: pointers to late blocks (late.h) for which there was no room */
	uint64_t late_beyond;
	uint64_t root_bytes;
	uint64_t unread_bytes;	/* bytes of roots and blocks that could not be read */
	uint64_t swapped_bytes; /* bytes of roots and of the heap that are swapped out; the scans do
				 * not see pointers in these bytes */
	uint64_t table_bytes;	/* memory of the tables, in the scan with the largest tables */
	/* blocks that were asked for; WHY_MISSING: addresses without a block */
	uint64_t chosen[WHY_VERDICTS], chosen_bytes[WHY_VERDICTS];
	/* usable size of the blocks that why_choice.size chooses; 0: there are none */
	uint64_t chosen_size;
	uint64_t unread_epolls; /* epoll descriptors whose data were not read */
	uint64_t no_path; /* how many chosen blocks have a path that is too long to be followed */
};

/* If more than this share of the heap's bytes could not be followed, nothing is called lost. */
#define WHY_MAX_UNFOLLOWED 0.02

/* Returns how many bytes of the heap could not be followed: bytes that were skipped or not read,
 * and bytes that the allocator counts but the scan did not find. If slabs disagree with their own
 * counts, all bytes that the scan found are added. */
uint64_t why_sums__unfollowed(const struct why_sums *sums);

/* A block that was asked for, and the path by which a root holds it. */
struct why_path {
	uint64_t addr, size;
	struct path path;
};

/* What became of the block at an address that was asked for. */
struct why_block {
	uint64_t addr, size; /* address and usable size of the block; WHY_MISSING: 0 */
	enum why_verdict verdict;
};

/* Free with why__clear(). */
struct why {
	struct why_sums sums;
	unsigned int scans;
	double scan_s;	/* time of the longest scan */
	double pause_s; /* how long the process was stopped; 0: it was not */
	double seconds; /* time of all scans, with the pauses between them */
	/* threads that ran in the last scan; their whole stacks were roots */
	size_t threads_running;
	bool registers; /* the registers of threads were known */

	struct leak_group *groups; /* in descending order of bytes */
	size_t n_groups;
	struct why_path *paths; /* paths to some of the blocks that were asked for and are held */
	size_t n_paths;
	/* C++ classes of the blocks on the paths. If a class's `vtable` equals the `word` of a step
	 * (heap/paths.h), the blocks of the step are of this class. The counts of struct
	 * census_type are not set. */
	struct census_type *types;
	size_t n_types;
	struct why_block *blocks; /* one for each of why_choice.addrs, in their order */
	size_t n_blocks;
	/* the maps and the threads of the last scan that followed paths, which are needed to name
	 * roots */
	struct maps maps;
	struct thread_state *threads;
	size_t n_threads;
};

/* Finds out why blocks of pid still exist. 0; -ESRCH; -ENOENT: no allocator that can be read;
 * -ETIMEDOUT; -ECANCELED; other negative errno, with the reason in err. */
int why__run(pid_t pid, const struct why_options *options, struct why *ret, struct error *err);
void why__clear(struct why *why);

#endif
