/* SPDX-License-Identifier: BSD-2-Clause */
/* /proc/PID/smaps: what of each mapping is resident. Read as it comes, for there may be a million
 * of them: one mapping and one line are all that is held at a time. */
#ifndef MEMTRACE_PROC_SMAPS_H
#define MEMTRACE_PROC_SMAPS_H

#include <stdint.h>
#include <sys/types.h>

#include "proc/maps.h"

struct smaps_entry {
	struct map_entry map; /* its path is good until the callback returns */
	/* Bytes, none of them more than the mapping has: */
	uint64_t rss;	    /* resident, shared pages in full */
	uint64_t anonymous; /* of these, pages that belong to no file */
	uint64_t huge;	    /* of these, in transparent huge pages */
	uint64_t swap;	    /* swapped out: not resident */
	uint64_t hugetlb;   /* reserved huge pages: not in rss */
};

/* Told of each mapping, ascending by address. Not 0 ends the reading. */
typedef int (*smaps_fn)(void *ctx, const struct smaps_entry *entry);

/* Reads smaps' text from fd to its end. A mapping whose head is not of the kernel's form, or goes
 * back in addresses, is passed over; it and each number that cannot be are counted in *ret_skipped.
 * 0, what fn returned, or negative errno. */
int smaps__read_fd(int fd, smaps_fn fn, void *ctx, uint64_t *ret_skipped);

/* The same of a process. -ESRCH: there is none (any more). */
int smaps__read(pid_t pid, smaps_fn fn, void *ctx, uint64_t *ret_skipped);

#endif
