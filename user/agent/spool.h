/* SPDX-License-Identifier: BSD-2-Clause */
/* Writes the profiles of processes that were killed into a directory. The tracer keeps the limit of
 * overhead and must not wait for a disk. So another process writes, mt-spool, which has no
 * capabilities and none of our descriptors. It continues until all is written, even if the tracer
 * ends first. */
#ifndef MEMTRACE_AGENT_SPOOL_H
#define MEMTRACE_AGENT_SPOOL_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "agent/spool_dir.h"
#include "base/error.h"

#define SPOOL_WAITING 32 /* most profiles that wait to be written: they take memory */

/* What became of a profile. */
struct spool_report {
	/* "": it is not about a profile. If error is 0, the directory is open that was slow at the
	 * start. Else mt-spool has ended, and nothing is written any more. */
	char name[SPOOL_NAME];
	int32_t error;	    /* 0: it is in the file of that name; else negative errno */
	uint32_t n_removed; /* older ones that were deleted for it */
};

/* {.fd = -1}: there is none. */
struct spool {
	int fd;
	pid_t pid;
	unsigned n_waiting; /* profiles that are not written yet */
	bool is_slow;	    /* the directory has not been opened yet, since the start */
	/* so far: written; lost because they were too many or could not be written; deleted to make
	 * room */
	uint64_t n_written, n_lost, n_removed;
};

/* Starts mt-spool, which opens the directory. Call it before there are probes, for a copy of their
 * descriptors would keep them in place. 0, or negative errno with err: the directory cannot be
 * written, or the like. Takes two seconds at most. If the directory's file system has not answered
 * by then, is_slow is set, profiles wait, and spool__report() tells when it has answered. */
int spool__open(struct spool *spool, const char *dir, struct error *err);

/* Has the profile written, as far as fewer than SPOOL_WAITING wait. 0, or negative errno where the
 * profile could not be encoded. */
int spool__keep(struct spool *spool, const struct profile *profile);

/* The next report that has come. false: there is none now. */
bool spool__report(struct spool *spool, struct spool_report *ret);

/* Waits until all is written, a few seconds at most. */
void spool__close(struct spool *spool);

#endif
