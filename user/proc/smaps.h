/* SPDX-License-Identifier: BSD-2-Clause */
/* Reads /proc/PID/smaps: how much of each mapping is resident. There may be a million mappings, so
 * only one mapping and a piece of the text are held in memory at a time. */
#ifndef MEMTRACE_PROC_SMAPS_H
#define MEMTRACE_PROC_SMAPS_H

#include <stdint.h>
#include <sys/types.h>

#include "proc/maps.h"

struct smaps_entry {
	struct map_entry map; /* its path is valid until the callback returns */
	/* Bytes; no number is larger than the mapping: */
	uint64_t rss;	    /* resident bytes; shared pages count in full */
	uint64_t anonymous; /* resident bytes in pages that belong to no file */
	uint64_t huge;	    /* anonymous bytes in transparent huge pages */
	uint64_t swap;	    /* bytes that are swapped out, so they are not resident */
	uint64_t hugetlb;   /* resident bytes in reserved huge pages, which `rss` does not
			     * include */
};

/* Called for each mapping, ascending by address. A result other than 0 ends the reading. */
typedef int (*smaps_fn)(void *ctx, const struct smaps_entry *entry);

/* Reads the text of smaps from fd to its end. Skips a mapping if its head is not of the kernel's
 * form, or if it begins below the end of the preceding mapping. *ret_skipped counts these mappings,
 * lines that are too long, a last line without a newline, and all impossible numbers. 0, what fn
 * returned, or negative errno. */
int smaps__read_fd(int fd, smaps_fn fn, void *ctx, uint64_t *ret_skipped);

/* Reads the smaps of a process, as smaps__read_fd() does. -ESRCH: the process does not exist (any
 * more). */
int smaps__read(pid_t pid, smaps_fn fn, void *ctx, uint64_t *ret_skipped);

#endif
